//! Commits and files with changes that the host would run: they are brought only if the user named their
//! paths.

use std::collections::{HashMap, HashSet};

use avfs_core::spelling::folded;
use avfs_core::{EntryName, TreePath};
use avfs_tree::{ReadError, TreeReader};

use super::quarantine::Quarantine;
use super::work::Work;
use crate::apply::{Becomes, GuardReason, Leads, is_deciding, is_part};
use crate::error::GitError;
use crate::git_names::ObjectName;

/// What git treats a directory as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryKind {
    Ordinary,
    Repository,
    Candidate,
}

/// Tells which paths of a piece of work are guarded.
pub(super) struct Guards<'a> {
    work: &'a Work,
    /// Commits that may have a `HEAD` that is not among the files of the work.
    commits: Option<(&'a Quarantine, &'a ObjectName)>,
    /// The directories, from the root of the repository and folded, in which a commit has a `HEAD` that another one has not.
    heads: HashSet<Vec<u8>>,
    /// Where guarded names of the host lead.
    leads: Leads,
    kinds: HashMap<TreePath, DirectoryKind>,
}

/// The new entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival<'a> {
    Nothing,
    Link(&'a [u8]),
    /// What another repository has.
    Submodule,
    File,
}

impl<'a> Guards<'a> {
    pub(super) fn of_files(work: &'a Work, leads: Leads) -> Guards<'a> {
        Guards {
            work,
            commits: None,
            heads: HashSet::new(),
            leads,
            kinds: HashMap::new(),
        }
    }

    /// `changed`: the paths that differ between the commits and their parents and are there in one of them. Every
    /// commit can be checked out, so a `HEAD` counts that only some of them have.
    pub(super) fn of_commits<'p>(
        work: &'a Work,
        (suspects, tip): (&'a Quarantine, &'a ObjectName),
        leads: Leads,
        changed: impl Iterator<Item = &'p [u8]>,
    ) -> Guards<'a> {
        let heads = changed.filter_map(directory_of_head).collect();
        Guards {
            work,
            commits: Some((suspects, tip)),
            heads,
            leads,
            kinds: HashMap::new(),
        }
    }

    /// Why a path, from the root of the project, is guarded, and the path that the user must name.
    pub(super) fn guard(
        &mut self,
        path: &TreePath,
        arrival: Arrival<'_>,
    ) -> Result<Option<(TreePath, GuardReason)>, GitError> {
        let by_kind = || match arrival {
            Arrival::Link(target) => GuardReason::of_link(path, target),
            Arrival::Submodule => GuardReason::of_submodule(path),
            Arrival::Nothing | Arrival::File => None,
        };
        let by_lead = || self.leads.reason(path, arrival.into());
        if let Some(reason) = GuardReason::of_name(path).or_else(by_kind).or_else(by_lead) {
            return Ok(Some((path.clone(), reason)));
        }
        let mut above = TreePath::root();
        for name in path.components() {
            let part = folded(name.as_bytes());
            let kind = if is_part(&part) {
                self.kind_of(&above)?
            } else {
                DirectoryKind::Ordinary
            };
            match kind {
                DirectoryKind::Repository if is_deciding(&part) => {
                    return Ok(Some((path.clone(), GuardReason::InRepository)));
                }
                // Taking a part away makes nothing a repository.
                DirectoryKind::Candidate if arrival != Arrival::Nothing => {
                    let named = if above.is_root() { path.clone() } else { above };
                    return Ok(Some((named, GuardReason::NewRepository)));
                }
                DirectoryKind::Ordinary | DirectoryKind::Repository | DirectoryKind::Candidate => {}
            }
            above.push(&name);
        }
        Ok(None)
    }

    fn kind_of(&mut self, directory: &TreePath) -> Result<DirectoryKind, GitError> {
        if let Some(kind) = self.kinds.get(directory) {
            return Ok(*kind);
        }
        let base = self.work.base().unrestricted();
        let has = |reader: &TreeReader, part: &[u8]| is_there(reader, &directory.join(&name(part)), false);
        let kind = if is_there(&base, &directory.join(&name(b"HEAD")), true)? {
            let is_whole = has(&base, b"commondir")? || (has(&base, b"objects")? && has(&base, b"refs")?);
            if is_whole {
                DirectoryKind::Repository
            } else {
                DirectoryKind::Candidate
            }
        } else if self.comes_with_head(directory)? {
            DirectoryKind::Candidate
        } else {
            DirectoryKind::Ordinary
        };
        self.kinds.insert(directory.clone(), kind);
        Ok(kind)
    }

    /// Whether it has a `HEAD` after the work: in any spelling, because the branch may be checked out
    /// anywhere.
    fn comes_with_head(&self, directory: &TreePath) -> Result<bool, GitError> {
        if is_there(self.work.head(), &directory.join(&name(b"HEAD")), true)? {
            return Ok(true);
        }
        let Some((suspects, tip)) = self.commits else {
            return Ok(false);
        };
        let files = self.work.files();
        let below = if files.is_root() {
            directory.as_bytes()
        } else {
            match directory.as_bytes().strip_prefix(files.as_bytes()) {
                Some(below) => below.strip_prefix(b"/").unwrap_or(below),
                None => return Ok(false),
            }
        };
        Ok(self.heads.contains(&folded_bytes(below)) || suspects.has_head_in(tip, below)?)
    }
}

