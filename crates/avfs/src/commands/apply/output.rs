//! The result of an apply, or of a dry run, as text and JSON.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

use agentvfs::apply::{
    Applied, AppliedAction, AppliedFile, Conflict, Guarded, KeptCopy, Note, Plan, Pointed, Reason,
};
use agentvfs::{IgnoredSummary, Task};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::ignored::{IgnoredBody, tell_ignored};
use crate::json::{PathField, byte_field, from_root};
use crate::listing::{Item, Listing, shown, without_needless_directories};
use crate::printer::{Printer, RED};
use crate::recovered::tell_kept;
use crate::versions::count;

/// How many lines are shown before the question.
const SHOWN: usize = 20;

byte_field!(DirectoryField, directory, directory_bytes_hex);
byte_field!(OldPathField, old_path, old_path_bytes_hex);
byte_field!(KeptField, kept, kept_bytes_hex);

#[derive(Clone, Serialize)]
pub struct AppliedBody {
    task: String,
    #[serde(flatten)]
    directory: DirectoryField,
    dry_run: bool,
    /// The argument for `avfs undo --apply`; none if nothing was done.
    id: Option<u64>,
    files: Vec<ApplyFileBody>,
    /// Undecided conflicts: while there are any, nothing is applied.
    conflicts: Vec<ApplyConflictBody>,
    /// Conflicts that were decided, or left unchanged.
    settled: Vec<ApplyConflictBody>,
    pointed: Vec<PointedBody>,
    notes: Vec<NoteBody>,
    /// Files that are omitted because they are ignored.
    ignored: IgnoredBody,
    /// Files that are omitted because this machine would run them.
    guarded: Vec<GuardedBody>,
    kept: Vec<KeptBody>,
}

#[derive(Clone, Serialize)]
pub struct ApplyFileBody {
    action: &'static str,
    #[serde(flatten)]
    path: PathField,
    /// Where it was before it was renamed.
    #[serde(flatten)]
    old_path: Option<OldPathField>,
}

impl From<&AppliedFile> for ApplyFileBody {
    fn from(file: &AppliedFile) -> ApplyFileBody {
        let old_path = file.from.as_ref().map(|from| OldPathField::new(&from_root(from)));
        ApplyFileBody {
            action: file.action.as_str(),
            path: (&file.path).into(),
            old_path,
        }
    }
}

#[derive(Clone, Serialize)]
pub struct ApplyConflictBody {
    conflict: &'static str,
    #[serde(flatten)]
    path: PathField,
}

