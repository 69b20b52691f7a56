//! agentvfs: vaults that fork, checkpoint, diff and roll back in time proportional to the changes.
//!
//! Read it in this order; each type leads to the next:
//!
//! | for | start at | which gives |
//! |---|---|---|
//! | a store, on the disk or in memory | [`Store::open`], [`Store::in_memory`] | vaults and projects |
//! | a vault: checkpoints, history, forks, merges | [`Store::create_vault`] | [`Vault`] |
//! | files, read and written in one change | [`Vault::begin`] | [`OpenVault`] |
//! | work on a directory of the host | [`Store::project`], [`Project::new_task`] | [`Task`] |
//! | one command in a sandbox | [`Vault::exec`] with a [`RunSpec`](exec::RunSpec) | [`FinishedRun`](exec::FinishedRun) |
//! | commands side by side in one sandbox | [`OpenSandbox`] | [`StartedRun`] |
//! | a shell that keeps its state between commands | [`Vault::hold_session`] | [`HeldSession`](session::HeldSession) |
//! | a vault as a directory of the host | [`mount`] | [`MountService`](mount::MountService) |
//! | questions about states | [`query`], [`patch`] | |
//! | what can go wrong | [`Error`], [`ErrorKind`], [`Hint`] | |
//!
//! A [`Vault`], a [`Store`] and a [`Task`] have the calls that most programs make. The others are with their parts, each
//! about one side of them:
//!
//! | of | parts |
//! |---|---|
//! | a vault | [`Vault::history`], [`Vault::merges`], [`Vault::mounts`], [`Vault::runs`], [`Vault::sessions`], [`Vault::approvals`], [`Vault::policy`], [`Vault::image`] |
//! | a store | [`Store::projects`], [`Store::tasks`], [`Store::applies`], [`Store::approvals`], [`Store::images`], [`Store::mounts`], [`Store::sessions`], [`Store::policy`], [`Store::imports`], [`Store::maintenance`], [`Store::integrity`] |
//! | a task | [`Task::work`], [`Task::git`], [`Task::runs`], [`Task::programs`], [`Task::review`], [`Task::merges`] |
//! | an open vault | [`OpenVault::imports`] |
//!
//! The example `embed` shows a run, a session and an apply in less than sixty lines.
//!
//! # A store, a vault and its files
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
//!
//! # A task on a directory
//!
//! ```
//! use agentvfs::apply::ApplyOptions;
//! use agentvfs::{NewTask, Store, TreePath};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let directory = tempfile::tempdir_in("/var/tmp")?;
//! std::fs::write(directory.path().join("a.txt"), "one\n")?;
//!
//! // A fork of the directory: nothing is copied, and the directory stays as it is until the work is applied.
//! let store = Store::in_memory();
//! let task = store.project(directory.path())?.new_task(&NewTask::default())?;
//! let open = task.vault().begin()?;
//! open.write_bytes(&TreePath::parse(b"/a.txt").expect("a good path"), b"two\n")?;
//! open.commit("write", "/a.txt")?;
//! assert_eq!(std::fs::read_to_string(directory.path().join("a.txt"))?, "one\n");
//!
//! task.apply(&ApplyOptions::default())?;
//! assert_eq!(std::fs::read_to_string(directory.path().join("a.txt"))?, "two\n");
//! # Ok(())
//! # }
//! ```
//!
//! # A run in a sandbox
//!
//! ```no_run
//! use agentvfs::exec::sandbox::{Cancel, classify::Command, launch::InnerProgram};
//! use agentvfs::exec::{RunContext, RunSpec};
//! use agentvfs::{Store, VaultName};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vault = Store::in_memory().create_vault(&VaultName::new("v")?)?;
//! let inside = InnerProgram::find(None, std::env::var_os("PATH").as_deref()).ok_or("no first program")?;
//! let cancel = Cancel::new()?;
//! let spec = RunSpec::new(Command::Shell("echo hello >greeting".to_owned()));
//! let run = vault.exec(&spec, RunContext::new(inside, &cancel, &mut ()));
//! assert_eq!(run.outcome.changed_files[0].path.path, "/greeting");
//! run.after.wait();
//! # Ok(())
//! # }
//! ```
//!
//! # A session
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use agentvfs::exec::RunSpec;
//! use agentvfs::exec::sandbox::{classify::Command, launch::InnerProgram};
//! use agentvfs::session::{IDLE, SessionCommand, SessionRequest};
//! use agentvfs::{Store, VaultName};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vault = Store::in_memory().create_vault(&VaultName::new("v")?)?;
//! let inside = InnerProgram::find(None, std::env::var_os("PATH").as_deref()).ok_or("no first program")?;
//! let shell = |line: &str| Command::Shell(line.to_owned());
//! let request = SessionRequest {
//!     exec: RunSpec::new(shell("")),
//!     idle: IDLE,
//! };
//! let session = vault.hold_session(request, inside, None, Arc::new(|_| ()))?;
//! session.exec(&SessionCommand::new(shell("greeting=hello")), &mut |_| ())?;
//! let answer = session.exec(&SessionCommand::new(shell("echo $greeting")), &mut |_| ())?;
//! assert_eq!(answer.envelope["result"]["stdout"], "hello\n");
//! session.end()?;
//! # Ok(())
//! # }
//! ```
//!
//! # A mount
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use agentvfs::mount::{MountOptions, UnmountMode, VaultMount};
//! use agentvfs::{Store, TreePath, VaultName};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let vault = Store::in_memory().create_vault(&VaultName::new("v")?)?;
//! let directory = tempfile::tempdir()?;
//! let mount = vault.mount(directory.path(), &MountOptions::default(), Arc::new(|_| ()))?;
//! std::fs::write(directory.path().join("a"), "by any program")?;
//! let path = TreePath::parse(b"/a").expect("a good path");
//! assert_eq!(&vault.reader()?.read(&path)?[..], b"by any program");
//! if let VaultMount::Here(service) = mount {
//!     service.unmount(directory.path(), UnmountMode::IfUnused)?;
//!     service.close()?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The last three need a sandbox or `/dev/fuse`; the same calls are run in `avfs/tests/embedding`.

