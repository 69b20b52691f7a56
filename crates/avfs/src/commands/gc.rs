//! `avfs gc`: give space back.

/// Remove objects that nothing needs any more
#[derive(Debug, clap::Args)]
#[command(after_help = "Safe while other processes work, and it can be stopped at any time.

Examples:
  avfs gc --dry-run
  avfs gc")]
pub struct GcArgs {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}
