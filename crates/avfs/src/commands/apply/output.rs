//! What an apply did, or would do, as text and JSON.

use std::os::unix::ffi::OsStrExt;

use agentvfs::Task;
use agentvfs::apply::{Applied, AppliedFile, Conflict, Deed, KeptCopy, Note, Plan, Pointed};
use anyhow::Result;
use serde::Serialize;

use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::json::{PathField, byte_field, from_root};
use crate::printer::{CYAN, GREEN, Printer, RED, YELLOW};
use crate::recovered::tell_kept;
use crate::versions::count;

byte_field!(DirectoryField, directory, directory_bytes_hex);
byte_field!(OldPathField, old_path, old_path_bytes_hex);
byte_field!(KeptField, kept, kept_bytes_hex);

#[derive(Clone, Serialize)]
pub struct ApplyBody {
    task: String,
    #[serde(flatten)]
    directory: DirectoryField,
    dry_run: bool,
    /// What `avfs undo --apply` takes; none if nothing was done.
    id: Option<u64>,
    files: Vec<FileBody>,
    /// What nobody has decided: while there are any, nothing is applied.
    conflicts: Vec<ConflictBody>,
    /// Conflicts that were decided, or left as they are.
    settled: Vec<ConflictBody>,
    pointed: Vec<PointedBody>,
    notes: Vec<NoteBody>,
    kept: Vec<KeptBody>,
}

#[derive(Clone, Serialize)]
pub struct FileBody {
    deed: &'static str,
    #[serde(flatten)]
    path: PathField,
    /// Where it was before it was renamed.
    #[serde(flatten)]
    old_path: Option<OldPathField>,
}

impl From<&AppliedFile> for FileBody {
    fn from(file: &AppliedFile) -> FileBody {
        let old_path = file.from.as_ref().map(|from| OldPathField::new(&from_root(from)));
        FileBody { deed: file.deed.as_str(), path: (&file.path).into(), old_path }
    }
}

#[derive(Clone, Serialize)]
pub struct ConflictBody {
    conflict: &'static str,
    #[serde(flatten)]
    path: PathField,
}

impl From<&Conflict> for ConflictBody {
    fn from(conflict: &Conflict) -> ConflictBody {
        ConflictBody { conflict: conflict.kind.as_str(), path: (&conflict.path).into() }
    }
}

#[derive(Clone, Serialize)]
struct PointedBody {
    #[serde(flatten)]
    path: PathField,
    reason: &'static str,
}

#[derive(Clone, Serialize)]
struct NoteBody {
    #[serde(flatten)]
    path: PathField,
    note: &'static str,
    text: String,
}

#[derive(Clone, Serialize)]
pub struct KeptBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    kept: KeptField,
}

impl From<&KeptCopy> for KeptBody {
    fn from(copy: &KeptCopy) -> KeptBody {
        KeptBody { path: (&copy.path).into(), kept: KeptField::new(copy.kept.as_os_str().as_bytes()) }
    }
}

impl ApplyBody {
    fn of(task: &Task, plan: &Plan, dry_run: bool) -> ApplyBody {
        let pointed = |file: &Pointed| PointedBody { path: (&file.path).into(), reason: file.reason };
        let note = |note: &Note| NoteBody {
            path: (&note.path).into(),
            note: note.reason.as_str(),
            text: note.reason.to_string(),
        };
        ApplyBody {
            task: task.name().to_string(),
            directory: DirectoryField::new(plan.directory().as_os_str().as_bytes()),
            dry_run,
            id: None,
            files: plan.files.iter().map(FileBody::from).collect(),
            conflicts: plan.conflicts.iter().map(ConflictBody::from).collect(),
            settled: plan.settled.iter().map(ConflictBody::from).collect(),
            pointed: plan.pointed.iter().map(pointed).collect(),
            notes: plan.notes.iter().map(note).collect(),
            kept: Vec::new(),
        }
    }
}

