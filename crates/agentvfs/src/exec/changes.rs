//! The changes of a run, from the tree itself.

use avfs_core::rules::{Level, Rules};
use avfs_core::{Entry, SnapshotId, TreePath};
use avfs_tree::{VisibleChange, settle_rewritten};
use serde::Serialize;

use crate::error::Result;
use crate::text::Text;
use crate::vault::Vault;
use avfs_query::patch::{ChangeSide, ChangeStatus, FileChange, file_changes};

/// One file or directory that differs from the state before the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// The path.
    #[serde(flatten)]
    pub path: PathText,
    /// What happened to it.
    pub kind: ChangeKind,
    /// Where it was before, if it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its old path in hexadecimal, if that is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_bytes_hex: Option<String>,
    /// Its size before; `None` if it did not exist.
    pub size_before: Option<u64>,
    /// Its size after; `None` if it does not exist.
    pub size_after: Option<u64>,
}

/// A path from the root of the vault; with its bytes, if they are not text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathText {
    /// The path as text; bytes that are not text are escaped.
    pub path: String,
    /// Its bytes in hexadecimal, if they are not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_bytes_hex: Option<String>,
}

/// What happened to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It has other contents or attributes.
    Modified,
    /// It is gone.
    Deleted,
    /// It was at another path.
    Renamed,
    /// Other permissions, owner, attributes or labels, and the same contents.
    Metadata,
}

impl From<ChangeStatus> for ChangeKind {
    fn from(status: ChangeStatus) -> ChangeKind {
        match status {
            ChangeStatus::Added => ChangeKind::Added,
            ChangeStatus::Removed => ChangeKind::Deleted,
            ChangeStatus::Modified | ChangeStatus::TypeChanged => ChangeKind::Modified,
            ChangeStatus::Renamed => ChangeKind::Renamed,
            ChangeStatus::Attributes => ChangeKind::Metadata,
        }
    }
}

/// The differences between two states, as far as these rules show them.
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
    let changes = vault.history().changed_paths_folded(&before, &after)?;
    let objects = vault.store().objects();
    let seen = changes
        .into_iter()
        .filter(|change| rules.is_none_or(|rules| sees(rules, &change.path)));
    let mut seen = seen
        .map(|change| VisibleChange::whole(objects, change))
        .collect::<Result<Vec<_>, _>>()?;
    settle_rewritten(objects, &mut seen)?;
    Ok(file_changes(seen).into_iter().map(ChangedFile::from).collect())
}

/// By its path alone: files that labels showed to the run count among its changes.
pub(super) fn sees(rules: &Rules, path: &TreePath) -> bool {
    let root = rules.root(&avfs_core::Labels::default());
    let at = path.components().fold(root, |at, name| {
        rules.child(&at, name.as_bytes(), &avfs_core::Labels::default())
    });
    at.level() > Level::None || rules.is_passable(&at)
}

impl From<FileChange> for ChangedFile {
    fn from(change: FileChange) -> ChangedFile {
        let path = path_text(change.path());
        let size = |side: &Option<ChangeSide>| side.as_ref().map(|side| Entry::size(&side.entry));
        let from = match change.status {
            ChangeStatus::Renamed => change.old.as_ref().map(|old| path_text(&old.path)),
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
    PathText {
        path: text,
        path_bytes_hex: hex,
    }
}
