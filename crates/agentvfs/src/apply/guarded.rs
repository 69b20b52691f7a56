//! Changes that are applied only if the user names them: what they reach is run by programs of the host without anybody
//! asking, or decides what is run.

use std::fmt;

use avfs_core::TreePath;
use avfs_core::rules::Preset;
use avfs_core::spelling::folded_path;

use super::executed;

/// A change that is left out until the user has named its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    pub path: TreePath,
    pub reason: GuardReason,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardReason {
    /// Tools of the host run the file, or what it names.
    RunByHost(&'static str),
    /// git would take the directory for a repository, and run what its settings name.
    NewRepository,
    /// It belongs to a repository that is there, and says what git runs.
    InRepository,
    /// A symbolic link of the user's leads to it: tools of the host find it at this path.
    LedTo(TreePath),
    /// This setting of git, or this link in a repository, leads to it.
    NamedByGit(String),
}

impl GuardReason {
    /// Why a change of a file has to be named, as far as its path says.
    pub(crate) fn of_name(path: &TreePath) -> Option<GuardReason> {
        let reason = || executed::reason(path, false).unwrap_or("tools of this machine run it");
        Preset::names_run_by_host(path).then(|| GuardReason::RunByHost(reason()))
    }

    /// The same for a symbolic link. Some file systems do not tell all names apart, so any spelling of it counts.
    pub(crate) fn of_link(path: &TreePath, target: &[u8]) -> Option<GuardReason> {
        let leads = |path: &TreePath| Preset::leads_to_run_by_host(path, target);
        let is_guarded = leads(path) || folded_path(path).is_some_and(|folded| leads(&folded));
        is_guarded.then_some(GuardReason::RunByHost("it leads to files that tools of this machine would run"))
    }

    /// The same for a submodule, which brings the files of another repository.
    pub(crate) fn of_submodule(path: &TreePath) -> Option<GuardReason> {
        let holds = |path: &TreePath| Preset::may_hold_run_by_host(path);
        let is_guarded = holds(path) || folded_path(path).is_some_and(|folded| holds(&folded));
        is_guarded.then_some(GuardReason::RunByHost("it brings files that tools of this machine would run"))
    }

    /// Whether the user has named the path, or the one under which tools find it.
    pub(crate) fn is_named(&self, path: &TreePath, named: &[TreePath]) -> bool {
        let as_other = matches!(self, GuardReason::LedTo(other) if is_named(other, named));
        as_other || is_named(path, named)
    }

    /// A stable name for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            GuardReason::RunByHost(_) => "run-by-host",
            GuardReason::NewRepository => "new-repository",
            GuardReason::InRepository => "in-repository",
            GuardReason::LedTo(_) => "led-to",
            GuardReason::NamedByGit(_) => "named-by-git",
        }
    }
}

impl fmt::Display for GuardReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardReason::RunByHost(reason) => f.write_str(reason),
            GuardReason::NewRepository => {
                f.write_str("git would take it for a repository, and run what its settings name")
            }
            GuardReason::InRepository => f.write_str("git runs it, or what it names"),
            GuardReason::LedTo(path) => write!(f, "tools of this machine find it as {path}, and run it"),
            GuardReason::NamedByGit(name) => write!(f, "{name} leads git to it"),
        }
    }
}

/// Whether the user has named a path, or a directory above it.
fn is_named(path: &TreePath, named: &[TreePath]) -> bool {
    named.iter().any(|top| !top.is_root() && path.starts_with(top))
}

/// What the parts of a repository are called, in small letters.
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

/// Those of them that say what git runs, or where it finds the others.
const DECIDING: [&[u8]; 8] =
    [b"config", b"config.worktree", b"commondir", b"gitdir", b"hooks", b"info", b"worktrees", b"modules"];

/// Whether a name, in small letters, can be that of a part of a repository.
pub(crate) fn is_part(name: &[u8]) -> bool {
    PARTS.contains(&name)
}

/// Whether such a part says what git runs.
pub(crate) fn is_deciding(name: &[u8]) -> bool {
    DECIDING.contains(&name)
}
