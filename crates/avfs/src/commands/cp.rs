//! `avfs cp`: copies that share their contents.

use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::change::describe;
use crate::commands::moves::{MovesBody, check_target};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Copy files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Contents are shared until one side changes: a copy of any size is fast and
takes no room.

Examples:
  avfs cp a.txt b.txt
  avfs cp -r src old-src")]
pub struct CpArgs {
    #[arg(value_name = "FROM", required = true, value_parser = vault_path())]
    from: Vec<TreePath>,

    /// The copy, or a directory to copy into
    #[arg(value_parser = vault_path())]
    to: TreePath,

    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &CpArgs) -> Result<ExitStatus> {
    let detail = describe(args.from.iter().chain([&args.to]));
    let (targets, changed) = context.change("cp", &detail, |open| {
        check_target(open, &args.from, &args.to)?;
        let copy = |from| Ok(open.copy(from, &args.to, args.recursive)?);
        args.from.iter().map(copy).collect::<Result<Vec<_>>>()
    })?;
    if context.out.is_json() {
        context.out.object("cp", &MovesBody::new(&args.from, &targets, &changed))?;
    }
    Ok(ExitStatus::Success)
}
