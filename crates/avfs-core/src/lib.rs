//! The values of agentvfs and pure functions over them.
//!
//! Nothing here does I/O, asks the time, starts a process or prints. Where a function needs an object that
//! it does not hold (a node of a large directory), the caller passes the door to fetch it through.

mod id;

pub use id::{BadId, BlobId, ChunksId, NodeId, ObjectId, ObjectKind, SnapshotId};
