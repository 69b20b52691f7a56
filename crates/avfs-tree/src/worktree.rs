//! The working tree of a vault: its head snapshot and everything done since.
//!
//! The authoritative state is in memory. Inodes are loaded on demand; every change is an operation ([`JournalOp`])
//! that is checked, written to the journal if there is one, and applied. A snapshot is taken by freezing the
//! tree (storing the changes), committing the new head, and settling (recording that nothing differs from
//! it).

mod apply;
mod aside;
mod capture;
mod change;
mod copy;
mod evict;
mod exclusive;
mod freeze;
mod guard;
mod inode;
mod introduce;
mod journaling;
mod left;
mod preparing;
mod promised;
mod query;
mod rebase;
mod relabel;
mod replay;
mod requested;
mod state;
mod stubs;
mod subdirectories;
mod view;
mod watch;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use avfs_core::{
    Content, EntryKind, EntryName, LinkId, LinkedFile, Meta, PromiseId, Timestamp, Totals, TreePath,
};

pub use aside::SetAside;
pub use change::{NewEntry, SetAttr};
pub use exclusive::{ExclusiveTree, StoredChanges};
use freeze::Frozen;
use journaling::Journaling;
pub use preparing::NameInPreparation;
use preparing::PATIENCE;
use promised::Promised;
pub use query::ReadPiece;
use query::attr;
use relabel::moved_to_other_levels;
use replay::replay_journals;
use requested::RequestedPaths;
pub use state::BaseTree;
use state::TreeState;
use view::{Visibility, note_in_views};
use watch::tell_watchers;
pub use watch::{Door, Invalidation, Watcher};

use crate::error::{FsError, WantedItem};
use crate::inodes::Ino;
use crate::journal::{Journal, JournalError, LogFile, remove_note};
use crate::locks::LockTable;
use crate::objects::{ObjectWriter, Objects, PrefetchedObject};
use crate::op::{EntryPlace, JournalOp};
use crate::overlay::ExtentData;

/// Returns the current time; tests inject their own.
pub trait TreeClock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl TreeClock for SystemClock {
    fn now(&self) -> Timestamp {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Timestamp {
                seconds: since.as_secs() as i64,
                nanos: since.subsec_nanos(),
            },
            // A clock before 1970 is not worth an error in every operation.
            Err(_) => Timestamp::default(),
        }
    }
}

/// The limits of a vault; `None`: limited by disk space only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VaultLimits {
    /// The sum of the sizes of its files.
    pub bytes: Option<u64>,
    /// The number of its files, directories and links.
    pub files: Option<u64>,
}

/// The attributes that `stat` shows of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// The attributes that are stored with it.
    pub meta: Meta,
    /// When it was last changed.
    pub ctime: Timestamp,
    /// When it was last read, as far as that is known.
    pub atime: Timestamp,
    /// What it is.
    pub kind: InodeKind,
    /// The size as `stat` reports it.
    pub size: u64,
    /// The number of its names. For a directory two, plus one for each subdirectory; or one, if it has too
    /// many entries to count.
    pub names: u32,
}

impl Attr {
    /// Whether it is a file that has other names.
    pub fn has_other_names(&self) -> bool {
        self.kind != InodeKind::Directory && self.names > 1
    }
}

/// How often the tree was moved to another point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeMoment(u32);

/// An inode as it was known at a moment: if its contents were since replaced by those of another point in
/// time, requests for it fail as stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownInode {
    /// The inode.
    pub ino: Ino,
    /// `None`: whatever it holds now.
    pub known: Option<TreeMoment>,
}

impl From<Ino> for KnownInode {
    fn from(ino: Ino) -> KnownInode {
        KnownInode { ino, known: None }
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice {
        /// Its number.
        device: u64,
    },
    /// A block device.
    BlockDevice {
        /// Its number.
        device: u64,
    },
}

impl From<&EntryKind> for InodeKind {
    fn from(kind: &EntryKind) -> InodeKind {
        match kind {
            EntryKind::File { .. } => InodeKind::File,
            EntryKind::Directory { .. } => InodeKind::Directory,
            EntryKind::Symlink { .. } => InodeKind::Symlink,
            EntryKind::Fifo => InodeKind::Fifo,
            EntryKind::Socket => InodeKind::Socket,
            EntryKind::CharDevice { device } => InodeKind::CharDevice { device: *device },
            EntryKind::BlockDevice { device } => InodeKind::BlockDevice { device: *device },
        }
    }
}

/// A stored tree to be inserted into a working tree, with the records of its linked files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTree {
    /// The entry at its top.
    pub entry: avfs_core::Entry,
    /// The files in it with several names.
    pub links: Vec<(LinkId, LinkedFile)>,
}

