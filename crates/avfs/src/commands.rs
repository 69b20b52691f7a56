//! The commands, one module each: its arguments and what it does.
//!
//! A command resolves its arguments, acts through the library, reports through the printer, and returns the
//! status to end with.

mod completions;
mod config;
mod man;
#[cfg(test)]
mod planned;

// Written down and not done yet: see `planned`.
#[cfg(test)]
mod audit;
#[cfg(test)]
mod cat;
#[cfg(test)]
mod checkout;
#[cfg(test)]
mod checkpoint;
#[cfg(test)]
mod chmod;
#[cfg(test)]
mod cp;
#[cfg(test)]
mod diff;
#[cfg(test)]
mod export;
#[cfg(test)]
mod find;
#[cfg(test)]
mod fsck;
#[cfg(test)]
mod gc;
#[cfg(test)]
mod grep;
#[cfg(test)]
mod import;
#[cfg(test)]
mod ln;
#[cfg(test)]
mod log;
#[cfg(test)]
mod ls;
#[cfg(test)]
mod mkdir;
#[cfg(test)]
mod mv;
#[cfg(test)]
mod prune;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod revert;
#[cfg(test)]
mod rm;
#[cfg(test)]
mod search;
#[cfg(test)]
mod stat;
#[cfg(test)]
mod stats;
#[cfg(test)]
mod touch;
#[cfg(test)]
mod tree;
#[cfg(test)]
mod undo;
#[cfg(test)]
mod vault;
#[cfg(test)]
mod write;

use anyhow::Result;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::Printer;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

pub fn run(cli: Cli, out: &mut Printer) -> Result<ExitStatus> {
    let context = |out| Context::load(out, &cli.global);
    match &cli.command {
        Command::Config(command) => config::run(&mut context(out)?, command),
        Command::Completions(args) => completions::run(out, args),
        Command::Man(args) => man::run(out, args),
    }
}
