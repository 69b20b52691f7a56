//! The working tree of a vault: its head snapshot and everything done since.
//!
//! The authority is in memory. Inodes are loaded on demand; every change is an operation ([`Op`]) that is
//! checked, written to the journal if there is one, and applied. A snapshot is taken by freezing the tree
//! (storing what changed), committing the new head, and settling (noting that nothing differs any more).

mod apply;
mod change;
mod copy;
mod freeze;
mod inode;
mod introduce;
mod query;
mod state;
mod still;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use avfs_core::{EntryKind, LinkId, LinkedFile, Meta, Timestamp, Totals};

pub use change::{NewEntry, SetAttr};
pub use state::Base;
use state::State;
pub use still::{Still, Stored};

use crate::error::FsError;
use crate::inodes::Ino;
use crate::journal::Journal;
use crate::objects::{ObjectWriter, Objects};
use crate::op::Op;
use crate::overlay::Data;

/// Tells the time; a test passes its own.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The time of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() },
            Err(_) => Timestamp::default(),
        }
    }
}

/// How much a vault may hold; `None`: as much as there is room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

/// What `stat` shows of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    pub ino: Ino,
    pub meta: Meta,
    pub ctime: Timestamp,
    pub kind: Kind,
    pub size: u64,
    /// How many names it has; for a directory, two and one for each directory in it, is not counted.
    pub names: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice { device: u64 },
    BlockDevice { device: u64 },
}

impl From<&EntryKind> for Kind {
    fn from(kind: &EntryKind) -> Kind {
        match kind {
            EntryKind::File { .. } => Kind::File,
            EntryKind::Directory { .. } => Kind::Directory,
            EntryKind::Symlink { .. } => Kind::Symlink,
            EntryKind::Fifo => Kind::Fifo,
            EntryKind::Socket => Kind::Socket,
            EntryKind::CharDevice { device } => Kind::CharDevice { device: *device },
            EntryKind::BlockDevice { device } => Kind::BlockDevice { device: *device },
        }
    }
}

/// A stored tree to be put into a working tree, with the records of its linked files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTree {
    pub entry: avfs_core::Entry,
    pub links: Vec<(LinkId, LinkedFile)>,
}

/// Where a working tree keeps its journal, and which journals its head contains already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    pub directory: PathBuf,
    /// The number of the last journal whose operations are part of the head.
    pub included: u64,
}

pub struct WorkTree {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
    limits: Mutex<Limits>,
    journal: Mutex<Option<JournalPlace>>,
}

impl WorkTree {
    /// Opens the tree of a head snapshot without a journal: changes live in memory until a snapshot.
    pub fn in_memory(objects: Objects, base: Base, clock: Arc<dyn Clock>) -> Result<WorkTree, FsError> {
        Ok(WorkTree {
            state: Mutex::new(State::new(objects, base)?),
            clock,
            limits: Mutex::default(),
            journal: Mutex::default(),
        })
    }

    /// Opens the tree of a head snapshot with a journal. What an earlier owner did after that snapshot and
    /// could not store any more is done again.
    pub fn journaled(
        objects: Objects,
        base: Base,
        clock: Arc<dyn Clock>,
        place: JournalPlace,
    ) -> Result<WorkTree, FsError> {
        let tree = WorkTree::in_memory(objects, base, clock)?;
        let mut state = tree.state();
        let last = replay_journals(&mut state, &place)?;
        drop(state);
        *tree.journal.lock().expect("no panic happens while the lock is held") =
            Some(JournalPlace { included: last, ..place });
        Ok(tree)
    }

