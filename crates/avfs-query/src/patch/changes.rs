//! From changed entries to changed files: the kind of each change, and which are only renames.

use std::collections::HashMap;

use avfs_core::diff::TreeChange;
use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind, EntryName, TreePath};
use avfs_tree::VisibleChange;

/// An entry at its place in one of the trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSide {
    /// Its path on this side.
    pub path: TreePath,
    /// The entry.
    pub entry: Entry,
    /// Below [`Level::Read`], its contents are not shown.
    pub level: Level,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// What happened to it.
    pub status: ChangeStatus,
    /// The file before; `None` if it was added.
    pub old: Option<ChangeSide>,
    /// The file after; `None` if it was removed.
    pub new: Option<ChangeSide>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeStatus {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Other contents.
    Modified,
    /// The same contents under another path.
    Renamed,
    /// Another kind of entry.
    TypeChanged,
    /// Other permissions, owner or extended attributes. Times alone are not a change.
    Attributes,
}

impl ChangeStatus {
    /// The letter in a `--name-status` listing: git's, and `m` for attributes alone.
    pub fn letter(self) -> char {
        match self {
            ChangeStatus::Added => 'A',
            ChangeStatus::Removed => 'D',
            ChangeStatus::Modified => 'M',
            ChangeStatus::Renamed => 'R',
            ChangeStatus::TypeChanged => 'T',
            ChangeStatus::Attributes => 'm',
        }
    }
}

impl FileChange {
    /// The path that it has now, or had last.
    pub fn path(&self) -> &TreePath {
        let side = self.new.as_ref().or(self.old.as_ref());
        &side.expect("a change has at least one side").path
    }

    fn added(new: ChangeSide) -> FileChange {
        FileChange {
            status: ChangeStatus::Added,
            old: None,
            new: Some(new),
        }
    }

    fn removed(old: ChangeSide) -> FileChange {
        FileChange {
            status: ChangeStatus::Removed,
            old: Some(old),
            new: None,
        }
    }

    /// The steps as git knows them: a change of kind is a removal and an addition.
    pub(super) fn steps(&self) -> Vec<FileChange> {
        match (self.status, &self.old, &self.new) {
            (ChangeStatus::TypeChanged, Some(old), Some(new)) => {
                vec![FileChange::removed(old.clone()), FileChange::added(new.clone())]
            }
            _ => vec![self.clone()],
        }
    }
}

/// The changed files in the order of their paths (a renamed one at its new path). Directories are listed only
/// if their files do not imply them: empty ones that were added or removed, and changed attributes.
pub fn file_changes(changes: impl IntoIterator<Item = impl Into<VisibleChange>>) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = changes
        .into_iter()
        .filter_map(|change| classify(change.into()))
        .collect();
    join_renames(&mut files);
    files.sort_by(|a, b| by_component(a.path()).cmp(by_component(b.path())));
    files
}

/// Bytes that sort as a walk does: a `/` before everything that a name can hold.
fn by_component(path: &TreePath) -> impl Iterator<Item = u8> + '_ {
    path.as_bytes()
        .iter()
        .map(|byte| if *byte == b'/' { 0 } else { *byte })
}

fn classify(seen: VisibleChange) -> Option<FileChange> {
    let VisibleChange {
        change: TreeChange { path, before, after },
        changes_content,
        ..
    } = seen;
    let side = |entry: Entry, level: Level| ChangeSide {
        path: path.clone(),
        entry,
        level,
    };
    match (before, after) {
        (None, None) => None,
        (None, Some(after)) => {
            speaks_for_itself(&after).then(|| FileChange::added(side(after, seen.after_level)))
        }
        (Some(before), None) => {
            speaks_for_itself(&before).then(|| FileChange::removed(side(before, seen.before_level)))
        }
        (Some(before), Some(after)) => {
            let status = compare(&before, &after, changes_content)?;
            let (old, new) = (side(before, seen.before_level), side(after, seen.after_level));
            Some(FileChange {
                status,
                old: Some(old),
                new: Some(new),
            })
        }
    }
}

fn speaks_for_itself(entry: &Entry) -> bool {
    !matches!(entry.kind, EntryKind::Directory { entries: Some(_), .. })
}

/// `None` if the difference is of no interest here.
fn compare(before: &Entry, after: &Entry, changes_content: bool) -> Option<ChangeStatus> {
    if std::mem::discriminant(&before.kind) != std::mem::discriminant(&after.kind) {
        return Some(ChangeStatus::TypeChanged);
    }
    if changes_content && !before.is_directory() {
        return Some(ChangeStatus::Modified);
    }
    let (old, new) = (&before.meta, &after.meta);
    let same = (old.mode, old.uid, old.gid, &old.xattrs, &old.labels)
        == (new.mode, new.uid, new.gid, &new.xattrs, &new.labels);
    (!same).then_some(ChangeStatus::Attributes)
}

/// Makes one change of a removed and an added file with the same contents. Among several the one that
/// kept its name is taken, then the first.
fn join_renames(files: &mut Vec<FileChange>) {
    let mut gone: HashMap<Content, Vec<usize>> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        if let (ChangeStatus::Removed, Some(content)) = (file.status, content_of(file.old.as_ref())) {
            gone.entry(content).or_default().push(index);
        }
    }
    let mut joined = vec![false; files.len()];
    for keep_name in [true, false] {
        for index in 0..files.len() {
            let (ChangeStatus::Added, Some(content)) =
                (files[index].status, content_of(files[index].new.as_ref()))
            else {
                continue;
            };
            let Some(candidates) = gone.get_mut(&content) else {
                continue;
            };
            let name = file_name(&files[index]);
            let position = if keep_name {
                candidates.iter().position(|old| file_name(&files[*old]) == name)
            } else {
                (!candidates.is_empty()).then_some(0)
            };
            let Some(old) = position.map(|position| candidates.remove(position)) else {
                continue;
            };
            joined[old] = true;
            files[index].status = ChangeStatus::Renamed;
            files[index].old = files[old].old.take();
        }
    }
    let mut joined = joined.into_iter();
    files.retain(|_| !joined.next().unwrap_or(false));
}

fn file_name(file: &FileChange) -> Option<EntryName> {
    file.path().name()
}

/// The contents of a file that has any: empty files are all alike, but none is another one renamed.
fn content_of(side: Option<&ChangeSide>) -> Option<Content> {
    match side?.entry.kind {
        EntryKind::File {
            content: Content::Empty,
            ..
        } => None,
        EntryKind::File { content, .. } => Some(content),
        _ => None,
    }
}
