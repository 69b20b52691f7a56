//! `avfs rm`: remove entries.

use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Remove files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` restores them.

Examples:
  avfs rm notes.txt
  avfs rm -r target")]
pub struct RmArgs {
    /// The files and directories to remove
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Include directories and everything in them
    #[arg(short, long)]
    recursive: bool,

    /// Ignore paths that do not exist
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &RmArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let (removed, changed) = context.remove("rm", &describe(&paths), |open| {
        let mut removed = Vec::new();
        for path in &paths {
            if args.force && !open.exists(path)? {
                continue;
            }
            open.remove(path, args.recursive)?;
            removed.push(path.clone());
        }
        Ok(removed)
    })?;
    if context.out.is_json() {
        context.out.object("rm", &changed.paths_body(&removed))?;
    }
    Ok(ExitStatus::Success)
}
