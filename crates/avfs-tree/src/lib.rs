//! The working tree of a vault, and the trees of its snapshots.
#![warn(missing_docs, unnameable_types, unreachable_pub)]

pub mod content;
mod error;
mod file;
pub mod inodes;
mod journal;
pub mod locks;
mod objects;
mod op;
mod overlay;
mod promises;
mod reach;
mod reader;
mod source;
mod validate;
mod visible_meta;
mod worktree;

pub use error::{FsError, WantedItem};
pub use inodes::Ino;
pub use journal::{Journal, JournalError};
pub use objects::{ObjectError, ObjectWriter, Objects, PrefetchedObject};
pub use op::EntryPlace;
pub use promises::{AllKept, KeptDirectory, KeptPromise, NewerEntries, SOURCES, promised_directory};
pub use reach::{NeededObject, link_bearing_slots, walk_needed};
pub use reader::{FoundEntry, ReadError, TreeListing, TreeReader, VisibleChange, settle_rewritten};
pub use source::{
    ListedDirectory, ListedEntry, ListedEntryKind, Source, SourceError, SourceFinder, TakenFile,
};
pub use validate::{TreeFlaw, validate};
pub use worktree::{
    Attr, BaseTree, Door, ExclusiveTree, FrozenTree, InodeKind, Invalidation, JournalPlace, KnownInode,
    NameInPreparation, NewEntry, ReadPiece, SetAside, SetAttr, StoredChanges, StoredTree, SystemClock,
    TreeClock, TreeMoment, VaultLimits, Watcher, WorkTree,
};
