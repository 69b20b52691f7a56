//! `avfs checkpoint list`: the states that were kept.

/// List the checkpoints, newest first
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  avfs checkpoint list
  avfs checkpoint list --auto"
)]
pub struct ListArgs {
    /// Also the automatic snapshots
    #[arg(long)]
    auto: bool,
}
