//! `avfs rm`: remove entries.

use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Remove files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "`avfs undo` brings them back.

Examples:
  avfs rm notes.txt
  avfs rm -r target")]
pub struct RmArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,

    /// Do not mind if something does not exist
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &RmArgs) -> Result<ExitStatus> {
    let (removed, changed) = context.remove("rm", &describe(&args.paths), |open| {
        let mut removed = Vec::new();
        for path in &args.paths {
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
