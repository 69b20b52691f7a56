//! `avfs mkdir`: new directories.

use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Make directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs mkdir -p src/commands")]
pub struct MkdirArgs {
    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Make missing parents, and accept directories that exist
    #[arg(short, long)]
    parents: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &MkdirArgs) -> Result<ExitStatus> {
    let ((), changed) = context.change("mkdir", &describe(&args.paths), |open| {
        for path in &args.paths {
            open.make_directory(path, args.parents)?;
        }
        Ok(())
    })?;
    if context.out.is_json() {
        context.out.object("mkdir", &changed.paths_body(&args.paths))?;
    }
    Ok(ExitStatus::Success)
}
