//! The working tree of a vault: its head snapshot and everything done since.
//!
//! The authority is in memory. Inodes are loaded on demand; every change is an operation ([`Op`]) that is
//! checked, written to the journal if there is one, and applied. A snapshot is taken by freezing the tree
//! (storing what changed), committing the new head, and settling (noting that nothing differs any more).

mod apply;
mod aside;
mod capture;
mod change;
mod copy;
mod durable;
mod evict;
mod freeze;
mod guard;
mod inode;
mod introduce;
mod left;
mod preparing;
mod promised;
mod query;
mod rebase;
mod relabel;
mod replay;
mod state;
mod still;
mod stubs;
mod subdirectories;
mod view;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use avfs_core::{EntryKind, LinkId, LinkedFile, Meta, Timestamp, Totals};

pub use aside::SetAside;
use capture::Captured;
pub use change::{NewEntry, SetAttr};
use freeze::Frozen;
pub use preparing::NameInPreparation;
pub use query::Piece;
use replay::{mark_of, replay_journals};
pub use state::Base;
use state::State;
pub use still::{Still, Stored};
use view::Stand;
pub use watch::{Door, Seen, Watcher};

use crate::error::{FsError, Wanted};
use crate::inodes::Ino;
use crate::journal::{Journal, JournalError, LogFile, Need, Origin, remove_note};
use crate::locks::LockTable;
use crate::objects::{Fetched, ObjectWriter, Objects};
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
    pub atime: Timestamp,
    pub kind: Kind,
    pub size: u64,
    /// How many names it has. For a directory two, and one for each directory in it; or one, if there is too
    /// much in it to count.
    pub names: u32,
}

impl Attr {
    /// Whether it is a file that has other names too.
    pub fn has_other_names(&self) -> bool {
        self.kind != Kind::Directory && self.names > 1
    }
}

/// How often the tree was taken to another time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u32);

/// An inode as it was known at a moment: if its contents were replaced by those of another time since, what is
/// asked of it fails as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub ino: Ino,
    /// `None`: whatever it holds now.
    pub known: Option<Moment>,
}

impl From<Ino> for At {
    fn from(ino: Ino) -> At {
        At { ino, known: None }
    }
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
    /// A file that keeps room on the same disk, to be removed for operations that make room.
    pub reserve: Option<PathBuf>,
}

/// A working tree, as one of the doors to it sees it: a mount, a command, a program that embeds it. Doors share
/// the tree; what is changed through one is told to the [`Watcher`]s of the others.
pub struct WorkTree {
    shared: Arc<Shared>,
    door: Door,
    /// Whoever uses this door remembers inodes by number and gives them back: each one that it is told of by
    /// name is held, from the same moment on.
    holding: bool,
    /// Whether what is asked through this door may wait for the store, with everybody else behind it.
    waits: bool,
}

/// Lock order: `turn`, `state`, then the others.
struct Shared {
    objects: Objects,
    state: Mutex<State>,
    /// One snapshot at a time.
    turn: Mutex<()>,
    clock: Arc<dyn Clock>,
    limits: Mutex<Limits>,
    journal: Mutex<Option<JournalPlace>>,
    doors: AtomicU64,
    /// Somebody should sync.
    sync_due: AtomicBool,
    /// What [`State::moment`] was when the watchers had been told of it.
    moment: AtomicU32,
    locks: LockTable,
    /// A name that was being made ready is ready.
    prepared: Condvar,
}

impl WorkTree {
    /// Opens the tree of a head snapshot without a journal: changes live in memory until a snapshot.
    pub fn in_memory(objects: Objects, base: Base, clock: Arc<dyn Clock>) -> Result<WorkTree, FsError> {
        let shared = Shared {
            objects: objects.clone(),
            state: Mutex::new(State::new(objects, base)?),
            turn: Mutex::new(()),
            clock,
            limits: Mutex::default(),
            journal: Mutex::default(),
            doors: AtomicU64::new(1),
            sync_due: AtomicBool::new(false),
            moment: AtomicU32::new(0),
            locks: LockTable::default(),
            prepared: Condvar::new(),
        };
        Ok(WorkTree { shared: Arc::new(shared), door: Door(0), holding: false, waits: true })
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
        *tree.journal_place() = Some(JournalPlace { included: last, ..place });
        Ok(tree)
    }

    /// Another door to the same tree.
    pub fn another_door(&self) -> WorkTree {
        let door = Door(self.shared.doors.fetch_add(1, Ordering::Relaxed));
        WorkTree { shared: Arc::clone(&self.shared), door, holding: false, waits: true }
    }

    /// Another door to the same tree, for a kernel: what it looks up, makes or lists is held once each time,
    /// until [`WorkTree::release`].
    pub fn holding_door(&self) -> WorkTree {
        let mut door = self.another_door();
        door.holding = true;
        door
    }

    /// The same door, through which nobody waits for the store: what would have to be read is refused
    /// ([`FsError::wanted`]) before anything has happened. Whoever uses it fetches that and tries again.
    pub fn never_waiting(mut self) -> WorkTree {
        self.waits = false;
        self
    }

