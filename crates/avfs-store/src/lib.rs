//! Where agentvfs keeps what it knows: immutable objects and mutable refs.
//!
//! The two doors, [`ObjectStore`] and [`RefStore`], are small enough for a database or an object service
//! to stand behind them. [`EmbeddedStore`] is the default: packs and one SQLite file in a directory.
//! [`MemoryStore`] keeps everything in the process.

mod door;
mod memory;

pub use door::{
    CommitError, NewObject, Object, ObjectStore, Pin, RefEdit, RefKey, RefRange, RefStore, Store, StoreError,
};
pub use memory::MemoryStore;
