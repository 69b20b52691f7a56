//! `avfs grep`: lines that match a pattern.

use avfs_core::TreePath;

use crate::args::{AtArg, vault_path};

/// Find lines that match a regular expression
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 1 if nothing matches.

Examples:
  avfs grep -n 'TODO|FIXME'
  avfs grep -il license -g '*.md'
  avfs grep -C 2 'fn main' src --at before-upgrade")]
pub struct GrepArgs {
    pattern: String,

    /// Where to look [default: everywhere]
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Capital and small letters are the same
    #[arg(short, long)]
    ignore_case: bool,

    /// With line numbers
    #[arg(short = 'n', long)]
    line_number: bool,

    /// Only the paths of files that match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,

    /// Only the number of matching lines per file
    #[arg(short, long)]
    count: bool,

    /// Lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,

    /// Whole words only
    #[arg(short, long)]
    word_regexp: bool,

    /// The pattern is plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,

    /// Lines of context on both sides
    #[arg(short = 'C', long, value_name = "N")]
    context: Option<usize>,

    /// Lines of context after
    #[arg(short = 'A', long, value_name = "N")]
    after_context: Option<usize>,

    /// Lines of context before
    #[arg(short = 'B', long, value_name = "N")]
    before_context: Option<usize>,

    /// Only paths that match; '!' before it leaves them out; can be repeated
    #[arg(short, long, value_name = "GLOB")]
    glob: Vec<String>,

    /// Search binary files as if they were text
    #[arg(short = 'a', long)]
    text: bool,

    #[command(flatten)]
    at: AtArg,
}
