//! `avfs prune`: thin out automatic snapshots.

use agentvfs::Pruned;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::size::HumanSize;
use crate::versions::count;

/// Thin out automatic snapshots as the retention settings say
#[derive(Debug, clap::Args)]
#[command(after_help = "Named checkpoints stay. `avfs gc` then gives the space back.

Examples:
  avfs prune --dry-run
  AVFS_RETENTION_ALL=1h avfs prune")]
pub struct PruneArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct PruneBody {
    dry_run: bool,
    vaults: Vec<VaultBody>,
    /// What only the automatic snapshots hold that stay, and what they may hold.
    held_bytes: u64,
    allowed_bytes: u64,
}

#[derive(Serialize)]
struct VaultBody {
    name: String,
    removed: Vec<u64>,
    kept: u64,
}

pub fn run(context: &mut Context<'_>, args: &PruneArgs) -> Result<ExitStatus> {
    let pruned = context.store()?.prune(&context.retention(), args.dry_run)?;
    if context.out.is_json() {
        context.out.object("prune", &body(&pruned, args.dry_run))?;
    } else {
        report(context, &pruned, args.dry_run)?;
    }
    Ok(ExitStatus::Success)
}

fn body(pruned: &Pruned, dry_run: bool) -> PruneBody {
    let vaults = pruned.vaults.iter().map(|vault| VaultBody {
        name: vault.name.to_string(),
        removed: vault.removed.clone(),
        kept: vault.kept,
    });
    let Pruned { held_bytes, allowed_bytes, .. } = *pruned;
    PruneBody { dry_run, vaults: vaults.collect(), held_bytes, allowed_bytes }
}

fn report(context: &mut Context<'_>, pruned: &Pruned, dry_run: bool) -> Result<()> {
    let out = &mut *context.out;
    let verb = if dry_run { "would go" } else { "removed" };
    for vault in pruned.vaults.iter().filter(|vault| !vault.removed.is_empty()) {
        let gone = count(vault.removed.len() as u64, "snapshot");
        out.line(format_args!("{}: {gone} {verb}, {} kept", vault.name, vault.kept))?;
    }
    if pruned.vaults.iter().all(|vault| vault.removed.is_empty()) {
        out.talk("all automatic snapshots stay");
    }
    let (held, allowed) = (HumanSize(pruned.held_bytes), HumanSize(pruned.allowed_bytes));
    out.talk(format_args!("automatic snapshots hold {held} of the {allowed} that they may"));
    Ok(())
}
