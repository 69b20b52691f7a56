//! The conflicts that a merge left open in a vault, and their resolution.
//!
//! They are a separate tree, whose snapshot the state of a vault names beside its own: a directory for each,
//! with the entries `base`, `ours` and `theirs` as far as they exist, and a file `about`. So they are kept,
//! checked, forked, restored and exported like every other tree.

use avfs_core::merge::{MergeConflict, MergeConflictKind};
use avfs_core::{Entry, EntryName, Meta, NodeId, Root, SnapshotId, Totals, TreePath};
use avfs_tree::{BaseTree, ReadError, TreeReader};
use serde::{Deserialize, Serialize};

use crate::control::Bytes;
use crate::error::{Error, Result, StorageError};
use crate::logged_action::LoggedAction;
use crate::open::OpenVault;
use crate::vault::Vault;

/// What the directory is called where both sides are named: conflicts of a sync are from it.
pub(crate) const DIRECTORY: &str = "directory";

/// One conflict that is open in a vault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenConflict {
    /// The conflict itself.
    pub conflict: MergeConflict,
    /// The name of the merged vault at that time.
    pub from: String,
    pub(crate) links: SideLinks,
}

/// The tables of linked files of the trees that the sides of a conflict are in: a directory among them needs its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideLinks {
    pub base: Option<NodeId>,
    pub ours: Option<NodeId>,
    pub theirs: Option<NodeId>,
}

impl OpenConflict {
    /// Whether a task met it in a sync: the other side is the directory of its project.
    pub fn is_with_directory(&self) -> bool {
        self.from == DIRECTORY
    }

    fn sides(&self) -> [(&'static str, Option<&Entry>, Option<NodeId>); 3] {
        let (conflict, links) = (&self.conflict, &self.links);
        [
            ("base", conflict.base.as_ref(), links.base),
            ("ours", conflict.ours.as_ref(), links.ours),
            ("theirs", conflict.theirs.as_ref(), links.theirs),
        ]
    }
}

/// The contents of the file `about`.
#[derive(Serialize, Deserialize)]
struct ConflictFile {
    path: Bytes,
    kind: String,
    from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    their_path: Option<Bytes>,
}

/// Merges other vaults into a vault, and resolves the conflicts.
#[derive(Clone, Copy)]
pub struct VaultMerges<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultMerges<'_> {
    /// The conflicts that are open in the present state, by path.
    pub fn conflicts(&self) -> Result<Vec<OpenConflict>> {
        self.vault.check_unrestricted("its conflicts")?;
        self.vault.head()?;
        Ok(OpenConflicts::read(self.vault, self.vault.record()?.0.head.conflicts)?.list)
    }
}

impl VaultMerges<'_> {
    /// The paths of open conflicts that have not been edited: in a text, the markers are still there. They
    /// must not leave the vault.
    pub(crate) fn unsettled(&self) -> Result<Vec<TreePath>> {
        // Most vaults have no conflicts, and their present state need not be determined.
        if self.vault.record()?.0.head.conflicts.is_none() {
            return Ok(Vec::new());
        }
        let open = self.conflicts()?;
        let present = self.vault.reader()?;
        let is_unsettled = |conflict: &MergeConflict| match conflict.kind {
            MergeConflictKind::Text => present
                .read(&conflict.path)
                .map_or(true, |text| has_markers(&text)),
            _ => true,
        };
        let paths = open.into_iter().map(|open| open.conflict).filter(is_unsettled);
        Ok(paths.map(|conflict| conflict.path).collect())
    }
}

/// Whether a text has markers as a merge leaves them.
fn has_markers(text: &[u8]) -> bool {
    let is_marker = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    text.split(|byte| *byte == b'\n').any(is_marker)
}

/// All the conflicts of a state.
#[derive(Default)]
pub(crate) struct OpenConflicts {
    /// By path.
    pub list: Vec<OpenConflict>,
}

