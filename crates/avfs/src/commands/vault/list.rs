//! `avfs vault list`: all vaults of the store.

use agentvfs::{VaultInfo, VaultList};
use anyhow::Result;
use serde::Serialize;

use crate::commands::vault::body::VaultInfoBody;
use crate::conflicts::warn_of;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::{HEADING, Printer};
use crate::size::HumanSize;
use crate::time::{Age, now};

/// List the vaults
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "Examples:
  avfs vault list
  avfs vault list --json | jq -r '.vaults[].name'"
)]
pub struct VaultListArgs {}

#[derive(Serialize)]
struct VaultListBody {
    vaults: Vec<VaultInfoBody>,
    /// Those that are damaged.
    unreadable: Vec<String>,
}

pub fn run(context: &mut Context<'_>, _: &VaultListArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let current = context.chosen_vault(&store)?;
    let VaultList { vaults, unreadable } = store.vaults()?;
    let unreadable_names = unreadable.iter().map(|(name, _)| name.to_string()).collect();
    if context.out.is_json() {
        let vaults = vaults
            .iter()
            .map(|info| VaultInfoBody::new(info, current.as_deref()))
            .collect();
        context.out.object(
            "vault-list",
            &VaultListBody {
                vaults,
                unreadable: unreadable_names,
            },
        )?;
    } else if vaults.is_empty() && unreadable.is_empty() {
        context
            .out
            .talk("there is no vault yet; create one with `avfs vault create NAME`");
    } else {
        print(context.out, &vaults, current.as_deref())?;
        vaults
            .iter()
            .for_each(|info| warn_of(context.out, info.name.as_str(), info.conflicts));
    }
    for (name, error) in &unreadable {
        context.out.warn(format_args!(
            "vault '{name}' cannot be read: {error}; `avfs fsck` says more"
        ));
    }
    Ok(if unreadable.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Corrupt
    })
}

/// The star marks the vault that commands work on.
fn print(out: &mut Printer, vaults: &[VaultInfo], current: Option<&str>) -> Result<()> {
    let width = |text: &dyn Fn(&VaultInfo) -> usize, least: usize| {
        vaults.iter().map(text).max().unwrap_or(0).max(least)
    };
    let name_width = width(&|info| info.name.as_str().chars().count(), "NAME".len());
    let parent_width = width(&|info| parent(info).chars().count(), "FROM".len());
    let now = now();
    let heading = format!(
        "  {:<name_width$}  {:>9}  {:>9}  {:<parent_width$}  CREATED",
        "NAME", "ENTRIES", "SIZE", "FROM"
    );
    out.line(out.paint(HEADING, heading))?;
    for info in vaults {
        let star = if current == Some(info.name.as_str()) {
            '*'
        } else {
            ' '
        };
        let age = Age {
            then: info.created,
            now,
        };
        let (name, files, size) = (&info.name, info.files, HumanSize(info.bytes));
        let mark = match info.unstored_bytes {
            0 => String::new(),
            bytes => format!(" (+ {} not stored yet)", HumanSize(bytes)),
        };
        out.line(format_args!(
            "{star} {name:<name_width$}  {files:>9}  {size:>9}  {:<parent_width$}  {age}{mark}",
            parent(info)
        ))?;
    }
    Ok(())
}

fn parent(info: &VaultInfo) -> &str {
    info.parent.as_ref().map_or("-", |name| name.as_str())
}
