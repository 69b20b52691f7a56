//! `avfs mkdir`: new directories.

use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::rule_args::RuleArgs;

/// Create directories
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs mkdir -p src/commands")]
pub struct MkdirArgs {
    /// The directories to create
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Create missing parents, and accept directories that exist
    #[arg(short, long)]
    parents: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &MkdirArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let made = context.change("mkdir", &describe(&paths), |open| {
        for path in &paths {
            open.make_directory(path, args.parents)?;
        }
        Ok(())
    });
    let hint = "`avfs mkdir -p` creates missing directories too";
    let ((), changed) = made.map_err(|error| Failure::hinted(error, "not-found", hint))?;
    if context.out.is_json() {
        context.out.object("mkdir", &changed.paths_body(&paths))?;
    }
    Ok(ExitStatus::Success)
}
