//! Tools whose operands or values say what is written.

use super::Call;
use crate::classify::class::{Class, Classes};
use crate::classify::judge::{Findings, Judge};
use crate::classify::redirect::written;
use crate::classify::script::Word;

fn writes(word: &Word) -> Option<(Classes, String)> {
    let classes = written(word);
    (!classes.is_read_only())
        .then(|| (classes, format!("`{}` is written", super::super::judge::shown(&word.shown()))))
}

/// Every operand is written, as by `tee`.
pub(crate) fn target(_: &mut Judge, call: &Call<'_>) -> Findings {
    call.arguments.operands.iter().filter_map(|word| writes(word)).collect()
}

/// `dd`: words of its own instead of flags.
pub(crate) fn dd(_: &mut Judge, call: &Call<'_>) -> Findings {
    let known =
        ["if=", "bs=", "ibs=", "obs=", "count=", "skip=", "seek=", "status=", "conv=", "iflag=", "cbs="];
    let one = |word: &&Word| match word.text.strip_prefix("of=") {
        Some(file) => writes(&Word { text: file.to_owned(), exact: word.exact, splits: word.splits }),
        None if known.iter().any(|known| word.text.starts_with(known)) && !word.splits => None,
        None => Some((Class::Mutating.into(), "an operand that is not known".to_owned())),
    };
    call.arguments.operands.iter().filter_map(one).collect()
}

/// `date`: anything but a format sets the clock.
pub(crate) fn date(_: &mut Judge, call: &Call<'_>) -> Findings {
    let sets = call.arguments.operands.iter().any(|word| !word.text.starts_with('+'));
    match sets {
        true => vec![(Class::HostEscapeRisk.into(), "the clock is set".to_owned())],
        false => Vec::new(),
    }
}

/// `curl -o` and `wget -O`: where the answer goes.
pub(crate) fn download(_: &mut Judge, call: &Call<'_>) -> Findings {
    let names = ["-o", "--output", "-O", "--output-document", "-D", "--dump-header", "-c", "--cookie-jar"];
    let named: Vec<&Word> = call.arguments.values(&names).collect();
    let writes_by_itself = call.name == "wget" && !call.arguments.has(&["--spider"]) && named.is_empty();
    let mut findings: Findings =
        named.into_iter().filter(|word| word.literal() != Some("-")).filter_map(writes).collect();
    if writes_by_itself {
        findings.push((Class::Mutating.into(), "the answer becomes a file".to_owned()));
    }
    findings
}

/// Clients of databases: words of SQL say how bad it is.
pub(crate) fn sql(_: &mut Judge, call: &Call<'_>) -> Findings {
    let values = call.arguments.flags.iter().filter_map(|(_, value)| value.as_ref());
    let texts: Vec<String> =
        values.chain(call.arguments.operands.iter().copied()).map(|word| word.text.to_lowercase()).collect();
    let mentions = |words: &[&str]| texts.iter().any(|text| words.iter().any(|word| text.contains(word)));
    let mut findings = Findings::new();
    if mentions(&["drop ", "delete ", "truncate ", "flushall", "flushdb", "del "]) {
        findings.push((Class::Destructive.into(), "data is taken away".to_owned()));
    }
    let runs =
        [".shell", ".system", ".load", "load_extension", "\\!", "to program", "from program", ".import |"];
    if mentions(&runs) {
        findings.push((Class::HostEscapeRisk.into(), "a program is started".to_owned()));
    }
    findings
}

/// `tar`: the mode decides, and it may be written without a dash.
pub(crate) fn tar(_: &mut Judge, call: &Call<'_>) -> Findings {
    let modes =
        ["-t", "--list", "-c", "--create", "-x", "--extract", "--get", "-r", "--append", "-u", "--update"];
    let old = call.arguments.operands.first().filter(|_| !call.arguments.has(&modes));
    let old = old.map(|word| word.text.as_str()).unwrap_or_default();
    let is = |letter: char, names: &[&str]| old.contains(letter) || call.arguments.has(names);
    let lists = is('t', &["-t", "--list"]);
    let writes = is('c', &["-c", "--create"])
        || is('x', &["-x", "--extract", "--get"])
        || is('r', &["-r", "--append"])
        || is('u', &["-u", "--update"])
        || is('A', &["-A", "--concatenate", "--catenate"])
        || call.arguments.has(&["-d", "--diff", "--compare", "--delete"]);
    let mut findings = Findings::new();
    if !lists || writes {
        findings.push((Class::Mutating.into(), "files are written".to_owned()));
    }
    let remote = |word: &Word| word.text.split('/').next().is_some_and(|first| first.contains(':'));
    let archives = call.arguments.values(&["-f", "--file"]);
    if archives.chain(call.arguments.operands.get(1).copied()).any(remote) {
        findings.push((Class::Networked.into(), "the archive is on another machine".to_owned()));
    }
    if old.contains('I') || old.contains('F') {
        findings.push((Class::HostEscapeRisk.into(), "a program is started".to_owned()));
    }
    findings
}
