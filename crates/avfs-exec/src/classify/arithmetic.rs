//! Values that are evaluated as arithmetic: `a[$(…)]` in one of them runs a command.

use super::class::{Class, Classes};
use super::script::{ShellAssignment, ShellScript, ShellWord, SimpleCommand, look_at_arithmetic};

/// Variables in which the shell itself stores a number.
const NUMBERS: [&str; 9] = [
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "EPOCHSECONDS",
    "LINENO",
    "UID",
    "EUID",
    "PPID",
    "OPTIND",
];

/// Words of the shell that are evaluated: the expressions of `let`, and every value of a variable that is
/// declared as a number.
pub(crate) fn look_at_words(script: &mut ShellScript) {
    let mut found = ShellScript::default();
    for simple in &script.simples {
        match simple.words.first().and_then(ShellWord::literal) {
            Some("let") => expressions(simple, &mut found),
            Some("declare" | "typeset" | "local" | "readonly" | "export") => declared(simple, &mut found),
            _ => {}
        }
    }
    script.hazards.extend(found.hazards);
    script.evaluated.extend(found.evaluated);
    script.other_assignments.extend(found.other_assignments);
}

fn expressions(simple: &SimpleCommand, found: &mut ShellScript) {
    for word in &simple.words[1..] {
        match word.literal() {
            Some(text) => look_at_arithmetic(text, found),
            None => found.hazards.push("`let` evaluates what is not known".to_owned()),
        }
    }
}

fn declared(simple: &SimpleCommand, found: &mut ShellScript) {
    let is_number = |word: &ShellWord| word.text.starts_with('-') && word.text.contains('i');
    if !simple.words.iter().any(is_number) {
        return;
    }
    let names = simple.words[1..]
        .iter()
        .filter(|word| !word.text.starts_with('-'));
    for word in names {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        found.evaluated.push(name.trim_end_matches('+').to_owned());
        let value = word.rest_of(value);
        found.other_assignments.push(ShellAssignment {
            name: name.to_owned(),
            value,
        });
    }
}

/// The effects that evaluating the names of a script can have, with the name.
pub(crate) fn classes(script: &ShellScript) -> Vec<(Classes, String)> {
    let mut names: Vec<&str> = script.evaluated.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let judged = names
        .into_iter()
        .map(|name| (of_name(name, script), name.to_owned()));
    judged.filter(|(classes, _)| !classes.is_read_only()).collect()
}

fn of_name(name: &str, script: &ShellScript) -> Classes {
    let simple = script.simples.iter().flat_map(|simple| &simple.assignments);
    let assigned: Vec<&ShellAssignment> = simple
        .chain(&script.other_assignments)
        .filter(|it| it.name == name)
        .collect();
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