#![warn(missing_docs, unnameable_types, unreachable_pub)]

pub mod apply;
pub mod approvals;
mod audit;
mod bundle;
mod conflicts;
mod control;
mod creation;
mod digest;
#[allow(missing_docs, reason = "what a variant and its fields mean is in its message")]
pub mod error;
pub mod exec;
mod fork;
mod fsck;
mod gc;
pub mod git;
mod git_names;
mod here;
pub mod hidden;
mod history;
mod host_source;
mod host_sources;
mod ignored;
mod image;
mod local_work;
mod logged_action;
mod merge;
mod moved_files;
mod retention_policy;
mod retry;

pub mod mount;
mod mounts;
mod name;
mod open;
mod open_sandbox;
mod owner;
mod ownership;
mod project;
mod prune;
mod record;
mod removal;
mod repair;
mod restore;
mod review;
mod revision;
mod roots;
mod rule_record;
mod rule_view;
pub mod rules;
mod run_directory;
mod run_leftovers;
mod served;
pub mod session;
pub mod setup;
mod source;
mod stats;
mod store;
mod store_parts;
mod stored_bytes;
mod stored_policy;
mod take_ahead;
mod taken_trees;
mod task;
mod task_parts;
pub mod task_run;
mod text;
mod toml_text;
mod unstored;
mod user_view;
mod vault;
mod vault_limits;
mod vault_parts;
mod version;
pub mod vfs;

pub use audit::AuditEntry;
pub use avfs_core::diff::TreeChange;
pub use avfs_core::merge::ConflictPolicy;
pub use avfs_core::{
    BadName, Content, Entry, EntryKind, EntryName, Meta, SnapshotId, SnapshotRetention, SourceId, Timestamp,
    Totals, TreePath, printable,
};
pub use avfs_query as query;
pub use avfs_query::patch;
pub use avfs_store::{LogRepair, OpenOptions, RepairReport, SweepReport};
pub use avfs_transfer as transfer;
pub use avfs_tree::{
    Attr, FoundEntry, Ino, InodeKind, ReadError, SystemClock, TreeClock, TreeReader, VaultLimits,
    VisibleChange,
};
pub use avfs_vfs::Vfs;
pub use bundle::{Carried, StoreImports};
pub use conflicts::{OpenConflict, VaultMerges};
pub use control::{LiveOwner, MountRecord, Unmounted};
pub use error::{Error, ErrorCode, ErrorKind, Hint, Result};
pub use fsck::{AffectedPath, CheckReport, StoreIntegrity};
pub use gc::{Collected, StoreMaintenance};
pub use here::{Here, Meant};
pub use history::{Checkpoint, HistoryEntry, PathVersion, VaultHistory};
pub use ignored::{Ignored, IgnoredPlace, IgnoredSummary};
pub use image::{ImageInfo, ImageOptions, Images, VaultImage};
pub use merge::{
    Clash, ClashDetail, Clashes, MarkerStyle, MergeConflictKind, MergeOptions, MergeReport, MergedRepository,
    MergedSource, RepositoryOutcome, Resolution, TaskMerges,
};
pub use mounts::{KnownMount, StoreMounts, VaultMounts};
pub use name::{CheckpointName, TaskName, VaultName};
pub use open::{GcGuard, OpenImports, OpenVault, Saved, WriteMode};
pub use open_sandbox::{OpenSandbox, SandboxCommand, StartedRun, Streams};
pub use project::{Likeness, Project, Projects};
pub use prune::{Pruned, PrunedVault};
pub use record::VaultId;
pub use repair::{JournalRepair, Repaired};
pub use restore::Restored;
pub use retention_policy::RetentionPolicy;
pub use review::{KeptChoice, KeptDecision, KeptPlace, KeptReview, TaskReview};
pub use revision::Revision;
pub use served::{Host, Log, NoMounts, Rhythm, ServedVault, StopWaiter};
pub use stats::{StoreStats, VaultStats};
pub use store::{Actor, Store, StoreOptions, VaultList};
pub use stored_policy::{PolicyInForce, PolicyOrigin, StorePolicy, StoredPolicy, VaultPolicy};
pub use take_ahead::TakingAhead;
pub use task::{HeldWork, NewTask, Task, TaskChanges, TaskLook, TaskState, TaskWork, Tasks};
pub use user_view::UserView;
pub use vault::{Vault, VaultInfo};
pub use version::Version;
