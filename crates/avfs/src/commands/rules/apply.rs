//! `avfs rules apply`: other rules for a mount that is in use.

use std::path::PathBuf;

use agentvfs::mount::MountError;
use agentvfs::rules::Rules;
use agentvfs::{Error, KnownMount};
use anyhow::Result;
use serde::Serialize;

use super::{ListedRuleBody, bodies};
use crate::commands::unmount::whole_name;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::rule_args::RuleArgs;
use crate::versions::count;

/// Change the rules of a mount while it is in use
#[derive(Debug, clap::Args)]
#[command(
    after_help = "When the command returns, the new rules apply to everything in the directory, including
open files. Without flags, the mount gets the rules that are stored with its vault; with
--no-rules, or if none are stored, it shows everything.

Examples:
  avfs rules apply ~/agent --preset agent-safe
  avfs rules apply ~/agent --rules avfs.toml --rule '/output/**=write'"
)]
pub struct RulesApplyArgs {
    /// The directory of the mount
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Serialize)]
struct RulesApplyBody {
    vault: String,
    dir: String,
    rules: Vec<ListedRuleBody>,
}

pub fn run(context: &mut Context<'_>, args: &RulesApplyArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    store.mounts().clean_up(&mut agentvfs::mount::take_away)?;
    let dir = whole_name(&args.dir);
    let found = store
        .mounts()
        .list()?
        .into_iter()
        .find(|known| known.mount.dir == dir);
    let not_mounted = || {
        Error::from(MountError::NotMounted {
            path: args.dir.clone(),
        })
    };
    let KnownMount { vault: name, .. } = found.ok_or_else(not_mounted)?;
    let vault = store.vault(name.as_str())?;
    let rules = args
        .rules
        .list_for(&vault)?
        .unwrap_or_else(|| Rules::unrestricted().list().to_vec());
    vault
        .ask_owner(|owner| owner.set_rules(&dir, &rules))?
        .ok_or_else(not_mounted)?;
    if context.out.is_json() {
        let dir = dir.display().to_string();
        let body = RulesApplyBody {
            vault: name.to_string(),
            dir,
            rules: bodies(&rules),
        };
        context.out.object("rules-applied", &body)?;
        return Ok(ExitStatus::Success);
    }
    let rules = count(rules.len() as u64, "rule");
    context
        .out
        .talk(format_args!("{} is seen through {rules} now", dir.display()));
    Ok(ExitStatus::Success)
}