    /// Gets what a door that never waits has asked for; waits as long as that takes, and nobody else does. It is
    /// at hand until what is returned is dropped.
    pub fn fetch(&self, wanted: Wanted) -> Result<Option<Fetched>, FsError> {
        match wanted {
            Wanted::Object(id) => Ok(Some(self.shared.objects.fetch(id)?)),
            Wanted::Preparation => {
                self.await_preparation();
                Ok(None)
            }
        }
    }

    /// What the caller is told of an inode, of which it may be known where it stands; counts, if he counts.
    fn told(&self, state: &mut State, ino: Ino, stand: Option<Stand>) -> Result<Attr, FsError> {
        let attr = state.attr(ino)?;
        let attr = self.shown(state, attr, stand)?;
        if self.holding {
            state.hold(ino)?;
        }
        Ok(attr)
    }

    /// Tells `watcher` what is changed through other doors, until this door is closed.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.state().watchers.push((self.door, watcher));
    }

    /// Tells nobody any more. A watcher may hold this door, so it must not be what ends with it.
    pub fn unwatch(&self) {
        let mut state = self.state();
        let gone = state.take_watchers(self.door);
        drop(state);
        // With the lock released: the end of a watcher may be that of another door.
        drop(gone);
    }

    /// The present moment. Whoever asks for it before he finds out which inode is meant hears if that was
    /// replaced before he uses it.
    pub fn moment(&self) -> Moment {
        Moment(self.shared.moment.load(Ordering::Acquire))
    }

    pub fn door(&self) -> Door {
        self.door
    }

    /// The locks on files, shared by all doors.
    pub fn locks(&self) -> &LockTable {
        &self.shared.locks
    }

    /// Whether journals with operations that the head lacks were left in a directory.
    pub fn needs_recovery(place: &JournalPlace) -> Result<bool, FsError> {
        let left = place.listed()?;
        Ok(left.journals.iter().chain(&left.notes).any(|number| *number > place.included))
    }

    /// A request that panicked must not take all others with it: what it left is used as it is.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.objects.set_waits(self.waits);
        state
    }

    /// The tree, with this inode loaded if there is one of that number.
    fn state_with(&self, ino: Ino) -> Result<MutexGuard<'_, State>, FsError> {
        let mut state = self.state();
        state.unload_oldest();
        state.revive(ino)?;
        Ok(state)
    }

    fn journal_place(&self) -> MutexGuard<'_, Option<JournalPlace>> {
        self.shared.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    pub fn set_limits(&self, limits: Limits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    pub fn limits(&self) -> Limits {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn objects(&self) -> Objects {
        self.shared.objects.clone()
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
        state.revive_lost(&op)?;
        self.own(state, &op)?;
        let data = match outlives_crash {
            true => match self.write_down(state, &op, data) {
                Err(FsError::Journal(JournalError::Full { .. })) if self.use_reserve(&op) => {
                    self.write_down(state, &op, data)?
                }
                written => written?,
            },
            false if data.is_empty() => Data::Hole,
            false => self.spill(state, data)?,
        };
        // What begins to happen is not tried again.
        state.objects.set_waits(true);
        state.tell_watchers(self.door, &op);
        state.tell_views(self.door, &op);
        let moved = state.moved_to_other_levels(self.door, &op);
        state.apply(op, data)?;
        // Not before: what is asked for meanwhile must not be kept again.
        moved.into_iter().for_each(|(door, seen)| state.tell_door(door, seen));
        self.bound_journal(state)
    }

    /// Writes an operation into the journal, if there is one.
    fn write_down(&self, state: &mut State, op: &Op, data: &[u8]) -> Result<Data, FsError> {
        self.open_journal(state)?;
        if let Some(journal) = &mut state.journal {
            journal.set_need(if op.makes_room() { Need::MakesRoom } else { Need::Ordinary });
        }
        state.introduce(op)?;
        let Some(journal) = &mut state.journal else {
            return Ok(Data::Memory(bytes::Bytes::copy_from_slice(data)));
        };
        if op.names_objects() {
            journal.hold();
            state.objects_named += 1;
        }
        let position = journal.append(op, data)?;
        Ok(Data::Logged(Arc::clone(journal.log()), position))
    }

    /// On a full disk, gives the room that is kept for it to an operation that makes room; says whether there was any.
    fn use_reserve(&self, op: &Op) -> bool {
        let place = self.journal_place();
        let reserve = place.as_ref().and_then(|place| place.reserve.as_deref());
        op.makes_room() && reserve.is_some_and(|reserve| std::fs::remove_file(reserve).is_ok())
    }

    /// Bytes of a file without a name: they need not outlive a crash, but need not stay in memory either.
    fn spill(&self, state: &mut State, data: &[u8]) -> Result<Data, FsError> {
        let place = self.journal_place();
        let Some(place) = place.as_ref() else {
            return Ok(Data::Memory(bytes::Bytes::copy_from_slice(data)));
        };
        let spill = match &mut state.spill {
            Some(spill) => spill,
            None => state.spill.insert(Arc::new(LogFile::nameless(&place.directory)?)),
        };
        let position = spill.append(data)?;
        Ok(Data::Logged(Arc::clone(spill), position))
    }

    /// The first operation after a snapshot starts a journal.
    fn open_journal(&self, state: &mut State) -> Result<(), FsError> {
        if state.journal.is_some() {
            return Ok(());
        }
        let mut place = self.journal_place();
        if let Some(place) = place.as_mut() {
            let origin = match state.sealed.is_empty() && state.settling.is_none() {
                true => Origin { base: mark_of(&state.base), follows: 0 },
                false => Origin { base: 0, follows: place.included },
            };
            place.included += 1;
            state.journal = Some(Journal::create(&place.path(place.included), origin)?);
        }
        Ok(())
    }

    /// How many bytes of journal a snapshot would make superfluous.
    pub fn journal_len(&self) -> u64 {
        let state = self.state();
        let sealed: u64 = state.sealed.iter().map(|log| log.written()).sum();
        sealed + state.journal.as_ref().map_or(0, Journal::len)
    }

    /// Takes away journals whose operations came to nothing.
    pub fn drop_journal(&self) {
        let mut state = self.state();
        if !state.is_dirty() && state.settling.is_none() {
            state.journaled.clear();
            let journal = state.journal.take().map(|journal| Arc::clone(journal.log()));
            let logs: Vec<_> = state.sealed.drain(..).chain(journal).collect();
            logs.iter().for_each(|log| remove_journal(log.place()));
        }
    }

    /// Stores what changed, as it is now, while the tree goes on. Commit the new head and call
    /// [`FrozenTree::settle`], or drop the returned value and nothing has happened.
    pub fn freeze(&self) -> Result<FrozenTree<'_>, FsError> {
        let turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.with_free_journal()?;
        let (captured, included) = self.capture(&mut state)?;
        let objects = state.objects.clone();
        let sealed = state.sealed.len();
        drop(state);
        let mut tree = FrozenTree { tree: self, _turn: turn, frozen: None, included, sealed };
        tree.frozen = Some(captured.store(&objects, &ObjectWriter::new(&objects))?);
        Ok(tree)
    }

    /// Takes what changed; operations from now on go to a new journal.
    fn capture(&self, state: &mut State) -> Result<(Captured, u64), FsError> {
        self.make_named_durable(state)?;
        if let Some(journal) = &mut state.journal {
            journal.seal()?;
        }
        let captured = state.capture()?;
        if let Some(journal) = state.journal.take() {
            state.sealed.push(Arc::clone(journal.log()));
            state.journaled.clear();
        }
        Ok((captured, self.journal_place().as_ref().map_or(0, |place| place.included)))
    }
}

