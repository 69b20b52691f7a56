//! `avfs vault`: the workspaces of a store.

mod body;
mod choose;
mod create;
mod delete;
mod export;
mod fork;
mod import;
mod info;
mod list;
mod rename;

use anyhow::Result;

use crate::context::Context;
use crate::exit::ExitStatus;

/// Create, fork, list, rename, export and delete vaults
#[derive(Debug, clap::Subcommand)]
pub enum VaultCommand {
    Create(create::VaultCreateArgs),
    List(list::VaultListArgs),
    Info(info::InfoArgs),
    Use(choose::UseArgs),
    Fork(fork::VaultForkArgs),
    Rename(rename::RenameArgs),
    Export(export::VaultExportArgs),
    Import(import::VaultImportArgs),
    Delete(delete::VaultDeleteArgs),
}

pub fn run(context: &mut Context<'_>, command: &VaultCommand) -> Result<ExitStatus> {
    match command {
        VaultCommand::Create(args) => create::run(context, args),
        VaultCommand::List(args) => list::run(context, args),
        VaultCommand::Info(args) => info::run(context, args),
        VaultCommand::Use(args) => choose::run(context, args),
        VaultCommand::Fork(args) => fork::run(context, args),
        VaultCommand::Rename(args) => rename::run(context, args),
        VaultCommand::Export(args) => export::run(context, args),
        VaultCommand::Import(args) => import::run(context, args),
        VaultCommand::Delete(args) => delete::run(context, args),
    }
}
