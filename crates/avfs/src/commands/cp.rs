//! `avfs cp`: copies that share their contents.

use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::change::describe;
use crate::commands::moves::{MovesBody, check_target};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// Copy files and directories
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Contents are shared until one side changes, so a copy of any size is fast and takes no
space.

Examples:
  avfs cp a.txt b.txt
  avfs cp -r src old-src"
)]
pub struct CpArgs {
    /// The files and directories to copy
    #[arg(value_name = "FROM", required = true, value_parser = path_arg())]
    from: Vec<PathArg>,

    /// The copy, or a directory to copy into
    #[arg(value_parser = path_arg())]
    to: PathArg,

    /// Include directories and everything in them
    #[arg(short, long)]
    recursive: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &CpArgs) -> Result<ExitStatus> {
    let to = context.path(&args.to)?;
    let from = context.paths(&args.from)?;
    let detail = describe(from.iter().chain([&to]));
    let copied = context.change("cp", &detail, |open| {
        check_target(open, &from, &to)?;
        let copy = |from| Ok(open.copy(from, &to, args.recursive)?);
        from.iter().map(copy).collect::<Result<Vec<_>>>()
    });
    let (targets, changed) = copied.map_err(|error| {
        if args.recursive {
            error
        } else {
            Failure::hinted(
                error,
                "is-a-directory",
                "`avfs cp -r` copies a directory with everything in it",
            )
        }
    })?;
    if context.out.is_json() {
        context
            .out
            .object("cp", &MovesBody::new(&from, &targets, &changed))?;
    }
    Ok(ExitStatus::Success)
}
