//! Commands of the shell itself.

use super::{ToolCall, wrappers};
use crate::classify::assessor::{Assessor, Findings};
use crate::classify::class::Class;
use crate::classify::script::{ShellAssignment, ShellWord};

fn risk(why: &str) -> Findings {
    vec![(Class::HostEscapeRisk.into(), why.to_owned())]
}

/// `eval`: its words are a command line.
pub(crate) fn eval(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let words: Option<Vec<&str>> = call
        .arguments
        .operands
        .iter()
        .map(|word| word.literal())
        .collect();
    match words {
        Some(words) => {
            judge.inner_shell(&words.join(" "));
            Vec::new()
        }
        None => risk("the text of the command is not known before it runs"),
    }
}

/// `trap`: the first word is a command line for later.
pub(crate) fn trap(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    match call.arguments.operands.first().map(|word| word.literal()) {
        None | Some(Some("-" | "")) => Vec::new(),
        Some(Some(text)) => {
            judge.inner_shell(text);
            Vec::new()
        }
        Some(None) => risk("the text of the command is not known before it runs"),
    }
}

/// `source`: a file, or an unknown text. Later commands run in the resulting state.
pub(crate) fn source(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    match call.arguments.operands.first() {
        Some(file) if file.text.starts_with("/dev/") || file.literal() == Some("-") => {
            risk("commands come from a descriptor")
        }
        Some(file) if file.literal().is_some_and(is_environment) => Vec::new(),
        _ => vec![(
            Class::Destructive.into(),
            "what follows runs in the state that it leaves".to_owned(),
        )],
    }
}

/// The script that activates a Python environment in the tree.
fn is_environment(file: &str) -> bool {
    let mut parts = file.rsplit('/');
    let is_script = matches!(
        (parts.next(), parts.next()),
        (Some("activate"), Some("bin" | "Scripts"))
    );
    let is_in_tree = !file.starts_with(['/', '~']) && !file.split('/').any(|part| part == "..");
    is_script && is_in_tree
}

/// `command -v` only looks up a program; without it, a command follows.
pub(crate) fn command(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    if !call.arguments.has(&["-v", "-V"]) && !call.arguments.rest.is_empty() {
        judge.inner(call.arguments.rest);
    }
    Vec::new()
}

/// `export`, `declare` and the like.
pub(crate) fn declare(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let mut findings = Findings::new();
    for word in &call.arguments.operands {
        let name = word.text.split(['=', '+']).next().unwrap_or_default();
        if name.contains('[') || !word.exact && !word.text.contains('=') {
            findings.extend(risk("the name of a variable is not known, or has a subscript"));
        }
        let evaluated = call.arguments.has(&["-i"]) && !is_number(word);
        if evaluated {
            findings.extend(risk("a value is evaluated, and may run code"));
        }
        if word.text.contains('=') {
            declared(judge, call, word)
        } else {
            judge.gives_value(name, is_exported(call))
        }
        // The variable is another name of one that may be seen.
        if call.arguments.has(&["-n"]) {
            judge.gives_any_value();
        }
    }
    findings
}

fn is_exported(call: &ToolCall<'_>) -> bool {
    call.name == "export" || call.arguments.has(&["-x"])
}

fn declared(judge: &mut Assessor, call: &ToolCall<'_>, word: &ShellWord) {
    if is_exported(call) {
        wrappers::assign(judge, word)
    } else {
        let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
        let value = word.rest_of(value);
        judge.assignment(
            &ShellAssignment {
                name: name.to_owned(),
                value,
            },
            false,
        );
    }
}

fn is_number(word: &ShellWord) -> bool {
    let value = word.text.split_once('=').map_or("", |(_, value)| value);
    word.exact && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Builtins that set variables by name: `read`, `printf -v`, `mapfile`, `getopts`, `unset`.
pub(crate) fn names(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let by_flag: Vec<&ShellWord> = call.arguments.values(&["-v", "-a"]).collect();
    let by_operand = match call.name {
        "printf" => &[],
        _ => call.arguments.operands.as_slice(),
    };
    for word in by_flag.iter().chain(by_operand) {
        match word.literal() {
            Some(name) if !name.contains('[') => {
                judge.assignment(
                    &ShellAssignment {
                        name: name.to_owned(),
                        value: ShellWord::unknown(),
                    },
                    false,
                );
            }
            _ => return risk("the name of a variable is not known, or has a subscript"),
        }
    }
    Vec::new()
}

/// `test -v` takes the name of a variable, and evaluates its subscript.
pub(crate) fn test(_: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let hides = |word: &ShellWord| !word.exact && word.splits;
    let looks_up = |pair: &[ShellWord]| {
        let asks = matches!(pair[0].literal(), Some("-v" | "-R")) || hides(&pair[0]);
        asks && is_subscript(&pair[1])
    };
    if call.arguments.rest.windows(2).any(looks_up) {
        risk("a subscript in the name of a variable runs code")
    } else {
        Vec::new()
    }
}

fn is_subscript(word: &ShellWord) -> bool {
    word.text != "]" && (!word.exact || word.text.contains('['))
}
