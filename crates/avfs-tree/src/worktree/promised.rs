//! What a source has promised, in a working tree: asked for without the lock, and the tree's own from the moment
//! when something about it changes.

use std::sync::Arc;

use avfs_core::rules::Level;
use avfs_core::{Content, Entry, EntryKind, NodeId, ObjectId, Promise, PromiseId, Timestamp, TreePath};

use super::WorkTree;
use super::guard::Ask;
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::promises::{Kept, KeptDirectory};
use crate::worktree::inode::{Body, Inode};
use crate::worktree::state::State;
use crate::worktree::watch::Seen;

/// A promise that stands for the contents of an inode.
struct Owed {
    id: PromiseId,
    promise: Arc<Promise>,
}

impl WorkTree {
    /// Whether anything in the tree can be a promise of a source.
    pub fn may_promise(&self) -> bool {
        self.shared.objects.may_promise()
    }

    /// Has what is in an inode kept, if a source has promised it: the entries of a directory, the bytes of a file.
    /// The tree goes on while the source is asked. A file that the source has changed since takes its new version
    /// whole, and one that is gone from there is gone here.
    pub fn settle_owed(&self, ino: Ino) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        let ask = match state.inode(ino)?.is_directory() {
            true => Ask::See(ino),
            false => Ask::Use(ino, Level::Read),
        };
        self.ask(&mut state, ask)?;
        if !state.objects.may_promise() {
            return Ok(());
        }
        let Some(owed) = state.owed(ino)? else { return Ok(()) };
        let objects = state.objects.clone();
        drop(state);
        match &*objects.keep(owed.id, &owed.promise)? {
            Kept::Directory(_) | Kept::File(_) => Ok(()),
            Kept::Moved { entry, ctime } => {
                let mut state = self.state_owing(ino, owed.id)?;
                match state.as_mut() {
                    Some(state) => self.take_version(state, ino, entry, *ctime),
                    None => Ok(()),
                }
            }
            Kept::Gone => {
                let mut state = self.state_owing(ino, owed.id)?;
                if let Some(state) = state.as_mut()
                    && let Some(at) = state.inode(ino)?.place.clone()
                {
                    state.tell(None, Seen::Name { parent: at.parent, name: at.name.clone() });
                    self.perform(state, Op::Gone { at }, &[])?;
                }
                Err(FsError::NotFound)
            }
        }
    }

    /// Takes the version of a promised file that took its place, if the tree has that promise at `path`.
    pub fn take_moved(&self, path: &TreePath, id: PromiseId) -> Result<(), FsError> {
        let owing = self.find_owing(path, id)?;
        match owing.map(|ino| self.settle_owed(ino)).transpose() {
            Ok(_) | Err(FsError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether the tree has this promise at `path`.
    pub fn owes(&self, path: &TreePath, id: PromiseId) -> Result<bool, FsError> {
        Ok(self.find_owing(path, id)?.is_some())
    }

    /// The inode at `path`, if what is in it is this promise. Directories that nobody has looked at stay as they are.
    fn find_owing(&self, path: &TreePath, id: PromiseId) -> Result<Option<Ino>, FsError> {
        let mut ino = Ino::ROOT;
        for name in path.components() {
            let mut state = self.state();
            if !state.is_looked_at(ino)? || !state.inode(ino)?.is_directory() {
                return Ok(None);
            }
            match state.lookup(&Place::new(ino, name))? {
                Some(found) => ino = found,
                None => return Ok(None),
            }
        }
        let is_meant = self.state().owed(ino)?.is_some_and(|owed| owed.id == id);
        Ok(is_meant.then_some(ino))
    }

    /// As [`WorkTree::settle_owed`], where whoever uses what is in the inode is asked for that anyway.
    pub(super) fn settle_if_owed(&self, ino: Ino) -> Result<(), FsError> {
        match self.shared.objects.may_promise() {
            true => self.settle_owed(ino),
            false => Ok(()),
        }
    }

    /// Has a promised file kept that is about to be replaced or to get another name. Whoever merges needs to know what was
    /// replaced, and a promise is about one path: at another, nobody would find what took its place. What cannot be had is
    /// replaced or moved nevertheless.
    pub(super) fn settle_at(&self, place: &Place) -> Result<(), FsError> {
        if !self.shared.objects.may_promise() {
            return Ok(());
        }
        let mut state = self.state();
        let Some(ino) = state.lookup(place)? else { return Ok(()) };
        if state.inode(ino)?.is_directory() {
            return Ok(());
        }
        drop(state);
        match self.settle_owed(ino) {
            Err(error) if error.wanted().is_some() => Err(error),
            _ => Ok(()),
        }
    }

    /// The tree, if this inode is still what was promised.
    fn state_owing(
        &self,
        ino: Ino,
        id: PromiseId,
    ) -> Result<Option<std::sync::MutexGuard<'_, State>>, FsError> {
        let mut state = self.state();
        state.revive(ino)?;
        let is_same = state.owed(ino)?.is_some_and(|owed| owed.id == id);
        Ok(is_same.then_some(state))
    }

    /// The version that the source has by now takes the place of the one that was promised.
    fn take_version(
        &self,
        state: &mut State,
        ino: Ino,
        entry: &Entry,
        ctime: Timestamp,
    ) -> Result<(), FsError> {
        let mut entry = entry.clone();
        entry.meta.labels = state.inode(ino)?.meta.labels.clone();
        if matches!(entry.kind, EntryKind::File { .. }) {
            self.tell_all(state, ino);
            return self.perform(state, Op::Settle { ino, entry, ctime }, &[]);
        }
        // Another kind of thing is another inode.
        let Some(at) = state.inode(ino)?.place.clone() else { return Err(FsError::NotFound) };
        state.tell(None, Seen::Name { parent: at.parent, name: at.name.clone() });
        self.perform(state, Op::Gone { at: at.clone() }, &[])?;
        let ino = state.free_number(&at)?;
        self.perform(state, Op::Arrive { at, ino, entry, ctime }, &[])?;
        Err(FsError::NotFound)
    }

    /// The door that asked has not heard of it either.
    fn tell_all(&self, state: &State, ino: Ino) {
        state.tell(None, Seen::Attributes(ino));
        state.tell(None, Seen::Contents { ino, offset: 0, len: 0 });
    }

    /// Makes the tree's own what an operation changes: the directories on the way there, and the bytes that are
    /// written over. Once an operation is in the journal, it depends on no source.
    pub(super) fn own(&self, state: &mut State, op: &Op) -> Result<(), FsError> {
        if !state.objects.may_promise() || matches!(op, Op::Unfold { .. }) {
            return Ok(());
        }
        let mut parents = op.parents();
        if let Some(ino) = op.inode() {
            parents.extend(state.inode(ino)?.place.as_ref().map(|place| place.parent));
        }
        for parent in parents {
            for directory in state.promised_above(parent)? {
                self.unfold(state, directory)?;
            }
        }
        match op {
            // Nothing of what was there is needed.
            Op::Resize { ino, size: 0, .. } => self.own_bytes(state, *ino, true),
            Op::Write { ino, .. } | Op::Resize { ino, .. } | Op::Punch { ino, .. } | Op::Link { ino, .. } => {
                self.own_bytes(state, *ino, false)
            }
            _ => Ok(()),
        }
    }

    fn unfold(&self, state: &mut State, directory: Ino) -> Result<(), FsError> {
        let Some(base) = state.directory(directory)?.base else { return Ok(()) };
        match state.objects.keep_listing(base)? {
            Some(kept) => self.perform(state, Op::Unfold { ino: directory, kept }, &[]),
            None => Ok(()),
        }
    }

    fn own_bytes(&self, state: &mut State, ino: Ino, emptied: bool) -> Result<(), FsError> {
        let Some(owed) = state.owed(ino)? else { return Ok(()) };
        let (size, content) = match emptied {
            true => (0, Content::Empty),
            false => {
                let content = state.objects.keep_content(owed.id.object(), &owed.promise)?;
                (state.inode(ino)?.file_bytes(), content)
            }
        };
        let inode = state.inode(ino)?;
        let kind = EntryKind::File { size, content };
        let (entry, ctime) = (Entry { meta: inode.meta.clone(), kind }, inode.ctime);
        self.perform(state, Op::Settle { ino, entry, ctime }, &[])
    }
}

impl State {
    /// The promise that stands for what is in an inode.
    fn owed(&self, ino: Ino) -> Result<Option<Owed>, FsError> {
        let Some(id) = self.contents_id(ino)? else { return Ok(None) };
        let promise = self.objects.promise(id)?;
        Ok(promise.map(|promise| Owed { id: PromiseId::from_object(id), promise }))
    }

    fn contents_id(&self, ino: Ino) -> Result<Option<ObjectId>, FsError> {
        Ok(match &self.inode(ino)?.body {
            Body::Stored { content: Content::Blob(id), .. } => Some(id.object()),
            Body::Stored { content: Content::Chunks(id), .. } => Some(id.object()),
            Body::Directory(directory) if directory.below == Promise::BELOW => {
                directory.base.map(NodeId::object)
            }
            _ => None,
        })
    }

    /// Whether what is in an inode is known, and not only promised.
    fn is_looked_at(&self, ino: Ino) -> Result<bool, FsError> {
        match self.owed(ino)? {
            Some(owed) => Ok(self.objects.kept(owed.id)?.is_some()),
            None => Ok(true),
        }
    }

    /// What a directory that nobody changed was kept as, if it was promised.
    pub fn listing(&self, directory: Ino) -> Result<Option<KeptDirectory>, FsError> {
        let directory = self.directory(directory)?;
        match directory.base {
            Some(base) if directory.below == Promise::BELOW => Ok(self.objects.keep_listing(base)?),
            _ => Ok(None),
        }
    }

    /// A directory and those above it that are promised, topmost first.
    fn promised_above(&self, directory: Ino) -> Result<Vec<Ino>, FsError> {
        let mut promised = Vec::new();
        let mut current = Some(directory);
        while let Some(ino) = current {
            if self.owed(ino)?.is_some() {
                promised.push(ino);
            }
            current = self.inode(ino)?.place.as_ref().map(|place| place.parent);
        }
        promised.reverse();
        Ok(promised)
    }

    /// A directory of a source becomes one of the tree's own.
    pub fn apply_unfold(&mut self, ino: Ino, kept: KeptDirectory) -> Result<(), FsError> {
        let directory = self.directory_mut(ino)?;
        let before = std::mem::replace(&mut directory.below, kept.below);
        (directory.base, directory.numbers) = (kept.entries, kept.numbers);
        if let Some(parent) = self.inode(ino)?.place.as_ref().map(|place| place.parent) {
            self.adjust(parent, |below| below.minus(before).plus(kept.below))?;
        }
        self.mark_dirty(ino)
    }

    /// What was promised, or what took its place, becomes the tree's own. Nobody has changed it.
    pub fn apply_settle(&mut self, ino: Ino, entry: Entry, ctime: Timestamp) -> Result<(), FsError> {
        let EntryKind::File { size, content } = entry.kind else {
            return Err(FsError::Invalid("not a regular file"));
        };
        let times = (entry.meta.mtime, ctime);
        self.change_contents(ino, times.0, |inode| {
            inode.body = Body::Stored { size, content };
            inode.meta = entry.meta;
            Ok(())
        })?;
        let inode = self.inode_mut(ino)?;
        (inode.meta.mtime, inode.ctime) = times;
        Ok(())
    }

    /// What a source has no more is gone, and no time is changed by it.
    pub fn apply_gone(&mut self, at: &Place) -> Result<(), FsError> {
        let Some(ino) = self.detach(at)? else { return Ok(()) };
        let ctime = self.inode(ino)?.ctime;
        self.lose_name(ino, ctime)
    }

    /// What a source has by now is there, and no time is changed by it.
    pub fn apply_arrive(
        &mut self,
        at: &Place,
        ino: Ino,
        entry: Entry,
        ctime: Timestamp,
    ) -> Result<(), FsError> {
        self.freed.remove(&ino);
        self.inodes.insert(ino, Inode::from_entry(entry, ctime));
        self.attach(at, ino)?;
        self.mark_dirty(ino)
    }
}
