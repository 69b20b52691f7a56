//! A filesystem in memory that forks, snapshots and compares in the time of what changed.
//!
//! [`Vfs`] is a tree of counted pointers: a fork or a [`Snapshot`] is a copy of the pointer to the root, and a change
//! copies only what lies on the way to it ([`Vfs::changes`] goes the same way back). Nothing touches the host except
//! [`Vfs::export`], [`Vfs::import`] and storage adapters that do.
//!
//! ```
//! use avfs_vfs::{ChangeKind, Vfs, VfsError};
//!
//! # fn main() -> avfs_vfs::Result<()> {
//! let vfs = Vfs::new();
//! assert_eq!(vfs.write_file("/notes/todo.md", "- write\n", None)?, 1);
//! assert_eq!(vfs.append_file("/notes/todo.md", "- test\n", Some(1))?, 2);
//! assert!(matches!(
//!     vfs.write_file("/notes/todo.md", "", Some(1)),
//!     Err(VfsError::VersionMismatch { actual: 2, .. })
//! ));
//!
//! let before = vfs.snapshot()?;
//! let fork = vfs.fork()?;
//! fork.remove("/notes", true)?;
//! assert_eq!(fork.changes(&before)?.len(), 2);
//! assert!(vfs.changes(&before)?.is_empty());
//! fork.restore(&before)?;
//! assert_eq!(&fork.read_file("/notes/todo.md")?[..], b"- write\n- test\n");
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs, unnameable_types, unreachable_pub)]

mod arrange;
mod calls;
mod change;
mod error;
mod host;
mod look;
mod map;
mod node;
mod policy;
mod portable;
mod provider;
mod read;
mod snapshot;
mod storage;
mod vfs;
mod write;

pub use avfs_core::{BadName, EntryName, Timestamp, TreePath};
pub use change::hooks::{
    CHAIN_MAX, HookId, HookTime, PathEvent, PathEventKind, PathHook, WriteEvent, WriteHook,
};
pub use error::{CallbackError, Result, Right, VfsError};
pub use look::Kind;
pub use node::{Content, Metadata, Usage};
pub use policy::{NodePolicy, PUBLIC, VisibilityView};
pub use portable::{PortableEntry, PortableNode};
pub use provider::{Children, ContentProvider, DirectoryProvider, NodeContext, ProvidedNode};
pub use read::{DirEntry, Stat};
pub use snapshot::{Change, ChangeKind, Snapshot};
pub use storage::{FileSystemAdapter, MemoryStorageAdapter, StorageAdapter, StorageFault, StoredFile};
pub use vfs::{Clock, DEPTH_MAX, Limits, SystemClock, Vfs, parse};
