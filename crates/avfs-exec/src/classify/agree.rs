//! Runs both readers on one text: only the result on which they agree is classified.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::bounds::{MAX_BYTES, MAX_NESTING, READING, STACK_BYTES};
use super::script::{
    RedirectKind, ShellAssignment, ShellRedirect, ShellScript, ShellWord, SimpleCommand, UnreadableScript,
};
use super::{brush, redirect, second_reader};

/// Reads a command line twice. The result is the first reader's; the second must have found the same.
pub(crate) fn read(text: &str) -> Result<ShellScript, UnreadableScript> {
    if text.len() > MAX_BYTES {
        return Err(UnreadableScript::TooLong(MAX_BYTES));
    }
    // Before any reader sees the text: deep nesting would exhaust its stack.
    check_substitutions(text)?;
    let text = text.to_owned();
    // The parsers are not ours: in a thread of their own, neither a panic nor a loop reaches the caller.
    within(READING, move || read_twice(&text))
}

fn read_twice(text: &str) -> Result<ShellScript, UnreadableScript> {
    let first = brush::read(text)?;
    if text.is_ascii() {
        compare(&first, &second_reader::read(text)?)?
    } else {
        compare(&plain_script(&first), &second_reader::read(&plain(text))?)?
    }
    Ok(first)
}

/// The first reader recurses for each of these before it can count them itself.
fn check_substitutions(text: &str) -> Result<(), UnreadableScript> {
    let pairs = text
        .as_bytes()
        .windows(2)
        .filter(|pair| matches!(*pair, b"$(" | b"${" | b"$["))
        .count();
    let backquotes = text.bytes().filter(|byte| *byte == b'`').count() / 2;
    if pairs + backquotes > MAX_NESTING {
        Err(UnreadableScript::TooDeep)
    } else {
        Ok(())
    }
}

/// A reader that panics ends only its own thread, and one that does not finish is abandoned.
fn within<F>(patience: Duration, read: F) -> Result<ShellScript, UnreadableScript>
where
    F: FnOnce() -> Result<ShellScript, UnreadableScript> + Send + 'static,
{
    let (done, answer) = channel();
    // The receiver may have stopped waiting.
    let reading = move || drop(done.send(read()));
    // A thread cannot be ended from outside: one that never finishes keeps its stack until the process
    // ends.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(reading);
    thread.map_err(|_| UnreadableScript::Failed)?;
    answer.recv_timeout(patience).unwrap_or_else(|gone| match gone {
        RecvTimeoutError::Timeout => Err(UnreadableScript::TooSlow(patience.as_secs())),
        RecvTimeoutError::Disconnected => Err(UnreadableScript::Failed),
    })
}

/// Letters beyond ASCII mean nothing to the shell, and for some of them the lexer of the second grammar reads
/// outside of its tables: it never receives any.
fn plain(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_ascii() { character } else { 'u' })
        .collect()
}

/// The first reader's result for the plain text.
fn plain_script(script: &ShellScript) -> ShellScript {
    let word = |word: &ShellWord| ShellWord {
        text: plain(&word.text),
        ..word.clone()
    };
    let simple = |simple: &SimpleCommand| SimpleCommand {
        words: simple.words.iter().map(word).collect(),
        redirects: simple
            .redirects
            .iter()
            .map(|redirect| ShellRedirect {
                kind: redirect.kind,
                target: word(&redirect.target),
            })
            .collect(),
        assignments: simple
            .assignments
            .iter()
            .map(|it| ShellAssignment {
                name: plain(&it.name),
                value: word(&it.value),
            })
            .collect(),
        of_group: simple.of_group,
    };
    ShellScript {
        simples: script.simples.iter().map(simple).collect(),
        functions: script.functions.iter().map(|name| plain(name)).collect(),
        ..ShellScript::default()
    }
}

/// Order and grouping may differ between the readers; everything that is run, written or assigned must not.
fn compare(first: &ShellScript, second: &ShellScript) -> Result<(), UnreadableScript> {
    same(commands(first), commands(second), "the commands")?;
    same(redirects(first), redirects(second), "what is written or read")?;
    same(assignments(first), assignments(second), "the assignments")?;
    same(first.functions.clone(), second.functions.clone(), "the functions")
}

fn same<T: Ord>(mut first: Vec<T>, mut second: Vec<T>, what: &'static str) -> Result<(), UnreadableScript> {
    // The readers report the parts of a script in different orders.
    first.sort();
    second.sort();
    if first == second {
        Ok(())
    } else {
        Err(UnreadableScript::Disagreement(what))
    }
}

fn commands(script: &ShellScript) -> Vec<&[ShellWord]> {
    let all = script.simples.iter().map(|simple| simple.words.as_slice());
    all.filter(|words| !words.is_empty())
        .map(without_condition)
        .collect()
}

/// The second grammar parses `[ … ]` as a condition: only its presence can be compared.
fn without_condition(words: &[ShellWord]) -> &[ShellWord] {
    match words.first().and_then(ShellWord::literal) {
        Some("[" | "[[") => &words[..1],
        _ => words,
    }
}

/// Redirections of descriptors are ignored: they have no effect on files, and only the first grammar treats
/// `|&` as one.
fn redirects(script: &ShellScript) -> Vec<&ShellRedirect> {
    let all = script.simples.iter().flat_map(|simple| &simple.redirects);
    all.filter(|redirect| !redirect::classes(redirect).is_read_only() || is_of_interest(redirect))
        .collect()
}

fn is_of_interest(redirect: &ShellRedirect) -> bool {
    redirect.kind != RedirectKind::Duplicate
}

fn assignments(script: &ShellScript) -> Vec<&ShellAssignment> {
    script
        .simples
        .iter()
        .flat_map(|simple| &simple.assignments)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_finds_no_end_or_panics_has_read_nothing() {
        let (end, endless) = channel::<()>();
        let slow = within(Duration::ZERO, move || {
            // Blocks until the sender is dropped, at the end of the test.
            let _ = endless.recv();
            Err(UnreadableScript::TooDeep)
        });
        assert!(matches!(slow, Err(UnreadableScript::TooSlow(0))));
        drop(end);
        let failed = within(READING, || panic!("as a reader might"));
        assert!(matches!(failed, Err(UnreadableScript::Failed)));
    }

    #[test]
    fn letters_of_all_languages_are_read() {
        for text in [
            "echo \u{16b5b}\u{a5}={\u{2a91b}./",
            "echo {1..\u{1d4a2}} '\u{4e2d}' > \u{fc}.txt",
            "git commit -m '\u{1f642}'",
        ] {
            let script = read(text);
            assert!(
                script.as_ref().is_ok_and(|script| script.simples.len() == 1),
                "{text}: {script:?}"
            );
        }
    }
}