/// How many files are noted as settled while everybody else waits.
const SETTLED_AT_ONCE: usize = 1024;
/// Whoever waits for the tree gets it meanwhile: a lock that is taken again at once would go past him.
const BREATH: std::time::Duration = std::time::Duration::from_micros(50);

/// A state whose every part is stored, on its way to becoming the head.
#[must_use = "a frozen tree that is not settled stays changed"]
pub struct FrozenTree<'a> {
    tree: &'a WorkTree,
    _turn: MutexGuard<'a, ()>,
    frozen: Option<Frozen>,
    included: u64,
    /// How many of the sealed journals are in it.
    sealed: usize,
}

impl FrozenTree<'_> {
    pub fn base(&self) -> &Base {
        &self.frozen.as_ref().expect("it is there until the tree is settled").base
    }

    /// The number of the last journal whose operations are in this tree.
    pub fn journal(&self) -> u64 {
        self.included
    }

    /// The new head is durable: the journals up to here are not needed any more.
    pub fn settle(mut self) {
        if let Some(frozen) = self.frozen.take() {
            let mut state = self.tree.state();
            let mut settled = state.settle(frozen);
            let logs: Vec<Arc<LogFile>> = state.sealed.drain(..self.sealed).collect();
            drop(state);
            logs.iter().for_each(|log| remove_journal(log.place()));
            while settled.advance(&mut self.tree.state(), SETTLED_AT_ONCE) {
                std::thread::sleep(BREATH);
            }
        }
    }
}

impl Drop for WorkTree {
    fn drop(&mut self) {
        let door = self.door;
        let mut state = self.state();
        let watchers = state.take_watchers(door);
        state.views.remove(door);
        drop(state);
        drop(watchers);
        self.shared.locks.release_door(door.0);
    }
}

impl Drop for FrozenTree<'_> {
    fn drop(&mut self) {
        // Settled already if it succeeded. Taking changes back touches only what is in memory.
        let abandoned = self.tree.state().abandon();
        debug_assert!(abandoned.is_ok(), "{abandoned:?}");
    }
}

/// A journal that cannot be removed is recognised by its number and removed at the next opening. The note goes first:
/// alone it would say that its journal was lost.
fn remove_journal(place: &std::path::Path) {
    if remove_note(place).is_ok() {
        let _ = std::fs::remove_file(place);
    }
}