impl From<&Conflict> for ApplyConflictBody {
    fn from(conflict: &Conflict) -> ApplyConflictBody {
        ApplyConflictBody {
            conflict: conflict.kind.as_str(),
            path: (&conflict.path).into(),
        }
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
struct GuardedBody {
    #[serde(flatten)]
    path: PathField,
    guard: &'static str,
    reason: String,
}

impl From<&Guarded> for GuardedBody {
    fn from(file: &Guarded) -> GuardedBody {
        let reason = file.reason.to_string();
        GuardedBody {
            path: (&file.path).into(),
            guard: file.reason.as_str(),
            reason,
        }
    }
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
        KeptBody {
            path: (&copy.path).into(),
            kept: KeptField::new(copy.kept.as_os_str().as_bytes()),
        }
    }
}

impl AppliedBody {
    fn of(task: &Task, plan: &Plan, dry_run: bool) -> AppliedBody {
        let pointed = |file: &Pointed| PointedBody {
            path: (&file.path).into(),
            reason: file.reason,
        };
        let note = |note: &Note| NoteBody {
            path: (&note.path).into(),
            note: note.reason.as_str(),
            text: note.reason.to_string(),
        };
        AppliedBody {
            task: task.name().to_string(),
            directory: DirectoryField::new(plan.directory().as_os_str().as_bytes()),
            dry_run,
            id: None,
            files: plan.files.iter().map(ApplyFileBody::from).collect(),
            conflicts: plan.conflicts.iter().map(ApplyConflictBody::from).collect(),
            settled: plan.settled.iter().map(ApplyConflictBody::from).collect(),
            pointed: plan.pointed.iter().map(pointed).collect(),
            notes: plan.notes.iter().map(note).collect(),
            ignored: (&plan.ignored).into(),
            guarded: plan.guarded.iter().map(GuardedBody::from).collect(),
            kept: Vec::new(),
        }
    }
}

/// Shows the plan without executing it.
pub fn show_dry_run(out: &mut Printer, task: &Task, plan: &Plan, all: bool) -> Result<ExitStatus> {
    if out.is_json() {
        out.object("apply", &AppliedBody::of(task, plan, true))?
    } else {
        if plan.is_empty() && plan.conflicts.is_empty() {
            out.talk("there is nothing to apply");
        }
        out.paged(|out| {
            list(out, &plan.files, all)?;
            show_conflicts(out, plan)
        })?;
        tell_notes(out, &plan.pointed, &plan.notes, &plan.ignored);
        tell_guarded(out, task.name().as_str(), &plan.guarded);
        for conflict in &plan.settled {
            out.warn(format_args!("both sides changed {conflict}"));
        }
        tell_in_one_line(out, task, plan);
    }
    if plan.conflicts.is_empty() && plan.settled.is_empty() && plan.guarded.is_empty() {
        Ok(ExitStatus::Success)
    } else {
        Ok(ExitStatus::No)
    }
}

fn tell_in_one_line(out: &mut Printer, task: &Task, plan: &Plan) {
    let directory = printable_path(plan.directory());
    let (name, conflicts) = (task.name(), plan.conflicts.len() as u64);
    match (conflicts, plan.is_empty()) {
        (0, true) => {}
        (0, false) => {
            let counts = counts(&plan.files);
            out.talk(format_args!("would apply task '{name}' to {directory}: {counts}"));
        }
        (_, _) => {
            let conflicts = count(conflicts, "conflict");
            out.talk(format_args!(
                "would not apply task '{name}' to {directory}: {conflicts}"
            ));
        }
    }
}

/// A summary that fits on a screen, and notes that the user should read before the apply.
pub fn show_before(out: &mut Printer, plan: &Plan, all: bool) -> Result<()> {
    let listing = listing(&plan.files, all);
    let some = if all { listing.rows.len() } else { SHOWN };
    let left = listing.print_some(out, some)?;
    if left > 0 {
        out.line(format_args!(
            "and {} (`--dry-run` lists them)",
            count(left as u64, "more line")
        ))?;
    }
    tell_notes(out, &plan.pointed, &plan.notes, &plan.ignored);
    if listing.is_folded() || left > 0 {
        out.talk(listing.counts());
    }
    Ok(())
}

fn show_conflicts(out: &mut Printer, plan: &Plan) -> Result<()> {
    for conflict in &plan.conflicts {
        let label = out.paint(RED, "conflict");
        let Conflict { path, kind } = conflict;
        out.line(format_args!("{label}  {} ({kind})", shown(path, false)))?;
    }
    Ok(())
}

fn tell_notes(out: &mut Printer, pointed: &[Pointed], notes: &[Note], ignored: &IgnoredSummary) {
    for line in pointed_lines(pointed) {
        out.warn(line);
    }
    // Git's own files are always omitted, which needs no message: its commits are reported.
    let is_known = |note: &&Note| note.reason == Reason::Git && note.path.components().count() == 1;
    notes
        .iter()
        .filter(|note| !is_known(note))
        .for_each(|note| out.talk(note));
    tell_ignored(out, ignored);
}

/// So many files of one directory that are pointed out for one reason are one line.
const ALIKE: usize = 4;

/// One line for each file that is pointed out, or for many of one directory; single files first, because an
/// important one is easily missed among twenty similar ones.
fn pointed_lines(pointed: &[Pointed]) -> Vec<String> {
    let mut groups: BTreeMap<(TreePath, &str), Vec<&Pointed>> = BTreeMap::new();
    for file in pointed {
        let above = file.path.split_last().map(|(above, _)| above).unwrap_or_default();
        groups.entry((above, file.reason)).or_default().push(file);
    }
    let (many, few): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(_, files)| files.len() >= ALIKE);
    let mut alone: Vec<&Pointed> = few.into_iter().flat_map(|(_, files)| files).collect();
    alone.sort_by(|a, b| a.path.cmp(&b.path));
    let alone = alone
        .into_iter()
        .map(|file| format!("look at {}: {}", shown(&file.path, false), file.reason));
    let many = many.into_iter().map(|((above, reason), files)| {
        format!(
            "look at {} ({} files): {reason}",
            shown(&above, true),
            files.len()
        )
    });
    alone.chain(many).collect()
}

/// How many omitted paths are listed.
const GUARDED: usize = 20;

/// The files that are omitted because this machine would run them, and how to apply them nevertheless.
fn tell_guarded(out: &mut Printer, task: &str, guarded: &[Guarded]) {
    for Guarded { path, reason } in guarded.iter().take(GUARDED) {
        out.warn(format_args!("left out {}: {reason}", shown(path, false)));
    }
    if guarded.len() > GUARDED {
        out.warn(format_args!(
            "left out {} more such files",
            guarded.len() - GUARDED
        ));
    }
    if let Some(first) = guarded.first() {
        // From the root, wherever it is typed.
        let path = crate::unreached::quoted(&[format!("/{}", shown(&first.path, false))]);
        let (them, one) = if guarded.len() == 1 {
            ("it", "it")
        } else {
            ("them", "the first")
        };
        out.talk(format_args!(
            "review {them} with `avfs diff {task}`; `avfs apply {task} --allow {path}` applies {one}"
        ));
    }
}

