//! `avfs vault list`: all vaults of the store.

/// List the vaults
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  avfs vault list
  avfs vault list --json | jq -r '.vaults[].name'"
)]
pub struct ListArgs {}
