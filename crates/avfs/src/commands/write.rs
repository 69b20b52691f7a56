//! `avfs write`: the contents of one file, from an argument or from standard input.

use std::ffi::OsString;

use avfs_core::TreePath;

use crate::args::vault_path;

/// Write a file
#[derive(Debug, clap::Args)]
#[command(after_help = "With --expect nothing is written if the file has another version by now.
`stat` and `write` print the version.

Examples:
  avfs write notes.txt 'remember the milk'
  make 2>&1 | avfs write logs/make.txt
  date | avfs write log.txt --append
  avfs write notes.txt 'new text' --expect 1f0c9a")]
pub struct WriteArgs {
    #[arg(value_parser = vault_path())]
    path: TreePath,

    /// What to write, with a line end behind it [default: standard input, exactly]
    text: Option<OsString>,

    /// Add at the end
    #[arg(short, long)]
    append: bool,

    /// Only if the file still has this version; 'none': only if it does not exist
    #[arg(long, value_name = "VERSION")]
    expect: Option<String>,

    /// Make missing directories
    #[arg(short, long)]
    parents: bool,
}