/// The directory of the journals of a working tree, and which of them its head already contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalPlace {
    /// The directory.
    pub directory: PathBuf,
    /// The number of the last journal whose operations are part of the head.
    pub included: u64,
    /// A file that reserves space on the same disk; it is removed for operations that free space.
    pub reserve: Option<PathBuf>,
}

/// A working tree as seen through one of its doors: a mount, a command, a program that embeds it. Doors share
/// the tree; the [`Watcher`]s of the other doors are notified of changes made through one.
pub struct WorkTree {
    shared: Arc<SharedTree>,
    door: Door,
    /// The user of this door, a kernel, remembers inodes by number until it forgets them: each inode that an
    /// answer names is held from the same moment on.
    holding: bool,
    /// Whether requests through this door may wait for the store, while they hold the lock of the tree.
    waits: bool,
}

/// Lock order: `turn`, `state`, then the others.
struct SharedTree {
    objects: Objects,
    state: Mutex<TreeState>,
    /// One snapshot at a time.
    turn: Mutex<()>,
    clock: Arc<dyn TreeClock>,
    limits: Mutex<VaultLimits>,
    journal: Mutex<Option<JournalPlace>>,
    doors: AtomicU64,
    /// The journal should be synced soon.
    sync_due: AtomicBool,
    /// The value of [`TreeState::moment`] when the watchers were last notified of it.
    moment: AtomicU32,
    locks: LockTable,
    /// Signalled when a name in preparation is ready.
    prepared: Condvar,
    requested: RequestedPaths,
}

impl WorkTree {
    /// Opens the tree of a head snapshot without a journal: changes live in memory until a snapshot.
    pub fn in_memory(
        objects: Objects,
        base: BaseTree,
        clock: Arc<dyn TreeClock>,
    ) -> Result<WorkTree, FsError> {
        let shared = SharedTree {
            objects: objects.clone(),
            state: Mutex::new(TreeState::new(objects, base)?),
            turn: Mutex::new(()),
            clock,
            limits: Mutex::default(),
            journal: Mutex::default(),
            doors: AtomicU64::new(1),
            sync_due: AtomicBool::new(false),
            moment: AtomicU32::new(0),
            locks: LockTable::default(),
            prepared: Condvar::new(),
            requested: RequestedPaths::default(),
        };
        Ok(WorkTree {
            shared: Arc::new(shared),
            door: Door(0),
            holding: false,
            waits: true,
        })
    }

    /// Opens the tree of a head snapshot with a journal. Operations after that snapshot that an earlier owner
    /// could not store are replayed.
    pub fn journaled(
        objects: Objects,
        base: BaseTree,
        clock: Arc<dyn TreeClock>,
        place: JournalPlace,
    ) -> Result<WorkTree, FsError> {
        let tree = WorkTree::in_memory(objects, base, clock)?;
        let mut state = tree.state();
        let last = replay_journals(&mut state, &place)?;
        drop(state);
        *tree.journal_place() = Some(JournalPlace {
            included: last,
            ..place
        });
        Ok(tree)
    }

    /// Another door to the same tree.
    pub fn another_door(&self) -> WorkTree {
        let door = Door(self.shared.doors.fetch_add(1, Ordering::Relaxed));
        WorkTree {
            shared: Arc::clone(&self.shared),
            door,
            holding: false,
            waits: true,
        }
    }

    /// Another door to the same tree, for a kernel: every inode that it looks up, creates or lists is held
    /// once more each time, until [`WorkTree::release`].
    pub fn holding_door(&self) -> WorkTree {
        let mut door = self.another_door();
        // Looking up and holding happen under one lock, so the inode cannot go between the answer and the
        // hold.
        door.holding = true;
        door
    }

