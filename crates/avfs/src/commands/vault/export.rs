//! `avfs vault export`: a whole vault in one file.

use std::path::PathBuf;

/// Write a whole vault, with its checkpoints and history, to one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault export web web.avfs
  avfs vault export web - | ssh host avfs vault import -")]
pub struct ExportArgs {
    name: String,

    /// File to write; '-' is standard output
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}
