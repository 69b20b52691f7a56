//! Programs that start other programs.

use super::Call;
use crate::classify::class::Class;
use crate::classify::judge::{Findings, Judge};
use crate::classify::script::{Assignment, Word};
use crate::classify::spelling;

/// `env`: variables, then a command; or a command in one word.
pub(crate) fn env(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let split: Vec<&Word> = call.arguments.values(&["-S", "--split-string"]).collect();
    let mut words: Vec<Word> = Vec::new();
    for word in split {
        match word.literal().filter(|text| !text.contains(['"', '\'', '\\', '$', '#'])) {
            Some(text) => words.extend(text.split_whitespace().map(Word::exact)),
            None => return vec![(Class::HostEscapeRisk.into(), "`-S` cannot be read".to_owned())],
        }
    }
    words.extend(call.arguments.rest.iter().cloned());
    let command = words.iter().position(|word| !is_assignment(word)).unwrap_or(words.len());
    for word in &words[..command] {
        assign(judge, word);
    }
    if command < words.len() {
        judge.inner(&words[command..]);
    }
    Vec::new()
}

fn is_assignment(word: &Word) -> bool {
    let name = word.text.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// An argument `NAME=value`.
pub(crate) fn assign(judge: &mut Judge, word: &Word) {
    let (name, value) = word.text.split_once('=').unwrap_or((&word.text, ""));
    let value = word.rest_of(value);
    judge.assignment(&Assignment { name: name.to_owned(), value }, true);
}

/// `bash`, `sh` and the like: a text, a file, or whatever comes in.
pub(crate) fn shell(judge: &mut Judge, call: &Call<'_>) -> Findings {
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

/// What comes in is added to the end of the command, or put in the place of a mark.
pub(crate) fn xargs(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let marks = call.arguments.values(&["-I", "--replace", "-i"]).filter_map(Word::literal);
    let mark = marks.last().map(str::to_owned);
    let mut words: Vec<Word> = match call.arguments.rest {
        [] => vec![Word::exact("echo")],
        rest => rest.iter().map(|word| replaced(word, mark.as_deref())).collect(),
    };
    if mark.is_none() {
        words.push(Word::unknown());
    }
    judge.inner(&words);
    Vec::new()
}

/// A word in which `mark` will stand for something else.
pub(crate) fn replaced(word: &Word, mark: Option<&str>) -> Word {
    let at = mark.and_then(|mark| word.text.find(mark));
    at.map_or(word.clone(), |at| Word::starting(&word.text[..at]))
}

/// `watch`: the words are joined and given to a shell.
pub(crate) fn join(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let words: Option<Vec<&str>> = call.arguments.rest.iter().map(Word::literal).collect();
    match words {
        Some(words) if words.is_empty() => Vec::new(),
        Some(words) => {
            judge.inner_shell(&words.join(" "));
            Vec::new()
        }
        None => vec![(Class::HostEscapeRisk.into(), "a shell reads words that are not known".to_owned())],
    }
}

/// `dotenv -v A=1 -- command`.
pub(crate) fn dotenv(judge: &mut Judge, call: &Call<'_>) -> Findings {
    for word in call.arguments.values(&["-v"]) {
        assign(judge, word);
    }
    if !call.arguments.rest.is_empty() {
        judge.inner(call.arguments.rest);
    }
    Vec::new()
}

/// `flock FILE command`, or `flock FILE -c line`.
pub(crate) fn flock(judge: &mut Judge, call: &Call<'_>) -> Findings {
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
pub(crate) fn entr(judge: &mut Judge, call: &Call<'_>) -> Findings {
    match (call.arguments.has(&["-s"]), call.arguments.rest) {
        (_, []) => Vec::new(),
        (true, [line, ..]) => judge.line(Some(line)),
        (false, words) => {
            let words: Vec<Word> = words.iter().map(|word| replaced(word, Some("/_"))).collect();
            judge.inner(&words);
            Vec::new()
        }
    }
}

/// Every operand is a command line, or the name of a script of the tree, as `npm:build`.
pub(crate) fn lines(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let managers = ["npm:", "pnpm:", "yarn:", "bun:", "node:", "deno:"];
    let is_script = |word: &Word| {
        !word.text.contains(char::is_whitespace) && managers.iter().any(|name| word.text.starts_with(name))
    };
    let operands = call.arguments.operands.iter().filter(|word| !is_script(word));
    operands.flat_map(|word| judge.line(Some(word))).collect()
}

/// Names of versions come first: what follows `--` is the command; without one, what begins with a known tool.
pub(crate) fn dashes(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let rest = call.arguments.rest;
    let dashes = rest.iter().position(|word| word.literal() == Some("--")).map(|at| at + 1);
    let is_tool = |word: &Word| word.literal().is_some_and(|name| spelling::of(name).is_some());
    let start = dashes.or_else(|| rest.iter().position(is_tool)).unwrap_or_default();
    if start < rest.len() {
        judge.inner(&rest[start..]);
    }
    Vec::new()
}

/// `yarn workspace web add x`: what follows is a call of the tool itself.
pub(crate) fn again(judge: &mut Judge, call: &Call<'_>) -> Findings {
    let tool = call.name.split(' ').next().unwrap_or_default();
    if !call.arguments.rest.is_empty() {
        let words: Vec<Word> =
            [Word::exact(tool)].into_iter().chain(call.arguments.rest.iter().cloned()).collect();
        judge.inner(&words);
    }
    Vec::new()
}
