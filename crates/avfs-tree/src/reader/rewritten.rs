//! Files that were removed and written again with the bytes that they had, such as those of a branch that git left and
//! came back to. If no program read the earlier file, only its source can say that it was the same.

use avfs_core::{Content, Entry, EntryKind};

use super::visible_diff::VisibleChange;
use crate::objects::{ObjectError, Objects};

/// The largest file that is read for this. A larger one counts as changed: a listing must stay fast.
const FILE_BYTES: u64 = 4 << 20;
/// How much one look reads. What was read is known from then on, so the next look continues.
const LOOK_BYTES: u64 = 64 << 20;

/// Compares files of the same size and mode with those that a source promised, which are read if they still are there.
pub fn settle_rewritten(objects: &Objects, changes: &mut [VisibleChange]) -> Result<(), ObjectError> {
    let mut left = LOOK_BYTES;
    for seen in changes.iter_mut().filter(|seen| seen.changes_content) {
        let (Some(before), Some(after)) = (&seen.change.before, &seen.change.after) else {
            continue;
        };
        let Some((size, content)) = same_in_size_and_mode(before, after) else {
            continue;
        };
        if size > FILE_BYTES.min(left) {
            continue;
        }
        let Some((id, promise)) = objects.unread(content)? else {
            continue;
        };
        left -= size;
        // What cannot be read or kept at this moment (it is gone, the disk is full) counts as changed.
        if objects.keep(id, &promise).is_ok() {
            seen.changes_content = !objects.has_same_bytes(before, after)?;
        }
    }
    Ok(())
}

/// The size and the earlier contents of a file that may be as it was.
fn same_in_size_and_mode(before: &Entry, after: &Entry) -> Option<(u64, Content)> {
    match (&before.kind, &after.kind) {
        (EntryKind::File { size, content }, EntryKind::File { size: new_size, .. })
            if size == new_size && before.meta.mode == after.meta.mode =>
        {
            Some((*size, *content))
        }
        _ => None,
    }
}
