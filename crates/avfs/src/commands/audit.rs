//! `avfs audit`: who did what when.

mod verify;

use avfs_core::Timestamp;

use crate::args::moment;

/// Show who did what when, one JSON object per line
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  avfs audit --since 1d
  avfs audit --follow | jq .action
  avfs audit verify"
)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,

    /// Go on with new records as they come
    #[arg(short, long)]
    follow: bool,

    /// Only since: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,

    /// Only the last N records
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
}

#[derive(Debug, clap::Subcommand)]
pub enum AuditCommand {
    Verify(verify::VerifyArgs),
}
