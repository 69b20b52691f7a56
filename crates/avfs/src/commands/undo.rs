//! `avfs undo`: take the last change back.

use std::num::NonZeroUsize;

/// Take the last change back; undone changes can be undone, too
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs undo
  avfs undo --steps 3")]
pub struct UndoArgs {
    /// How many changes
    #[arg(short, long, value_name = "N", default_value = "1")]
    steps: NonZeroUsize,
}
