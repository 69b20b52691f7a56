//! Removes the data that applies keep for undo.

use std::os::unix::ffi::OsStrExt;

use agentvfs::Store;
use agentvfs::apply::{ApplyId, KeptApply};
use anyhow::Result;
use serde::Serialize;

use super::PruneArgs;
use crate::confirm::confirm;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::byte_field;
use crate::size::HumanSize;
use crate::time::{Age, now};
use crate::versions::count_applies;

byte_field!(DirectoryField, directory, directory_bytes_hex);

#[derive(Serialize)]
struct AppliesBody {
    dry_run: bool,
    applies: Vec<PrunedApplyBody>,
    /// The bytes that they keep together.
    freed_bytes: u64,
}

#[derive(Serialize)]
struct PrunedApplyBody {
    apply: u64,
    #[serde(flatten)]
    directory: DirectoryField,
    bytes: u64,
}

pub fn run(context: &mut Context<'_>, args: &PruneArgs) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let mut old = store.applies().kept()?;
    if let Some(older) = args.older {
        let until = now().as_nanos() - older.as_nanos() as i128;
        old.retain(|apply| apply.time.as_nanos() < until);
    }
    let bytes: u64 = old.iter().map(|apply| apply.bytes).sum();
    if !context.out.is_json() {
        for apply in &old {
            let line = line(&store, apply)?;
            context.out.line(line)?;
        }
    }
    let what = format!("{} ({})", count_applies(old.len() as u64), HumanSize(bytes));
    if !args.dry_run && !old.is_empty() {
        let question = format!("Forget what is kept of {what}? They cannot be undone then.");
        if !confirm(context.out, question, args.yes)? {
            return Ok(ExitStatus::No);
        }
        store
            .applies()
            .forget(&old.iter().map(|apply| apply.id).collect::<Vec<_>>())?;
    }
    if context.out.is_json() {
        let applies = old
            .iter()
            .map(|apply| body(&store, apply))
            .collect::<Result<_>>()?;
        let body = AppliesBody {
            dry_run: args.dry_run,
            applies,
            freed_bytes: bytes,
        };
        context.out.object("prune-applies", &body)?;
    } else if old.is_empty() {
        context.out.talk("nothing is kept of such applies");
    } else {
        let verb = if args.dry_run {
            "could be forgotten"
        } else {
            "forgotten"
        };
        context.out.talk(format_args!("{what} {verb}"));
    }
    Ok(ExitStatus::Success)
}

/// The number by which the user knows it.
fn number(store: &Store, apply: &KeptApply) -> Result<ApplyId> {
    Ok(apply
        .record
        .as_ref()
        .map(|record| store.applies().first(record))
        .transpose()?
        .unwrap_or(apply.id))
}

fn line(store: &Store, apply: &KeptApply) -> Result<String> {
    let what = match &apply.record {
        Some(record) if record.is_undo() => "the undo of apply",
        Some(_) => "apply",
        None => "what was written during apply",
    };
    let (id, directory) = (number(store, apply)?, printable_path(&apply.directory));
    let (size, age) = (
        HumanSize(apply.bytes),
        Age {
            then: apply.time,
            now: now(),
        },
    );
    Ok(format!("{what} {id} to {directory}, {age}: {size}"))
}

fn body(store: &Store, apply: &KeptApply) -> Result<PrunedApplyBody> {
    let directory = DirectoryField::new(apply.directory.as_os_str().as_bytes());
    Ok(PrunedApplyBody {
        apply: number(store, apply)?.0,
        directory,
        bytes: apply.bytes,
    })
}