/// The directory of a file that some file system treats as `HEAD`.
fn directory_of_head(path: &[u8]) -> Option<Vec<u8>> {
    let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b""[..], path),
    };
    (folded(name) == b"head").then(|| folded_bytes(directory))
}

/// A path as bytes, with each of its names folded.
fn folded_bytes(path: &[u8]) -> Vec<u8> {
    let names: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').map(folded).collect();
    names.join(&b'/')
}

fn is_there(reader: &TreeReader, path: &TreePath, as_file: bool) -> Result<bool, GitError> {
    match reader.find(path) {
        Ok(found) => Ok(!as_file || !found.entry.is_directory()),
        Err(error @ ReadError::Object { .. }) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

fn name(bytes: &[u8]) -> EntryName {
    EntryName::new(bytes).expect("this is a name")
}

/// The prefix of versions of symbolic links.
const LINK: &str = "120000 ";
const SUBMODULE: &str = "160000 ";

impl<'a> Arrival<'a> {
    /// By a version, and the target if it is a symbolic link.
    pub(super) fn of_version(version: &str, target: Option<&'a [u8]>) -> Arrival<'a> {
        match target {
            Some(target) => Arrival::Link(target),
            None if version.starts_with(SUBMODULE) => Arrival::Submodule,
            None if is_absent(version) => Arrival::Nothing,
            None => Arrival::File,
        }
    }
}

impl From<Arrival<'_>> for Becomes {
    fn from(arrival: Arrival<'_>) -> Becomes {
        match arrival {
            Arrival::Nothing => Becomes::Nothing,
            Arrival::Link(_) | Arrival::Submodule => Becomes::Link,
            Arrival::File => Becomes::File,
        }
    }
}

/// Whether a version means that nothing is there.
pub(super) fn is_absent(version: &str) -> bool {
    version.bytes().all(|byte| byte == b'0')
}

impl Quarantine {
    /// Where a symbolic link leads, by a version of it: `120000 NAME`.
    pub(super) fn target_of(&self, version: &str) -> Result<Option<Vec<u8>>, GitError> {
        let Some(name) = version.strip_prefix(LINK) else {
            return Ok(None);
        };
        let git = self
            .git("looking at a symbolic link")
            .args(["cat-file", "blob", name]);
        git.output().map(Some).map_err(GitError::refused)
    }

    /// The symbolic links of a commit, with their versions.
    pub(super) fn links_of(&self, commit: &ObjectName) -> Result<Vec<(Vec<u8>, String)>, GitError> {
        let git = self
            .git("listing links")
            .args(["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]);
        let listed = git.output().map_err(GitError::refused)?;
        // `120000 blob NAME\tPATH`
        let link = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b'\t')?;
            let about = std::str::from_utf8(&line[..at]).ok()?.strip_prefix(LINK)?;
            let (_, name) = about.split_once(' ')?;
            Some((line[at + 1..].to_vec(), format!("{LINK}{name}")))
        };
        Ok(listed.split(|byte| *byte == 0).filter_map(link).collect())
    }

    /// Whether a directory of a commit has a file `HEAD`, in any spelling.
    fn has_head_in(&self, commit: &ObjectName, directory: &[u8]) -> Result<bool, GitError> {
        use std::os::unix::ffi::OsStrExt;
        let git = self
            .git("looking up a directory")
            .args(["ls-tree", "-z", "--full-tree", commit.as_str()]);
        let git = match directory {
            b"" => git,
            directory => git
                .arg("--")
                .arg(std::ffi::OsStr::from_bytes(&[directory, b"/"].concat())),
        };
        let listed = git.output().map_err(GitError::refused)?;
        // `MODE TYPE NAME\tPATH`
        Ok(listed.split(|byte| *byte == 0).any(|line| {
            let Some(at) = line.iter().position(|byte| *byte == b'\t') else {
                return false;
            };
            let own = line[at + 1..]
                .rsplit(|byte| *byte == b'/')
                .next()
                .unwrap_or_default();
            folded(own) == b"head" && !line.starts_with(b"040000")
        }))
    }
}