    /// Whether journals with operations that the head lacks were left in a directory.
    pub fn needs_recovery(place: &JournalPlace) -> Result<bool, FsError> {
        Ok(journals_in(place)?.iter().any(|number| *number > place.included))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic happens while the lock is held")
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn set_limits(&self, limits: Limits) {
        *self.limits.lock().expect("no panic happens while the lock is held") = limits;
    }

    fn limits(&self) -> Limits {
        *self.limits.lock().expect("no panic happens while the lock is held")
    }

    pub fn objects(&self) -> Objects {
        self.state().objects.clone()
    }

    pub fn totals(&self) -> Totals {
        self.state().totals()
    }

    /// Whether anything differs from the head.
    pub fn is_dirty(&self) -> bool {
        self.state().is_dirty()
    }

    /// Writes an operation down and makes it happen.
    fn perform(&self, state: &mut State, op: Op, data: &[u8]) -> Result<(), FsError> {
        // A file without a name does not outlive a crash, so the journal must not tell of it.
        let outlives_crash = !op.inode().is_some_and(|ino| state.is_nameless(ino));
        if outlives_crash {
            self.open_journal(state)?;
            state.introduce(&op)?;
        }
        let data = match &mut state.journal {
            Some(journal) if outlives_crash => {
                if op.names_objects() {
                    journal.hold();
                }
                Data::Logged(journal.append(&op, data)?)
            }
            _ => Data::Memory(bytes::Bytes::copy_from_slice(data)),
        };
        state.apply(op, data)?;
        match state.journal.as_ref().is_some_and(Journal::is_overdue) {
            true => release_journal(state),
            false => Ok(()),
        }
    }

    /// The first operation after a snapshot starts a journal.
    fn open_journal(&self, state: &mut State) -> Result<(), FsError> {
        if state.journal.is_some() {
            return Ok(());
        }
        let mut place = self.journal.lock().expect("no panic happens while the lock is held");
        if let Some(place) = place.as_mut() {
            place.included += 1;
            state.journal = Some(Journal::create(&place.directory.join(journal_name(place.included)))?);
        }
        Ok(())
    }

    /// Returns once everything done before survives a power loss.
    pub fn sync(&self) -> Result<(), FsError> {
        let mut state = self.state();
        release_journal(&mut state)?;
        match &mut state.journal {
            Some(journal) => Ok(journal.sync()?),
            None => Ok(()),
        }
    }

    /// Takes away a journal whose operations came to nothing.
    pub fn drop_journal(&self) {
        let mut state = self.state();
        if !state.is_dirty()
            && let Some(journal) = state.journal.take()
        {
            state.journaled.clear();
            remove_journal(journal.place());
        }
    }

    /// Stores what changed. While the returned value lives, the tree stands still; commit the new head
    /// and call [`FrozenTree::settle`], or drop it and nothing has happened.
    pub fn freeze(&self) -> Result<FrozenTree<'_>, FsError> {
        let state = self.state();
        let writer = ObjectWriter::new(&state.objects);
        let frozen = state.freeze(&writer)?;
        let included = self.journal.lock().expect("no panic happens while the lock is held");
        let included = included.as_ref().map_or(0, |place| place.included);
        Ok(FrozenTree { state, frozen, included })
    }
}

/// A tree whose every part is stored, on its way to becoming the head.
#[must_use = "a frozen tree that is not settled stays changed"]
pub struct FrozenTree<'a> {
    state: MutexGuard<'a, State>,
    frozen: freeze::Frozen,
    included: u64,
}

impl FrozenTree<'_> {
    pub fn base(&self) -> &Base {
        &self.frozen.base
    }

    /// The number of the last journal whose operations are in this tree.
    pub fn journal(&self) -> u64 {
        self.included
    }

    /// The new head is durable: the journal up to here is not needed any more.
    pub fn settle(mut self) {
        self.state.settle(self.frozen);
        self.state.journaled.clear();
        if let Some(journal) = self.state.journal.take() {
            remove_journal(journal.place());
        }
    }
}

/// Makes the objects durable that the journal names, so that it may be written.
fn release_journal(state: &mut State) -> Result<(), FsError> {
    let Some(journal) = state.journal.as_mut().filter(|journal| journal.is_held()) else { return Ok(()) };
    state.objects.store().sync().map_err(crate::ObjectError::from)?;
    journal.release();
    Ok(journal.flush()?)
}

/// A journal that cannot be removed is recognised by its number and removed at the next opening.
fn remove_journal(place: &std::path::Path) {
    let _ = std::fs::remove_file(place);
}

fn journal_name(number: u64) -> String {
    format!("journal.{number}")
}

/// The numbers of the journals in a directory, oldest first.
fn journals_in(place: &JournalPlace) -> Result<Vec<u64>, FsError> {
    let listing = match std::fs::read_dir(&place.directory) {
        Ok(listing) => listing,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(journal_io(place, source)),
    };
    let mut numbers = Vec::new();
    for entry in listing {
        let name = entry.map_err(|source| journal_io(place, source))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("journal."));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn journal_io(place: &JournalPlace, source: std::io::Error) -> FsError {
    let place = place.directory.clone();
    crate::journal::JournalError::Io { action: "listing", place, source }.into()
}

/// Does again what the journal says that the head does not contain; it stays open. Older ones, which a crash
/// kept from being removed, are removed. Returns the number of the last one.
fn replay_journals(state: &mut State, place: &JournalPlace) -> Result<u64, FsError> {
    let path = |number: u64| place.directory.join(journal_name(number));
    let (old, new): (Vec<u64>, Vec<u64>) =
        journals_in(place)?.into_iter().partition(|number| *number <= place.included);
    old.into_iter().for_each(|number| remove_journal(&path(number)));
    let number = match new[..] {
        [] => return Ok(place.included),
        [number] => number,
        // A journal is started only when the one before is part of the head.
        _ => return Err(FsError::Invalid("there is more than one journal")),
    };
    let journal = Journal::recover(&path(number), |_, op, position| -> Result<(), FsError> {
        state.apply(op, Data::Logged(position))
    })?;
    state.journal = Some(journal);
    Ok(number)
}
