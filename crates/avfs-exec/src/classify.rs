//! What a command would do, found by reading it. Pure: nothing is looked up on the machine.
//!
//! A shell command is read by two independent readers; what they agree on is taken apart into parts, and
//! each part is judged by the table of its tool. What cannot be read with certainty is a risk to the host.

mod agree;
mod arguments;
mod arithmetic;
mod bounds;
mod braces;
mod brush;
mod class;
mod environment;
mod handler;
mod judge;
mod named;
mod readings;
mod redirect;
mod screen;
mod script;
mod sitter;
mod spelling;
mod telling;
mod tools;
mod verb;

use std::ffi::OsString;

use serde::Serialize;

pub use class::{Class, Classes};
use judge::Judge;
pub use named::{named_parameters, named_variables, steers_programs};
use script::Unreadable;

/// A command that somebody wants to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsString>),
    /// A line for `bash -c`.
    Shell(String),
}

/// What a command would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classification {
    /// The worst of `classes`.
    pub class: Class,
    pub classes: Classes,
    pub parts: Vec<Part>,
    /// Variables that the command sets and that the programs it starts may see: later parts are other commands with them.
    #[serde(skip)]
    pub sets: Vec<String>,
    /// Other variables that it sets.
    #[serde(skip)]
    pub assigns: Vec<String>,
    /// A part of it may read what a pipe, a file or a text of the line gives it.
    #[serde(skip)]
    pub has_input: bool,
}

/// One thing that a command does: a program that it starts, a file that it writes, a variable that it sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// For people: one line, escaped, cut when it is long.
    pub text: String,
    pub verb: String,
    pub classes: Classes,
    /// What makes it the worst of its classes.
    pub reason: String,
    /// The words from the first on, as far as they are known. Rules by prefix look at these.
    pub prefix: Vec<String>,
    /// `prefix` is the whole command.
    pub complete: bool,
    /// The tool and its subcommands, without paths and flags.
    pub names: Vec<String>,
    /// What it may be called as well: another reading of its flags, a name without its version, what it starts in a
    /// way that nobody knows. Rules that are stricter look at these too.
    #[serde(skip)]
    pub also_named: Vec<Vec<String>>,
    /// No rule can make it milder: it could not be read.
    pub firm: bool,
    /// An approval of it can be kept as a rule.
    pub savable: bool,
}

/// Finds everything that a command can do.
pub fn classify(command: &Command) -> Classification {
    let mut judge = Judge::default();
    let has_input = match command {
        Command::Argv(words) => {
            judge.argv(words);
            false
        }
        Command::Shell(text) => {
            judge.shell(text);
            may_have_input(text)
        }
    };
    judge.finish(has_input)
}

/// Whether a line may have a pipe or take input from somewhere. Signs in quotes count, too.
fn may_have_input(line: &str) -> bool {
    line.contains('<') || line.replace("||", "").contains('|')
}

impl Classification {
    /// Of no command at all.
    pub fn nothing() -> Classification {
        Judge::default().finish(false)
    }
}

impl Part {
    fn unreadable(text: &str, why: &Unreadable) -> Part {
        Part {
            text: judge::shown(text),
            verb: String::new(),
            classes: Class::HostEscapeRisk.into(),
            reason: why.to_string(),
            prefix: Vec::new(),
            complete: false,
            names: Vec::new(),
            also_named: Vec::new(),
            firm: true,
            savable: false,
        }
    }
}
