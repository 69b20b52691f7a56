//! `avfs vault import`: a vault from a file that `vault export` wrote.

use std::path::PathBuf;

/// Read a vault from a file that `vault export` wrote
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs vault import web.avfs
  avfs vault import web.avfs --name web-copy")]
pub struct ImportArgs {
    /// File to read; '-' is standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,

    /// Name of the vault [default: the name it had]
    #[arg(long)]
    name: Option<String>,
}
