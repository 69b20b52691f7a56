//! The values of agentvfs and pure functions over them.
//!
//! Nothing here does I/O, reads the clock, starts a process or prints. A function that needs an object which
//! it does not hold (a node of a large directory) receives from its caller an interface to fetch it.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

mod capped_list;
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
mod text;

pub use capped_list::capped_list;
pub use causes::with_causes;
pub use codec::{ByteReader, DecodeError};
pub use entry::{Content, Entry, EntryKind, LinkId, LinkedFile, Meta, Slot, Timestamp, Totals, Xattrs};
pub use id::{BadId, BlobId, ChunksId, NodeId, ObjectId, ObjectKind, PromiseId, SnapshotId};
pub use label::{BadLabel, LABEL_MAX, Label, Labels};
pub use name::{BadName, EntryName, NAME_MAX, PATH_MAX, TreePath, printable};
pub use promise::{Promise, SourceId, Stamp};
pub use retention::SnapshotRetention;
pub use rules::{Level, Rule, RuleState, Rules};
pub use snapshot::{Root, Snapshot};
pub use text::{shell_word, to_hex};
