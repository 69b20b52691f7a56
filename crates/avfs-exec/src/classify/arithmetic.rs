//! Values that are evaluated as arithmetic: `a[$(…)]` in one of them runs a command.

use super::class::{Class, Classes};
use super::script::{Assignment, Script};

/// Variables that the shell itself keeps a number in.
const NUMBERS: [&str; 9] =
    ["RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "LINENO", "UID", "EUID", "PPID", "OPTIND"];

/// What evaluating the names of a script can do, with the name.
pub(crate) fn classes(script: &Script) -> Vec<(Classes, String)> {
    let mut names: Vec<&str> = script.evaluated.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let judged = names.into_iter().map(|name| (of_name(name, script), name.to_owned()));
    judged.filter(|(classes, _)| !classes.is_read_only()).collect()
}

fn of_name(name: &str, script: &Script) -> Classes {
    let simple = script.simples.iter().flat_map(|simple| &simple.assignments);
    let assigned: Vec<&Assignment> =
        simple.chain(&script.other_assignments).filter(|it| it.name == name).collect();
    let numbers = script.numbers.iter().filter(|number| *number == name).count();
    let unknown = assigned.iter().filter(|it| !it.value.exact).count();
    let exact = || assigned.iter().filter_map(|it| it.value.literal());
    match () {
        () if exact().any(|text| text.contains(['[', '$', '`', '('])) => Class::HostEscapeRisk.into(),
        () if assigned.is_empty() && NUMBERS.contains(&name) => Classes::READ_ONLY,
        () if !assigned.is_empty() && unknown <= numbers && exact().all(is_number) => Classes::READ_ONLY,
        () => Class::Mutating.into(),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}