/// Shows what would be done; nothing is.
pub fn show_dry_run(out: &mut Printer, task: &Task, plan: &Plan) -> Result<ExitStatus> {
    match out.is_json() {
        true => out.object("apply", &ApplyBody::of(task, plan, true))?,
        false => show(out, plan)?,
    }
    match plan.conflicts.is_empty() {
        true => Ok(ExitStatus::Success),
        false => Ok(ExitStatus::Conflict),
    }
}

/// One line for each path, and below them what somebody should know before it is applied.
pub fn show(out: &mut Printer, plan: &Plan) -> Result<()> {
    if plan.is_empty() && plan.conflicts.is_empty() {
        out.talk("there is nothing to apply");
    }
    list(out, &plan.files)?;
    for conflict in &plan.conflicts {
        let label = out.paint(RED, format!("{:<17}", "conflict"));
        out.line(format_args!("{label} {conflict}"))?;
    }
    for file in &plan.pointed {
        out.warn(format_args!("look at {}: {}", file.path, file.reason));
    }
    plan.notes.iter().for_each(|note| out.talk(note));
    Ok(())
}

pub fn list(out: &mut Printer, files: &[AppliedFile]) -> Result<()> {
    for file in files {
        let style = match file.deed {
            Deed::Added | Deed::DirectoryAdded => GREEN,
            Deed::Removed | Deed::DirectoryRemoved => RED,
            Deed::Replaced | Deed::Merged | Deed::Marked | Deed::Mode => YELLOW,
            Deed::Renamed => CYAN,
        };
        let label = out.paint(style, format!("{:<17}", file.deed.as_str()));
        match &file.from {
            Some(from) => out.line(format_args!("{label} {from} -> {}", file.path))?,
            None => out.line(format_args!("{label} {}", file.path))?,
        }
    }
    Ok(())
}

/// What is left to tell of a plan when it has been carried out.
pub struct Summary {
    body: ApplyBody,
    pointed: Vec<Pointed>,
    notes: Vec<Note>,
    settled: Vec<Conflict>,
    task: String,
    directory: String,
}

impl Summary {
    pub fn of(task: &Task, plan: &Plan) -> Summary {
        Summary {
            body: ApplyBody::of(task, plan, false),
            pointed: plan.pointed.clone(),
            notes: plan.notes.clone(),
            settled: plan.settled.clone(),
            task: task.name().to_string(),
            directory: printable_path(plan.directory()),
        }
    }

    /// What the command ends with.
    pub fn status(&self) -> ExitStatus {
        if self.settled.is_empty() { ExitStatus::Success } else { ExitStatus::No }
    }

    pub fn into_body(self, applied: &Applied) -> ApplyBody {
        ApplyBody {
            id: applied.id.map(|id| id.0),
            files: applied.files.iter().map(FileBody::from).collect(),
            kept: applied.kept.iter().map(KeptBody::from).collect(),
            ..self.body
        }
    }

    pub fn report(self, out: &mut Printer, applied: &Applied) -> Result<ExitStatus> {
        let status = self.status();
        if out.is_json() {
            out.object("apply", &self.into_body(applied))?;
            return Ok(status);
        }
        list(out, &applied.files)?;
        for file in &self.pointed {
            out.warn(format_args!("look at {}: {}", file.path, file.reason));
        }
        self.notes.iter().for_each(|note| out.talk(note));
        for conflict in &self.settled {
            out.warn(format_args!("both sides changed {conflict}"));
        }
        tell_kept(out, &applied.kept);
        if applied.in_two_steps {
            out.warn("this file system cannot exchange files at once: it was done in two steps");
        }
        match applied.id {
            Some(id) => out.talk(format_args!(
                "applied task '{}' to {} ({}); `avfs undo --apply {id}` takes it back",
                self.task,
                self.directory,
                count(applied.files.len() as u64, "path")
            )),
            None => out.talk("there is nothing to apply"),
        }
        Ok(status)
    }
}