    /// The same door, through which requests never wait for the store: if something would have to be read,
    /// the request is refused ([`FsError::wanted`]) before it has any effect. The caller fetches what is
    /// missing and tries again.
    pub fn never_waiting(mut self) -> WorkTree {
        self.waits = false;
        self
    }

    /// Fetches what a door that never waits has requested. Only this caller waits. The object stays in memory
    /// until the returned value is dropped.
    pub fn fetch(&self, wanted: WantedItem) -> Result<Option<PrefetchedObject>, FsError> {
        match wanted {
            WantedItem::Object(id) => {
                let fetched = self.shared.objects.fetch(id)?;
                if let Some(promise) = fetched.promise() {
                    self.shared.requested.note(promise.path());
                }
                Ok(Some(fetched))
            }
            WantedItem::Preparation => {
                self.await_preparation();
                Ok(None)
            }
        }
    }

    /// The entries of a source that requests of mounts had to wait for, by their paths there, in order; an entry may
    /// come more than once. Nothing if they were too many to be of use.
    pub fn requested_paths(&self) -> Vec<TreePath> {
        self.shared.requested.all()
    }

    /// The attributes of an inode as this door sees them, for an answer that names it; the door of a kernel
    /// then holds the inode once more. `visibility` is passed if it is already known.
    fn attr_and_hold(
        &self,
        state: &mut TreeState,
        ino: Ino,
        visibility: Option<Visibility>,
    ) -> Result<Attr, FsError> {
        let attr = attr(state, ino)?;
        let attr = self.visible_attr(state, attr, visibility)?;
        if self.holding {
            state.hold(ino)?;
        }
        Ok(attr)
    }

    /// Notifies `watcher` of changes made through other doors, until this door is closed.
    pub fn watch(&self, watcher: Arc<dyn Watcher>) {
        self.state().watchers.add(self.door, watcher);
    }

    /// Ends the notifications. A watcher may own this door, so the drop of the door cannot do this.
    pub fn unwatch(&self) {
        let mut state = self.state();
        let gone = state.watchers.take(self.door);
        drop(state);
        // Dropped after the lock is released: dropping a watcher may drop another door.
        drop(gone);
    }

    /// The current moment. A caller that reads it before it resolves an inode detects a replacement of the
    /// inode before it uses it.
    pub fn moment(&self) -> TreeMoment {
        TreeMoment(self.shared.moment.load(Ordering::Acquire))
    }

    /// A new way into this tree, with notifications of its own.
    pub fn door(&self) -> Door {
        self.door
    }

    /// The locks on files, shared by all doors.
    pub fn locks(&self) -> &LockTable {
        &self.shared.locks
    }

    /// Whether a directory contains journals with operations that the head lacks.
    pub fn needs_recovery(place: &JournalPlace) -> Result<bool, FsError> {
        let left = place.listed()?;
        Ok(left
            .journals
            .iter()
            .chain(&left.notes)
            .any(|number| *number > place.included))
    }

    /// Whether an earlier owner has left a journal in a directory, also one that the head includes: opening the tree with
    /// a journal removes those.
    pub fn has_left_journals(place: &JournalPlace) -> Result<bool, FsError> {
        let left = place.listed()?;
        Ok(!left.journals.is_empty() || !left.notes.is_empty())
    }

