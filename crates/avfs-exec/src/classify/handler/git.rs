//! Settings and paths of `git`.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings, shown};
use crate::classify::class::Class;
use crate::classify::script::ShellWord;

/// Settings that start no program and do not redirect anything. A trailing dot includes everything below.
const HARMLESS: [&str; 26] = [
    "advice.",
    "color.",
    "column.",
    "user.name",
    "user.email",
    "init.defaultbranch",
    "core.quotepath",
    "core.autocrlf",
    "core.filemode",
    "core.abbrev",
    "core.longpaths",
    "core.precomposeunicode",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "push.autosetupremote",
    "fetch.prune",
    "merge.conflictstyle",
    "rebase.autostash",
    "rerere.enabled",
    "log.date",
    "log.decorate",
    "diff.algorithm",
    "diff.renames",
    "commit.verbose",
    "gc.auto",
];

/// Settings that are harmless only with these values.
const HARMLESS_VALUES: [(&str, &[&str]); 6] = [
    ("core.pager", &["cat", "less", ""]),
    ("core.editor", &["true", ":", "cat"]),
    ("sequence.editor", &["true", ":"]),
    ("commit.gpgsign", &["false"]),
    ("tag.gpgsign", &["false"]),
    ("core.fsmonitor", &["false", ""]),
];

fn is_harmless(name: &str, value: Option<&str>) -> bool {
    let name = name.to_lowercase();
    let fits = |known: &&str| name == **known || known.ends_with('.') && name.starts_with(*known);
    let valued = HARMLESS_VALUES
        .iter()
        .any(|(known, values)| name == *known && value.is_some_and(|value| values.contains(&value)));
    HARMLESS.iter().any(fits) || valued
}

/// Settings that `-c` sets for one call.
pub(crate) fn global(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let settings = call.arguments.values(&["-c", "--config-env"]);
    let dangerous = settings.filter(|word| {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, "true"));
        !is_harmless(name, word.exact.then_some(value))
    });
    dangerous
        .map(|word| (Class::HostEscapeRisk.into(), setting(word)))
        .collect()
}

fn setting(word: &ShellWord) -> String {
    format!("the setting `{}` may start a program", shown(&word.shown()))
}

/// `git config`: reading, or changing a setting for later.
pub(crate) fn config(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let operands = &call.arguments.operands;
    let (operands, reads) = match operands.first().and_then(|word| word.literal()) {
        Some("list" | "get") => (&operands[1..], true),
        Some("set" | "unset" | "rename-section" | "remove-section" | "edit") => (&operands[1..], false),
        _ => (
            &operands[..],
            operands.len() < 2 && !call.arguments.has(&["--add", "--unset", "--unset-all"]),
        ),
    };
    if call.lowered || reads {
        return Vec::new();
    }
    let name = operands.first().and_then(|word| word.literal());
    let value = operands.get(1).and_then(|word| word.literal());
    if name.is_some_and(|name| is_harmless(name, value)) {
        vec![(Class::Mutating.into(), "a setting is changed".to_owned())]
    } else {
        vec![(
            Class::HostEscapeRisk.into(),
            "a setting is changed that may start programs".to_owned(),
        )]
    }
}

/// `git checkout`: branches, or files whose changes are lost.
pub(crate) fn checkout(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let operands = &call.arguments.operands;
    let creates = call.arguments.has(&["-b", "-B", "--orphan", "-t", "--track"]);
    let is_path =
        |word: &&&ShellWord| matches!(word.text.as_str(), "." | "./" | "*") || word.text.contains("*.");
    let paths =
        call.arguments.dashes || operands.len() > 1 && !creates || operands.iter().any(|word| is_path(&word));
    if paths
        || call
            .arguments
            .has(&["--pathspec-from-file", "-p", "--patch", "--ours", "--theirs"])
    {
        vec![(Class::Destructive.into(), "changes of files are lost".to_owned())]
    } else {
        Vec::new()
    }
}

/// `git push`: `+main` forces, `:main` deletes, and an unknown word may be either, or a flag.
pub(crate) fn push(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let forces = |word: &&&ShellWord| match word.literal() {
        Some(text) => text.starts_with('+') || text.starts_with(':') && text.len() > 1,
        None => word.text.is_empty() || word.text.starts_with(['+', ':', '-']),
    };
    let forced = call.arguments.operands.iter().find(forces);
    let forced = forced.map(|word| {
        (
            Class::Destructive.into(),
            format!("`{}` may replace or delete a branch", shown(&word.shown())),
        )
    });
    remote(judge, call).into_iter().chain(forced).collect()
}

/// `ext::` starts a program instead of contacting a repository.
pub(crate) fn remote(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let starts = |word: &&&ShellWord| word.text.starts_with("ext::") || word.text.starts_with("fd::");
    let found = call.arguments.operands.iter().find(starts);
    found
        .map(|_| {
            (
                Class::HostEscapeRisk.into(),
                "the address starts a program".to_owned(),
            )
        })
        .into_iter()
        .collect()
}
