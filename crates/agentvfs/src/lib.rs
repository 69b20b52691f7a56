//! agentvfs: vaults that fork, checkpoint, diff and roll back in the time of what changed.
//!
//! ```
//! use agentvfs::{Store, TreePath, VaultName};
//!
//! # fn main() -> agentvfs::Result<()> {
//! let store = Store::in_memory();
//! let vault = store.create_vault(&VaultName::new("notes")?)?;
//! let path = TreePath::parse(b"/hello.txt").expect("a good path");
//!
//! let open = vault.begin()?;
//! open.write_bytes(&path, b"hello")?;
//! open.commit("write", "/hello.txt")?;
//!
//! let fork = vault.fork(&[VaultName::new("attempt")?])?.remove(0);
//! let open = fork.begin()?;
//! open.write_bytes(&path, b"goodbye")?;
//! open.commit("write", "/hello.txt")?;
//!
//! assert_eq!(&vault.begin()?.read(&path)?[..], b"hello");
//! fork.undo()?;
//! assert_eq!(&fork.begin()?.read(&path)?[..], b"hello");
//! # Ok(())
//! # }
//! ```

pub mod apply;
pub mod approvals;
mod attempt;
mod audit;
mod birth;
mod bundle;
mod conflicts;
mod control;
mod deed;
mod digest;
mod error;
pub mod exec;
mod fork;
mod fsck;
mod gc;
pub mod git;
mod graft;
mod here;
pub mod hidden;
mod history;
mod ignored;
mod intake;
mod keeper;
mod listed;
mod merge;

pub mod mount;
mod mounts;
mod name;
mod open;
mod owner;
pub mod patch;
mod project;
mod prune;
pub mod query;
mod record;
mod removal;
mod repair;
mod restore;
mod review;
mod revision;
mod roots;
pub mod rules;
mod served;
pub mod session;
pub mod setup;
mod source;
mod stats;
mod store;
mod stored_policy;
mod task;
pub mod task_run;
mod text;
mod through;
mod toml_text;
pub mod transfer;
mod unstored;
mod vault;
mod version;

pub use audit::AuditEntry;
pub use avfs_core::diff::Change;
pub use avfs_core::merge::Choice;
pub use avfs_core::{
    BadName, Content, Entry, EntryKind, EntryName, Meta, Retention, SnapshotId, SourceId, Timestamp, Totals,
    TreePath, printable,
};
pub use avfs_store::{LogRepair, OpenOptions, RepairReport, SweepReport};
pub use avfs_tree::{Attr, Clock, Found, Ino, Kind, Limits, ReadError, SeenChange, SystemClock, TreeReader};
pub use bundle::Carried;
pub use conflicts::{OpenConflict, Resolution};
pub use control::{Host, LiveOwner, NoMounts, Unmounted};
pub use error::{CODES, Error, ErrorKind, Result};
pub use fsck::{Affected, CheckReport};
pub use gc::Collected;
pub use here::{Here, Meant};
pub use history::{Checkpoint, HistoryEntry, PathVersion};
pub use ignored::{Ignored, IgnoredPlace, IgnoredSummary};
pub use keeper::{Log, Rhythm};
pub use merge::{
    Clash, ClashDetail, Clashes, ConflictKind, MarkerStyle, MergeOptions, MergeReport, MergedRepository,
    MergedSource, RepositoryOutcome,
};
pub use mounts::{KnownMount, MountRecord};
pub use name::{CheckpointName, TaskName, VaultName};
pub use open::{Holding, OpenVault, Saved, WriteMode};
pub use project::Project;
pub use prune::{Pruned, PrunedVault, RetentionPolicy};
pub use record::VaultId;
pub use repair::{JournalRepair, Repaired};
pub use restore::Restored;
pub use review::{KeptChoice, KeptDecision, KeptReview};
pub use revision::Revision;
pub use served::{ServedVault, StopWaiter};
pub use source::TakingAhead;
pub use stats::{StoreStats, VaultStats};
pub use store::{Actor, Store, StoreOptions, VaultList};
pub use stored_policy::{PolicyInForce, PolicyOrigin, StoredPolicy};
pub use task::{HeldWork, NewTask, Task, TaskChanges, TaskLook, TaskState};
pub use vault::{Vault, VaultInfo};
pub use version::Version;
