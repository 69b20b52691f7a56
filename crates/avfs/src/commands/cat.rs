//! `avfs cat`: the contents of files.

use std::ops::Range;

use avfs_core::TreePath;

use crate::args::{AtArg, byte_range, line_range, vault_path};

/// Print files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs cat README.md
  avfs cat src/main.rs --lines 10:20
  avfs cat disk.img --bytes 0:512 | xxd
  avfs cat notes.txt --at yesterday")]
pub struct CatArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Only these lines, counted from 1: FIRST:LAST
    #[arg(long, value_name = "RANGE", value_parser = line_range, conflicts_with = "bytes")]
    lines: Option<Range<u64>>,

    /// Only these bytes, counted from 0, the end not included: START:END
    #[arg(long, value_name = "RANGE", value_parser = byte_range)]
    bytes: Option<Range<u64>>,

    #[command(flatten)]
    at: AtArg,
}
