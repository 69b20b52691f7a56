//! `avfs project`: the directories from which tasks were made.

mod forget;
mod list;
mod moving;
pub mod setup;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Manage the directories from which tasks were made, and what they give to new tasks
#[derive(Debug, clap::Subcommand)]
pub enum ProjectCommand {
    List(list::ProjectListArgs),
    Move(moving::ProjectMoveArgs),
    Forget(forget::ForgetArgs),
    #[command(subcommand)]
    Setup(setup::SetupCommand),
}

pub fn run(context: &mut Context<'_>, command: &ProjectCommand) -> Result<ExitStatus> {
    match command {
        ProjectCommand::List(args) => list::run(context, args),
        ProjectCommand::Move(args) => moving::run(context, args),
        ProjectCommand::Forget(args) => forget::run(context, args),
        ProjectCommand::Setup(command) => setup::run(context, command),
    }
}
