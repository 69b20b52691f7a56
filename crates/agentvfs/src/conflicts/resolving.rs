//! Saying what is right where a merge could not.

use avfs_core::merge::{Conflict, ConflictKind, Step};
use avfs_core::{Entry, EntryKind, NodeId, TreePath};

use super::{OpenConflicts, SideLinks};
use crate::deed::Landing;
use crate::error::{Error, Result};
use crate::merge::Doing;
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::vault::Vault;

/// What becomes of a path that is in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    Ours,
    Theirs,
    Base,
    /// These contents.
    Bytes(Vec<u8>),
    /// What the vault holds now.
    AsIs,
}

impl Resolution {
    fn name(&self) -> &'static str {
        match self {
            Resolution::Ours => "ours",
            Resolution::Theirs => "theirs",
            Resolution::Base => "base",
            Resolution::Bytes(_) => "contents",
            Resolution::AsIs => "as is",
        }
    }
}

impl Vault {
    /// Resolves the conflict at a path. Path and conflict change together.
    pub fn resolve(&self, path: &TreePath, resolution: &Resolution) -> Result<Saved> {
        self.check_unrestricted("resolving a conflict")?;
        self.attempt(|open| {
            let _holding = open.hold_objects()?;
            self.resolve_in(open, path, resolution)
        })
    }

    fn resolve_in(&self, open: &OpenVault, path: &TreePath, resolution: &Resolution) -> Result<Saved> {
        let record = open.record().clone();
        let mut conflicts = OpenConflicts::read(self, record.head.conflicts)?;
        let Some(at) = conflicts.list.iter().position(|open| open.conflict.path == *path) else {
            return Err(Error::NoConflict { vault: record.name.to_string(), path: path.clone() });
        };
        let resolved = conflicts.list.remove(at);
        let (head, parents) = (record.head, vec![record.head.snapshot]);
        let tree = OpenVault::scratch(self.clone(), record)?;
        Resolving { tree: &tree, conflict: &resolved.conflict, links: resolved.links }.run(resolution)?;
        let state = tree.tree().freeze()?.base().clone();
        let detail = format!("{path} {}", resolution.name());
        let deed = self.deed("resolve", &detail, None);
        let conflicts = conflicts.store(self, &deed)?;
        let snapshot = self.store().put_snapshot(state.root, parents, &deed)?;
        open.advance(Head { snapshot, inodes: state.inodes, conflicts, ..head }, &deed, Landing::InPlace)
    }
}

struct Resolving<'a> {
    tree: &'a OpenVault,
    conflict: &'a Conflict,
    links: SideLinks,
}

impl Resolving<'_> {
    fn run(&self, resolution: &Resolution) -> Result<()> {
        match resolution {
            Resolution::AsIs => Ok(()),
            Resolution::Ours if self.conflict.kind == ConflictKind::Moved => Ok(()),
            Resolution::Theirs if self.conflict.kind == ConflictKind::Moved => self.move_to_theirs(),
            Resolution::Ours => self.make(self.conflict.ours.as_ref(), self.links.ours),
            Resolution::Theirs => self.make(self.conflict.theirs.as_ref(), self.links.theirs),
            Resolution::Base => self.make(self.conflict.base.as_ref(), self.links.base),
            Resolution::Bytes(bytes) => self.write(bytes),
        }
    }

    /// What is in it was merged already; only its name is in question.
    fn move_to_theirs(&self) -> Result<()> {
        let Some(to) = &self.conflict.their_path else { return Ok(()) };
        if let Some((parent, _)) = to.split_last() {
            self.tree.make_directory(&parent, true)?;
        }
        let (from, to) = (self.tree.place(&self.conflict.path)?, self.tree.place(to)?);
        let moved = self.tree.tree().rename_no_replace(from, to);
        moved.map_err(|error| self.tree.fail(&self.conflict.path, error))
    }

    fn make(&self, entry: Option<&Entry>, links: Option<NodeId>) -> Result<()> {
        let path = &self.conflict.path;
        let (Some(entry), Some((parent, _))) = (entry, path.split_last()) else {
            return if self.tree.exists(path)? { self.tree.remove(path, true) } else { Ok(()) };
        };
        self.tree.make_directory(&parent, true)?;
        if entry.is_directory() {
            if self.tree.exists(path)? {
                self.tree.remove(path, true)?;
            }
            return self.tree.graft_from(path, entry, links);
        }
        let root = self.tree.vault().base_of(&self.tree.record().head)?.root;
        let step = Step::Put { path: path.clone(), entry: entry.clone() };
        Doing::new(self.tree, &root, &root)?.run(&[step])
    }

    /// A file that is not there gets the attributes that a side had.
    fn write(&self, bytes: &[u8]) -> Result<()> {
        let Conflict { path, ours, theirs, base, .. } = self.conflict;
        let is_file = |entry: &&Entry| matches!(entry.kind, EntryKind::File { .. });
        let like = [ours, theirs, base].into_iter().flatten().find(is_file);
        if let Some(entry) = like
            && !self.tree.is_same_kind(path, entry)?
        {
            self.make(Some(entry), None)?;
        }
        self.tree.write_bytes(path, bytes)
    }
}