/// How the files of an apply are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// They were, before.
    Shown,
    Folded,
    Every,
}

impl List {
    pub fn of(all: bool) -> List {
        if all { List::Every } else { List::Folded }
    }
}

fn listing(files: &[AppliedFile], all: bool) -> Listing {
    let is_directory = |file: &&AppliedFile| {
        matches!(
            file.action,
            AppliedAction::DirectoryAdded | AppliedAction::DirectoryRemoved
        )
    };
    let whole = files
        .iter()
        .filter(is_directory)
        .map(|file| file.path.clone())
        .collect();
    let mut items: Vec<Item> = files.iter().map(Item::from).collect();
    without_needless_directories(&mut items);
    if all {
        Listing::every(&items)
    } else {
        Listing::folded(&items, &whole)
    }
}

/// The numbers of files by kind of change.
pub fn counts(files: &[AppliedFile]) -> String {
    listing(files, true).counts()
}

/// One line for each path, or for a directory with many, unless `all` are wanted.
pub fn list(out: &mut Printer, files: &[AppliedFile], all: bool) -> Result<()> {
    Ok(listing(files, all).print(out)?)
}

/// The part of a plan that is reported after its execution.
pub struct Summary {
    body: AppliedBody,
    pointed: Vec<Pointed>,
    notes: Vec<Note>,
    settled: Vec<Conflict>,
    ignored: IgnoredSummary,
    guarded: Vec<Guarded>,
    task: String,
    directory: String,
}

impl Summary {
    pub fn of(task: &Task, plan: &Plan) -> Summary {
        Summary {
            body: AppliedBody::of(task, plan, false),
            pointed: plan.pointed.clone(),
            notes: plan.notes.clone(),
            settled: plan.settled.clone(),
            ignored: plan.ignored.clone(),
            guarded: plan.guarded.clone(),
            task: task.name().to_string(),
            directory: printable_path(plan.directory()),
        }
    }

    /// The exit status of the command.
    pub fn status(&self) -> ExitStatus {
        if self.settled.is_empty() && self.guarded.is_empty() {
            ExitStatus::Success
        } else {
            ExitStatus::No
        }
    }

    pub fn into_body(self, applied: &Applied) -> AppliedBody {
        AppliedBody {
            id: applied.id.map(|id| id.0),
            files: applied.files.iter().map(ApplyFileBody::from).collect(),
            kept: applied.kept.iter().map(KeptBody::from).collect(),
            ..self.body
        }
    }

    /// In one line, and with the list of files if it was not shown before.
    pub fn report(self, out: &mut Printer, applied: &Applied, how: List) -> Result<ExitStatus> {
        let status = self.status();
        if out.is_json() {
            out.object("apply", &self.into_body(applied))?;
            return Ok(status);
        }
        if how != List::Shown {
            list(out, &applied.files, how == List::Every)?;
            tell_notes(out, &self.pointed, &self.notes, &self.ignored);
        }
        tell_guarded(out, &self.task, &self.guarded);
        for conflict in &self.settled {
            out.warn(format_args!("both sides changed {conflict}"));
        }
        tell_kept(out, &applied.kept);
        if applied.in_two_steps {
            out.warn("this file system cannot exchange files in one step, so the apply took two");
        }
        match applied.id {
            Some(id) => out.talk(format_args!(
                "applied task '{}' to {}: {}; `avfs undo --apply {id}` undoes it",
                self.task,
                self.directory,
                counts(&applied.files)
            )),
            None => out.talk("there is nothing to apply"),
        }
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_alike_are_one_line_behind_those_that_stand_alone() {
        let pointed = |path: &str, reason| Pointed {
            path: TreePath::parse(path.as_bytes()).unwrap(),
            reason,
        };
        let mut files: Vec<Pointed> = (0..14)
            .map(|n| pointed(&format!("bin/{n:02}"), "it became executable"))
            .collect();
        files.push(pointed("bin/build.rs", "cargo runs it when it builds"));
        files.push(pointed("web/run", "it became executable"));
        let expected = [
            "look at bin/build.rs: cargo runs it when it builds",
            "look at web/run: it became executable",
            "look at bin/ (14 files): it became executable",
        ];
        assert_eq!(pointed_lines(&files), expected);
    }
}
