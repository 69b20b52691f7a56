//! The numbers of the names of a directory in listings, which are the cookies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use avfs_core::EntryName;
use avfs_tree::{FsError, Ino, WorkTree};

/// How many entries are requested from the tree at a time.
pub(super) const AT_ONCE: usize = 256;

/// How many more numbers than twice its names a directory may have, before the numbers of removed names are
/// dropped.
const SPARE: usize = 4096;

/// How many names of directories that are listed without being opened have numbers at a time.
const UNOPENED_MAX: usize = 1 << 18;

pub(super) type SharedNumbers = Arc<Mutex<NameNumbers>>;

/// Names by their numbers, which start at one. A name has one number and keeps it, wherever it is listed
/// later.
#[derive(Default)]
pub(super) struct NameNumbers {
    names: Vec<EntryName>,
    /// The numbers of names that were not numbered in their order; `None` as long as all were.
    numbers: Option<HashMap<EntryName, usize>>,
    /// How many names were listed since a listing began.
    listed: usize,
}

impl NameNumbers {
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn clear(&mut self) {
        *self = NameNumbers::default();
    }

    /// A listing begins. Removed names keep their numbers, because another program may be in the middle of a
    /// listing; if removed names are by far the most, all numbers are assigned again.
    pub(super) fn begin(&mut self) {
        if self.len() > 2 * self.listed + SPARE {
            self.clear();
        }
        self.listed = 0;
    }

    /// The name with a number; none has zero.
    pub(super) fn name(&self, number: usize) -> Option<&EntryName> {
        self.names.get(number.checked_sub(1)?)
    }

    /// The number of a name that is listed after the one with the number `before`.
    pub(super) fn number(&mut self, before: usize, name: &EntryName) -> usize {
        self.listed += 1;
        if self.names.get(before) == Some(name) {
            return before + 1;
        }
        match self.known(name) {
            Some(number) => number,
            None => self.add(name),
        }
    }

    fn known(&self, name: &EntryName) -> Option<usize> {
        match &self.numbers {
            Some(numbers) => numbers.get(name).copied(),
            None => self.names.binary_search(name).ok().map(|index| index + 1),
        }
    }

    fn add(&mut self, name: &EntryName) -> usize {
        let is_in_order = self.names.last().is_none_or(|last| last < name);
        self.names.push(name.clone());
        match &mut self.numbers {
            Some(numbers) => _ = numbers.insert(name.clone(), self.names.len()),
            None if is_in_order => {}
            None => self.numbers = Some(self.names.iter().cloned().zip(1..).collect()),
        }
        self.names.len()
    }

