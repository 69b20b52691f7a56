//! Determines what a command would do, by parsing it. Pure: nothing is looked up on the machine.
//!
//! A shell command is parsed by two independent readers; the result on which they agree is split into parts,
//! and each part is classified by the table of its tool. A command that cannot be read with certainty is a
//! risk to the host.

mod agree;
mod arguments;
mod arithmetic;
mod assessor;
mod bounds;
mod braces;
mod brush;
mod class;
mod environment;
mod handler;
mod named;
mod readings;
mod redirect;
mod screen;
mod script;
mod second_reader;
mod spelling;
mod telling;
mod tools;
mod verb;

use std::ffi::OsString;

use serde::Serialize;

use assessor::Assessor;
pub use class::{Class, Classes};
pub use named::{named_parameters, named_variables, steers_programs};
use script::UnreadableScript;

/// A command that is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsString>),
    /// A line for `bash -c`.
    Shell(String),
}

/// The effects that a command can have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Classification {
    /// The worst of `classes`.
    pub class: Class,
    /// All classes that it has.
    pub classes: Classes,
    /// Its effects, in the order of its words.
    pub parts: Vec<CommandPart>,
    /// Variables that the command sets and that the programs it starts may see: they can change the meaning
    /// of later parts.
    #[serde(skip)]
    pub sets: Vec<String>,
    /// Other variables that it sets.
    #[serde(skip)]
    pub assigns: Vec<String>,
    /// A part of it may read input from a pipe, a file or a text of the line.
    #[serde(skip)]
    pub has_input: bool,
}

/// One effect of a command: a program that it starts, a file that it writes, a variable that it sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandPart {
    /// For people: one line, escaped, truncated if it is long.
    pub text: String,
    /// The word that decided: the name of a program, or of a construct of the shell.
    pub verb: String,
    /// The classes that it has.
    pub classes: Classes,
    /// Why it has the worst of its classes.
    pub reason: String,
    /// The leading words, as far as they are known. Prefix rules match these.
    pub prefix: Vec<String>,
    /// `prefix` is the whole command.
    pub complete: bool,
    /// The tool and its subcommands, without paths and flags.
    pub names: Vec<String>,
    /// Its other possible names: another reading of its flags, a name without its version, or programs that
    /// it may start in an unknown way. Stricter rules match these too.
    #[serde(skip)]
    pub also_named: Vec<Vec<String>>,
    /// No rule can make it milder, because it could not be read.
    pub firm: bool,
    /// An approval of it can be saved as a rule.
    pub savable: bool,
}

/// Determines everything that a command can do.
pub fn classify(command: &Command) -> Classification {
    let mut judge = Assessor::default();
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

/// Whether a line may have a pipe or redirected input. Signs in quotes count, too.
fn may_have_input(line: &str) -> bool {
    line.contains('<') || line.replace("||", "").contains('|')
}

impl Classification {
    /// The classification of no command at all.
    pub fn nothing() -> Classification {
        Assessor::default().finish(false)
    }
}

impl CommandPart {
    fn unreadable(text: &str, why: &UnreadableScript) -> CommandPart {
        CommandPart {
            text: assessor::shown(text),
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
