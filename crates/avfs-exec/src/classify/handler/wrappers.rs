//! Programs that start other programs.

use super::ToolCall;
use crate::classify::assessor::{Assessor, Findings};
use crate::classify::class::Class;
use crate::classify::script::{ShellAssignment, ShellWord};
use crate::classify::spelling;

/// `env`: variables, then a command; or a command in one word.
pub(crate) fn env(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let split: Vec<&ShellWord> = call.arguments.values(&["-S", "--split-string"]).collect();
    let mut words: Vec<ShellWord> = Vec::new();
    for word in split {
        match word
            .literal()
            // `env` has rules of its own for these, which are not those of a shell.
            .filter(|text| !text.contains(['"', '\'', '\\', '$', '#']))
        {
            Some(text) => words.extend(text.split_whitespace().map(ShellWord::exact)),
            None => return vec![(Class::HostEscapeRisk.into(), "`-S` cannot be read".to_owned())],
        }
    }
    words.extend(call.arguments.rest.iter().cloned());
    let command = words
        .iter()
        .position(|word| !is_assignment(word))
        .unwrap_or(words.len());
    for word in &words[..command] {
        assign(judge, word);
    }
    if command < words.len() {
        judge.inner(&words[command..]);
    }
    Vec::new()
}

fn is_assignment(word: &ShellWord) -> bool {
    let name = word.text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// An argument `NAME=value`.
pub(crate) fn assign(judge: &mut Assessor, word: &ShellWord) {
    let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
    let value = word.rest_of(value);
    judge.assignment(
        &ShellAssignment {
            name: name.to_owned(),
            value,
        },
        true,
    );
}

/// `bash`, `sh` and the like: a text, a file, or standard input.
pub(crate) fn shell(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let operand = call.arguments.operands.first();
    let risk = |why: &str| vec![(Class::HostEscapeRisk.into(), why.to_owned())];
    match (call.arguments.has(&["-c"]), operand.map(|word| word.literal())) {
        (true, Some(Some(text))) => {
            judge.inner_shell(text);
            Vec::new()
        }
        (true, Some(None) | None) => risk("the text of the command is not known before it runs"),
        (false, None) => risk("commands come from the input"),
        (false, Some(Some("-" | "/dev/stdin"))) => risk("commands come from the input"),
        (false, Some(_)) if call.arguments.has(&["-s"]) => risk("commands come from the input"),
        (false, Some(Some(file))) if file.starts_with("/dev/") => risk("commands come from a descriptor"),
        (false, Some(None)) if operand.is_some_and(|word| word.text.starts_with("/dev/")) => {
            risk("commands come from a descriptor")
        }
        (false, Some(_)) if call.lowered => Vec::new(),
        (false, Some(_)) => vec![(Class::Mutating.into(), "a script runs".to_owned())],
    }
}

/// The input is appended to the command, or replaces a placeholder.
pub(crate) fn xargs(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let marks = call
        .arguments
        .values(&["-I", "--replace", "-i"])
        .filter_map(ShellWord::literal);
    let mark = marks.last().map(str::to_owned);
    let mut words: Vec<ShellWord> = match call.arguments.rest {
        // What `xargs` runs without a command.
        [] => vec![ShellWord::exact("echo")],
        rest => rest.iter().map(|word| replaced(word, mark.as_deref())).collect(),
    };
    if mark.is_none() {
        // The input is appended: any words, flags among them.
        words.push(ShellWord::unknown());
    }
    judge.inner(&words);
    Vec::new()
}

/// A word in which `mark` will be replaced.
pub(crate) fn replaced(word: &ShellWord, mark: Option<&str>) -> ShellWord {
    let at = mark.and_then(|mark| word.text.find(mark));
    // What stands behind the mark is unknown as well, since the input comes in between.
    at.map_or(word.clone(), |at| ShellWord::starting(&word.text[..at]))
}

/// `watch`: the words are joined and given to a shell.
pub(crate) fn join(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let words: Option<Vec<&str>> = call.arguments.rest.iter().map(ShellWord::literal).collect();
    match words {
        Some(words) if words.is_empty() => Vec::new(),
        Some(words) => {
            // Joined without quoting, as `watch` does it.
            judge.inner_shell(&words.join(" "));
            Vec::new()
        }
        None => vec![(
            Class::HostEscapeRisk.into(),
            "a shell reads words that are not known".to_owned(),
        )],
    }
}

/// `dotenv -v A=1 -- command`.
pub(crate) fn dotenv(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    for word in call.arguments.values(&["-v"]) {
        assign(judge, word);
    }
    if !call.arguments.rest.is_empty() {
        judge.inner(call.arguments.rest);
    }
    Vec::new()
}

/// `flock FILE command`, or `flock FILE -c line`.
pub(crate) fn flock(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    match call.arguments.rest {
        [] => Vec::new(),
        [flag, line, ..] if matches!(flag.literal(), Some("-c" | "--command")) => judge.line(Some(line)),
        words => {
            judge.inner(words);
            Vec::new()
        }
    }
}

/// `entr`: a command in which `/_` is a file, or with `-s` a line.
pub(crate) fn entr(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    match (call.arguments.has(&["-s"]), call.arguments.rest) {
        (_, []) => Vec::new(),
        (true, [line, ..]) => judge.line(Some(line)),
        (false, words) => {
            let words: Vec<ShellWord> = words.iter().map(|word| replaced(word, Some("/_"))).collect();
            judge.inner(&words);
            Vec::new()
        }
    }
}

/// Every operand is a command line, or the name of a script of the tree, as `npm:build`.
pub(crate) fn lines(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let managers = ["npm:", "pnpm:", "yarn:", "bun:", "node:", "deno:"];
    let is_script = |word: &ShellWord| {
        !word.text.contains(char::is_whitespace) && managers.iter().any(|name| word.text.starts_with(name))
    };
    let operands = call.arguments.operands.iter().filter(|word| !is_script(word));
    operands.flat_map(|word| judge.line(Some(word))).collect()
}

/// Names of versions come first: the command follows `--`, or without one, begins with a known tool.
pub(crate) fn dashes(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    let rest = call.arguments.rest;
    let dashes = rest
        .iter()
        .position(|word| word.literal() == Some("--"))
        .map(|at| at + 1);
    let is_tool = |word: &ShellWord| word.literal().is_some_and(|name| spelling::of(name).is_some());
    let start = dashes
        .or_else(|| rest.iter().position(is_tool))
        .unwrap_or_default();
    if start < rest.len() {
        judge.inner(&rest[start..]);
    }
    Vec::new()
}

/// `yarn workspace web add x`: the rest is a call of the tool itself.
pub(crate) fn again(judge: &mut Assessor, call: &ToolCall<'_>) -> Findings {
    // The name includes the subcommand by which this was found.
    let tool = call.name.split(' ').next().unwrap_or_default();
    if !call.arguments.rest.is_empty() {
        let words: Vec<ShellWord> = [ShellWord::exact(tool)]
            .into_iter()
            .chain(call.arguments.rest.iter().cloned())
            .collect();
        judge.inner(&words);
    }
    Vec::new()
}
