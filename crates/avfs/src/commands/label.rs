//! `avfs label`: names that rules go by, wherever a file is moved.

mod list;
mod remove;
mod set;

use agentvfs::rules::{BadLabel, Label};
use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Label files and directories, for rules such as label:private=none
#[derive(Debug, clap::Subcommand)]
pub enum LabelCommand {
    Set(set::LabelSetArgs),
    Remove(remove::LabelRemoveArgs),
    List(list::LabelListArgs),
}

pub fn run(context: &mut Context<'_>, command: &LabelCommand) -> Result<ExitStatus> {
    match command {
        LabelCommand::Set(args) => set::run(context, args),
        LabelCommand::Remove(args) => remove::run(context, args),
        LabelCommand::List(args) => list::run(context, args),
    }
}

/// A label that users can give: those of the system have a `:`.
fn label(text: &str) -> Result<Label, BadLabel> {
    Label::new(text)
}
