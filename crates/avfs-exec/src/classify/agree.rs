//! Both readers on one text: what they agree on is what is judged.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::bounds::{MAX_BYTES, MAX_NESTING, READING, STACK_BYTES};
use super::script::{Assignment, Redirect, RedirectKind, Script, Simple, Unreadable, Word};
use super::{brush, redirect, sitter};

/// Reads a command line twice. The result is the first reader's; the second must have seen the same.
pub(crate) fn read(text: &str) -> Result<Script, Unreadable> {
    if text.len() > MAX_BYTES {
        return Err(Unreadable::TooLong(MAX_BYTES));
    }
    check_substitutions(text)?;
    let text = text.to_owned();
    within(READING, move || read_twice(&text))
}

fn read_twice(text: &str) -> Result<Script, Unreadable> {
    let first = brush::read(text)?;
    match text.is_ascii() {
        true => compare(&first, &sitter::read(text)?)?,
        false => compare(&plain_script(&first), &sitter::read(&plain(text))?)?,
    }
    Ok(first)
}

/// The first reader goes down one call for each of these before anything can be counted by it.
fn check_substitutions(text: &str) -> Result<(), Unreadable> {
    let pairs = text.as_bytes().windows(2).filter(|pair| matches!(*pair, b"$(" | b"${" | b"$[")).count();
    let backquotes = text.bytes().filter(|byte| *byte == b'`').count() / 2;
    match pairs + backquotes > MAX_NESTING {
        true => Err(Unreadable::TooDeep),
        false => Ok(()),
    }
}

/// A reader that fails takes only its thread with it, and one that finds no end is not waited for.
fn within<F>(patience: Duration, read: F) -> Result<Script, Unreadable>
where
    F: FnOnce() -> Result<Script, Unreadable> + Send + 'static,
{
    let (done, answer) = channel();
    // Who does not wait any more does not hear.
    let reading = move || drop(done.send(read()));
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(reading);
    thread.map_err(|_| Unreadable::Failed)?;
    answer.recv_timeout(patience).unwrap_or_else(|gone| match gone {
        RecvTimeoutError::Timeout => Err(Unreadable::TooSlow(patience.as_secs())),
        RecvTimeoutError::Disconnected => Err(Unreadable::Failed),
    })
}

/// Letters beyond ASCII mean nothing to the shell, and the lexer of the second grammar reads outside of its
/// tables for some of them: it never gets to see any.
fn plain(text: &str) -> String {
    text.chars().map(|character| if character.is_ascii() { character } else { 'u' }).collect()
}

/// What the first reader would have made of the plain text.
fn plain_script(script: &Script) -> Script {
    let word = |word: &Word| Word { text: plain(&word.text), ..word.clone() };
    let simple = |simple: &Simple| Simple {
        words: simple.words.iter().map(word).collect(),
        redirects: simple
            .redirects
            .iter()
            .map(|redirect| Redirect { kind: redirect.kind, target: word(&redirect.target) })
            .collect(),
        assignments: simple
            .assignments
            .iter()
            .map(|it| Assignment { name: plain(&it.name), value: word(&it.value) })
            .collect(),
    };
    Script {
        simples: script.simples.iter().map(simple).collect(),
        functions: script.functions.iter().map(|name| plain(name)).collect(),
        ..Script::default()
    }
}

/// Order and grouping are the readers' own affair; everything that is run, written or assigned is not.
fn compare(first: &Script, second: &Script) -> Result<(), Unreadable> {
    same(commands(first), commands(second), "the commands")?;
    same(redirects(first), redirects(second), "what is written or read")?;
    same(assignments(first), assignments(second), "the assignments")?;
    same(first.functions.clone(), second.functions.clone(), "the functions")
}

fn same<T: Ord>(mut first: Vec<T>, mut second: Vec<T>, what: &'static str) -> Result<(), Unreadable> {
    first.sort();
    second.sort();
    match first == second {
        true => Ok(()),
        false => Err(Unreadable::Disagreement(what)),
    }
}

fn commands(script: &Script) -> Vec<&[Word]> {
    let all = script.simples.iter().map(|simple| simple.words.as_slice());
    all.filter(|words| !words.is_empty()).map(without_condition).collect()
}

/// The second grammar takes `[ … ]` apart as a condition: only that it is there can be compared.
fn without_condition(words: &[Word]) -> &[Word] {
    match words.first().and_then(Word::literal) {
        Some("[" | "[[") => &words[..1],
        _ => words,
    }
}

/// Another descriptor changes nothing, and `|&` is one to the first grammar only.
fn redirects(script: &Script) -> Vec<&Redirect> {
    let all = script.simples.iter().flat_map(|simple| &simple.redirects);
    all.filter(|redirect| !redirect::classes(redirect).is_read_only() || is_of_interest(redirect)).collect()
}

fn is_of_interest(redirect: &Redirect) -> bool {
    redirect.kind != RedirectKind::Duplicate
}

fn assignments(script: &Script) -> Vec<&Assignment> {
    script.simples.iter().flat_map(|simple| &simple.assignments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_finds_no_end_or_panics_has_read_nothing() {
        let (end, endless) = channel::<()>();
        let slow = within(Duration::ZERO, move || {
            // Until nobody could say anything any more.
            let _ = endless.recv();
            Err(Unreadable::TooDeep)
        });
        assert!(matches!(slow, Err(Unreadable::TooSlow(0))));
        drop(end);
        let failed = within(READING, || panic!("as a reader might"));
        assert!(matches!(failed, Err(Unreadable::Failed)));
    }

    #[test]
    fn letters_of_all_languages_are_read() {
        for text in [
            "echo \u{16b5b}\u{a5}={\u{2a91b}./",
            "echo {1..\u{1d4a2}} '\u{4e2d}' > \u{fc}.txt",
            "git commit -m '\u{1f642}'",
        ] {
            let script = read(text);
            assert!(script.as_ref().is_ok_and(|script| script.simples.len() == 1), "{text}: {script:?}");
        }
    }
}
