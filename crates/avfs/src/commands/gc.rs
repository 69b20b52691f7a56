//! `avfs gc`: give space back.

use agentvfs::Store;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Remove objects that nothing needs
#[derive(Debug, clap::Args)]
#[command(after_help = "Safe to run while other processes work, and safe to interrupt.

Examples:
  avfs gc --dry-run
  avfs gc")]
pub struct GcArgs {
    /// Show what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Run even if a repair may have lost refs; objects that only those needed are deleted for good
    #[arg(long)]
    after_repair: bool,
}

#[derive(Serialize)]
struct GcBody {
    dry_run: bool,
    live_objects: Option<u64>,
    removed_objects: Option<u64>,
    /// With `--dry-run`, the bytes that could be freed.
    freed_bytes: u64,
    busy_packs: u64,
    #[serde(skip)]
    cramped_packs: u64,
    damaged_packs: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &GcArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let body = if args.dry_run {
        estimate(&store)?
    } else {
        collect(context, &store, args.after_repair)?
    };
    if context.out.is_json() {
        context.out.object("gc", &body)?;
    } else {
        report(context, &body);
    }
    Ok(if body.damaged_packs.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::Corrupt
    })
}

fn estimate(store: &Store) -> Result<GcBody> {
    Ok(GcBody {
        dry_run: true,
        live_objects: None,
        removed_objects: None,
        freed_bytes: store.maintenance().stats()?.garbage_bytes,
        busy_packs: 0,
        cramped_packs: 0,
        damaged_packs: Vec::new(),
    })
}

fn collect(context: &mut Context<'_>, store: &Store, after_repair: bool) -> Result<GcBody> {
    if after_repair {
        store.integrity().accept_repair()?;
    }
    store.approvals().clear_away_previews()?;
    let progress = Progress::spin(context.out, "gc");
    let collected = store.collect_garbage(&mut |objects| {
        progress.say(|| format!("{objects} objects are needed"));
        true
    })?;
    drop(progress);
    Ok(GcBody {
        dry_run: false,
        live_objects: Some(collected.live),
        removed_objects: Some(collected.sweep.removed_objects),
        freed_bytes: collected.sweep.freed_bytes,
        busy_packs: collected.sweep.busy_packs,
        cramped_packs: collected.sweep.cramped_packs,
        damaged_packs: collected.sweep.damaged_packs,
    })
}

fn report(context: &mut Context<'_>, body: &GcBody) {
    let freed = HumanSize(body.freed_bytes);
    let out = &mut *context.out;
    match body.removed_objects {
        None => out.talk(format_args!("{freed} of objects could be removed")),
        Some(removed) => {
            out.talk(format_args!(
                "removed {}, {freed} given back",
                count(removed, "object")
            ));
        }
    }
    if body.cramped_packs > 0 {
        out.talk("some files could not be compacted for lack of space; a later collection does it");
    }
    if body.busy_packs > 0 {
        out.talk("some files are in use by other processes: a later collection gets them");
    }
    for pack in &body.damaged_packs {
        out.warn(format_args!(
            "{pack} is damaged and was left alone: `avfs fsck` says more"
        ));
    }
}
