//! Reading directories, with cookies that survive concurrent changes.
//!
//! A cookie counts the names that were handed out; reading goes on behind the name that the cookie stands
//! for, in the order of names. So names that are added or removed meanwhile make no other name come twice or
//! not at all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use avfs_core::EntryName;
use avfs_tree::{Attr, FsError, Ino, Kind, WorkTree};

use super::Skin;
use super::attributes::{format, no_entry};
use super::deferring::Outcome;
use super::error::SkinError;
use crate::abi::ReadIn;
use crate::reply::{Listing, Reply};
use crate::request::Request;

/// `.` and `..` have the first two cookies.
const DOTS: u64 = 2;
/// How many entries are asked of the tree at a time.
const AT_ONCE: usize = 256;
/// The kind of a directory entry that is a directory.
const DIRECTORY: u32 = 4;

/// How many directories without a handle are being read at a time, before they are counted anew.
const UNOPENED_MAX: usize = 64;

/// The open directories.
#[derive(Default)]
pub(super) struct DirectoryHandles {
    last: AtomicU64,
    open: Mutex<HashMap<u64, Shared>>,
    /// Directories that are read without being opened, on a mount that never changes.
    unopened: Mutex<HashMap<Ino, Shared>>,
}

type Shared = Arc<Mutex<Handle>>;

/// The names that were handed out through one open directory, by their cookies.
#[derive(Default)]
struct Handle {
    names: Vec<EntryName>,
}

impl DirectoryHandles {
    pub fn open(&self) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.table().insert(number, Arc::default());
        number
    }

    pub fn release(&self, number: u64) {
        self.table().remove(&number);
    }

    pub fn clear(&self) {
        self.table().clear();
    }

    fn get(&self, number: u64, ino: Ino) -> Shared {
        if let Some(handle) = self.table().get(&number) {
            return handle.clone();
        }
        let mut unopened = self.unopened();
        // A handle that is lost only costs the names before a cookie being listed again.
        if unopened.len() >= UNOPENED_MAX {
            unopened.clear();
        }
        unopened.entry(ino).or_default().clone()
    }

    /// A directory was read to its end.
    fn finish(&self, ino: Ino) {
        self.unopened().remove(&ino);
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, Shared>> {
        self.open.lock().expect("no panic happens while the lock is held")
    }

    fn unopened(&self) -> MutexGuard<'_, HashMap<Ino, Shared>> {
        self.unopened.lock().expect("no panic happens while the lock is held")
    }
}

impl Handle {
    /// Makes the names up to a cookie known, as far as there are so many; they were handed out through
    /// another handle of the same directory, whose listing the kernel has kept.
    fn fill(&mut self, tree: &WorkTree, ino: Ino, count: usize) -> Result<(), FsError> {
        while self.names.len() < count {
            let missing = (count - self.names.len()).min(AT_ONCE);
            let entries = tree.read_names(ino, self.names.last(), missing)?;
            if entries.is_empty() {
                return Ok(());
            }
            self.names.extend(entries.into_iter().map(|(name, ..)| name));
        }
        Ok(())
    }

    /// The number of a name that follows the first `before` ones. A name that was handed out at this place
    /// keeps its number; another one is put behind all, so that no number changes its meaning.
    fn number(&mut self, before: usize, name: EntryName) -> usize {
        if self.names.get(before) == Some(&name) {
            return before + 1;
        }
        self.names.push(name);
        self.names.len()
    }
}

