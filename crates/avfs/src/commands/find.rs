//! `avfs find`: entries by name, type, size and time.

use avfs_core::{Timestamp, TreePath};
use clap::ValueEnum;

use crate::args::{AtArg, moment, vault_path};
use crate::size::SizeTest;

/// Find files by name, type, size and time
#[derive(Debug, clap::Args)]
#[command(after_help = "Ends with status 1 if nothing is found.

Examples:
  avfs find --name '*.log' --size +10k
  avfs find src --type f --newer 2d
  avfs find --name '*.tmp' -0 | xargs -0 avfs rm")]
pub struct FindArgs {
    /// Where to look [default: everywhere]
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// The name matches; can be repeated: any of them
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,

    /// As --name, whatever the case of the letters
    #[arg(long, value_name = "GLOB")]
    iname: Vec<String>,

    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<KindArg>,

    /// Larger (+10k), smaller (-10k) or exactly
    #[arg(long, value_name = "SIZE", value_parser = SizeTest::parse, allow_hyphen_values = true)]
    size: Option<SizeTest>,

    /// Changed since: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    newer: Option<Timestamp>,

    /// Last changed before: an age (2d) or a time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    older: Option<Timestamp>,

    /// Only this many levels down
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,

    /// End each path with a NUL byte instead of a line end
    #[arg(short = '0', long)]
    print0: bool,

    #[command(flatten)]
    at: AtArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindArg {
    #[value(alias = "f")]
    File,
    #[value(alias = "d")]
    Directory,
    #[value(alias = "l")]
    Symlink,
    #[value(alias = "p")]
    Fifo,
    #[value(alias = "s")]
    Socket,
}
