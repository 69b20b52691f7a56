//! `changes`: what differs from the beginning of the work, or from a checkpoint.

use agentvfs::exec::ChangeKind;
use agentvfs::patch::{FileChange, PatchOptions, file_changes, write_patch};
use agentvfs::{Revision, SnapshotId, Task, TreePath, TreeReader};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use super::Call;
use crate::paths::{path_in, show};
use crate::reply::{Reply, TEXT_MAX, beginning, shown};
use crate::tool_error::ToolError;
use crate::workspaces::Workspace;

/// The most files of one answer.
const MOST: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangesArgs {
    /// The workspace; without it, the default one.
    workspace: Option<String>,
    /// Compare with this checkpoint or snapshot; without it, with the beginning of the work. `@~1` is the snapshot before
    /// the last change.
    since: Option<String>,
    /// Only at and below these paths.
    #[serde(default)]
    paths: Vec<String>,
    /// Also show a unified diff.
    #[serde(default)]
    patch: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangesAnswer {
    workspace: String,
    /// The state that it was compared with.
    since: String,
    files: Vec<ChangedPath>,
    /// How many files differ, also those that are not listed.
    count: u64,
    /// Files that git ignores or build tools make, which are not listed.
    ignored: u64,
    /// The unified diff, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    /// The diff, or the list, is longer than what is shown.
    cut: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedPath {
    path: String,
    /// `added`, `modified`, `deleted`, `renamed` or `metadata`.
    kind: String,
    /// Where a renamed file was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

pub(crate) fn run(call: &Call<'_>, args: &ChangesArgs) -> Result<Reply, ToolError> {
    let workspace = call.workspaces.named(args.workspace.as_deref(), call.client)?;
    let paths: Vec<TreePath> = args
        .paths
        .iter()
        .map(|path| path_in(&workspace.vault, path))
        .collect::<Result<_, _>>()?;
    let compared = Compared::of(&workspace, args.since.as_deref(), &paths)?;
    let files: Vec<ChangedPath> = compared.files.iter().take(MOST).map(changed_path).collect();
    let mut text = text(&files);
    let mut is_cut = compared.files.len() > MOST;
    let mut patch = None;
    if args.patch {
        let whole = patch_of(&workspace, &compared.files)?;
        let kept = beginning(&whole, TEXT_MAX);
        is_cut |= kept.len() < whole.len();
        text.push('\n');
        text.push_str(&shown(kept));
        patch = Some(kept.to_owned());
    }
    let answer = ChangesAnswer {
        workspace: workspace.name.clone(),
        since: compared.since.to_string(),
        count: compared.files.len() as u64,
        files,
        ignored: compared.ignored,
        patch,
        cut: is_cut,
    };
    let cut = is_cut.then(|| "the answer is cut; `paths` narrows it".to_owned());
    let ignored = (compared.ignored > 0).then(|| {
        format!(
            "{} more file(s) changed that git ignores or build tools make",
            compared.ignored
        )
    });
    Reply::new(&answer, text).map(|reply| reply.note_if(cut).note_if(ignored))
}

/// What differs between two states, as the workspace shows it.
struct Compared {
    since: SnapshotId,
    files: Vec<FileChange>,
    ignored: u64,
}

impl Compared {
    fn of(workspace: &Workspace, since: Option<&str>, paths: &[TreePath]) -> Result<Compared, ToolError> {
        let task = Task::of_vault(&workspace.whole)?;
        let now = workspace.vault.reader()?;
        let since = match (since, &task) {
            (Some(since), _) => workspace.vault.revision(since)?.snapshot,
            (None, Some(task)) => task.base()?,
            (None, None) => beginning_of(workspace)?,
        };
        let before = workspace.vault.reader_at(since)?;
        let (files, ignored) = match &task {
            Some(task) => {
                let changes = task.changes_seen(&before, &now, paths)?;
                let ignored = changes.ignored.len() as u64;
                (changes.files, ignored)
            }
            None => (compare(&before, &now, paths)?, 0),
        };
        Ok(Compared {
            since,
            files,
            ignored,
        })
    }
}

/// Of a fork, the state that it shares with its parent; of another vault, its first one that is kept.
fn beginning_of(workspace: &Workspace) -> Result<SnapshotId, ToolError> {
    if let Some(base) = workspace.whole.info()?.fork_base {
        return Ok(base);
    }
    let mut oldest = None;
    workspace.whole.for_each_entry(|entry| {
        oldest = Some(entry.snapshot);
        Ok(true)
    })?;
    match oldest {
        Some(oldest) => Ok(oldest),
        None => Ok(workspace.whole.head()?),
    }
}

fn compare(before: &TreeReader, now: &TreeReader, paths: &[TreePath]) -> Result<Vec<FileChange>, ToolError> {
    let mut changes = Vec::new();
    let found = before.diff_folded(now, &mut |seen| {
        if paths.is_empty() || paths.iter().any(|wanted| seen.change.path.starts_with(wanted)) {
            changes.push(seen);
        }
        Ok(())
    });
    found.map_err(agentvfs::Error::from)?;
    Ok(file_changes(changes))
}

fn changed_path(change: &FileChange) -> ChangedPath {
    let kind = ChangeKind::from(change.status);
    let from = (kind == ChangeKind::Renamed).then(|| change.old.as_ref().map(|old| show(&old.path)));
    ChangedPath {
        path: show(change.path()),
        kind: match kind {
            ChangeKind::Added => "added",
            ChangeKind::Modified => "modified",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Renamed => "renamed",
            ChangeKind::Metadata => "metadata",
        }
        .to_owned(),
        from: from.flatten(),
    }
}

fn text(files: &[ChangedPath]) -> String {
    if files.is_empty() {
        return "(nothing changed)\n".to_owned();
    }
    let line = |file: &ChangedPath| {
        let path = avfs_core::printable(file.path.as_bytes());
        match &file.from {
            Some(from) => format!(
                "{:<9} {} -> {path}\n",
                file.kind,
                avfs_core::printable(from.as_bytes())
            ),
            None => format!("{:<9} {path}\n", file.kind),
        }
    };
    files.iter().map(line).collect()
}

fn patch_of(workspace: &Workspace, files: &[FileChange]) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    // A binary file is named, and its bytes are left out.
    let options = PatchOptions {
        binary_bytes: 0,
        ..PatchOptions::default()
    };
    let objects = workspace.vault.store().objects();
    write_patch(objects, files, &options, &mut bytes)
        .map_err(|error| ToolError::new("internal", avfs_core::with_causes(&error)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The state that a text names, of this workspace alone.
pub(super) fn revision(workspace: &Workspace, text: &str) -> Result<Revision, ToolError> {
    Ok(workspace.vault.revision(text)?)
}
