//! Changes that are applied only if the user names them: programs of the host run the changed files without a
//! request of the user, or the files decide what is run.

use avfs_core::TreePath;
use avfs_core::rules::Preset;
use avfs_core::spelling::folded_path;

use super::executed;
use crate::error::GuardReason;

/// A change that is left out until the user has named its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// Its path in the directory.
    pub path: TreePath,
    /// Why it is guarded.
    pub reason: GuardReason,
}

impl GuardReason {
    /// Why a change of a file must be named, as far as its path shows.
    pub(crate) fn of_name(path: &TreePath) -> Option<GuardReason> {
        let reason = || executed::reason(path, false).unwrap_or("tools of this machine run it");
        Preset::names_run_by_host(path).then(|| GuardReason::RunByHost(reason()))
    }

    /// The same for a symbolic link. Some file systems do not distinguish all names, so any spelling of it
    /// counts.
    pub(crate) fn of_link(path: &TreePath, target: &[u8]) -> Option<GuardReason> {
        let leads = |path: &TreePath| Preset::leads_to_run_by_host(path, target);
        let is_guarded = leads(path) || folded_path(path).is_some_and(|folded| leads(&folded));
        is_guarded.then_some(GuardReason::RunByHost(
            "it leads to files that tools of this machine would run",
        ))
    }

    /// The same for a submodule, which brings the files of another repository.
    pub(crate) fn of_submodule(path: &TreePath) -> Option<GuardReason> {
        let holds = |path: &TreePath| Preset::may_hold_run_by_host(path);
        let is_guarded = holds(path) || folded_path(path).is_some_and(|folded| holds(&folded));
        is_guarded.then_some(GuardReason::RunByHost(
            "it brings files that tools of this machine would run",
        ))
    }

    /// Whether the user has named the path, or the one under which tools find it.
    pub(crate) fn is_named(&self, path: &TreePath, named: &[TreePath]) -> bool {
        let as_other = matches!(self, GuardReason::LedTo(other) if is_named(other, named));
        as_other || is_named(path, named)
    }
}

/// Whether the user has named a path, or a directory above it.
fn is_named(path: &TreePath, named: &[TreePath]) -> bool {
    named.iter().any(|top| !top.is_root() && path.starts_with(top))
}

/// The names of the parts of a repository, in lower case.
const PARTS: [&[u8]; 15] = [
    b"head",
    b"config",
    b"config.worktree",
    b"commondir",
    b"gitdir",
    b"hooks",
    b"objects",
    b"refs",
    b"info",
    b"worktrees",
    b"modules",
    b"packed-refs",
    b"index",
    b"logs",
    b"shallow",
];

/// The files of a repository that decide which programs git runs, or where it finds the other files.
const DECIDING: [&[u8]; 8] = [
    b"config",
    b"config.worktree",
    b"commondir",
    b"gitdir",
    b"hooks",
    b"info",
    b"worktrees",
    b"modules",
];

/// Whether a lower-case name can be that of a part of a repository.
pub(crate) fn is_part(name: &[u8]) -> bool {
    PARTS.contains(&name)
}

/// Whether such a part decides what git runs.
pub(crate) fn is_deciding(name: &[u8]) -> bool {
    DECIDING.contains(&name)
}
