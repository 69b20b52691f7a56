//! Changes to a working tree: each call checks, then performs one operation.

use std::collections::BTreeMap;

use avfs_core::chunks::FILE_MAX;
use avfs_core::map::{self, MapRecord};
use avfs_core::rules::Level;
use avfs_core::{
    Content, Entry, EntryKind, EntryName, Labels, LinkId, LinkedFile, Meta, NodeId, Timestamp, Totals, Xattrs,
};

use super::copy::{count_links, freeze_entry, with_new_links};
use super::guard::GuardedRequest;
use super::{Attr, KnownInode, StoredTree, WorkTree};
use crate::error::FsError;
use crate::inodes::Ino;
use crate::objects::ObjectWriter;
use crate::op::{EntryPlace, JournalOp};
use crate::worktree::query::attr;
use crate::worktree::relabel::labels_changed;
use crate::worktree::state::TreeState;

/// The maximum number of names of a file.
const NAMES_MAX: u32 = 65_000;
/// The longest write in one operation.
const WRITE_MAX: usize = 1 << 20;

/// The description of a new entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEntry {
    /// An empty file or directory, a symbolic link or a special file.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// The user who owns it.
    pub uid: u32,
    /// The group that owns it.
    pub gid: u32,
}

impl NewEntry {
    /// An empty file of root's.
    pub fn file(mode: u32) -> NewEntry {
        let kind = EntryKind::File {
            size: 0,
            content: Content::Empty,
        };
        NewEntry {
            kind,
            mode,
            uid: 0,
            gid: 0,
        }
    }

    /// An empty directory of root's.
    pub fn directory(mode: u32) -> NewEntry {
        let kind = EntryKind::Directory {
            entries: None,
            below: Totals::default(),
        };
        NewEntry {
            kind,
            mode,
            uid: 0,
            gid: 0,
        }
    }

    /// A symbolic link of root's.
    pub fn symlink(target: &[u8]) -> NewEntry {
        NewEntry {
            kind: EntryKind::Symlink {
                target: target.into(),
            },
            mode: 0o777,
            uid: 0,
            gid: 0,
        }
    }

    /// The same for another owner.
    pub fn owned_by(self, uid: u32, gid: u32) -> NewEntry {
        NewEntry { uid, gid, ..self }
    }
}

/// Attributes to set; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The user who owns it.
    pub uid: Option<u32>,
    /// The group that owns it.
    pub gid: Option<u32>,
    /// The size: a file is cut off, or extended by a hole.
    pub size: Option<u64>,
    /// When its contents were last changed.
    pub mtime: Option<Timestamp>,
    /// Kept in memory only.
    pub atime: Option<Timestamp>,
}

