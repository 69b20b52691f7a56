//! Changing a working tree: each call checks, then performs one operation.

use avfs_core::chunks::FILE_MAX;
use avfs_core::map::Record;
use avfs_core::rules::Level;
use avfs_core::{
    Content, Entry, EntryKind, EntryName, Labels, LinkId, LinkedFile, Meta, Timestamp, Totals, Xattrs,
};

use super::guard::Ask;
use super::{At, Attr, StoredTree, WorkTree};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::op::{Op, Place};
use crate::worktree::state::State;

/// How many names a file may have.
const NAMES_MAX: u32 = 65_000;
/// The longest write in one operation.
const WRITE_MAX: usize = 1 << 20;

/// What a new entry is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// An empty file or directory, a symbolic link or a special file.
    pub kind: EntryKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl NewEntry {
    pub fn file(mode: u32) -> NewEntry {
        let kind = EntryKind::File { size: 0, content: Content::Empty };
        NewEntry { kind, mode, uid: 0, gid: 0 }
    }

    pub fn directory(mode: u32) -> NewEntry {
        let kind = EntryKind::Directory { entries: None, below: Totals::default() };
        NewEntry { kind, mode, uid: 0, gid: 0 }
    }

    pub fn symlink(target: &[u8]) -> NewEntry {
        NewEntry { kind: EntryKind::Symlink { target: target.into() }, mode: 0o777, uid: 0, gid: 0 }
    }

    pub fn owned_by(self, uid: u32, gid: u32) -> NewEntry {
        NewEntry { uid, gid, ..self }
    }
}

/// Attributes to set; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub mtime: Option<Timestamp>,
    /// Kept in memory alone.
    pub atime: Option<Timestamp>,
}

impl WorkTree {
    /// Makes a new entry where there is none.
    pub fn create(&self, parent: Ino, name: &EntryName, new: NewEntry) -> Result<Attr, FsError> {
        let now = self.now();
        let meta = Meta {
            mode: new.mode & 0o7777,
            uid: new.uid,
            gid: new.gid,
            mtime: now,
            xattrs: Xattrs::default(),
            labels: Labels::default(),
        };
        let entry = Entry { meta, kind: new.kind };
        self.place(parent, name, StoredTree { entry, links: Vec::new() }, now)
    }

    /// Puts a stored file or tree where there is nothing.
    pub fn graft(&self, parent: Ino, name: &EntryName, tree: StoredTree) -> Result<Attr, FsError> {
        let ctime = self.now();
        self.place(parent, name, tree, ctime)
    }

