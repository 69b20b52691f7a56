//! `avfs checkout`: single paths from another state.

use anyhow::Result;

use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::revision::RevisionArg;
use crate::rule_args::RuleArgs;
use crate::versions::{detail, report_restored};

/// Restore files and directories from another state
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkout before-upgrade Cargo.lock
  avfs checkout web-fix: src/login.rs")]
pub struct CheckoutArgs {
    /// The revision to restore them from
    #[arg(value_name = "REV", value_parser = RevisionArg::parse)]
    revision: RevisionArg,

    /// The files and directories to restore
    #[arg(value_name = "PATH", required = true, value_parser = path_arg())]
    paths: Vec<PathArg>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &CheckoutArgs) -> Result<ExitStatus> {
    let paths = context.paths(&args.paths)?;
    let vault = context.vault()?;
    let text = args.revision.to_string();
    let from = vault.revision(&text)?;
    let done = vault.restore_paths(&from, &paths, "checkout", &detail(&text, &paths))?;
    report_restored(context, &vault, &text, &done)
}
