//! git and the work that is done in a tree: which refs moved and which commits are new, bringing them into the
//! repository of the host, and the other way round, a vault from a revision.
//!
//! Everything in a task's `.git` was written by whoever worked there. Of it only refs, which are read here, and
//! object files are used, and those through repositories of our own (`quarantine`) whose settings are ours. The
//! program `git` does the rest ([0018](../../../docs/decisions/0018-git-by-its-program.md)): it is never started
//! in a directory that somebody else wrote, and no setting of any repository can make it start a program.

mod added;
mod bounds;
mod bring;
mod commits;
mod counted;
mod deliver;
mod error;
mod files;
pub(crate) mod fsmonitor;
mod guarded;
mod hidden;
mod host;
mod identity;
mod index;
mod inlined;
mod inside;
mod kept;
mod leading;
mod made;
mod names;
mod nested;
mod place;
mod program;
mod quarantine;
mod refs;
mod repositories;
mod revision;
mod safe;
mod secret;
mod settings;
mod sparse;
mod submodules;
mod task;
mod tracked;
mod untracked;
mod work;

pub use bounds::Bounds;
pub use bring::{Bring, Brought};
pub use commits::{CommitLine, GitSummary, SubmoduleSummary};
pub use error::GitError;
pub use files::{CommitFiles, Committed, LeftOut, WhyLeftOut};
pub use guarded::GuardedChange;
pub use hidden::hidden_in_history;
pub use host::HostRepository;
pub use identity::Identity;
pub(crate) use inlined::{inline, places_inlined};
pub(crate) use inside::add_setting;
pub use inside::{Setting, settings_inside, variables};
pub use kept::HiddenChange;
pub(crate) use leading::GitLeads;
pub use made::MadeBranch;
pub(crate) use made::MadeRecord;
pub(crate) use names::blob_sha1;
pub use names::{ObjectName, RefName};
pub(crate) use place::Place;
pub use place::{is_in_repository, outside_directory};
pub(crate) use program::GitStop;
pub use refs::MovedRef;
pub(crate) use repositories::{Repositories, Touched};
pub use revision::{GitRevision, GitSource};
pub(crate) use revision::{Listed, ListedKind};
pub use safe::safe_directories;
pub use secret::Secret;
pub(crate) use sparse::Preparation;
pub use submodules::Submodule;
pub use task::default_branch;
pub use tracked::HiddenFile;
pub(crate) use tracked::Sorted;
pub(crate) use untracked::untracked_secrets;
pub use work::Work;
