//! Changes that are not applied exactly as the task made them.

use std::fmt;

use avfs_core::{TreePath, printable};

/// A path that is not applied, or not as it is in the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The path.
    pub path: TreePath,
    /// Why.
    pub reason: Reason,
}

/// Why a path is not applied, or not as it is in the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The repository itself is never applied as files.
    Git,
    /// This file system treats it as another path, which agents cannot write.
    Spelling(TreePath),
    /// A pipe, a socket or a device.
    Special,
    /// The setuid and setgid bits.
    PrivilegeDropped,
    /// A symbolic link with this target; it is applied as a link.
    LeadsOutside(Box<[u8]>),
    /// The task removed a directory that has other files here.
    DirectoryKept,
    /// The task removed a directory of which it did not see all.
    HiddenKept,
}

impl Reason {
    /// A stable name for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            Reason::Git => "git",
            Reason::Spelling(_) => "spelling",
            Reason::Special => "special",
            Reason::PrivilegeDropped => "privilege-dropped",
            Reason::LeadsOutside(_) => "leads-outside",
            Reason::DirectoryKept => "directory-kept",
            Reason::HiddenKept => "hidden-kept",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Git => f.write_str("not applied: a repository is never applied as files"),
            Reason::Spelling(meant) => {
                write!(
                    f,
                    "not applied: this file system takes it for {meant}, which agents cannot write"
                )
            }
            Reason::Special => f.write_str("not applied: a pipe, socket or device"),
            Reason::PrivilegeDropped => f.write_str("applied without its setuid and setgid bits"),
            Reason::LeadsOutside(target) => {
                write!(f, "a symbolic link that leads outside, to {}", printable(target))
            }
            Reason::DirectoryKept => f.write_str("kept: it has other files"),
            Reason::HiddenKept => f.write_str("kept: files in it were hidden from the task"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// Whether a symbolic link at a path refers to something outside of the directory, as far as its text shows.
pub(super) fn leads_outside(path: &TreePath, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.components().count().saturating_sub(1);
    for name in target.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_outside_by_its_text() {
        let check =
            |path: &str, target: &[u8]| leads_outside(&TreePath::parse(path.as_bytes()).unwrap(), target);
        assert!(check("a", b"/etc/passwd") && check("a", b"../x") && check("d/a", b"../../x"));
        assert!(!check("a", b"b/c") && !check("d/a", b"../x") && !check("d/a", b"./../d/./x"));
        assert!(check("d/a", b"x/../../../y"));
    }
}
