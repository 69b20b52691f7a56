//! `avfs stats`: the sizes of vaults and what they share.

use agentvfs::{StoreStats, VaultStats};
use anyhow::Result;
use serde::Serialize;

use crate::conflicts::warn_of;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::printer::{HEADING, Printer};
use crate::size::HumanSize;
use crate::versions::count_applies;

/// Show logical, unique and shared bytes per vault
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Logical is the current size of the files. Unique is the disk space that only this vault
and its history use: deleting it frees that much. Shared is what other vaults use too.

Examples:
  avfs stats
  avfs stats web web-fix"
)]
pub struct StatsArgs {
    /// The vaults [default: all]
    #[arg(value_name = "VAULT")]
    names: Vec<String>,
}

#[derive(Serialize)]
struct StatsBody {
    vaults: Vec<StatsVaultBody>,
    objects: u64,
    stored_bytes: u64,
    garbage_bytes: u64,
    /// Bytes that applies keep for undo.
    applies: u64,
    apply_bytes: u64,
}

#[derive(Serialize)]
struct StatsVaultBody {
    name: String,
    files: u64,
    logical_bytes: u64,
    unique_bytes: u64,
    shared_bytes: u64,
    conflicts: u64,
}

pub fn run(context: &mut Context<'_>, args: &StatsArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    for name in &args.names {
        store.vault(name)?;
    }
    let mut stats = store.maintenance().stats()?;
    if !args.names.is_empty() {
        stats
            .vaults
            .retain(|vault| args.names.iter().any(|name| name == vault.name.as_str()));
    }
    if context.out.is_json() {
        context.out.object("stats", &body(&stats))?
    } else {
        print(context.out, &stats)?
    }
    Ok(ExitStatus::Success)
}

fn body(stats: &StoreStats) -> StatsBody {
    let vaults = stats.vaults.iter().map(|vault| StatsVaultBody {
        name: vault.name.to_string(),
        files: vault.files,
        logical_bytes: vault.logical_bytes,
        unique_bytes: vault.unique_bytes,
        shared_bytes: vault.shared_bytes,
        conflicts: vault.conflicts,
    });
    StatsBody {
        vaults: vaults.collect(),
        objects: stats.objects,
        stored_bytes: stats.object_bytes,
        garbage_bytes: stats.garbage_bytes,
        applies: stats.applies,
        apply_bytes: stats.apply_bytes,
    }
}

fn print(out: &mut Printer, stats: &StoreStats) -> Result<()> {
    let names = stats
        .vaults
        .iter()
        .map(|vault| vault.name.as_str().chars().count());
    let width = names.max().unwrap_or(0).max("VAULT".len());
    let heading = format!(
        "{:<width$}  {:>9}  {:>10}  {:>10}  {:>10}",
        "VAULT", "ENTRIES", "LOGICAL", "UNIQUE", "SHARED"
    );
    out.line(out.paint(HEADING, heading))?;
    for VaultStats {
        name,
        files,
        logical_bytes,
        unique_bytes,
        shared_bytes,
        ..
    } in &stats.vaults
    {
        let size = |bytes: &u64| HumanSize(*bytes).to_string();
        let (logical, unique, shared) = (size(logical_bytes), size(unique_bytes), size(shared_bytes));
        out.line(format_args!(
            "{name:<width$}  {files:>9}  {logical:>10}  {unique:>10}  {shared:>10}"
        ))?;
    }
    stats
        .vaults
        .iter()
        .for_each(|vault| warn_of(out, vault.name.as_str(), vault.conflicts));
    let (stored, garbage) = (HumanSize(stats.object_bytes), HumanSize(stats.garbage_bytes));
    out.talk(format_args!(
        "the store holds {stored} in {} objects, {garbage} of it garbage",
        stats.objects
    ));
    if stats.applies > 0 {
        let (applies, bytes) = (count_applies(stats.applies), HumanSize(stats.apply_bytes));
        out.talk(format_args!(
            "besides, {bytes} are kept so that {applies} can be undone"
        ));
    }
    Ok(())
}