    /// A request that panicked must not end all others, so the state is used as the panic left it.
    fn state(&self) -> MutexGuard<'_, TreeState> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        // All doors share this handle on the objects, so each door sets the flag when it takes the lock.
        state.objects.set_waits(self.waits);
        state
    }

    /// The tree, with this inode loaded if the number exists.
    fn state_with(&self, ino: Ino) -> Result<MutexGuard<'_, TreeState>, FsError> {
        let mut state = self.state();
        // First, so that the inode that is loaded next is not the one that goes.
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

    /// Sets the limits from now on. A tree that is beyond them already can only shrink.
    pub fn set_limits(&self, limits: VaultLimits) {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    /// The limits.
    pub fn limits(&self) -> VaultLimits {
        *self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects that it reads.
    pub fn objects(&self) -> Objects {
        self.shared.objects.clone()
    }

    /// How much it holds, changes included.
    pub fn totals(&self) -> Totals {
        self.state().totals()
    }

    /// Whether anything differs from the head.
    pub fn is_dirty(&self) -> bool {
        self.state().is_dirty()
    }

    /// Whether anything differs from the head, apart from a name of the root directory and the root itself.
    pub fn is_dirty_beside(&self, name: &EntryName) -> bool {
        self.state().is_dirty_beside(name)
    }

    /// Writes an operation to the journal and applies it.
    fn perform(&self, state: &mut TreeState, op: JournalOp, data: &[u8]) -> Result<(), FsError> {
        // A file without a name does not outlive a crash, so the journal must not mention it.
        let outlives_crash = !op.inode().is_some_and(|ino| state.is_nameless(ino));
        // Both may fail because an object or a source is unavailable, so they come before the journal entry.
        state.revive_lost(&op)?;
        self.promised().own(state, &op)?;
        let data = if outlives_crash {
            match self.journaling().write_down(state, &op, data) {
                Err(FsError::Journal(JournalError::Full { .. })) if self.journaling().use_reserve(&op) => {
                    self.journaling().write_down(state, &op, data)?
                }
                written => written?,
            }
        } else if data.is_empty() {
            ExtentData::Hole
        } else {
            self.journaling().spill(state, data)?
        };
        // From here on the operation is not retried, so it must not fail for lack of an object.
        state.objects.set_waits(true);
        // Before the operation: afterwards the inodes behind the names are unknown.
        tell_watchers(state, self.door, &op);
        note_in_views(state, self.door, &op);
        let moved = moved_to_other_levels(state, self.door, &op);
        state.apply(op, data)?;
        // Not earlier: files that are requested meanwhile must not be held again.
        moved
            .into_iter()
            .for_each(|(door, invalidation)| state.watchers.tell_door(door, invalidation));
        self.journaling().bound_journal(state)
    }

    /// How many bytes of journal a snapshot would make obsolete.
    pub fn journal_len(&self) -> u64 {
        let state = self.state();
        let sealed: u64 = state.sealed.iter().map(|log| log.written()).sum();
        sealed + state.journal.as_ref().map_or(0, Journal::len)
    }

    /// Removes journals whose operations have no net effect.
    pub fn drop_journal(&self) {
        let mut state = self.state();
        // Captured changes are in no head yet: until they are, the journal is their only durable copy.
        if !state.is_dirty() && state.settling.is_none() {
            state.journaled.clear();
            let journal = state.journal.take().map(|journal| Arc::clone(journal.log()));
            let logs: Vec<_> = state.sealed.drain(..).chain(journal).collect();
            logs.iter().for_each(|log| remove_journal(log.place()));
        }
    }

    /// Stores the changes as of now, while the tree remains usable. The caller then commits the new head and
    /// calls [`FrozenTree::settle`], or drops the returned value to undo everything.
    pub fn freeze(&self) -> Result<FrozenTree<'_>, FsError> {
        let turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // In the lock order: `turn` is already held while the snapshot is stored.
        let mut state = self.journaling().with_free_journal()?;
        let (captured, included) = self.journaling().capture(&mut state)?;
        // From here on the tree is in use again: storing the captured state needs only the objects.
        let objects = state.objects.clone();
        let sealed = state.sealed.len();
        drop(state);
        // Created before the objects are stored: if that fails, its drop returns the captured changes.
        let mut tree = FrozenTree {
            tree: self,
            _turn: turn,
            frozen: None,
            included,
            sealed,
        };
        tree.frozen = Some(captured.store(&objects, &ObjectWriter::new(&objects))?);
        Ok(tree)
    }

    /// Delays lookups of a name in a directory until the returned value is dropped. Programs that already got
    /// the name from a lookup or a listing do not look it up and continue.
    pub fn prepare_name(&self, place: EntryPlace) -> NameInPreparation {
        self.state().preparing.insert(place.clone());
        NameInPreparation::new(&self.shared, place)
    }

    pub(super) fn await_preparation(&self) {
        let state = self.state();
        let waited = self
            .shared
            .prepared
            .wait_timeout_while(state, PATIENCE, |state| !state.preparing.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // Also after a timeout: the thread that prepares may have died, and lookups must not hang for it.
        state.preparing.clear();
    }

    /// Sets how many unchanged files that doors know stay loaded.
    pub fn set_loaded_files(&self, count: usize) {
        self.state().stubs.set_loaded_files(count);
    }

    /// Waits for a snapshot that is being stored, then locks the tree for this caller alone.
    pub fn exclusive(&self) -> ExclusiveTree<'_> {
        ExclusiveTree::new(self)
    }

    /// The stored contents that files without a name still need and that no later snapshot contains. The caller
    /// that takes a snapshot must keep them from being collected.
    pub fn nameless_contents(&self) -> Vec<Content> {
        self.state().nameless_contents()
    }

    /// Returns once everything done before survives a power loss. The tree remains usable meanwhile.
    pub fn sync(&self) -> Result<(), FsError> {
        self.journaling().sync()
    }

    /// Whether more of the journal is held back than should be in memory: a thread that may wait should then
    /// sync.
    pub fn is_sync_due(&self) -> bool {
        self.shared.sync_due.load(Ordering::Relaxed)
    }

    fn journaling(&self) -> Journaling<'_> {
        Journaling { tree: self }
    }

    /// Whether anything in the tree can be a promise of a source.
    pub fn may_promise(&self) -> bool {
        self.promised().may_promise()
    }

    /// Resolves an inode whose contents are promised: the entries of a directory, the bytes of a file. The
    /// tree remains usable while the source is read. A file that the source has changed since takes its new
    /// version, and one that is gone from the source is removed here.
    pub fn fulfil_owed(&self, ino: Ino) -> Result<(), FsError> {
        self.promised().fulfil_owed(ino)
    }

    /// Replaces a promised file with the version that the source has by now, if the tree has that promise at
    /// `path`.
    pub fn take_moved(&self, path: &TreePath, id: PromiseId) -> Result<(), FsError> {
        self.promised().take_moved(path, id)
    }

    /// Whether the tree has this promise at `path`.
    pub fn owes(&self, path: &TreePath, id: PromiseId) -> Result<bool, FsError> {
        self.promised().owes(path, id)
    }

    fn promised(&self) -> Promised<'_> {
        Promised { tree: self }
    }
}

