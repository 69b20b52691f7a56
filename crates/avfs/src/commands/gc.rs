//! `avfs gc`: give space back.

use agentvfs::Store;
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::progress::Progress;
use crate::size::HumanSize;
use crate::versions::count;

/// Remove objects that nothing needs any more
#[derive(Debug, clap::Args)]
#[command(after_help = "Safe while other processes work, and it can be stopped at any time.

Examples:
  avfs gc --dry-run
  avfs gc")]
pub struct GcArgs {
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Collect although a repair may have lost refs: what only they needed goes for good
    #[arg(long)]
    after_repair: bool,
}

#[derive(Serialize)]
struct GcBody {
    dry_run: bool,
    live_objects: Option<u64>,
    removed_objects: Option<u64>,
    /// With `--dry-run` what could be freed.
    freed_bytes: u64,
    busy_packs: u64,
    #[serde(skip)]
    cramped_packs: u64,
    damaged_packs: Vec<String>,
}

pub fn run(context: &mut Context<'_>, args: &GcArgs) -> Result<ExitStatus> {
    let store = context.store()?;
    let body = match args.dry_run {
        true => estimate(&store)?,
        false => collect(context, &store, args.after_repair)?,
    };
    if context.out.is_json() {
        context.out.object("gc", &body)?;
    } else {
        report(context, &body);
    }
    Ok(if body.damaged_packs.is_empty() { ExitStatus::Success } else { ExitStatus::Corrupt })
}

fn estimate(store: &Store) -> Result<GcBody> {
    Ok(GcBody {
        dry_run: true,
        live_objects: None,
        removed_objects: None,
        freed_bytes: store.stats()?.garbage_bytes,
        busy_packs: 0,
        cramped_packs: 0,
        damaged_packs: Vec::new(),
    })
}

fn collect(context: &mut Context<'_>, store: &Store, after_repair: bool) -> Result<GcBody> {
    if after_repair {
        store.accept_repair()?;
    }
    store.clear_away_previews()?;
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
            out.talk(format_args!("removed {}, {freed} given back", count(removed, "object")));
        }
    }
    if body.cramped_packs > 0 {
        out.talk("some files could not be made smaller for want of room: a later collection does it");
    }
    if body.busy_packs > 0 {
        out.talk("some files are in use by other processes: a later collection gets them");
    }
    for pack in &body.damaged_packs {
        out.warn(format_args!("{pack} is damaged and was left alone: `avfs fsck` says more"));
    }
}
