//! Where agentvfs keeps what it knows: immutable objects and mutable refs.
//!
//! The two doors, [`ObjectStore`] and [`RefStore`], are small enough for a database or an object service
//! to stand behind them. [`EmbeddedStore`] is the default: packs and one SQLite file in a directory.
//! [`MemoryStore`] keeps everything in the process.

mod cache;
mod door;
mod embedded;
mod memory;

pub use door::{
    CommitError, NewObject, Object, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, Store, StoreError,
};
#[doc(hidden)]
pub use embedded::{Access, Disk, DiskFile, HostDisk};
pub use embedded::{
    CopyState, EmbeddedStore, Exclusive, FORMAT, Finding, LiveSet, LogRepair, LostRef, OpenOptions, REBUILT,
    RefAge, RepairReport, ScrubReport, SweepReport, Usage,
};
pub use memory::MemoryStore;
