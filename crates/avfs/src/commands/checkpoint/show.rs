//! `avfs checkpoint show`: one checkpoint and what it changed.

/// Show a checkpoint: when, why, its size, and what changed since the one before
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkpoint show before-upgrade")]
pub struct ShowArgs {
    name: String,
}
