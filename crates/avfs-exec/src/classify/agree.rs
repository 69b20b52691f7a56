//! Both readers on one text: what they agree on is what is judged.

use super::bounds::{MAX_BYTES, MAX_NESTING, STACK_BYTES};
use super::script::{Assignment, Redirect, RedirectKind, Script, Unreadable, Word};
use super::{brush, redirect, sitter};

/// Reads a command line twice. The result is the first reader's; the second must have seen the same.
pub fn read(text: &str) -> Result<Script, Unreadable> {
    if text.len() > MAX_BYTES {
        return Err(Unreadable::TooLong(MAX_BYTES));
    }
    check_substitutions(text)?;
    on_its_own_stack(|| {
        let first = brush::read(text)?;
        let second = sitter::read(text)?;
        compare(&first, &second)?;
        Ok(first)
    })
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

/// A reader that fails takes only its thread with it.
fn on_its_own_stack<F>(read: F) -> Result<Script, Unreadable>
where
    F: FnOnce() -> Result<Script, Unreadable> + Send,
{
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, read);
        let thread = thread.map_err(|_| Unreadable::Failed)?;
        thread.join().map_err(|_| Unreadable::Failed)?
    })
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
