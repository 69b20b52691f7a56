//! Taking an apply back.

use std::os::unix::ffi::OsStrExt;

use agentvfs::Error;
use agentvfs::apply::{ApplyError, ApplyId};
use anyhow::Result;
use serde::Serialize;

use crate::commands::apply::{ConflictBody, FileBody, KeptBody, list};
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::byte_field;
use crate::recovered::tell_kept;
use crate::versions::count;

byte_field!(DirectoryField, directory, directory_bytes_hex);

#[derive(Serialize)]
struct UndoneBody {
    /// What was taken back.
    apply: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(flatten)]
    directory: DirectoryField,
    files: Vec<FileBody>,
    /// What was changed since, and is left as it is.
    left: Vec<ConflictBody>,
    kept: Vec<KeptBody>,
}

/// The last apply that can be taken back.
pub fn last(context: &mut Context<'_>) -> Result<ApplyId> {
    let last = context.task_store()?.last_apply()?;
    Ok(last.map(|record| record.id).ok_or(Error::from(ApplyError::NothingToUndo))?)
}

/// The last apply, if it was to the directory that the user is in and nothing was done in the chosen vault since.
/// Whoever names a vault means its history.
pub fn last_thing_done_here(context: &mut Context<'_>) -> Result<Option<ApplyId>> {
    if context.is_alone() || context.names_vault() {
        return Ok(None);
    }
    let (store, here) = (context.task_store()?, std::env::current_dir()?);
    let Some(last) = store.last_apply()?.filter(|last| here.starts_with(last.directory())) else {
        return Ok(None);
    };
    let newest = match context.vault_if_chosen()? {
        Some(vault) => vault.history(None, 1)?.pop(),
        None => None,
    };
    let is_older = newest.is_none_or(|entry| entry.time <= last.time);
    Ok(is_older.then_some(last.id))
}

pub fn take_back(context: &mut Context<'_>, id: ApplyId, force: bool) -> Result<ExitStatus> {
    let plan = context.task_store()?.plan_undo_apply(id)?;
    let (record, left) = (plan.record.clone(), plan.conflicts.clone());
    let undone = plan.carry_out(force)?;
    let status = if left.is_empty() { ExitStatus::Success } else { ExitStatus::No };
    if context.out.is_json() {
        let body = UndoneBody {
            apply: id.0,
            task: record.task.clone(),
            directory: DirectoryField::new(record.directory().as_os_str().as_bytes()),
            files: undone.files.iter().map(FileBody::from).collect(),
            left: left.iter().map(ConflictBody::from).collect(),
            kept: undone.kept.iter().map(KeptBody::from).collect(),
        };
        context.out.object("apply-undone", &body)?;
        return Ok(status);
    }
    list(context.out, &undone.files)?;
    for conflict in &left {
        context.out.warn(format_args!("left as it is: {conflict}"));
    }
    tell_kept(context.out, &undone.kept);
    let directory = printable_path(&record.directory());
    let paths = count(undone.files.len() as u64, "path");
    context.out.talk(format_args!("took back apply {id} in {directory} ({paths})"));
    Ok(status)
}
