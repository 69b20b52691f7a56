//! `avfs mv`: another place or name.

use anyhow::Result;

use crate::args::{PathArg, path_arg};
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
    /// The files and directories to move
    #[arg(value_name = "FROM", required = true, value_parser = path_arg())]
    from: Vec<PathArg>,

    /// The new name, or a directory to move into
    #[arg(value_parser = path_arg())]
    to: PathArg,

    /// Do not replace existing files
    #[arg(short, long)]
    no_clobber: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &MvArgs) -> Result<ExitStatus> {
    let to = context.path(&args.to)?;
    let from = context.paths(&args.from)?;
    let detail = describe(from.iter().chain([&to]));
    let (targets, changed) = context.change("mv", &detail, |open| {
        check_target(open, &from, &to)?;
        let rename = |from| {
            if args.no_clobber {
                Ok(open.rename_no_replace(from, &to)?)
            } else {
                Ok(open.rename(from, &to)?)
            }
        };
        from.iter().map(rename).collect::<Result<Vec<_>>>()
    })?;
    if context.out.is_json() {
        context
            .out
            .object("mv", &MovesBody::new(&from, &targets, &changed))?;
    }
    Ok(ExitStatus::Success)
}
