//! Tools whose operands or values name the files that are written.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings};
use crate::classify::class::{Class, Classes};
use crate::classify::script::ShellWord;

fn writes(judge: &Assessor, word: &ShellWord) -> Option<(Classes, String)> {
    let classes = judge.written(word);
    (!classes.is_read_only()).then(|| {
        (
            classes,
            format!("`{}` is written", super::super::assessor::shown(&word.shown())),
        )
    })
}

/// Every operand is written, as by `tee`.
pub(crate) fn target(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    call.arguments
        .operands
        .iter()
        .filter_map(|word| writes(judge, word))
        .collect()
}

/// Every operand is changed or removed, as by `rm` and `chmod`: the class depends on whose file it is.
pub(crate) fn changed(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    // The tool itself counts as mutating already; only what is beyond the vault adds something.
    let is_more = |(classes, _): &(Classes, String)| *classes != Class::Mutating.into();
    target(judge, call).into_iter().filter(is_more).collect()
}

/// `chown`: giving a file to root removes it from all other users, and requires root.
pub(crate) fn owner(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let mut findings = target(judge, call);
    let owner = call.arguments.operands.first().map(|word| word.text.as_str());
    // The group follows a colon, and in old forms a dot.
    let user = owner.and_then(|owner| owner.split([':', '.']).next());
    if matches!(user, Some("root" | "0")) {
        findings.push((Class::HostEscapeRisk.into(), "files are given to root".to_owned()));
    }
    findings
}

/// Programs that a machine needs, and that no run has started.
const OF_THE_MACHINE: [&str; 24] = [
    "sshd",
    "systemd",
    "systemd-journald",
    "systemd-logind",
    "systemd-udevd",
    "init",
    "dbus-daemon",
    "dbus-broker",
    "NetworkManager",
    "wpa_supplicant",
    "cron",
    "crond",
    "rsyslogd",
    "auditd",
    "polkitd",
    "dockerd",
    "containerd",
    "libvirtd",
    "Xorg",
    "gdm",
    "sddm",
    "gnome-shell",
    "launchd",
    "avfs",
];

/// `pkill` and `killall`: depends on which processes have the name.
pub(crate) fn processes(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let is_path = |name: &str| {
        name.rsplit('/')
            .next()
            .unwrap_or(name)
            .trim_matches(['^', '$'])
            .to_owned()
    };
    let named = call
        .arguments
        .operands
        .iter()
        // A pattern may list several names.
        .flat_map(|word| word.text.split(['|', ' ']));
    let found = named
        .map(is_path)
        .find(|name| OF_THE_MACHINE.contains(&name.as_str()));
    found
        .map(|name| {
            (
                Class::HostEscapeRisk.into(),
                format!("`{name}` belongs to the machine"),
            )
        })
        .into_iter()
        .collect()
}

/// `dd`: operands of its own form instead of flags.
pub(crate) fn dd(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let known = [
        "if=", "bs=", "ibs=", "obs=", "count=", "skip=", "seek=", "status=", "conv=", "iflag=", "cbs=",
    ];
    let one = |word: &&ShellWord| match word.text.strip_prefix("of=") {
        Some(file) => writes(judge, &word.rest_of(file)),
        // A word that is split may hold an `of=` as well.
        None if known.iter().any(|known| word.text.starts_with(known)) && !word.splits => None,
        None => Some((Class::Mutating.into(), "an operand that is not known".to_owned())),
    };
    let mut findings: Findings = call.arguments.operands.iter().filter_map(one).collect();
    if call
        .arguments
        .operands
        .iter()
        .any(|word| NOTHING.contains(&word.text.as_str()))
    {
        findings.extend(
            call.arguments
                .operands
                .iter()
                .filter_map(|word| overwritten(word)),
        );
    }
    findings
}

/// Devices whose contents are worthless in an existing file.
const NOTHING: [&str; 5] = [
    "if=/dev/zero",
    "if=/dev/null",
    "if=/dev/random",
    "if=/dev/urandom",
    "if=/dev/full",
];
/// Names of files that are created from zeros. Images of disks are not included: their contents would be
/// lost.
const MADE: [&str; 5] = ["bin", "dat", "tmp", "swap", "fill"];

/// `of=` a file whose name is not that of a file that people create from zeros.
fn overwritten(word: &ShellWord) -> Option<(Classes, String)> {
    let file = word
        .text
        .strip_prefix("of=")
        .filter(|file| !file.starts_with("/dev/"))?;
    let (_, extension) = file.rsplit('/').next().unwrap_or_default().rsplit_once('.')?;
    let made = MADE.contains(&extension) || file.starts_with("/tmp/");
    (!made).then(|| {
        (
            Class::Destructive.into(),
            format!("`{file}` is written over with nothing"),
        )
    })
}

