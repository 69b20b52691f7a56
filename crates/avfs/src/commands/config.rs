//! `avfs config`: the settings in force.

mod show;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Show the settings and where they come from
#[derive(Debug, clap::Subcommand)]
pub enum ConfigCommand {
    Show(show::ConfigShowArgs),
}

pub fn run(context: &mut Context<'_>, command: &ConfigCommand) -> Result<ExitStatus> {
    match command {
        ConfigCommand::Show(args) => show::run(context, args),
    }
}
