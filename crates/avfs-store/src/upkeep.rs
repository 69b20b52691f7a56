//! The door to upkeep: counting what a store holds, verifying it, and removing what nobody needs.

use std::collections::HashSet;
use std::time::Duration;

use avfs_core::ObjectId;

use crate::door::StoreError;

/// The maintenance of a store: it keeps the store small and verifies it. A remote store does not offer it, because its
/// operator maintains it.
pub trait Upkeep: Send + Sync {
    /// Calls `visit` with the id and length of every committed object, in the order of ids and all as of one moment.
    fn for_each_object(&self, visit: &mut dyn FnMut(ObjectId, u64)) -> Result<(), StoreError>;

    /// Counts what is committed.
    fn usage(&self) -> Result<StoreUsage, StoreError>;

    /// Reads and verifies every committed byte, while others may work. `progress` hears of bytes done and bytes in total.
    fn scrub(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<ScrubReport, StoreError>;

    /// Waits until nobody holds a [`Pin`](crate::Pin), and keeps everyone from taking one while the value lives. Fails with
    /// [`StoreError::Busy`] if that takes longer than `timeout`.
    fn exclusive(&self, timeout: Duration) -> Result<Box<dyn Sweeper + '_>, StoreError>;

    /// Makes a little room on a disk that is full, for what takes something away.
    fn use_reserve(&self) {}
}

/// A store while nobody holds a pin, and nobody can take one.
pub trait Sweeper {
    /// Removes every object that is not live. `go_on` is asked between steps; when it says no, the sweep ends early and the
    /// store is sound.
    ///
    /// The caller found `live` after it got this value: what was put before and is reachable is in it.
    fn sweep(&self, live: &dyn LiveSet, go_on: &mut dyn FnMut() -> bool) -> Result<SweepReport, StoreError>;
}

/// Decides which objects are needed.
pub trait LiveSet {
    /// Whether the object is needed.
    fn contains(&self, id: &ObjectId) -> bool;
}

impl LiveSet for HashSet<ObjectId> {
    fn contains(&self, id: &ObjectId) -> bool {
        HashSet::contains(self, id)
    }
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// How many objects it has.
    pub objects: u64,
    /// Bytes of all objects, without storage overhead.
    pub object_bytes: u64,
    /// Bytes of all pack files.
    pub pack_bytes: u64,
    /// Bytes of the database and its log.
    pub db_bytes: u64,
}

/// What a sweep removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Objects that nothing needed.
    pub removed_objects: u64,
    /// Bytes of pack files that were freed. A process that still reads a removed file delays that.
    pub freed_bytes: u64,
    /// Pack files without any object that was needed.
    pub removed_packs: u64,
    /// Pack files whose needed objects were copied into others.
    pub rewritten_packs: u64,
    /// Packs worth rewriting that a writer is using: a later sweep handles them.
    pub busy_packs: u64,
    /// Packs worth rewriting for whose copies there is no space: a later sweep handles them.
    pub cramped_packs: u64,
    /// Packs worth rewriting that hold a damaged live object: left to fsck.
    pub damaged_packs: Vec<String>,
    /// `false` if the caller stopped the sweep early.
    pub finished: bool,
}

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// Intact objects that the index has.
    pub objects: u64,
    /// Intact records that the index does not point at: second copies, and records that a sweep removed
    /// without rewriting the pack. If the index is damaged, they may be all that is left of an object.
    pub unindexed: u64,
    /// How many bytes were read.
    pub bytes: u64,
    /// What is damaged, by place.
    pub findings: Vec<UpkeepFinding>,
}

/// One thing that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpkeepFinding {
    /// The index points at this place, and the object is not there.
    Object {
        /// The object.
        id: ObjectId,
        /// Where the index expects it.
        place: String,
    },
    /// Bytes of a pack that do not form an intact record.
    Stretch {
        /// Where they begin.
        place: String,
        /// How many bytes.
        length: u64,
    },
    /// A pack without a valid header; its records may be intact.
    PackHeader {
        /// The name of its file.
        pack: String,
    },
    /// A pack that is shorter than its committed length, or missing.
    PackLength {
        /// The name of its file.
        pack: String,
        /// The length that was committed.
        committed: u64,
        /// The length that it has.
        found: u64,
    },
    /// A row about a pack does not match its check sum.
    PackRow {
        /// The name of its file.
        pack: String,
    },
    /// A ref does not match its check sum.
    Ref {
        /// The ref.
        key: String,
    },
    /// A problem that SQLite itself reports.
    Database {
        /// Its message.
        detail: String,
    },
    /// A problem of the second copy of refs.
    Copy {
        /// What is wrong with it.
        detail: String,
    },
    /// The second copy has refs that are newer than those of the database.
    LostCommits {
        /// These refs.
        keys: Vec<String>,
    },
    /// The log of the database, or its note, is not what was committed.
    Log {
        /// The file.
        place: String,
        /// What does not match.
        detail: String,
    },
}
