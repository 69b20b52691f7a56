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
mod audit;
#[cfg(test)]
mod cat;
mod checkout;
mod checkpoint;
#[cfg(test)]
mod chmod;
#[cfg(test)]
mod cp;
mod diff;
#[cfg(test)]
mod export;
mod find;
mod fsck;
mod gc;
mod grep;
#[cfg(test)]
mod import;
#[cfg(test)]
mod ln;
mod log;
#[cfg(test)]
mod ls;
#[cfg(test)]
mod mkdir;
#[cfg(test)]
mod mv;
mod prune;
mod quota;
mod revert;
#[cfg(test)]
mod rm;
mod search;
#[cfg(test)]
mod stat;
mod stats;
#[cfg(test)]
mod touch;
#[cfg(test)]
mod tree;
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
    Checkpoint(checkpoint::CheckpointCommand),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Checkout(checkout::CheckoutArgs),
    Revert(revert::RevertArgs),
    Undo(undo::UndoArgs),
    Grep(grep::GrepArgs),
    Find(find::FindArgs),
    Search(search::SearchArgs),
    Stats(stats::StatsArgs),
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    Audit(audit::AuditArgs),
    Gc(gc::GcArgs),
    Prune(prune::PruneArgs),
    Fsck(fsck::FsckArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

pub fn run(cli: Cli, out: &mut Printer) -> Result<ExitStatus> {
    let context = |out| Context::load(out, &cli.global);
    match &cli.command {
        Command::Checkpoint(command) => checkpoint::run(&mut context(out)?, command),
        Command::Log(args) => log::run(&mut context(out)?, args),
        Command::Diff(args) => diff::run(&mut context(out)?, args),
        Command::Checkout(args) => checkout::run(&mut context(out)?, args),
        Command::Revert(args) => revert::run(&mut context(out)?, args),
        Command::Undo(args) => undo::run(&mut context(out)?, args),
        Command::Grep(args) => grep::run(&mut context(out)?, args),
        Command::Find(args) => find::run(&mut context(out)?, args),
        Command::Search(args) => search::run(&mut context(out)?, args),
        Command::Stats(args) => stats::run(&mut context(out)?, args),
        Command::Quota(command) => quota::run(&mut context(out)?, command),
        Command::Audit(args) => audit::run(&mut context(out)?, args),
        Command::Gc(args) => gc::run(&mut context(out)?, args),
        Command::Prune(args) => prune::run(&mut context(out)?, args),
        Command::Fsck(args) => fsck::run(&mut context(out)?, args),
        Command::Config(command) => config::run(&mut context(out)?, command),
        Command::Completions(args) => completions::run(out, args),
        Command::Man(args) => man::run(out, args),
    }
}
