//! `find` and `fd`: expressions, actions, and the commands that they start.

use super::{ToolCall, wrappers};
use crate::classify::assessor::{Assessor, Findings, shown};
use crate::classify::class::Class;
use crate::classify::script::ShellWord;

/// Tests and options without a value.
const PLAIN: [&str; 40] = [
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-true",
    "-false",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-nouser",
    "-nogroup",
    "-depth",
    "-d",
    "-mount",
    "-xdev",
    "-daystart",
    "-follow",
    "-noleaf",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-a",
    "-and",
    "-o",
    "-or",
    "-not",
    "!",
    "(",
    ")",
    ",",
    "-H",
    "-L",
    "-P",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
];

/// Tests and options with one value.
const VALUED: [&str; 42] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-regextype",
    "-lname",
    "-ilname",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-newer",
    "-anewer",
    "-cnewer",
    "-newermt",
    "-newerct",
    "-newerat",
    "-newermm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-perm",
    "-links",
    "-inum",
    "-samefile",
    "-fstype",
    "-maxdepth",
    "-mindepth",
    "-used",
    "-printf",
    "-D",
    "-context",
];

pub(crate) fn look(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let mut findings = Findings::new();
    let words = call.arguments.rest;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        match word.literal() {
            Some(test) if PLAIN.contains(&test) => {}
            Some(test) if VALUED.contains(&test) => at += 1,
            Some("-exec" | "-execdir" | "-ok" | "-okdir") => at += started(judge, &words[at..]),
            Some("-delete") => findings.push((Class::Destructive.into(), "`-delete` of `find`".to_owned())),
            Some(action @ ("-fprint" | "-fprint0" | "-fls" | "-fprintf")) => {
                findings.push((Class::Mutating.into(), format!("`{action}` of `find`")));
            }
            Some("-files0-from") => {
                at += 1;
                findings.push((Class::Mutating.into(), "`-files0-from` of `find`".to_owned()));
            }
            Some(other) if other.starts_with('-') => {
                findings.push((Class::Mutating.into(), format!("`{}` of `find`", shown(other))));
            }
            Some(_) => {}
            None if word.may_hide_a_flag() => {
                findings.push((
                    Class::Mutating.into(),
                    "a word of `find` that may be any action".to_owned(),
                ));
            }
            None => {}
        }
    }
    findings
}

/// A command up to `;` or `+`. Found paths begin with the directory of the search, never with a dash.
fn started(judge: &mut Assessor, words: &[ShellWord]) -> usize {
    let end = words
        .iter()
        .position(|word| matches!(word.literal(), Some(";" | "+")))
        .unwrap_or(words.len());
    let command: Vec<ShellWord> = words[..end].iter().map(found).collect();
    judge.inner(&command);
    end + 1
}

fn found(word: &ShellWord) -> ShellWord {
    match word.literal() {
        Some("{}") => ShellWord::starting("./"),
        _ => wrappers::replaced(word, Some("{}")),
    }
}

/// `fd -x` and `-X`: the rest is a command.
pub(crate) fn fd(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let is_start =
        |word: &&ShellWord| matches!(word.literal(), Some("-x" | "--exec" | "-X" | "--exec-batch"));
    let words = call.arguments.rest;
    let hidden = words.iter().any(ShellWord::may_hide_a_flag);
    let joined = |word: &ShellWord| {
        word.text.starts_with("--exec") || word.text.starts_with("-x") || word.text.starts_with("-X")
    };
    match words.iter().position(|word| is_start(&word)) {
        Some(at) => {
            let mut command: Vec<ShellWord> = words[at + 1..].iter().map(found).collect();
            command.push(ShellWord::starting("./"));
            judge.inner(&command);
            Vec::new()
        }
        None if hidden || words.iter().any(joined) => {
            vec![(
                Class::Mutating.into(),
                "a word that may start a program".to_owned(),
            )]
        }
        None => Vec::new(),
    }
}
