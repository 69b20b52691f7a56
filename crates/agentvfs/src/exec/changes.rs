//! What a run has changed, from the tree itself.

use avfs_core::rules::{Level, Rules};
use avfs_core::{Entry, SnapshotId, TreePath};
use avfs_tree::SeenChange;
use serde::Serialize;

use crate::error::Result;
use crate::patch::{FileChange, Side, Status, file_changes};
use crate::text::Text;
use crate::vault::Vault;

/// One file or directory that is not as it was before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    #[serde(flatten)]
    pub path: PathText,
    pub kind: ChangeKind,
    /// Where it was before, if it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_bytes_hex: Option<String>,
    pub size_before: Option<u64>,
    pub size_after: Option<u64>,
}

/// A path from the root of the vault; with its bytes, if they are no text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathText {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes_hex: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
    Renamed,
    /// Other permissions, owner, attributes or labels, and the same contents.
    Metadata,
}

impl From<Status> for ChangeKind {
    fn from(status: Status) -> ChangeKind {
        match status {
            Status::Added => ChangeKind::Added,
            Status::Removed => ChangeKind::Deleted,
            Status::Modified | Status::TypeChanged => ChangeKind::Modified,
            Status::Renamed => ChangeKind::Renamed,
            Status::Attributes => ChangeKind::Metadata,
        }
    }
}

/// Everything that differs between two states, as far as somebody with these rules could see it.
pub(crate) fn changed_files(
    vault: &Vault,
    before: SnapshotId,
    after: SnapshotId,
    rules: Option<&Rules>,
) -> Result<Vec<ChangedFile>> {
    if before == after {
        return Ok(Vec::new());
    }
    let (before, after) = (vault.snapshot(before)?.root, vault.snapshot(after)?.root);
    let changes = vault.changed_paths(&before, &after)?;
    let objects = vault.store().objects();
    let seen = changes.into_iter().filter(|change| rules.is_none_or(|rules| sees(rules, &change.path)));
    let seen = seen.map(|change| SeenChange::whole(objects, change)).collect::<Result<Vec<_>, _>>()?;
    Ok(file_changes(seen).into_iter().map(ChangedFile::from).collect())
}

/// By its path alone: what a run was shown by labels is in what it changed.
pub(super) fn sees(rules: &Rules, path: &TreePath) -> bool {
    let root = rules.root(&avfs_core::Labels::default());
    let at = path
        .components()
        .fold(root, |at, name| rules.child(&at, name.as_bytes(), &avfs_core::Labels::default()));
    at.level() > Level::None || rules.is_passable(&at)
}

impl From<FileChange> for ChangedFile {
    fn from(change: FileChange) -> ChangedFile {
        let path = path_text(change.path());
        let size = |side: &Option<Side>| side.as_ref().map(|side| Entry::size(&side.entry));
        let from = match change.status {
            Status::Renamed => change.old.as_ref().map(|old| path_text(&old.path)),
            _ => None,
        };
        let (from, from_bytes_hex) = from.map_or((None, None), |from| (Some(from.path), from.path_bytes_hex));
        ChangedFile {
            path,
            kind: change.status.into(),
            from,
            from_bytes_hex,
            size_before: size(&change.old),
            size_after: size(&change.new),
        }
    }
}

fn path_text(path: &TreePath) -> PathText {
    let Text { text, hex } = Text::of(&[b"/", path.as_bytes()].concat());
    PathText { path: text, path_bytes_hex: hex }
}
