//! Storage of agentvfs: immutable objects and mutable refs.
//!
//! The two interfaces, [`ObjectStore`] and [`RefStore`], are small enough to be implemented by a database or
//! an object service. [`Upkeep`] is an interface of its own, which a store may lack. [`EmbeddedStore`] is the
//! default: packs and one SQLite file in a directory.
//! [`MemoryStore`] keeps everything in the process.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

mod cache;
mod door;
mod embedded;
mod memory;
mod upkeep;

pub use door::{
    CommitError, NewObject, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, Store, StoreError,
    StoredObject,
};
pub use embedded::{
    CopyState, EmbeddedStore, ExclusiveStore, FORMAT, LogRepair, LostRef, OpenOptions, REBUILT, RefAge,
    RepairReport,
};
#[doc(hidden)]
pub use embedded::{Disk, DiskFile, FileAccess, HostDisk};
pub use memory::MemoryStore;
pub use upkeep::{LiveSet, ScrubReport, StoreUsage, SweepReport, Sweeper, Upkeep, UpkeepFinding};
