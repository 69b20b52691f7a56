//! Files that were moved in a task before anything had read them.
//!
//! A promise of a file names its path in the directory, wherever the file is in the task. If the user changes such
//! a file before it is read, the task has the user's version, as with a file that was not moved.

use std::collections::HashSet;

use avfs_core::{Content, Entry, EntryKind, ObjectId, PromiseId, SnapshotId, TreePath};

use super::Task;
use crate::apply::ApplyError;
use crate::error::{Error, Result};

/// A file whose promise names another path.
struct MovedUnread {
    path: TreePath,
    id: PromiseId,
    entry: Entry,
}

/// A state of a task, with the user's versions of moved files that are known to have changed.
pub(super) fn with_versions_of_user(task: &Task, state: SnapshotId) -> Result<SnapshotId> {
    let store = task.vault().store();
    let lost: HashSet<PromiseId> = store
        .objects()
        .all_moved()?
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    if lost.is_empty() {
        return Ok(state);
    }
    let mut moved = all(task, state)?;
    moved.retain(|file| lost.contains(&file.id));
    if moved.is_empty() {
        return Ok(state);
    }
    let (state, _) = store.projects().altered(state, |tree| {
        moved
            .iter()
            .try_for_each(|file| tree.take_moved(&file.path, file.id))
    })?;
    Ok(state)
}

/// Reads the files that were moved unread: from then on it is known which of them the user has changed.
pub(super) fn read(task: &Task) -> Result<()> {
    let objects = task.vault().store().objects().clone();
    for file in all(task, task.head()?)? {
        objects.keep_contents_of(&file.entry).map_err(ApplyError::from)?;
    }
    Ok(objects.commit_kept().map_err(ApplyError::from)?)
}

fn all(task: &Task, state: SnapshotId) -> Result<Vec<MovedUnread>> {
    let (from, to) = (
        task.vault().reader_at(task.began())?,
        task.vault().reader_at(state)?,
    );
    let mut moved = Vec::new();
    let looked = from.diff_folded(&to, &mut |seen| {
        let path = seen.change.path;
        let Some((id, entry)) = seen.change.after.and_then(promised) else {
            return Ok(());
        };
        if let Some(promise) = to.objects().promise(id)?
            && *promise.path() != path
        {
            let id = PromiseId::from_object(id);
            moved.push(MovedUnread { path, id, entry });
        }
        Ok(())
    });
    looked.map_err(Error::from)?;
    Ok(moved)
}

/// A file, and what its contents are called.
fn promised(entry: Entry) -> Option<(ObjectId, Entry)> {
    let id = match &entry.kind {
        EntryKind::File {
            content: Content::Blob(id),
            ..
        } => id.object(),
        EntryKind::File {
            content: Content::Chunks(id),
            ..
        } => id.object(),
        _ => return None,
    };
    Some((id, entry))
}
