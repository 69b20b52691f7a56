//! `avfs policy`: what commands may do, and by which policy that is decided.

mod check;
mod place;
mod set;
mod show;
mod unset;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Store a policy, and ask what it says of commands
#[derive(Debug, clap::Subcommand)]
pub enum PolicyCommand {
    Check(check::CheckArgs),
    Set(set::SetArgs),
    Show(show::ShowArgs),
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