impl OpenConflicts {
    pub(crate) fn read(vault: &Vault, stored: Option<SnapshotId>) -> Result<OpenConflicts> {
        let Some(id) = stored else {
            return Ok(OpenConflicts::default());
        };
        let reader = TreeReader::new(vault.store().objects().clone(), vault.snapshot(id)?.root);
        let failed = |error: ReadError| vault.history().read_error(error);
        let mut list = Vec::new();
        for listed in reader.list(&TreePath::root()).map_err(failed)? {
            let (name, _) = listed.map_err(failed)?;
            list.push(read_one(vault, &reader, &TreePath::root().join(&name))?);
        }
        Ok(OpenConflicts { list })
    }

    /// Puts new conflicts in the place of those of the same paths.
    pub(crate) fn add(&mut self, new: Vec<OpenConflict>) {
        self.list
            .retain(|old| new.iter().all(|new| new.conflict.path != old.conflict.path));
        self.list.extend(new);
        self.list.sort_by(|a, b| a.conflict.path.cmp(&b.conflict.path));
    }

    /// Stores them as a tree; `None` if there are none.
    pub(crate) fn store(&self, vault: &Vault, logged: &LoggedAction<'_>) -> Result<Option<SnapshotId>> {
        if self.list.is_empty() {
            return Ok(None);
        }
        let directory = Entry::empty_directory(Meta {
            mode: 0o755,
            ..Meta::default()
        });
        let root = Root {
            directory,
            links: None,
            totals: Totals::default(),
        };
        let mut record = vault.record()?.0;
        (record.max_bytes, record.max_files) = (None, None);
        let tree = OpenVault::scratch_at(vault.clone(), record, BaseTree { root, inodes: None })?;
        for (number, conflict) in self.list.iter().enumerate() {
            write_one(
                &tree,
                &TreePath::root().join(&name(&format!("{number:06}"))),
                conflict,
            )?;
        }
        let root = tree.tree().freeze()?.base().root.clone();
        vault.store().put_snapshot(root, Vec::new(), logged).map(Some)
    }
}

fn name(text: &str) -> EntryName {
    EntryName::new(text.as_bytes()).expect("a plain word is a name")
}

fn write_one(tree: &OpenVault, place: &TreePath, open: &OpenConflict) -> Result<()> {
    tree.make_directory(place, false)?;
    for (side, entry, links) in open.sides() {
        if let Some(entry) = entry {
            tree.graft_from(&place.join(&name(side)), entry, links)?;
        }
    }
    let about = ConflictFile {
        path: Bytes::of_path(&open.conflict.path),
        kind: open.conflict.kind.name().to_owned(),
        from: open.from.clone(),
        their_path: open.conflict.their_path.as_ref().map(Bytes::of_path),
    };
    tree.write_bytes(&place.join(&name("about")), &crate::record::encode(&about))
}

fn read_one(vault: &Vault, reader: &TreeReader, place: &TreePath) -> Result<OpenConflict> {
    let failed = |error: ReadError| vault.history().read_error(error);
    let damaged = || {
        Error::Storage(StorageError::DamagedRecord {
            key: format!("conflict {place}"),
            reason: "not one of ours".into(),
        })
    };
    let about = reader.read(&place.join(&name("about"))).map_err(failed)?;
    let about: ConflictFile = serde_json::from_slice(&about).map_err(|_| damaged())?;
    let side = |side: &str| match reader.find(&place.join(&name(side))) {
        Ok(found) => Ok(Some(found.entry)),
        Err(ReadError::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed(error)),
    };
    let conflict = MergeConflict {
        path: about.path.to_path().ok_or_else(damaged)?,
        kind: MergeConflictKind::from_name(&about.kind).ok_or_else(damaged)?,
        base: side("base")?,
        ours: side("ours")?,
        theirs: side("theirs")?,
        their_path: about.their_path.and_then(|path| path.to_path()),
    };
    let links = reader.root().links;
    Ok(OpenConflict {
        conflict,
        from: about.from,
        links: SideLinks {
            base: links,
            ours: links,
            theirs: links,
        },
    })
}
