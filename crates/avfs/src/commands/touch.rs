//! `avfs touch`: new empty files, and modification times.

use anyhow::Result;
use avfs_core::Timestamp;

use crate::args::{PathArg, moment, path_arg};
use crate::change::describe;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;
use crate::time::now;

/// Create empty files, or set the modification time of files
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs touch done
  avfs touch --date '2026-05-01 12:30' report.md")]
pub struct TouchArgs {
    /// The files to create or update
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// The time to set [default: now]
    #[arg(short, long, value_parser = moment)]
    date: Option<Timestamp>,

    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &TouchArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let (touched, changed) = context.change("touch", &describe(&paths), |open| {
        let mut touched = Vec::new();
        for path in &paths {
            let exists = open.exists(path)?;
            if !exists && args.no_create {
                continue;
            }
            if !exists {
                open.write_bytes(path, b"")?;
            }
            if exists || args.date.is_some() {
                open.set_mtime(path, args.date.unwrap_or_else(now))?;
            }
            touched.push(path.clone());
        }
        Ok(touched)
    })?;
    if context.out.is_json() {
        context.out.object("touch", &changed.paths_body(&touched))?;
    }
    Ok(ExitStatus::Success)
}
