//! A load with checkable results: threads that change files in every durable way, acknowledge each change
//! once its fsync has returned, and write contents that identify themselves. After a crash of anything below
//! the directory (or of the writer), [`LoadWriter::check`] compares the directory with the acknowledgements.

mod check;
mod contents;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::child::acknowledge;
use crate::fuzz::Dice;
use contents::{Item, SLOT_BYTES};

/// The parameters of a load; the same values write and check.
#[derive(Clone, Copy, Debug)]
pub struct LoadWriter {
    pub threads: u64,
    pub seed: u64,
    /// Whether written and unsynced bytes may be zeros: disk file systems set the size of a file before its
    /// bytes. Otherwise a file has a prefix of the written bytes.
    pub unsynced_may_be_zeros: bool,
}

const DOCUMENTS: u64 = 3;
const SLOTS: u64 = 4;

impl LoadWriter {
    /// Writes into `directory`, which is created, until something fails; each thread stops at its first
    /// error, and the first of these is returned. Acknowledgements go to standard output: this runs in a
    /// child.
    pub fn run(&self, directory: &Path) -> io::Error {
        if let Err(error) = make_directory(directory) {
            return error;
        }
        std::thread::scope(|scope| {
            let threads = (0..self.threads).map(|number| {
                let dice = Dice::new(self.seed ^ number.wrapping_mul(0x9E37_79B9));
                scope.spawn(move || WriterThread::new(directory, number).run(dice))
            });
            let ends: Vec<_> = threads
                .collect::<Vec<_>>()
                .into_iter()
                .map(|end| end.join().unwrap())
                .collect();
            ends.into_iter()
                .next()
                .unwrap_or_else(|| io::Error::other("a load without threads"))
        })
    }
}

fn make_directory(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    directory.parent().map_or(Ok(()), sync_directory)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// One thread has files of its own, and one change in progress at a time.
struct WriterThread<'a> {
    directory: &'a Path,
    thread: u64,
    /// The number of records in the log, of writes of each document and slot, and so on.
    appended: u64,
    replaced: [u64; DOCUMENTS as usize],
    slots: [u64; SLOTS as usize],
    created: u64,
    removed: u64,
}

impl<'a> WriterThread<'a> {
    fn new(directory: &'a Path, thread: u64) -> WriterThread<'a> {
        let (replaced, slots) = ([0; DOCUMENTS as usize], [0; SLOTS as usize]);
        WriterThread {
            directory,
            thread,
            appended: 0,
            replaced,
            slots,
            created: 0,
            removed: 0,
        }
    }

    fn run(mut self, mut dice: Dice) -> io::Error {
        if let Err(error) = self.fill_slots() {
            return error;
        }
        loop {
            let step = match dice.below(6) {
                0 => self.append(),
                1 => self.replace(dice.below(DOCUMENTS as usize)),
                2 | 3 => self.overwrite(dice.below(SLOTS as usize)),
                4 => self.create(),
                _ if self.removed < self.created => self.remove(),
                _ => self.create(),
            };
            if let Err(error) = step {
                return error;
            }
        }
    }

    /// Adds to the end of a file and syncs it.
    fn append(&mut self) -> io::Result<()> {
        let item = Item::Log {
            record: self.appended,
        };
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path(&item))?;
        file.write_all(&item.bytes(self.thread))?;
        file.sync_data()?;
        if self.appended == 0 {
            sync_directory(self.directory)?;
        }
        self.appended += 1;
        self.acknowledge(&item);
        Ok(())
    }

    /// Writes a new version beside a file and renames it: the way of editors.
    fn replace(&mut self, number: usize) -> io::Result<()> {
        let item = Item::Document {
            number: number as u64,
            version: self.replaced[number],
        };
        let beside = self.path(&item).with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&item.bytes(self.thread))?;
        file.sync_all()?;
        std::fs::rename(&beside, self.path(&item))?;
        sync_directory(self.directory)?;
        self.replaced[number] += 1;
        self.acknowledge(&item);
        Ok(())
    }

    fn fill_slots(&mut self) -> io::Result<()> {
        let items = (0..SLOTS)
            .map(|number| Item::Slot { number, version: 0 })
            .collect::<Vec<_>>();
        let mut file = File::create(self.path(&items[0]))?;
        for item in &items {
            file.write_all(&item.bytes(self.thread))?;
        }
        file.sync_all()?;
        sync_directory(self.directory)?;
        self.slots = [1; SLOTS as usize];
        items.iter().for_each(|item| self.acknowledge(item));
        Ok(())
    }

    /// Overwrites a part of a file, in place: the way of databases.
    fn overwrite(&mut self, number: usize) -> io::Result<()> {
        let item = Item::Slot {
            number: number as u64,
            version: self.slots[number],
        };
        let file = OpenOptions::new().write(true).open(self.path(&item))?;
        file.write_all_at(&item.bytes(self.thread), (number * SLOT_BYTES) as u64)?;
        file.sync_data()?;
        self.slots[number] += 1;
        self.acknowledge(&item);
        Ok(())
    }

    fn create(&mut self) -> io::Result<()> {
        let item = Item::Created { number: self.created };
        let mut file = File::create_new(self.path(&item))?;
        file.write_all(&item.bytes(self.thread))?;
        file.sync_all()?;
        sync_directory(self.directory)?;
        self.created += 1;
        self.acknowledge(&item);
        Ok(())
    }

    /// Removes the oldest existing file.
    fn remove(&mut self) -> io::Result<()> {
        let item = Item::Removed { number: self.removed };
        std::fs::remove_file(self.path(&item))?;
        sync_directory(self.directory)?;
        self.removed += 1;
        self.acknowledge(&item);
        Ok(())
    }

    fn path(&self, item: &Item) -> PathBuf {
        self.directory.join(item.file(self.thread))
    }

    fn acknowledge(&self, item: &Item) {
        acknowledge(item.acknowledgement(self.thread));
    }
}