/// `date`: anything but a format sets the clock.
pub(crate) fn date(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let sets = call
        .arguments
        .operands
        .iter()
        .any(|word| !word.text.starts_with('+'));
    if sets {
        vec![(Class::HostEscapeRisk.into(), "the clock is set".to_owned())]
    } else {
        Vec::new()
    }
}

/// `curl -o` and `wget -O`: the file for the response.
pub(crate) fn download(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let names = [
        "-o",
        "--output",
        "-O",
        "--output-document",
        "-D",
        "--dump-header",
        "-c",
        "--cookie-jar",
    ];
    let named: Vec<&ShellWord> = call.arguments.values(&names).collect();
    // `wget` names the file after the address, and `curl` prints.
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

/// Statements of database languages that remove data.
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

/// Clients of databases: keywords of their languages determine the class.
pub(crate) fn sql(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let values = call
        .arguments
        .flags
        .iter()
        .filter_map(|(_, value)| value.as_ref());
    let words = values.chain(call.arguments.operands.iter().copied());
    let mut texts: Vec<String> = words.map(|word| word.text.to_lowercase()).collect();
    if !call
        .arguments
        .has(&["-c", "--command", "-e", "--execute", "--eval", "-f", "--file"])
    {
        // Without a statement among the arguments, statements come from the input.
        texts.extend(judge.texts().map(str::to_lowercase));
    }
    let word_of = |text: &String| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| TAKES_AWAY.contains(&word))
    };
    let mut findings = Findings::new();
    if texts.iter().any(word_of) {
        findings.push((Class::Destructive.into(), "data is taken away".to_owned()));
    }
    let runs = [
        ".shell",
        ".system",
        ".load",
        "load_extension",
        "\\!",
        "to program",
        "from program",
        ".import |",
    ];
    if texts
        .iter()
        .any(|text| runs.iter().any(|word| text.contains(word)))
    {
        findings.push((Class::HostEscapeRisk.into(), "a program is started".to_owned()));
    }
    findings
}

/// `cp`, `mv` and the like: the last operand, or the directory of `-t`.
pub(crate) fn copies(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let targets: Vec<&ShellWord> = call.arguments.values(&["-t", "--target-directory"]).collect();
    // With `-t` all operands are sources.
    let last = call
        .arguments
        .operands
        .last()
        .copied()
        .filter(|_| targets.is_empty());
    let targets: Vec<&ShellWord> = targets.into_iter().chain(last).collect();
    let moved_away = call.name == "mv" && targets.iter().any(|word| word.literal() == Some("/dev/null"));
    let mut findings: Findings = targets
        .into_iter()
        .filter_map(|word| writes(judge, word))
        .collect();
    // Any source but the last operand, which is the target.
    let empties = call
        .arguments
        .operands
        .iter()
        .rev()
        .skip(1)
        .any(|word| word.literal() == Some("/dev/null"));
    if matches!(call.name, "cp" | "install" | "ln") && empties {
        findings.push((Class::Destructive.into(), "a file is emptied".to_owned()));
    }
    if moved_away {
        findings.push((Class::Destructive.into(), "files are moved to nowhere".to_owned()));
    }
    findings
}

/// `rsync`: an operand with a colon before its first slash is on another machine, and an unknown word may be.
pub(crate) fn rsync(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let is_far = |word: &&&ShellWord| !word.exact || is_remote(word);
    let remote = call.arguments.operands.iter().find(is_far);
    remote
        .map(|_| {
            (
                Class::Networked.into(),
                "the files are on another machine".to_owned(),
            )
        })
        .into_iter()
        .collect()
}

fn is_remote(word: &ShellWord) -> bool {
    word.text
        .split('/')
        .next()
        .is_some_and(|first| first.contains(':'))
}

/// `tar`: the mode decides, and it may be written without a dash.
pub(crate) fn tar(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let modes = [
        "-t",
        "--list",
        "-c",
        "--create",
        "-x",
        "--extract",
        "--get",
        "-r",
        "--append",
        "-u",
        "--update",
    ];
    let old = call
        .arguments
        .operands
        .first()
        // The old form, `tar xf`, is told by the absence of any mode with a dash.
        .filter(|_| !call.arguments.has(&modes));
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
    // A mode that is not known may write.
    if !lists || writes {
        findings.push((Class::Mutating.into(), "files are written".to_owned()));
    }
    let archives = call.arguments.values(&["-f", "--file"]);
    if archives
        .chain(call.arguments.operands.get(1).copied())
        .any(is_remote)
    {
        findings.push((
            Class::Networked.into(),
            "the archive is on another machine".to_owned(),
        ));
    }
    // In the old form these stand for a compression program and a script for the next volume.
    if old.contains('I') || old.contains('F') {
        findings.push((Class::HostEscapeRisk.into(), "a program is started".to_owned()));
    }
    findings
}