/// How many files are settled in one step while all doors wait.
const SETTLED_AT_ONCE: usize = 1024;
/// A pause between the steps: a thread that waits for the lock gets it then, whereas a lock that is retaken
/// immediately would starve it.
const BREATH: std::time::Duration = std::time::Duration::from_micros(50);

/// A state whose every part is stored, on its way to becoming the head.
#[must_use = "a frozen tree that is not settled stays changed"]
pub struct FrozenTree<'a> {
    tree: &'a WorkTree,
    _turn: MutexGuard<'a, ()>,
    frozen: Option<Frozen>,
    included: u64,
    /// How many of the sealed journals it includes.
    sealed: usize,
}

impl FrozenTree<'_> {
    /// The state that was stored.
    pub fn base(&self) -> &BaseTree {
        &self
            .frozen
            .as_ref()
            .expect("it is there until the tree is settled")
            .base
    }

    /// The number of the last journal whose operations are in this tree.
    pub fn journal(&self) -> u64 {
        self.included
    }

    /// The new head is durable: the journals up to here are no longer needed.
    pub fn settle(mut self) {
        if let Some(frozen) = self.frozen.take() {
            let mut state = self.tree.state();
            let mut settled = frozen.settle(&mut state);
            // Only those that the capture included: a journal that was sealed since belongs to the next
            // snapshot.
            let logs: Vec<Arc<LogFile>> = state.sealed.drain(..self.sealed).collect();
            drop(state);
            // Without the lock, because removing a large file can take long.
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
        let watchers = state.watchers.take(door);
        state.views.remove(door);
        drop(state);
        // Like in `unwatch`: dropping a watcher may drop another door, which takes the same lock.
        drop(watchers);
        self.shared.locks.release_door(door.0);
    }
}

impl Drop for FrozenTree<'_> {
    fn drop(&mut self) {
        // Already settled if it succeeded. Undoing the capture affects only memory.
        let abandoned = self.tree.state().abandon();
        debug_assert!(abandoned.is_ok(), "{abandoned:?}");
    }
}

/// A journal that cannot be removed is recognised by its number and removed at the next opening. The note is
/// removed first: alone it would mean that its journal was lost.
fn remove_journal(place: &std::path::Path) {
    if remove_note(place).is_ok() {
        let _ = std::fs::remove_file(place);
    }
}
