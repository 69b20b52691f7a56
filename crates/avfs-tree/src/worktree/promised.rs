//! Promised entries in a working tree: their sources are read without the lock of the tree, and they become
//! part of the tree when something about them changes.

use std::sync::Arc;

use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind, NodeId, ObjectId, Promise, PromiseId, Timestamp, TreePath};

use super::WorkTree;
use super::guard::GuardedRequest;
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{EntryPlace, JournalOp};
use crate::promises::KeptPromise;
use crate::worktree::inode::InodeBody;
use crate::worktree::state::TreeState;
use crate::worktree::watch::Invalidation;

/// A promise in place of the contents of an inode.
struct OwedContent {
    id: PromiseId,
    promise: Arc<Promise>,
}

/// Promises of sources, as used by a door.
pub(super) struct Promised<'a> {
    pub tree: &'a WorkTree,
}

impl<'a> Promised<'a> {
    /// Whether anything in the tree can be a promise of a source.
    pub(super) fn may_promise(&self) -> bool {
        self.tree.shared.objects.may_promise()
    }

    /// Resolves an inode whose contents are promised: the entries of a directory, the bytes of a file. The
    /// tree remains usable while the source is read. A file that the source has changed since takes its new
    /// version, and one that is gone from the source is removed here.
    pub(super) fn fulfil_owed(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.tree.state_with(ino)?;
        let ask = if state.inode(ino)?.is_directory() {
            GuardedRequest::See(ino)
        } else {
            GuardedRequest::Use(ino, Level::Read)
        };
        self.tree.ask(&mut state, ask)?;
        if !state.objects.may_promise() {
            return Ok(());
        }
        let Some(owed) = owed(&state, ino)? else {
            return Ok(());
        };
        // The source may be slow, so nobody waits for it with the lock of the tree held.
        let objects = state.objects.clone();
        drop(state);
        match &*objects.keep(owed.id, &owed.promise)? {
            KeptPromise::Directory(_) | KeptPromise::File(_) => Ok(()),
            KeptPromise::Moved { entry, ctime } => {
                let mut state = self.state_owing(ino, owed.id)?;
                // Another thread may have been faster, or a program has written to it meanwhile.
                match state.as_mut() {
                    Some(state) => self.take_version(state, ino, entry, *ctime),
                    None => Ok(()),
                }
            }
            KeptPromise::Gone => {
                let mut state = self.state_owing(ino, owed.id)?;
                if let Some(state) = state.as_mut()
                    && let Some(at) = state.inode(ino)?.place.clone()
                {
                    state.watchers.tell(
                        None,
                        Invalidation::Name {
                            parent: at.parent,
                            name: at.name.clone(),
                        },
                    );
                    self.tree.perform(state, JournalOp::Gone { at }, &[])?;
                }
                Err(FsError::NotFound)
            }
        }
    }

    /// Replaces a promised file with the version that the source has by now, if the tree has that promise at
    /// `path`.
    pub(super) fn take_moved(&self, path: &TreePath, id: PromiseId) -> Result<(), FsError> {
        let owing = self.find_owing(path, id)?;
        match owing.map(|ino| self.fulfil_owed(ino)).transpose() {
            // That the entry is gone is an answer here, and not a failure.
            Ok(_) | Err(FsError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the tree has this promise at `path`.
    pub(super) fn owes(&self, path: &TreePath, id: PromiseId) -> Result<bool, FsError> {
        Ok(self.find_owing(path, id)?.is_some())
    }

    /// The inode at `path`, if its contents are this promise. Directories that have not been read stay so.
    fn find_owing(&self, path: &TreePath, id: PromiseId) -> Result<Option<Ino>, FsError> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            let mut state = self.tree.state();
            // Looking for a promise must not fulfil the ones above it.
            if !is_looked_at(&state, ino)? || !state.inode(ino)?.is_directory() {
                return Ok(None);
            }
            match state.lookup(&EntryPlace::new(ino, name))? {
                Some(found) => ino = found,
                None => return Ok(None),
            }
        }
        let is_meant = owed(&self.tree.state(), ino)?.is_some_and(|owed| owed.id == id);
        Ok(is_meant.then_some(ino))
    }

    /// As [`Promised::fulfil_owed`], for callers that check the rules with their own request to the inode.
    pub(super) fn fulfil_if_owed(&self, ino: Ino) -> Result<(), FsError> {
        if self.tree.shared.objects.may_promise() {
            self.fulfil_owed(ino)
        } else {
            Ok(())
        }
    }

    /// Resolves a promised file that is about to be replaced or to get another name. A merge needs the
    /// replaced contents, and a promise is tied to one path: at another path, a later version of the file
    /// could not be found. If it cannot be resolved, it is replaced or moved nevertheless.
    pub(super) fn fulfil_at(&self, place: &EntryPlace) -> Result<(), FsError> {
        if !self.tree.shared.objects.may_promise() {
            return Ok(());
        }
        let mut state = self.tree.state();
        let Some(ino) = state.lookup(place)? else {
            return Ok(());
        };
        if state.inode(ino)?.is_directory() {
            return Ok(());
        }
        drop(state);
        match self.fulfil_owed(ino) {
            // Only that the door must not wait matters; what else failed will fail again when the file is
            // used.
            Err(error) if error.wanted().is_some() => Err(error),
            _ => Ok(()),
        }
    }

    /// The tree, if this inode is still promised.
    fn state_owing(
        &self,
        ino: Ino,
        id: PromiseId,
    ) -> Result<Option<std::sync::MutexGuard<'a, TreeState>>, FsError> {
        let mut state = self.tree.state();
        state.revive(ino)?;
        let is_same = owed(&state, ino)?.is_some_and(|owed| owed.id == id);
        Ok(is_same.then_some(state))
    }

