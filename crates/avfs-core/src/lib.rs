//! The values of agentvfs and pure functions over them.
//!
//! Nothing here does I/O, asks the time, starts a process or prints. Where a function needs an object that
//! it does not hold (a node of a large directory), the caller passes the door to fetch it through.

mod causes;
pub mod chunks;
pub mod codec;
pub mod diff;
mod entry;
mod id;
mod label;
pub mod map;
pub mod merge;
mod name;
mod promise;
mod retention;
pub mod rules;
mod snapshot;
pub mod spelling;

pub use causes::with_causes;
pub use codec::{DecodeError, Reader};
pub use entry::{Content, Entry, EntryKind, LinkId, LinkedFile, Meta, Slot, Timestamp, Totals, Xattrs};
pub use id::{BadId, BlobId, ChunksId, NodeId, ObjectId, ObjectKind, PromiseId, SnapshotId};
pub use label::{BadLabel, LABEL_MAX, Label, Labels};
pub use name::{BadName, EntryName, NAME_MAX, PATH_MAX, TreePath, printable};
pub use promise::{Promise, SourceId, Stamp};
pub use retention::Retention;
pub use rules::{Level, Rule, Rules, Standing};
pub use snapshot::{Root, Snapshot};
