//! Resolves conflicts that a merge left open.

use avfs_core::merge::{
    ConflictPolicy, EntryMerger, MarkerStyle, MergeConflict, MergeConflictKind, MergeStep, SideNames,
};
use avfs_core::{Entry, EntryKind, NodeId, TreePath};
use avfs_tree::content::read_all;
use avfs_tree::{ReadError, TreeReader};

use super::{Doing, Texts};
use crate::conflicts::VaultMerges;
use crate::conflicts::{OpenConflicts, SideLinks};
use crate::error::{Error, MergeError, Result};
use crate::logged_action::TreeUpdate;
use crate::open::{OpenVault, Saved};
use crate::record::Head;

/// The resolution of a path in conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Our version; for a text, only in the lines that both changed.
    Ours,
    /// Their version; for a text, only in the lines that both changed.
    Theirs,
    /// The complete base version.
    Base,
    /// These contents.
    Bytes(Vec<u8>),
    /// The current version of the vault.
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

impl VaultMerges<'_> {
    /// Resolves the conflict at a path. Path and conflict change together.
    pub fn resolve(&self, path: &TreePath, resolution: &Resolution) -> Result<Saved> {
        self.vault.check_unrestricted("resolving a conflict")?;
        self.vault.attempt(|open| {
            let _holding = open.hold_objects()?;
            self.resolve_in(open, path, resolution)
        })
    }

    fn resolve_in(&self, open: &OpenVault, path: &TreePath, resolution: &Resolution) -> Result<Saved> {
        let record = open.record().clone();
        let mut conflicts = OpenConflicts::read(self.vault, record.head.conflicts)?;
        let Some(at) = conflicts.list.iter().position(|open| open.conflict.path == *path) else {
            return Err(Error::Merge(MergeError::NoConflict {
                vault: record.name.to_string(),
                path: path.clone(),
            }));
        };
        let resolved = conflicts.list.remove(at);
        let (head, parents) = (record.head, vec![record.head.snapshot]);
        // On a copy: the state and the list of what is open become one change, or none.
        let tree = OpenVault::scratch(self.vault.clone(), record)?;
        Resolving {
            tree: &tree,
            conflict: &resolved.conflict,
            from: &resolved.from,
            links: resolved.links,
        }
        .run(resolution)?;
        let state = tree.tree().freeze()?.base().clone();
        let detail = format!("{path} {}", resolution.name());
        let logged = self.vault.logged("resolve", &detail, None);
        let conflicts = conflicts.store(self.vault, &logged)?;
        let snapshot = self.vault.store().put_snapshot(state.root, parents, &logged)?;
        open.advance(
            Head {
                snapshot,
                inodes: state.inodes,
                conflicts,
                ..head
            },
            &logged,
            TreeUpdate::InPlace,
        )
    }
}

struct Resolving<'a> {
    tree: &'a OpenVault,
    conflict: &'a MergeConflict,
    /// The name of the merged vault at that time.
    from: &'a str,
    links: SideLinks,
}

