//! git and the work that is done in a tree: which refs moved and which commits are new, bringing them into the
//! repository of the host, and the other way round, a vault from a revision.
//!
//! Everything in a task's `.git` was written by programs in the task. Only refs, which are read here, and
//! object files are used, and those through repositories of our own (`quarantine`) with our settings. The
//! program `git` does the rest ([0018](../../../docs/decisions/0018-git-by-its-program.md)): it is never
//! started in a directory that another party wrote, and no setting of any repository can make it start a
//! program.

mod added;
mod bounds;
mod bring;
mod commits;
mod counted;
mod deliver;
mod files;
pub(crate) mod fsmonitor;
mod guarded;
mod hidden;
mod host;
mod identity;
mod importing;
mod index;
mod inlined;
mod inside;
mod kept;
mod leading;
mod made;
mod nested;
mod place;
mod program;
mod quarantine;
mod recent_answer;
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

pub use crate::error::{GitError, GuardedChange, HiddenChange};
pub use crate::git_names::{ObjectName, RefName};
pub use bounds::Bounds;
pub use bring::{Bring, Brought};
pub use commits::{CommitLine, GitSummary, SubmoduleSummary};
pub use files::{CommitFiles, Committed, LeftOutPath, WhyLeftOut};
pub use hidden::hidden_in_history;
pub use host::HostRepository;
pub use identity::Identity;
pub(crate) use index::GitIndex;
pub(crate) use inlined::{inline, places_inlined};
pub(crate) use inside::add_setting;
pub use inside::{Setting, settings_inside, variables};
pub(crate) use leading::GitLeads;
pub use made::MadeBranch;
pub(crate) use place::RepositoryPlace;
pub use place::{is_in_repository, outside_directory};
pub(crate) use program::GitStop;
pub use refs::MovedRef;
pub use repositories::GitTrace;
pub(crate) use repositories::{Repositories, Touched};
pub use revision::{GitRevision, GitSource};
pub use safe::safe_directories;
pub use secret::Secret;
pub(crate) use sparse::Preparation;
pub use submodules::Submodule;
pub use task::{BroughtAll, CommitsMade, TaskGit, default_branch};
pub use tracked::HiddenFile;
pub(crate) use tracked::SortedFiles;
pub(crate) use untracked::{hides_untracked_secret, untracked_secrets};
pub use work::Work;
