//! `avfs mv`: another place or name.

use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::change::describe;
use crate::commands::moves::{MovesBody, check_target};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;

/// Move or rename files and directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs mv draft.md final.md
  avfs mv a.txt b.txt archive/")]
pub struct MvArgs {
    #[arg(value_name = "FROM", required = true, value_parser = vault_path())]
    from: Vec<TreePath>,

    /// The new name, or a directory to move into
    #[arg(value_parser = vault_path())]
    to: TreePath,

    /// Refuse to replace something
    #[arg(short, long)]
    no_clobber: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &MvArgs) -> Result<ExitStatus> {
    let detail = describe(args.from.iter().chain([&args.to]));
    let (targets, changed) = context.change("mv", &detail, |open| {
        check_target(open, &args.from, &args.to)?;
        let rename = |from| match args.no_clobber {
            true => Ok(open.rename_no_replace(from, &args.to)?),
            false => Ok(open.rename(from, &args.to)?),
        };
        args.from.iter().map(rename).collect::<Result<Vec<_>>>()
    })?;
    if context.out.is_json() {
        context.out.object("mv", &MovesBody::new(&args.from, &targets, &changed))?;
    }
    Ok(ExitStatus::Success)
}