impl Resolving<'_> {
    fn run(&self, resolution: &Resolution) -> Result<()> {
        match resolution {
            Resolution::AsIs => Ok(()),
            Resolution::Ours if self.conflict.kind == MergeConflictKind::Moved => Ok(()),
            Resolution::Theirs if self.conflict.kind == MergeConflictKind::Moved => self.move_to_theirs(),
            Resolution::Ours if self.conflict.kind == MergeConflictKind::Text => {
                self.settle_lines(ConflictPolicy::Ours)
            }
            Resolution::Theirs if self.conflict.kind == MergeConflictKind::Text => {
                self.settle_lines(ConflictPolicy::Theirs)
            }
            Resolution::Ours => self.make(self.conflict.ours.as_ref(), self.links.ours),
            Resolution::Theirs => self.make(self.conflict.theirs.as_ref(), self.links.theirs),
            Resolution::Base => self.make(self.conflict.base.as_ref(), self.links.base),
            Resolution::Bytes(bytes) => self.write(bytes),
        }
    }

    /// Its contents were merged already; only its name is in question.
    fn move_to_theirs(&self) -> Result<()> {
        let Some(to) = &self.conflict.their_path else {
            return Ok(());
        };
        if let Some((parent, _)) = to.split_last() {
            self.tree.make_directory(&parent, true)?;
        }
        let (from, to) = (self.tree.place(&self.conflict.path)?, self.tree.place(to)?);
        let moved = self.tree.tree().rename_no_replace(from, to);
        moved.map_err(|error| self.tree.fail(&self.conflict.path, error))
    }

    /// Uses one side where both changed the same lines. Other changes of both are merged, and later changes
    /// of the file are kept, as far as they are not in the lines of the conflict.
    fn settle_lines(&self, choice: ConflictPolicy) -> Result<()> {
        let MergeConflict {
            base, ours, theirs, ..
        } = self.conflict;
        let [base, ours, theirs] = [base, ours, theirs].map(Option::as_ref);
        let settled = self.merged(choice, MarkerStyle::default(), [base, ours, theirs])?;
        let Some(present) = self.present()? else {
            return self.make(settled.as_ref(), None);
        };
        let style = if self.shows_base(&present)? {
            MarkerStyle::Diff3
        } else {
            MarkerStyle::Merge
        };
        let marked = self.merged(ConflictPolicy::Mark, style, [base, ours, theirs])?;
        let sides = [marked.as_ref(), Some(&present), settled.as_ref()];
        let resolved = self.merged(ConflictPolicy::Theirs, MarkerStyle::default(), sides)?;
        self.make(resolved.as_ref(), None)
    }

    /// Three states of the file, merged.
    fn merged(
        &self,
        choice: ConflictPolicy,
        style: MarkerStyle,
        [base, ours, theirs]: [Option<&Entry>; 3],
    ) -> Result<Option<Entry>> {
        let vault = self.tree.vault();
        let names = SideNames {
            ours: vault.name()?.to_string(),
            theirs: self.from.to_owned(),
            base: "base".into(),
            style,
        };
        let mut texts = Texts::new(vault.store().objects(), true);
        let mut merger = EntryMerger {
            contents: &mut texts,
            names: &names,
            choice,
        };
        let merged = merger.merged(base, ours, theirs)?;
        texts.flush()?;
        Ok(merged)
    }

    /// The current file of the vault; `None` if it does not exist.
    fn present(&self) -> Result<Option<Entry>> {
        let state = self.tree.vault().base_of(&self.tree.record().head)?;
        let reader = TreeReader::new(self.tree.vault().store().objects().clone(), state.root);
        match reader.find(&self.conflict.path) {
            Ok(found) => Ok(Some(found.entry).filter(|entry| matches!(entry.kind, EntryKind::File { .. }))),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(None),
            Err(error) => Err(self.tree.vault().history().read_error(error)),
        }
    }

    /// Whether the conflict is marked with the base version, which is not stored anywhere else.
    fn shows_base(&self, present: &Entry) -> Result<bool> {
        let EntryKind::File { size, content } = present.kind else {
            return Ok(false);
        };
        let text = read_all(self.tree.vault().store().objects(), content, size)?;
        Ok(text
            .split(|byte| *byte == b'\n')
            .any(|line| line.starts_with(b"||||||| ")))
    }

    fn make(&self, entry: Option<&Entry>, links: Option<NodeId>) -> Result<()> {
        let path = &self.conflict.path;
        let (Some(entry), Some((parent, _))) = (entry, path.split_last()) else {
            return if self.tree.exists(path)? {
                self.tree.remove(path, true)
            } else {
                Ok(())
            };
        };
        self.tree.make_directory(&parent, true)?;
        if entry.is_directory() {
            if self.tree.exists(path)? {
                self.tree.remove(path, true)?;
            }
            return self.tree.graft_from(path, entry, links);
        }
        let root = self.tree.vault().base_of(&self.tree.record().head)?.root;
        let step = MergeStep::Put {
            path: path.clone(),
            entry: entry.clone(),
        };
        Doing::new(self.tree, &root, &root)?.run(&[step])
    }

    /// A file that is not there gets the attributes that a side had.
    fn write(&self, bytes: &[u8]) -> Result<()> {
        let MergeConflict {
            path,
            ours,
            theirs,
            base,
            ..
        } = self.conflict;
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