    /// Numbers names in their order until `count` names have numbers, if there are that many. The caller has
    /// these numbers from a listing that the kernel has cached.
    pub(super) fn fill(&mut self, tree: &WorkTree, ino: Ino, count: usize) -> Result<(), FsError> {
        let mut after = self.names.last().cloned();
        while self.len() < count {
            let missing = (count - self.len()).min(AT_ONCE);
            let entries = tree.read_names(ino, after.as_ref(), missing)?;
            for (name, ..) in &entries {
                self.number(self.len(), name);
            }
            match entries.into_iter().next_back() {
                Some((name, ..)) => after = Some(name),
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

/// The numbers of all directories that are being read.
#[derive(Default)]
pub(in crate::skin) struct DirectoryHandles {
    last: AtomicU64,
    open: Mutex<HashMap<u64, SharedNumbers>>,
    unopened: Mutex<UnopenedListings>,
}

/// Directories that are read without being opened, so that closing them is not reported. Their numbers are
/// valid until the kernel forgets the directory, which it does not while a program has it open.
#[derive(Default)]
struct UnopenedListings {
    directories: HashMap<Ino, UnclosedListing>,
    names: usize,
    reads: u64,
}

struct UnclosedListing {
    numbers: SharedNumbers,
    names: usize,
    last_read: u64,
}

impl DirectoryHandles {
    pub(crate) fn open(&self) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.table().insert(number, Arc::default());
        number
    }

    pub(crate) fn release(&self, number: u64) {
        self.table().remove(&number);
    }

    pub(crate) fn clear(&self) {
        self.table().clear();
        *self.unopened() = UnopenedListings::default();
    }

    pub(super) fn get(&self, number: u64, ino: Ino) -> SharedNumbers {
        match self.table().get(&number) {
            Some(opened) => opened.clone(),
            None => self.unopened().read(ino),
        }
    }

    /// Records that this many names of a directory have numbers.
    pub(super) fn grown(&self, ino: Ino, names: usize) {
        self.unopened().grown(ino, names);
    }

    /// An unopened directory is no longer read.
    pub(crate) fn forget(&self, ino: Ino) {
        self.unopened().forget(ino);
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u64, SharedNumbers>> {
        self.open.lock().expect("no panic happens while the lock is held")
    }

    fn unopened(&self) -> MutexGuard<'_, UnopenedListings> {
        self.unopened
            .lock()
            .expect("no panic happens while the lock is held")
    }
}

impl UnopenedListings {
    fn read(&mut self, ino: Ino) -> SharedNumbers {
        self.reads += 1;
        let new = || UnclosedListing {
            numbers: SharedNumbers::default(),
            names: 0,
            last_read: 0,
        };
        let read = self.directories.entry(ino).or_insert_with(new);
        read.last_read = self.reads;
        read.numbers.clone()
    }

    fn grown(&mut self, ino: Ino, names: usize) {
        let Some(read) = self.directories.get_mut(&ino) else {
            return;
        };
        self.names = self.names - read.names + names;
        read.names = names;
        if self.names > UNOPENED_MAX {
            self.forget_oldest(ino);
        }
    }

    fn forget(&mut self, ino: Ino) {
        if let Some(gone) = self.directories.remove(&ino) {
            self.names -= gone.names;
        }
    }

    /// A program that still reads one of these gets new numbers in the order of names: it misses a name, or
    /// sees one twice, if names before its position were added or removed meanwhile.
    fn forget_oldest(&mut self, reading: Ino) {
        let mut oldest: Vec<(u64, Ino)> = self
            .directories
            .iter()
            .map(|(ino, directory)| (directory.last_read, *ino))
            .collect();
        oldest.sort_unstable();
        for (_, ino) in oldest.into_iter().filter(|(_, ino)| *ino != reading) {
            if self.names <= UNOPENED_MAX / 2 {
                break;
            }
            self.forget(ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> EntryName {
        EntryName::new(text.as_bytes()).expect("a name")
    }

    #[test]
    fn names_that_come_and_go_do_not_pile_up() {
        let mut numbers = NameNumbers::default();
        for round in 0..10 * SPARE {
            numbers.begin();
            for listed in ["always".to_owned(), format!("once {round}")] {
                numbers.number(0, &name(&listed));
            }
            assert!(numbers.len() <= SPARE + 6, "{} in round {round}", numbers.len());
        }
    }

    #[test]
    fn a_name_keeps_its_number_when_others_come_and_go() {
        let mut numbers = NameNumbers::default();
        let mut list = |names: &[&str]| {
            let mut before = 0;
            let numbered = names.iter().map(|text| {
                before = numbers.number(before, &name(text));
                before
            });
            numbered.collect::<Vec<usize>>()
        };
        assert_eq!(list(&["b", "c", "d"]), [1, 2, 3]);
        assert_eq!(list(&["a", "b", "d"]), [4, 1, 3]);
        assert_eq!(list(&["a", "c"]), [4, 2]);
        assert_eq!(
            (numbers.len(), numbers.name(0), numbers.name(4)),
            (4, None, Some(&name("a")))
        );
    }

    #[test]
    fn least_recently_read_entry_is_evicted_first() {
        let handles = DirectoryHandles::default();
        let read = |ino, names| {
            handles.get(0, Ino(ino));
            handles.grown(Ino(ino), names);
        };
        read(2, UNOPENED_MAX / 2);
        read(3, UNOPENED_MAX / 4);
        read(2, UNOPENED_MAX / 2);
        let known = |ino| handles.unopened().directories.contains_key(&Ino(ino));
        assert!(known(2) && known(3));
        read(4, UNOPENED_MAX / 2);
        assert!(
            !known(3) && !known(2) && known(4),
            "half of the room is free again"
        );
        handles.forget(Ino(4));
        assert_eq!(handles.unopened().names, 0);
    }
}
