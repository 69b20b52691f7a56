//! The commands, one module each: its arguments and what it does.
//!
//! A command resolves its arguments, acts through the library, reports through the printer, and returns the
//! status to end with.

mod completions;
mod config;
mod man;
#[cfg(test)]
mod planned;

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
