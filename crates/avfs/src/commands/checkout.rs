//! `avfs checkout`: single paths from another state.

use anyhow::Result;
use avfs_core::TreePath;

use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::revision::Revision;
use crate::rule_args::RuleArgs;
use crate::versions::{detail, report_restored};

/// Take files and directories from another state
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  avfs checkout before-upgrade Cargo.lock
  avfs checkout web-fix: src/login.rs")]
pub struct CheckoutArgs {
    /// Where to take them from
    #[arg(value_name = "REV", value_parser = Revision::parse)]
    revision: Revision,

    #[arg(value_name = "PATH", required = true, value_parser = vault_path())]
    paths: Vec<TreePath>,

    #[command(flatten)]
    pub rules: RuleArgs,
}

pub fn run(context: &mut Context<'_>, args: &CheckoutArgs) -> Result<ExitStatus> {
    let vault = context.vault()?;
    let text = args.revision.to_string();
    let from = vault.revision(&text)?;
    let done = vault.restore_paths(&from, &args.paths, "checkout", &detail(&text, &args.paths))?;
    report_restored(context, &vault, &text, &done)
}
