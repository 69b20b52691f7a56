//! What was meant by a command or a flag that does not exist.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

use crate::suggest;

/// How many commands are suggested for a slip.
const SUGGESTED: usize = 2;

/// The error with the suggestions that help: clap's own name every command that is a little like the word.
pub fn suggested(mut error: clap::Error, command: &clap::Command, arguments: &[OsString]) -> clap::Error {
    let text_of = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    if let Some(word) = text_of(&error, ContextKind::InvalidSubcommand) {
        let names = parent_of(command, arguments, &word)
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .map(clap::Command::get_name);
        let near = suggest::close(&word, names, SUGGESTED);
        // What clap suggests was made for the same word and may be nothing like it.
        error.remove(ContextKind::SuggestedSubcommand);
        if !near.is_empty() {
            let near = near.into_iter().map(str::to_owned).collect();
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        }
    }
    if let Some(flag) = text_of(&error, ContextKind::InvalidArg)
        && let Some(word) = long_word(arguments, &flag)
    {
        let parent = parent_of(command, arguments, word);
        let is_flag = |argument: &clap::Arg| argument.get_long() == Some(&word[1..]);
        error.remove(ContextKind::Suggested);
        if parent.get_arguments().any(is_flag) {
            let tip = StyledStr::from(format!("flags of several letters have two dashes: '-{word}'"));
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
    }
    error
}

/// The command to which a word was given.
fn parent_of<'a>(command: &'a clap::Command, arguments: &[OsString], word: &str) -> &'a clap::Command {
    let before = arguments.iter().skip(1).take_while(|argument| *argument != word);
    before.fold(command, |command, argument| {
        command.find_subcommand(argument).unwrap_or(command)
    })
}

/// The word of several letters behind one dash of which clap saw only the first one.
fn long_word<'a>(arguments: &'a [OsString], flag: &str) -> Option<&'a str> {
    let mut words = arguments.iter().filter_map(|argument| argument.to_str());
    words.find(|word| {
        word.starts_with(flag) && word.len() > flag.len() && flag.len() == 2 && !flag.starts_with("--")
    })
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;

    #[track_caller]
    fn told(line: &str) -> String {
        let words = line.split(' ').map(Into::into);
        Cli::read(words, None).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_slip_suggests_the_nearest_commands_alone() {
        let status = told("avfs stauts");
        assert!(
            status.contains("'status'") && !status.contains("vault"),
            "{status}"
        );
        let run = told("avfs rnu");
        assert!(run.contains("'run'"), "{run}");
        let list = told("avfs checkpoint lst");
        assert!(list.contains("'list'"), "{list}");
        assert!(!told("avfs xyzzy").contains("similar"));
    }

    #[test]
    fn a_long_flag_with_one_dash_is_shown_with_two() {
        let find = told("avfs find -name x");
        assert!(find.contains("'--name'") && !find.contains("-- -n"), "{find}");
    }
}