    /// The current version of the source takes the place of the promised one.
    fn take_version(
        &self,
        state: &mut TreeState,
        ino: Ino,
        entry: &Entry,
        ctime: Timestamp,
    ) -> Result<(), FsError> {
        let mut entry = entry.clone();
        // Labels belong to the vault; the source knows none.
        entry.meta.labels = state.inode(ino)?.meta.labels.clone();
        if matches!(entry.kind, EntryKind::File { .. }) {
            self.tell_all(state, ino);
            return self
                .tree
                .perform(state, JournalOp::Fulfil { ino, entry, ctime }, &[]);
        }
        // An entry of another kind is another inode.
        let Some(at) = state.inode(ino)?.place.clone() else {
            return Err(FsError::NotFound);
        };
        state.watchers.tell(
            None,
            Invalidation::Name {
                parent: at.parent,
                name: at.name.clone(),
            },
        );
        self.tree
            .perform(state, JournalOp::Gone { at: at.clone() }, &[])?;
        let ino = state.free_number(&at)?;
        self.tree.perform(
            state,
            JournalOp::Arrive {
                at,
                ino,
                entry,
                ctime,
            },
            &[],
        )?;
        Err(FsError::NotFound)
    }

    /// The requesting door has not been notified of it either.
    fn tell_all(&self, state: &TreeState, ino: Ino) {
        state.watchers.tell(None, Invalidation::Attributes(ino));
        state.watchers.tell(
            None,
            Invalidation::Contents {
                ino,
                offset: 0,
                len: 0,
            },
        );
    }

    /// Makes everything that an operation changes part of the tree: the directories on the way, and the bytes
    /// that are overwritten. Once an operation is in the journal, it depends on no source.
    pub(super) fn own(&self, state: &mut TreeState, op: &JournalOp) -> Result<(), FsError> {
        if !state.objects.may_promise() || matches!(op, JournalOp::Unfold { .. }) {
            return Ok(());
        }
        let mut parents = op.parents();
        if let Some(ino) = op.inode() {
            parents.extend(state.inode(ino)?.place.as_ref().map(|place| place.parent));
        }
        for parent in parents {
            // From the top: a directory can only become part of the tree below one that is.
            for directory in promised_above(state, parent)? {
                self.unfold(state, directory)?;
            }
        }
        match op {
            // The old bytes are not needed.
            JournalOp::Resize { ino, size: 0, .. } => self.own_bytes(state, *ino, true),
            JournalOp::Write { ino, .. }
            | JournalOp::Resize { ino, .. }
            | JournalOp::Punch { ino, .. }
            | JournalOp::Link { ino, .. } => self.own_bytes(state, *ino, false),
            _ => Ok(()),
        }
    }

    fn unfold(&self, state: &mut TreeState, directory: Ino) -> Result<(), FsError> {
        let Some(base) = state.directory(directory)?.base else {
            return Ok(());
        };
        match state.objects.keep_listing(base)? {
            Some(kept) => self
                .tree
                .perform(state, JournalOp::Unfold { ino: directory, kept }, &[]),
            None => Ok(()),
        }
    }

    fn own_bytes(&self, state: &mut TreeState, ino: Ino, emptied: bool) -> Result<(), FsError> {
        let Some(owed) = owed(state, ino)? else {
            return Ok(());
        };
        let (size, content) = if emptied {
            (0, Content::Empty)
        } else {
            let content = state.objects.keep_content(owed.id.object(), &owed.promise)?;
            // The size that the promise gave: had the file changed meanwhile, keeping it would have failed.
            (state.inode(ino)?.file_bytes(), content)
        };
        let inode = state.inode(ino)?;
        let kind = EntryKind::File { size, content };
        let entry = Entry {
            meta: inode.meta.clone(),
            kind,
        };
        let ctime = inode.ctime;
        self.tree
            .perform(state, JournalOp::Fulfil { ino, entry, ctime }, &[])
    }
}

/// The promise in place of the contents of an inode.
fn owed(state: &TreeState, ino: Ino) -> Result<Option<OwedContent>, FsError> {
    let Some(id) = contents_id(state, ino)? else {
        return Ok(None);
    };
    let promise = state.objects.promise(id)?;
    Ok(promise.map(|promise| OwedContent {
        id: PromiseId::from_object(id),
        promise,
    }))
}

fn contents_id(state: &TreeState, ino: Ino) -> Result<Option<ObjectId>, FsError> {
    Ok(match &state.inode(ino)?.body {
        InodeBody::Stored {
            content: Content::Blob(id),
            ..
        } => Some(id.object()),
        InodeBody::Stored {
            content: Content::Chunks(id),
            ..
        } => Some(id.object()),
        InodeBody::Directory(directory) if directory.below == Promise::BELOW => {
            directory.base.map(NodeId::object)
        }
        _ => None,
    })
}

/// Whether the contents of an inode are known, and not only promised.
fn is_looked_at(state: &TreeState, ino: Ino) -> Result<bool, FsError> {
    match owed(state, ino)? {
        Some(owed) => Ok(state.objects.kept(owed.id)?.is_some()),
        None => Ok(true),
    }
}

/// A directory and those above it that are promised, topmost first.
fn promised_above(state: &TreeState, directory: Ino) -> Result<Vec<Ino>, FsError> {
    let mut promised = Vec::new();
    let mut current = Some(directory);
    while let Some(ino) = current {
        if owed(state, ino)?.is_some() {
            promised.push(ino);
        }
        current = state.inode(ino)?.place.as_ref().map(|place| place.parent);
    }
    // They were found from the bottom up.
    promised.reverse();
    Ok(promised)
}
