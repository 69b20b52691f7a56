//! Tools whose operands or values say what is written.

use super::Call;
use crate::classify::class::{Class, Classes};
use crate::classify::judge::{Findings, Judge};
use crate::classify::script::Word;

fn writes(judge: &Judge, word: &Word) -> Option<(Classes, String)> {
    let classes = judge.written(word);
    (!classes.is_read_only())
        .then(|| (classes, format!("`{}` is written", super::super::judge::shown(&word.shown()))))
}

/// Every operand is written, as by `tee`.
pub(crate) fn target(judge: &mut Judge, call: &Call<'_>) -> Findings {
    call.arguments.operands.iter().filter_map(|word| writes(judge, word)).collect()
}

/// `dd`: words of its own instead of flags.
pub(crate) fn dd(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let known =
        ["if=", "bs=", "ibs=", "obs=", "count=", "skip=", "seek=", "status=", "conv=", "iflag=", "cbs="];
    let one = |word: &&Word| match word.text.strip_prefix("of=") {
        Some(file) => writes(judge, &word.rest_of(file)),
        None if known.iter().any(|known| word.text.starts_with(known)) && !word.splits => None,
        None => Some((Class::Mutating.into(), "an operand that is not known".to_owned())),
    };
    let mut findings: Findings = call.arguments.operands.iter().filter_map(one).collect();
    if call.arguments.operands.iter().any(|word| NOTHING.contains(&word.text.as_str())) {
        findings.extend(call.arguments.operands.iter().filter_map(|word| overwritten(word)));
    }
    findings
}

/// Devices that hold nothing worth writing to a file that was there.
const NOTHING: [&str; 5] =
    ["if=/dev/zero", "if=/dev/null", "if=/dev/random", "if=/dev/urandom", "if=/dev/full"];
/// Names of files that are made of zeros.
const MADE: [&str; 9] = ["img", "bin", "raw", "dat", "iso", "tmp", "qcow2", "swap", "fill"];

/// `of=` a file that is not called as one is that somebody makes of zeros.
fn overwritten(word: &Word) -> Option<(Classes, String)> {
    let file = word.text.strip_prefix("of=").filter(|file| !file.starts_with("/dev/"))?;
    let (_, extension) = file.rsplit('/').next().unwrap_or_default().rsplit_once('.')?;
    let made = MADE.contains(&extension) || file.starts_with("/tmp/");
    (!made).then(|| (Class::Destructive.into(), format!("`{file}` is written over with nothing")))
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
pub(crate) fn download(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let names = ["-o", "--output", "-O", "--output-document", "-D", "--dump-header", "-c", "--cookie-jar"];
    let named: Vec<&Word> = call.arguments.values(&names).collect();
    let writes_by_itself = call.name == "wget" && !call.arguments.has(&["--spider"]) && named.is_empty();
    let mut findings: Findings = named
        .into_iter()
        .filter(|word| word.literal() != Some("-"))
        .filter_map(|word| writes(judge, word))
        .collect();
    if writes_by_itself {
        findings.push((Class::Mutating.into(), "the answer becomes a file".to_owned()));
    }
    findings
}

/// What takes data away, in the languages of databases.
const TAKES_AWAY: [&str; 15] = [
    "drop",
    "dropdatabase",
    "dropindex",
    "delete",
    "deletemany",
    "deleteone",
    "truncate",
    "flushall",
    "flushdb",
    "del",
    "unlink",
    "remove",
    "destroy",
    "hdel",
    "rm",
];

/// Clients of databases: words of their languages say how bad it is.
pub(crate) fn sql(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let values = call.arguments.flags.iter().filter_map(|(_, value)| value.as_ref());
    let words = values.chain(call.arguments.operands.iter().copied());
    let mut texts: Vec<String> = words.map(|word| word.text.to_lowercase()).collect();
    if !call.arguments.has(&["-c", "--command", "-e", "--execute", "--eval", "-f", "--file"]) {
        texts.extend(judge.texts().map(str::to_lowercase));
    }
    let word_of = |text: &String| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| TAKES_AWAY.contains(&word))
    };
    let mut findings = Findings::new();
    if texts.iter().any(word_of) {
        findings.push((Class::Destructive.into(), "data is taken away".to_owned()));
    }
    let runs =
        [".shell", ".system", ".load", "load_extension", "\\!", "to program", "from program", ".import |"];
    if texts.iter().any(|text| runs.iter().any(|word| text.contains(word))) {
        findings.push((Class::HostEscapeRisk.into(), "a program is started".to_owned()));
    }
    findings
}

/// `cp`, `mv` and the like: the last operand, or the directory of `-t`.
pub(crate) fn copies(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let targets: Vec<&Word> = call.arguments.values(&["-t", "--target-directory"]).collect();
    let last = call.arguments.operands.last().copied().filter(|_| targets.is_empty());
    let targets: Vec<&Word> = targets.into_iter().chain(last).collect();
    let moved_away = call.name == "mv" && targets.iter().any(|word| word.literal() == Some("/dev/null"));
    let mut findings: Findings = targets.into_iter().filter_map(|word| writes(judge, word)).collect();
    let empties =
        call.arguments.operands.iter().rev().skip(1).any(|word| word.literal() == Some("/dev/null"));
    if call.name == "cp" && empties {
        findings.push((Class::Destructive.into(), "a file is emptied".to_owned()));
    }
    if moved_away {
        findings.push((Class::Destructive.into(), "files are moved to nowhere".to_owned()));
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
