//! `avfs project`: the directories that tasks were made from.

mod forget;
mod list;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// List the directories that tasks were made from, and forget them
#[derive(Debug, clap::Subcommand)]
pub enum ProjectCommand {
    List(list::ListArgs),
    Forget(forget::ForgetArgs),
}

pub fn run(context: &mut Context<'_>, command: &ProjectCommand) -> Result<ExitStatus> {
    match command {
        ProjectCommand::List(args) => list::run(context, args),
        ProjectCommand::Forget(args) => forget::run(context, args),
    }
}
