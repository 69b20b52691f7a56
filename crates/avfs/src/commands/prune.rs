//! `avfs prune`: thin out automatic snapshots.

/// Thin out automatic snapshots as the retention settings say
#[derive(Debug, clap::Args)]
#[command(after_help = "Named checkpoints stay. `avfs gc` then gives the space back.

Examples:
  avfs prune --dry-run
  AVFS_RETENTION_ALL=1h avfs prune")]
pub struct PruneArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}
