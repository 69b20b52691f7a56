//! `avfs vault`: the workspaces of a store.

mod choose;
mod create;
mod delete;
mod export;
mod fork;
mod import;
mod info;
mod list;
mod rename;

/// Create, fork, list, move and delete vaults
#[derive(Debug, clap::Subcommand)]
pub enum VaultCommand {
    Create(create::CreateArgs),
    List(list::ListArgs),
    Info(info::InfoArgs),
    Use(choose::UseArgs),
    Fork(fork::ForkArgs),
    Rename(rename::RenameArgs),
    Export(export::ExportArgs),
    Import(import::ImportArgs),
    Delete(delete::DeleteArgs),
}
