//! `avfs session`: a shell that stays, in the sandbox, on a vault.

mod exec;
mod list;
mod serve;
mod start;
mod stop;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Keep a shell in the sandbox, and run commands in it
#[derive(Debug, clap::Subcommand)]
pub enum SessionCommand {
    Start(Box<start::StartArgs>),
    Exec(exec::ExecArgs),
    List(list::ListArgs),
    Stop(stop::StopArgs),
}

impl SessionCommand {
    pub fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            SessionCommand::Start(args) => Some(&args.rules),
            SessionCommand::Exec(_) | SessionCommand::List(_) | SessionCommand::Stop(_) => None,
        }
    }
}

pub fn run(context: &mut Context<'_>, command: &SessionCommand) -> Result<ExitStatus> {
    match command {
        SessionCommand::Start(args) => start::run(context, args),
        SessionCommand::Exec(args) => exec::run(context, args),
        SessionCommand::List(args) => list::run(context, args),
        SessionCommand::Stop(args) => stop::run(context, args),
    }
}