impl WorkTree {
    /// Creates an entry at a free name.
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
        self.place(
            parent,
            name,
            StoredTree {
                entry,
                links: Vec::new(),
            },
            now,
        )
    }

    /// Inserts a stored file or tree at a free name.
    pub fn graft(&self, parent: Ino, name: &EntryName, tree: StoredTree) -> Result<Attr, FsError> {
        let ctime = self.now();
        self.place(parent, name, tree, ctime)
    }

    /// Inserts one name of a linked file that comes with a stored tree. Its record, among `links`, counts all
    /// of its names, including this one; records come with the first inserted entry of a tree.
    pub fn graft_link(
        &self,
        parent: Ino,
        name: &EntryName,
        link: LinkId,
        links: Vec<(LinkId, LinkedFile)>,
    ) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        state.check_named(at.parent)?;
        let found = state.lookup(&at)?;
        self.ask(&mut state, GuardedRequest::Make { at: &at, found })?;
        // After the rules: a door that may not see the name must not learn from the error that it is taken.
        if found.is_some() {
            return Err(FsError::Exists);
        }
        self.check_room(&state, 1, linked_bytes(&links))?;
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::PlaceLink {
                at,
                link,
                links,
                time,
            },
            &[],
        )?;
        let ino = Ino::of_link(link);
        let attr = attr(&mut state, ino)?;
        self.visible_attr(&mut state, attr, None)
    }

    fn place(
        &self,
        parent: Ino,
        name: &EntryName,
        mut tree: StoredTree,
        ctime: Timestamp,
    ) -> Result<Attr, FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        state.check_named(at.parent)?;
        let found = state.lookup(&at)?;
        let visibility = self.ask(
            &mut state,
            GuardedRequest::Graft {
                at: &at,
                found,
                tree: &tree,
            },
        )?;
        // After the rules, for the same reason as in `graft_link`: an error must not tell what is hidden.
        if found.is_some() {
            return Err(FsError::Exists);
        }
        let labels = self.labels_of_new(&mut state, &at, &tree.entry.kind);
        tree.entry.meta.labels = tree.entry.meta.labels.union(&labels);
        let linked = linked_bytes(&tree.links);
        let added = tree.entry.totals();
        self.check_room(&state, added.inodes, added.bytes.saturating_add(linked))?;
        // Chosen before the operation is recorded: replay must give the inode the same number.
        let ino = state.free_number(&at)?;
        let op = JournalOp::Place {
            at,
            ino,
            entry: tree.entry,
            links: tree.links,
            ctime,
        };
        self.perform(&mut state, op, &[])?;
        self.attr_and_hold(&mut state, ino, visibility)
    }

    /// Refuses additions that would exceed the limits of the vault.
    pub fn check_fits(&self, added: Totals) -> Result<(), FsError> {
        self.check_room(&self.state(), added.inodes, added.bytes)
    }

    fn check_room(&self, state: &TreeState, inodes: u64, bytes: u64) -> Result<(), FsError> {
        let limits = self.limits();
        let now = state.totals();
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

    /// Removes the name of anything but a directory.
    pub fn unlink(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, GuardedRequest::Remove { at: &at, found })?;
        let ino = found.ok_or(FsError::NotFound)?;
        if state.inode(ino)?.is_directory() {
            return Err(FsError::IsADirectory);
        }
        let time = self.now();
        self.perform(&mut state, JournalOp::Remove { at, time }, &[])
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, GuardedRequest::Remove { at: &at, found })?;
        let ino = found.ok_or(FsError::NotFound)?;
        if !state.inode(ino)?.is_directory() {
            return Err(FsError::NotADirectory);
        }
        // Hidden entries count: a directory that only looks empty through the rules is not removed.
        if !state.is_empty_directory(ino)? {
            return Err(FsError::NotEmpty);
        }
        let time = self.now();
        self.perform(&mut state, JournalOp::Remove { at, time }, &[])
    }

    /// Removes a name and everything below it, in one step.
    pub fn remove_tree(&self, parent: Ino, name: &EntryName) -> Result<(), FsError> {
        let mut state = self.state();
        let at = EntryPlace::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, GuardedRequest::RemoveTree { at: &at, found })?;
        found.ok_or(FsError::NotFound)?;
        let time = self.now();
        self.perform(&mut state, JournalOp::Remove { at, time }, &[])
    }

    /// Moves an entry, replacing the entry at the new place as `rename(2)` does.
    pub fn rename(&self, from: EntryPlace, to: EntryPlace) -> Result<(), FsError> {
        // Resolved before the lock is taken, because a source may take long to read, and the tree must not
        // wait for it.
        self.promised().fulfil_at(&from)?;
        self.promised().fulfil_at(&to)?;
        let mut state = self.state();
        let moved = state.lookup(&from)?;
        let replaced = state.lookup(&to)?;
        self.ask(
            &mut state,
            GuardedRequest::Move {
                from: &from,
                moved,
                to: &to,
                replaced,
            },
        )?;
        let moved = moved.ok_or(FsError::NotFound)?;
        // Two names of one file: `rename(2)` does nothing and reports success.
        if replaced == Some(moved) {
            return Ok(());
        }
        state.check_named(to.parent)?;
        check_not_below(&state, moved, to.parent)?;
        if let Some(replaced) = replaced {
            match (
                state.inode(moved)?.is_directory(),
                state.inode(replaced)?.is_directory(),
            ) {
                (true, false) => return Err(FsError::NotADirectory),
                (false, true) => return Err(FsError::IsADirectory),
                (true, true) if !state.is_empty_directory(replaced)? => return Err(FsError::NotEmpty),
                _ => {}
            }
        }
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::Rename {
                from,
                to,
                exchange: false,
                time,
            },
            &[],
        )
    }

    /// Moves an entry to a place that must be free.
    pub fn rename_no_replace(&self, from: EntryPlace, to: EntryPlace) -> Result<(), FsError> {
        self.promised().fulfil_at(&from)?;
        let mut state = self.state();
        let moved = state.lookup(&from)?;
        let replaced = state.lookup(&to)?;
        self.ask(
            &mut state,
            GuardedRequest::Move {
                from: &from,
                moved,
                to: &to,
                replaced,
            },
        )?;
        let moved = moved.ok_or(FsError::NotFound)?;
        if replaced.is_some() {
            return Err(FsError::Exists);
        }
        state.check_named(to.parent)?;
        check_not_below(&state, moved, to.parent)?;
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::Rename {
                from,
                to,
                exchange: false,
                time,
            },
            &[],
        )
    }

    /// Swaps two entries.
    pub fn exchange(&self, from: EntryPlace, to: EntryPlace) -> Result<(), FsError> {
        self.promised().fulfil_at(&from)?;
        self.promised().fulfil_at(&to)?;
        let mut state = self.state();
        let first = self.existing(&mut state, &from)?;
        let second = self.existing(&mut state, &to)?;
        // Each entry is checked in both directions, as if it were moved into the place of the other.
        self.ask(
            &mut state,
            GuardedRequest::Move {
                from: &from,
                moved: Some(first),
                to: &to,
                replaced: Some(second),
            },
        )?;
        self.ask(
            &mut state,
            GuardedRequest::Move {
                from: &to,
                moved: Some(second),
                to: &from,
                replaced: Some(first),
            },
        )?;
        // Two names of one file, or one place given twice.
        if first == second {
            return Ok(());
        }
        state.check_named(to.parent)?;
        state.check_named(from.parent)?;
        check_not_below(&state, first, to.parent)?;
        check_not_below(&state, second, from.parent)?;
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::Rename {
                from,
                to,
                exchange: true,
                time,
            },
            &[],
        )
    }

    /// Gives a file another name.
    pub fn link(&self, ino: Ino, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        self.promised().fulfil_if_owed(ino)?;
        let mut state = self.state_with(ino)?;
        let at = EntryPlace::new(parent, name.clone());
        let found = state.lookup(&at)?;
        self.ask(&mut state, GuardedRequest::Link { ino, at: &at, found })?;
        let inode = state.inode(ino)?;
        if inode.is_directory() {
            return Err(FsError::IsADirectory);
        }
        // Only an open handle keeps it. Linux allows this for `O_TMPFILE` files, which do not exist here.
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
        self.perform(&mut state, JournalOp::Link { ino, at, time }, &[])?;
        self.attr_and_hold(&mut state, ino, None)
    }

    /// Writes bytes at `offset`, as one step if they are not more than 1 MiB.
    pub fn write(&self, at: impl Into<KnownInode>, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let at = at.into();
        self.promised().fulfil_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        state.inode_at(at)?;
        self.ask(&mut state, GuardedRequest::Write { ino: at.ino, offset })?;
        self.write_at(&mut state, at.ino, offset, data)
    }

    /// Appends bytes at the current end; returns their offset.
    pub fn append(&self, at: impl Into<KnownInode>, data: &[u8]) -> Result<u64, FsError> {
        let at = at.into();
        self.promised().fulfil_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        let end = state.inode_at(at)?.file_size()?;
        self.ask(&mut state, GuardedRequest::Use(at.ino, Level::Append))?;
        self.write_at(&mut state, at.ino, end, data)?;
        Ok(end)
    }

    fn write_at(&self, state: &mut TreeState, ino: Ino, offset: u64, data: &[u8]) -> Result<(), FsError> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| *end <= FILE_MAX);
        let end = end.ok_or(FsError::TooLarge)?;
        let size = state.inode(ino)?.file_size()?;
        self.check_room(state, 0, end.saturating_sub(size))?;
        let mut position = offset;
        // Each part is an operation of its own. A crash may leave a prefix of a longer write, as on other
        // file systems.
        for part in data.chunks(WRITE_MAX) {
            let len = part.len() as u64;
            let time = self.now();
            self.perform(
                state,
                JournalOp::Write {
                    ino,
                    offset: position,
                    len,
                    time,
                },
                part,
            )?;
            position += len;
        }
        Ok(())
    }

    /// Extends a file to at least this size; the extension reads as zeros. Only writes occupy disk space.
    pub fn allocate(&self, at: impl Into<KnownInode>, end: u64) -> Result<(), FsError> {
        let at = at.into();
        let mut state = self.state_with(at.ino)?;
        self.ask(&mut state, GuardedRequest::Use(at.ino, Level::Write))?;
        let size = state.inode_at(at)?.file_size()?;
        drop(state);
        if end <= size {
            return Ok(());
        }
        self.set_attr(
            at,
            SetAttr {
                size: Some(end),
                ..SetAttr::default()
            },
        )
        .map(|_| ())
    }

    /// Replaces the contents of a file with stored ones.
    pub fn set_content(&self, ino: Ino, size: u64, content: Content) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Use(ino, Level::Write))?;
        let grown = size.saturating_sub(state.inode(ino)?.file_size()?);
        self.check_room(&state, 0, grown)?;
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::SetContent {
                ino,
                size,
                content,
                time,
            },
            &[],
        )
    }

    /// Turns a range of a file into a hole; the size is unchanged.
    pub fn punch_hole(&self, at: impl Into<KnownInode>, offset: u64, len: u64) -> Result<(), FsError> {
        offset.checked_add(len).ok_or(FsError::TooLarge)?;
        let at = at.into();
        self.promised().fulfil_if_owed(at.ino)?;
        let mut state = self.state_with(at.ino)?;
        state.inode_at(at)?.file_size()?;
        let ino = at.ino;
        self.ask(&mut state, GuardedRequest::Use(ino, Level::Write))?;
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::Punch {
                ino,
                offset,
                len,
                time,
            },
            &[],
        )
    }

    /// Sets attributes; returns those that it has then.
    pub fn set_attr(&self, at: impl Into<KnownInode>, set: SetAttr) -> Result<Attr, FsError> {
        let at = at.into();
        // Also before truncation to zero: a merge needs the previous contents.
        if set.size.is_some() {
            self.promised().fulfil_if_owed(at.ino)?;
        }
        let mut state = self.state_with(at.ino)?;
        let ino = at.ino;
        let time = self.now();
        let visibility = self.ask(&mut state, GuardedRequest::Use(ino, Level::Write))?;
        let inode = state.inode_at(at)?;
        let uid = inode.meta.uid;
        let gid = inode.meta.gid;
        if let Some(size) = set.size {
            if size > FILE_MAX {
                return Err(FsError::TooLarge);
            }
            let grown = size.saturating_sub(state.inode(ino)?.file_size()?);
            self.check_room(&state, 0, grown)?;
            self.perform(&mut state, JournalOp::Resize { ino, size, time }, &[])?;
        }
        if let Some(mode) = set.mode {
            self.perform(
                &mut state,
                JournalOp::SetMode {
                    ino,
                    mode: mode & 0o7777,
                    time,
                },
                &[],
            )?;
        }
        if set.uid.is_some() || set.gid.is_some() {
            let uid = set.uid.unwrap_or(uid);
            let gid = set.gid.unwrap_or(gid);
            self.perform(&mut state, JournalOp::SetOwner { ino, uid, gid, time }, &[])?;
        }
        if let Some(mtime) = set.mtime {
            self.perform(&mut state, JournalOp::SetMtime { ino, mtime, time }, &[])?;
        }
        // Not an operation: access times are not recorded, so replay has nothing to repeat.
        if let Some(atime) = set.atime {
            let inode = state.inode_mut(ino)?;
            inode.atime = Some(Box::new(atime));
            inode.ctime = time;
        }
        let attr = attr(&mut state, ino)?;
        self.visible_attr(&mut state, attr, visibility)
    }

    /// Sets an extended attribute, or replaces its value.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), FsError> {
        if name.is_empty() || name.len() > 255 || value.len() > 64 << 10 {
            return Err(FsError::Invalid(
                "an extended attribute has a name of at most 255 bytes and at most 64 KiB",
            ));
        }
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Use(ino, Level::Write))?;
        state.inode(ino)?;
        let time = self.now();
        let op = JournalOp::SetXattr {
            ino,
            name: name.to_vec(),
            value: value.to_vec(),
            time,
        };
        self.perform(&mut state, op, &[])
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Use(ino, Level::Write))?;
        if state.inode(ino)?.meta.xattrs.get(name).is_none() {
            return Err(FsError::NoXattr);
        }
        let time = self.now();
        self.perform(
            &mut state,
            JournalOp::RemoveXattr {
                ino,
                name: name.to_vec(),
                time,
            },
            &[],
        )
    }

    /// Replaces the labels of a file or directory. Not allowed through rules, because rules match labels.
    pub fn set_labels(&self, ino: Ino, labels: Labels) -> Result<(), FsError> {
        let mut state = self.state_with(ino)?;
        self.ask(&mut state, GuardedRequest::Label(ino))?;
        state.inode(ino)?;
        let time = self.now();
        self.perform(&mut state, JournalOp::SetLabels { ino, labels, time }, &[])?;
        labels_changed(&mut state, &[ino]);
        Ok(())
    }

    /// The inode at a place. For a hidden name the result is the same as for a missing one.
    fn existing(&self, state: &mut TreeState, from: &EntryPlace) -> Result<Ino, FsError> {
        let found = state.lookup(from)?;
        self.ask(state, GuardedRequest::Find { at: from, found })?;
        found.ok_or(FsError::NotFound)
    }

    /// Keeps an inode alive, with or without a name, until [`WorkTree::release`].
    pub fn hold(&self, ino: Ino) -> Result<(), FsError> {
        self.state().hold(ino)
    }

    /// Releases `count` holds.
    pub fn release(&self, ino: Ino, count: u32) -> Result<(), FsError> {
        self.state().release(ino, count)
    }

    /// Copies an entry, with everything below it, to a free place. The cost depends on the changes since the
    /// head, not on the size of the copy; names of files with several names inside become names of one new
    /// file.
    pub fn copy(&self, from: Ino, parent: Ino, name: &EntryName) -> Result<Attr, FsError> {
        let tree = self.stored(from, parent, name)?;
        self.graft(parent, name, tree)
    }

    /// The same with a directory of another stored tree, whose linked files are in the table `links`.
    pub fn copy_stored(
        &self,
        from: &Entry,
        links: Option<NodeId>,
        parent: Ino,
        name: &EntryName,
    ) -> Result<Attr, FsError> {
        let tree = {
            // The lock ends with this block: `graft` takes it again, and the objects are stored by then.
            let state = self.state();
            let writer = ObjectWriter::new(&state.objects);
            let mut files = BTreeMap::new();
            for (link, count) in count_links(&state, from)? {
                let file: Option<LinkedFile> = map::get(&state.objects, links, &link.key())?;
                let entry = file
                    .ok_or(FsError::Invalid("a linked file is not in its table"))?
                    .entry;
                files.insert(link, LinkedFile { entry, names: count });
            }
            let tree = with_new_links(
                &state,
                from.clone(),
                files,
                Ino::derived(parent, name, 0),
                &writer,
            )?;
            writer.flush()?;
            tree
        };
        self.graft(parent, name, tree)
    }

    /// Gives a file the contents of another one.
    pub fn copy_content(&self, from: Ino, to: Ino) -> Result<(), FsError> {
        // Two locks, one after the other: another writer can get in between, and the copy is then of the
        // earlier state.
        let entry = {
            let mut state = self.state_with(from)?;
            self.ask(&mut state, GuardedRequest::Use(from, Level::Read))?;
            let writer = ObjectWriter::new(&state.objects);
            freeze_entry(&mut state, from, &writer)?
        };
        match entry.kind {
            EntryKind::File { size, content } => self.set_content(to, size, content),
            _ => Err(FsError::Invalid("not a regular file")),
        }
    }

    /// Stores the writes to a file, so that they no longer occupy memory.
    pub fn store_content(&self, ino: Ino) -> Result<(), FsError> {
        self.copy_content(ino, ino)
    }

    fn stored(&self, from: Ino, parent: Ino, name: &EntryName) -> Result<StoredTree, FsError> {
        let mut state = self.state_with(from)?;
        self.ask(&mut state, GuardedRequest::Copy(from))?;
        let writer = ObjectWriter::new(&state.objects);
        let entry = freeze_entry(&mut state, from, &writer)?;
        let mut files = BTreeMap::new();
        for (link, count) in count_links(&state, &entry)? {
            let ino = state.load_link(link)?;
            files.insert(
                link,
                LinkedFile {
                    entry: freeze_entry(&mut state, ino, &writer)?,
                    names: count,
                },
            );
        }
        let tree = with_new_links(&state, entry, files, Ino::derived(parent, name, 0), &writer)?;
        writer.flush()?;
        Ok(tree)
    }

    /// Whether a number is in use, so that an import does not assign it to a linked file.
    pub fn is_link_taken(&self, link: LinkId) -> Result<bool, FsError> {
        self.state().is_taken(Ino::of_link(link))
    }
}

fn linked_bytes(links: &[(LinkId, LinkedFile)]) -> u64 {
    links
        .iter()
        .fold(0, |sum: u64, (_, file)| sum.saturating_add(file.totals().bytes))
}

/// Refuses to move a directory to a place below itself.
fn check_not_below(state: &TreeState, moved: Ino, target: Ino) -> Result<(), FsError> {
    let mut current = Some(target);
    while let Some(ino) = current {
        if ino == moved {
            return Err(FsError::IntoItself);
        }
        // The chain of parents is in memory up to the root: a loaded inode keeps the directories above it
        // loaded.
        current = state.inode(ino)?.place.as_ref().map(|place| place.parent);
    }
    Ok(())
}
