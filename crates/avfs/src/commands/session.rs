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

/// Keep a shell open in a sandbox, and run commands in it
#[derive(Debug, clap::Subcommand)]
pub enum SessionSubcommand {
    Start(Box<start::SessionStartArgs>),
    Exec(exec::SessionExecArgs),
    List(list::SessionListArgs),
    Stop(stop::SessionStopArgs),
}

impl SessionSubcommand {
    pub fn rule_args(&self) -> Option<&RuleArgs> {
        match self {
            SessionSubcommand::Start(args) => Some(&args.rules),
            SessionSubcommand::Exec(_) | SessionSubcommand::List(_) | SessionSubcommand::Stop(_) => None,
        }
    }
}

pub fn run(context: &mut Context<'_>, command: &SessionSubcommand) -> Result<ExitStatus> {
    match command {
        SessionSubcommand::Start(args) => start::run(context, args),
        SessionSubcommand::Exec(args) => exec::run(context, args),
        SessionSubcommand::List(args) => list::run(context, args),
        SessionSubcommand::Stop(args) => stop::run(context, args),
    }
}