    /// Puts one name of a linked file that comes with a stored tree. Its record, among `links`, counts all
    /// of its names, this one included; records come with the first thing of a tree that is put.
    pub fn graft_link(
        &self,
        parent: Ino,
        name: &EntryName,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
    ) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        state.check_named(at.parent)?;
        let found = state.lookup(&at)?;
        self.ask(&mut state, Ask::Make { at: &at, found })?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        self.check_room(&state, 1, linked_bytes(&links))?;
        let time = self.now();
        self.perform(&mut state, Op::PlaceLink { at, link, links, time }, &[])?;
        let ino = Ino::of_link(link);
        let attr = state.attr(ino)?;
        self.shown(&mut state, attr, None)
    }

    fn place(
        &self,
        parent: Ino,
        name: &EntryName,
        mut tree: StoredTree,
        ctime: Timestamp,
    ) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        state.check_named(at.parent)?;
        let found = state.lookup(&at)?;
        let stand = self.ask(&mut state, Ask::Graft { at: &at, found, tree: &tree })?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        let labels = self.labels_of_new(&mut state, &at, &tree.entry.kind);
        tree.entry.meta.labels = tree.entry.meta.labels.union(&labels);
        let linked = linked_bytes(&tree.links);
        let added = tree.entry.totals();
        self.check_room(&state, added.inodes, added.bytes.saturating_add(linked))?;
        let ino = state.free_number(&at)?;
        let op = Op::Place { at, ino, entry: tree.entry, links: tree.links, ctime };
        self.perform(&mut state, op, &[])?;
        self.told(&mut state, ino, stand)
    }

    /// Refuses what would not fit into the vault's limits.
    pub fn check_fits(&self, added: Totals) -> Result<(), FsError> {
        self.check_room(&self.state(), added.inodes, added.bytes)
    }

    fn check_room(&self, state: &State, inodes: u64, bytes: u64) -> Result<(), FsError> {
        let (limits, now) = (self.limits(), state.totals());
        let over = |limit: Option<u64>, used: u64, added: u64| {
            limit.filter(|limit| added > 0 && used.saturating_add(added) > *limit)
        };
        if let Some(limit) = over(limits.bytes, now.bytes, bytes) {
            return Err(FsError::OverBytes { limit });
        }
        match over(limits.files, now.inodes, inodes) {
            Some(limit) => Err(FsError::OverFiles { limit }),
            None => Ok(()),
        }
    }

    /// Takes away the name of anything but a directory.
    pub fn unlink(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, Ask::Remove { at: &at, found })?;
        let ino = found.ok_or(FsError::NotFound)?;
        if state.inode(ino)?.is_directory() {
            return Err(FsError::IsADirectory);
        }
        let time = self.now();
        self.perform(&mut state, Op::Remove { at, time }, &[])
    }

    /// Takes away an empty directory.
    pub fn remove_directory(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, Ask::Remove { at: &at, found })?;
        let ino = found.ok_or(FsError::NotFound)?;
        if !state.inode(ino)?.is_directory() {
            return Err(FsError::NotADirectory);
        }
        if !state.is_empty_directory(ino)? {
            return Err(FsError::NotEmpty);
        }
        let time = self.now();
        self.perform(&mut state, Op::Remove { at, time }, &[])
    }

    /// Takes away a name and everything below it, in one step.
    pub fn remove_tree(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = Place::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, Ask::RemoveTree { at: &at, found })?;
        found.ok_or(FsError::NotFound)?;
        let time = self.now();
        self.perform(&mut state, Op::Remove { at, time }, &[])
    }

    /// Moves an entry, replacing what is at the new place as `rename(2)` does.
    pub fn rename(&self, from: Place, to: Place) -> Result<(), FsError> {
        self.settle_at(&from)?;
        self.settle_at(&to)?;
        let mut state = self.state();
        let moved = state.lookup(&from)?;
        let replaced = state.lookup(&to)?;
        self.ask(&mut state, Ask::Move { from: &from, moved, to: &to, replaced })?;
        let moved = moved.ok_or(FsError::NotFound)?;
        if replaced == Some(moved) {
            return Ok(());
        }
        state.check_named(to.parent)?;
        state.check_not_below(moved, to.parent)?;
        if let Some(replaced) = replaced {
            match (state.inode(moved)?.is_directory(), state.inode(replaced)?.is_directory()) {
                (true, false) => return Err(FsError::NotADirectory),
                (false, true) => return Err(FsError::IsADirectory),
                (true, true) if !state.is_empty_directory(replaced)? => return Err(FsError::NotEmpty),
                _ => {}
            }
        }
        let time = self.now();
        self.perform(&mut state, Op::Rename { from, to, exchange: false, time }, &[])
    }

    /// Moves an entry to a place where there must be nothing.
    pub fn rename_no_replace(&self, from: Place, to: Place) -> Result<(), FsError> {
        self.settle_at(&from)?;
        let mut state = self.state();
        let moved = state.lookup(&from)?;
        let replaced = state.lookup(&to)?;
        self.ask(&mut state, Ask::Move { from: &from, moved, to: &to, replaced })?;
        let moved = moved.ok_or(FsError::NotFound)?;
        if replaced.is_some() {
            return Err(FsError::Exists);
        }
        state.check_named(to.parent)?;
        state.check_not_below(moved, to.parent)?;
        let time = self.now();
        self.perform(&mut state, Op::Rename { from, to, exchange: false, time }, &[])
    }

    /// Swaps two entries.
    pub fn exchange(&self, from: Place, to: Place) -> Result<(), FsError> {
        self.settle_at(&from)?;
        self.settle_at(&to)?;
        let mut state = self.state();
        let first = self.existing(&mut state, &from)?;
        let second = self.existing(&mut state, &to)?;
        self.ask(&mut state, Ask::Move { from: &from, moved: Some(first), to: &to, replaced: Some(second) })?;
        self.ask(&mut state, Ask::Move { from: &to, moved: Some(second), to: &from, replaced: Some(first) })?;
        if first == second {
            return Ok(());
        }
        state.check_named(to.parent)?;
        state.check_named(from.parent)?;
        state.check_not_below(first, to.parent)?;
        state.check_not_below(second, from.parent)?;
        let time = self.now();
        self.perform(&mut state, Op::Rename { from, to, exchange: true, time }, &[])
    }

    /// Gives a file another name.
    pub fn link(&self, ino: Ino, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        self.settle_if_owed(ino)?;
        let mut state = self.state_with(ino)?;
        let at = Place::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, Ask::Link { ino, at: &at, found })?;
        let inode = state.inode(ino)?;
        if inode.is_directory() {
            return Err(FsError::IsADirectory);
        }
        if inode.names == 0 {
            return Err(FsError::NotFound);
        }
        if inode.names >= NAMES_MAX {
            return Err(FsError::TooManyLinks);
        }
        state.check_named(at.parent)?;
        if found.is_some() {
            return Err(FsError::Exists);
        }
        self.check_room(&state, 1, 0)?;
        let time = self.now();
        self.perform(&mut state, Op::Link { ino, at, time }, &[])?;
        self.told(&mut state, ino, None)
    }

    /// Writes bytes at `offset`, as one step if they are not more than 1 MiB.
    pub fn write(&self, at: impl Into<At>, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let at = at.into();
        self.settle_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        state.inode_at(at)?;
        self.ask(&mut state, Ask::Write { ino: at.ino, offset })?;
        self.write_at(&mut state, at.ino, offset, data)
    }

    /// Writes bytes at the end, wherever that is by now; returns where they are.
    pub fn append(&self, at: impl Into<At>, data: &[u8]) -> Result<u64, FsError> {
        let at = at.into();
        self.settle_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        let end = state.inode_at(at)?.file_size()?;
        self.ask(&mut state, Ask::Use(at.ino, Level::Append))?;
        self.write_at(&mut state, at.ino, end, data)?;
        Ok(end)
    }

    fn write_at(&self, state: &mut State, ino: Ino, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(FsError::TooLarge)?;
        let size = state.inode(ino)?.file_size()?;
        self.check_room(state, 0, end.saturating_sub(size))?;
        let mut position = offset;
        for part in data.chunks(WRITE_MAX) {
            let len = part.len() as u64;
            let time = self.now();
            self.perform(state, Op::Write { ino, offset: position, len, time }, part)?;
            position += len;
        }
        Ok(())
    }

    /// Makes a file at least so large; what is added reads as zeros. Room on the disk is taken only by what
    /// is written.
    pub fn allocate(&self, at: impl Into<At>, end: u64) -> Result<(), FsError> {
        let at = at.into();
        let mut state = self.state_with(at.ino)?;
        self.ask(&mut state, Ask::Use(at.ino, Level::Write))?;
        let size = state.inode_at(at)?.file_size()?;
        drop(state);
        if end <= size {
            return Ok(());
        }
        self.set_attr(at, SetAttr { size: Some(end), ..SetAttr::default() }).map(|_| ())
    }

    /// Replaces the contents of a file by stored ones.
    pub fn set_content(&self, ino: Ino, size: u64, content: Content) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Use(ino, Level::Write))?;
        let grown = size.saturating_sub(state.inode(ino)?.file_size()?);
        self.check_room(&state, 0, grown)?;
        let time = self.now();
        self.perform(&mut state, Op::SetContent { ino, size, content, time }, &[])
    }

    /// Makes a range of a file a hole; the size stays.
    pub fn punch_hole(&self, at: impl Into<At>, offset: u64, len: u64) -> Result<(), FsError> {
        offset.checked_add(len).ok_or(FsError::TooLarge)?;
        let at = at.into();
        self.settle_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        state.inode_at(at)?.file_size()?;
        let ino = at.ino;
        self.ask(&mut state, Ask::Use(ino, Level::Write))?;
        let time = self.now();
        self.perform(&mut state, Op::Punch { ino, offset, len, time }, &[])
    }

    pub fn set_attr(&self, at: impl Into<At>, set: SetAttr) -> Result<Attr, FsError> {
        let at = at.into();
        // Also before it is emptied: whoever merges needs to know what was there.
        if set.size.is_some() {
            self.settle_if_owed(at.ino)?;
        }
        let mut state = self.state_with(at.ino)?;
        let (ino, time) = (at.ino, self.now());
        let stand = self.ask(&mut state, Ask::Use(ino, Level::Write))?;
        let inode = state.inode_at(at)?;
        let (uid, gid) = (inode.meta.uid, inode.meta.gid);
        if let Some(size) = set.size {
            if size > FILE_MAX {
                return Err(FsError::TooLarge);
            }
            let grown = size.saturating_sub(state.inode(ino)?.file_size()?);
            self.check_room(&state, 0, grown)?;
            self.perform(&mut state, Op::Resize { ino, size, time }, &[])?;
        }
        if let Some(mode) = set.mode {
            self.perform(&mut state, Op::SetMode { ino, mode: mode & 0o7777, time }, &[])?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let (uid, gid) = (set.uid.unwrap_or(uid), set.gid.unwrap_or(gid));
            self.perform(&mut state, Op::SetOwner { ino, uid, gid, time }, &[])?;
        }
        if let Some(mtime) = set.mtime {
            self.perform(&mut state, Op::SetMtime { ino, mtime, time }, &[])?;
        }
        if let Some(atime) = set.atime {
            let inode = state.inode_mut(ino)?;
            (inode.atime, inode.ctime) = (Some(Box::new(atime)), time);
        }
        let attr = state.attr(ino)?;
        self.shown(&mut state, attr, stand)
    }

    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), FsError> {
        if name.is_empty() || name.len() > 255 || value.len() > 64 << 10 {
            return Err(FsError::Invalid(
                "an extended attribute has a name of at most 255 bytes and at most 64 KiB",
            ));
        }
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Use(ino, Level::Write))?;
        state.inode(ino)?;
        let time = self.now();
        let op = Op::SetXattr { ino, name: name.to_vec(), value: value.to_vec(), time };
        self.perform(&mut state, op, &[])
    }

    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Use(ino, Level::Write))?;
        if state.inode(ino)?.meta.xattrs.get(name).is_none() {
            return Err(FsError::NoXattr);
        }
        let time = self.now();
        self.perform(&mut state, Op::RemoveXattr { ino, name: name.to_vec(), time }, &[])
    }

    /// Gives a file or directory other labels. Not through rules: they go by labels.
    pub fn set_labels(&self, ino: Ino, labels: Labels) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, Ask::Label(ino))?;
        state.inode(ino)?;
        let time = self.now();
        self.perform(&mut state, Op::SetLabels { ino, labels, time }, &[])?;
        state.labels_changed(&[ino]);
        Ok(())
    }

    /// What is at a place. A name that is hidden is said to be missing, as one that is missing.
    fn existing(&self, state: &mut State, from: &Place) -> Result<Ino, FsError> {
        let found = state.lookup(from)?;
        self.ask(state, Ask::Find { at: from, found })?;
        found.ok_or(FsError::NotFound)
    }

    /// Keeps an inode alive, with or without a name, until [`WorkTree::release`].
    pub fn hold(&self, ino: Ino) -> Result<(), FsError> {
        self.state().hold(ino)
    }

    /// Gives `count` holds back.
    pub fn release(&self, ino: Ino, count: u32) -> Result<(), FsError> {
        self.state().release(ino, count)
    }
}

fn linked_bytes(links: &[(LinkId, LinkedFile)]) -> u64 {
    links.iter().fold(0, |sum: u64, (_, file)| sum.saturating_add(file.totals().bytes))
}

impl State {
    /// Refuses to move a directory to a place below itself.
    fn check_not_below(&self, moved: Ino, target: Ino) -> Result<(), FsError> {
        let mut current = Some(target);
        while let Some(ino) = current {
            if ino == moved {
                return Err(FsError::IntoItself);
            }
            current = self.inode(ino)?.place.as_ref().map(|place| place.parent);
        }
        Ok(())
    }
}
