//! `avfs policy`: which commands are allowed, and which policy decides that.

mod check;
mod place;
mod set;
mod show;
mod unset;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Store a policy, and check what it decides about commands
#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    Check(check::PolicyCheckArgs),
    Set(set::PolicySetArgs),
    Show(show::PolicyShowArgs),
    Unset(unset::UnsetArgs),
}

pub fn run(context: &mut Context<'_>, command: &PolicyCommand) -> Result<ExitStatus> {
    match command {
        PolicyCommand::Check(args) => check::run(context, args),
        PolicyCommand::Set(args) => set::run(context, args),
        PolicyCommand::Show(args) => show::run(context, args),
        PolicyCommand::Unset(args) => unset::run(context, args),
    }
}
