//! The commands, one module each: its arguments and what it does.
//!
//! A command resolves its arguments, acts through the library, reports through the printer, and returns the
//! status to end with.

mod completions;
mod config;
mod man;
#[cfg(test)]
mod planned;

// Those for tests only are written down and not done yet: see `planned`.
#[cfg(test)]
mod audit;
mod cat;
#[cfg(test)]
mod checkout;
#[cfg(test)]
mod checkpoint;
mod chmod;
mod cp;
#[cfg(test)]
mod diff;
mod export;
#[cfg(test)]
mod find;
#[cfg(test)]
mod fsck;
#[cfg(test)]
mod gc;
#[cfg(test)]
mod grep;
mod import;
mod ln;
#[cfg(test)]
mod log;
mod ls;
mod mkdir;
mod moves;
mod mv;
#[cfg(test)]
mod prune;
#[cfg(test)]
mod quota;
#[cfg(test)]
mod revert;
mod rm;
#[cfg(test)]
mod search;
mod stat;
#[cfg(test)]
mod stats;
mod touch;
mod transferred;
mod tree;
#[cfg(test)]
mod undo;
mod vault;
mod write;

use anyhow::Result;

use crate::cli::Cli;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::Printer;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Vault(vault::VaultCommand),
    Ls(ls::LsArgs),
    Cat(cat::CatArgs),
    Write(write::WriteArgs),
    Mkdir(mkdir::MkdirArgs),
    Cp(cp::CpArgs),
    Mv(mv::MvArgs),
    Rm(rm::RmArgs),
    Ln(ln::LnArgs),
    Chmod(chmod::ChmodArgs),
    Touch(touch::TouchArgs),
    Stat(stat::StatArgs),
    Tree(tree::TreeArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

pub fn run(cli: Cli, out: &mut Printer) -> Result<ExitStatus> {
    let context = |out| Context::load(out, &cli.global);
    match &cli.command {
        Command::Vault(command) => vault::run(&mut context(out)?, command),
        Command::Ls(args) => ls::run(&mut context(out)?, args),
        Command::Cat(args) => cat::run(&mut context(out)?, args),
        Command::Write(args) => write::run(&mut context(out)?, args),
        Command::Mkdir(args) => mkdir::run(&mut context(out)?, args),
        Command::Cp(args) => cp::run(&mut context(out)?, args),
        Command::Mv(args) => mv::run(&mut context(out)?, args),
        Command::Rm(args) => rm::run(&mut context(out)?, args),
        Command::Ln(args) => ln::run(&mut context(out)?, args),
        Command::Chmod(args) => chmod::run(&mut context(out)?, args),
        Command::Touch(args) => touch::run(&mut context(out)?, args),
        Command::Stat(args) => stat::run(&mut context(out)?, args),
        Command::Tree(args) => tree::run(&mut context(out)?, args),
        Command::Import(args) => import::run(&mut context(out)?, args),
        Command::Export(args) => export::run(&mut context(out)?, args),
        Command::Config(command) => config::run(&mut context(out)?, command),
        Command::Completions(args) => completions::run(out, args),
        Command::Man(args) => man::run(out, args),
    }
}
