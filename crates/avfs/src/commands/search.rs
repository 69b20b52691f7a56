//! `avfs search`: ranked full-text search.

use avfs_core::TreePath;

use crate::args::vault_path;

/// Search the text of all files, best matches first
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 1 if nothing is found.

Examples:
  avfs search login timeout
  avfs search '\"connection refused\"' --path logs
  avfs search parser --limit 3")]
pub struct SearchArgs {
    /// Words that must all appear; quotes keep words together
    #[arg(value_name = "WORD", required = true)]
    words: Vec<String>,

    /// At most this many files
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    limit: usize,

    /// Only below this directory
    #[arg(long, value_parser = vault_path())]
    path: Option<TreePath>,
}
