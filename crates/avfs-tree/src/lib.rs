//! The working tree of a vault, and the trees that its snapshots hold.

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
mod shown;
mod source;
mod validate;
mod worktree;

pub use error::{FsError, Wanted};
pub use inodes::Ino;
pub use journal::{Journal, JournalError};
pub use objects::{Fetched, ObjectError, ObjectWriter, Objects};
pub use op::Place;
pub use promises::{AllKept, Kept, KeptDirectory, NewerEntries, SOURCES, promised_directory};
pub use reach::{Needed, link_bearing_slots, walk_needed};
pub use reader::{Found, Listing, ReadError, SeenChange, TreeReader};
pub use source::{Listed, ListedDirectory, ListedKind, Source, SourceError, Sources, Taken};
pub use validate::{Flaw, validate};
pub use worktree::{
    At, Attr, Base, Clock, Door, FrozenTree, JournalPlace, Kind, Limits, Moment, NameInPreparation, NewEntry,
    Piece, Seen, SetAside, SetAttr, Still, Stored, StoredTree, SystemClock, Watcher, WorkTree,
};
