//! Why a change is left out until the user has named its path.

use std::fmt;

use avfs_core::TreePath;

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
