//! Undoing an apply, and redoing one.

use std::os::unix::ffi::OsStrExt;

use agentvfs::apply::ApplyId;
use anyhow::Result;
use serde::Serialize;

use crate::commands::apply::{ApplyConflictBody, ApplyFileBody, KeptBody, counts, list};
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::json::byte_field;
use crate::listing::shown;
use crate::recovered::tell_kept;

/// How many paths are named that needed nothing.
const SHOWN: usize = 10;

byte_field!(DirectoryField, directory, directory_bytes_hex);

/// Which way to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Undo,
    Redo,
}

#[derive(Serialize)]
struct TurnedBody {
    /// The apply that was undone or redone.
    apply: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(flatten)]
    directory: DirectoryField,
    files: Vec<ApplyFileBody>,
    /// Files that were changed since, and are left unchanged.
    left: Vec<ApplyConflictBody>,
    kept: Vec<KeptBody>,
}

/// The last apply to this directory that can be undone, or the last undo of one that can be redone.
pub fn last_here(context: &mut Context<'_>, direction: Direction) -> Result<ApplyId> {
    let here = context.here()?;
    let store = context.store()?;
    let find = |is_here: &dyn Fn(&std::path::Path) -> bool| match direction {
        Direction::Undo => store.applies().last(is_here),
        Direction::Redo => store.applies().last_undone(is_here),
    };
    if let Some(record) = find(&|directory| here.is_here(directory))? {
        return Ok(record.id);
    }
    let (verb, code) = match direction {
        Direction::Undo => ("undo", "nothing-to-undo"),
        Direction::Redo => ("redo", "nothing-to-redo"),
    };
    let place = printable_path(here.project().map_or(here.directory(), |project| project.root()));
    let text = format!("there is no apply to {place} to {verb}");
    let elsewhere = find(&|_| true)?.filter(|_| direction == Direction::Undo);
    let hint = elsewhere.map(|record| {
        let directory = printable_path(&record.directory());
        let id = store.applies().first(&record).unwrap_or(record.id);
        format!("the last one was to {directory}: `avfs undo --apply {id}`")
    });
    Err(Failure::new(code, ExitStatus::Conflict, text).hint(hint).into())
}

/// Undoes an apply, or the undo of one.
pub fn turn_around(
    context: &mut Context<'_>,
    id: ApplyId,
    force: bool,
    direction: Direction,
) -> Result<ExitStatus> {
    let store = context.task_store()?;
    let plan = store.applies().plan_undo(id)?;
    let (record, left, already) = (plan.record.clone(), plan.conflicts.clone(), plan.already.clone());
    let apply = store.applies().first(&record)?;
    let undone = plan.carry_out(force)?;
    let status = if left.is_empty() && !undone.files.is_empty() {
        ExitStatus::Success
    } else {
        ExitStatus::No
    };
    if context.out.is_json() {
        let body = TurnedBody {
            apply: apply.0,
            task: record.task.clone(),
            directory: DirectoryField::new(record.directory().as_os_str().as_bytes()),
            files: undone.files.iter().map(ApplyFileBody::from).collect(),
            left: left.iter().map(ApplyConflictBody::from).collect(),
            kept: undone.kept.iter().map(KeptBody::from).collect(),
        };
        let kind = match direction {
            Direction::Undo => "apply-undone",
            Direction::Redo => "apply-redone",
        };
        context.out.object(kind, &body)?;
        return Ok(status);
    }
    list(context.out, &undone.files, false)?;
    for conflict in &left {
        context.out.warn(format_args!("left as it is: {conflict}"));
    }
    for path in already.iter().take(SHOWN) {
        context
            .out
            .talk(format_args!("{} is gone already", shown(path, false)));
    }
    if already.len() > SHOWN {
        context
            .out
            .talk(format_args!("and {} more", already.len() - SHOWN));
    }
    tell_kept(context.out, &undone.kept);
    let directory = printable_path(&record.directory());
    let paths = counts(&undone.files);
    let verb = match direction {
        Direction::Undo => "undid",
        Direction::Redo => "redid",
    };
    if undone.files.is_empty() {
        let nothing = match direction {
            Direction::Undo if left.is_empty() => "had nothing left to undo",
            Direction::Redo if left.is_empty() => "was undone without a change, so there is nothing to redo",
            Direction::Undo | Direction::Redo => "was left as it is",
        };
        context.out.talk(format_args!(
            "apply {apply} in {directory} {nothing}: nothing changed"
        ));
        return Ok(status);
    }
    context
        .out
        .talk(format_args!("{verb} apply {apply} in {directory} ({paths})"));
    Ok(status)
}