impl Skin {
    pub(super) fn read_directory<'a>(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        plus: bool,
        reply: Reply<'a>,
    ) -> Outcome<'a> {
        let answered = reply.listed(read.size as usize, |listing| {
            match self.list(request, read, plus, listing) {
                // The kernel comes back for the rest.
                Err(error) if error.wanted().is_some() && !listing.is_empty() => Ok(()),
                listed => listed,
            }
        });
        answered.or_else(|(reply, error)| self.refuse(request, reply, error))
    }

    fn list(
        &self,
        request: &Request<'_>,
        read: &ReadIn,
        plus: bool,
        listing: &mut Listing<'_>,
    ) -> Result<(), SkinError> {
        let ino = self.ino(request)?;
        let handle = self.directories.get(read.fh, ino);
        let mut handle = handle.lock().unwrap_or_else(|poisoned| {
            // What a panic left is a list of names like any other.
            poisoned.into_inner()
        });
        if read.offset == 0 && read.fh != 0 {
            handle.names.clear();
        }
        if !self.list_dots(ino, read.offset, plus, listing)? {
            return Ok(());
        }
        let mut before = usize::try_from(read.offset.saturating_sub(DOTS)).unwrap_or(usize::MAX);
        handle.fill(&self.tree, ino, before)?;
        before = before.min(handle.names.len());
        loop {
            let as_of = self.notices.news();
            let after = before.checked_sub(1).map(|index| handle.names[index].clone());
            let entries = self.entries(ino, after.as_ref(), plus)?;
            let is_last = entries.len() < AT_ONCE;
            let mut entries = entries.into_iter();
            for entry in entries.by_ref() {
                let number = handle.number(before, entry.name().clone());
                let listed = self.list_entry(&entry, number as u64 + DOTS, as_of, listing);
                if !matches!(listed, Ok(true)) {
                    entries.for_each(|entry| self.give_entry_back(&entry));
                    return listed.map(|_| ());
                }
                before = number;
            }
            if is_last {
                self.directories.finish(ino);
                return Ok(());
            }
        }
    }

    fn entries(&self, ino: Ino, after: Option<&EntryName>, plus: bool) -> Result<Vec<Entry>, SkinError> {
        Ok(match plus {
            true => {
                let entries = self.tree.read_directory(ino, after, AT_ONCE)?;
                entries.into_iter().map(|(name, attr)| Entry::Plus(name, attr)).collect()
            }
            false => {
                let entries = self.tree.read_names(ino, after, AT_ONCE)?;
                entries.into_iter().map(|(name, ino, kind)| Entry::Plain(name, ino, kind)).collect()
            }
        })
    }

    /// The tree counts as told what it has given us.
    fn give_entry_back(&self, entry: &Entry) {
        if let Entry::Plus(_, attr) = entry {
            self.give_back(attr);
        }
    }

    /// Returns whether there was room.
    fn list_dots(
        &self,
        ino: Ino,
        offset: u64,
        plus: bool,
        listing: &mut Listing<'_>,
    ) -> Result<bool, SkinError> {
        for (cookie, name) in [(1, &b"."[..]), (2, b"..")] {
            if offset >= cookie {
                continue;
            }
            let node = if cookie == 1 { ino } else { self.tree.parent(ino)? };
            let fits = match plus {
                true => listing.add_plus(node.0, cookie, DIRECTORY, name, &no_entry()),
                false => listing.add(node.0, cookie, DIRECTORY, name),
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether there was room. An entry with attributes counts as looked up, and is given back if it
    /// was not listed.
    fn list_entry(
        &self,
        entry: &Entry,
        cookie: u64,
        as_of: u64,
        listing: &mut Listing<'_>,
    ) -> Result<bool, SkinError> {
        match entry {
            Entry::Plus(name, attr) if !listing.has_room_plus(name.as_bytes()) => {
                self.give_back(attr);
                Ok(false)
            }
            Entry::Plus(name, attr) => {
                let shown = self.kept_if_true(self.remembered(attr)?, as_of);
                Ok(listing.add_plus(attr.ino.0, cookie, format(attr.kind) >> 12, name.as_bytes(), &shown))
            }
            Entry::Plain(name, ino, kind) => {
                Ok(listing.add(ino.0, cookie, format(*kind) >> 12, name.as_bytes()))
            }
        }
    }
}

/// An entry of a directory, with or without attributes.
enum Entry {
    Plus(EntryName, Attr),
    Plain(EntryName, Ino, Kind),
}

impl Entry {
    fn name(&self) -> &EntryName {
        match self {
            Entry::Plus(name, _) | Entry::Plain(name, ..) => name,
        }
    }
}
