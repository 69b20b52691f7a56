//! The changed files of a tree as one commit in the user's repository.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use avfs_core::diff::Change;
use avfs_core::{Entry, EntryKind, Timestamp, TreePath};
use avfs_tree::ReadError;

use super::deliver::Delivery;
use super::error::GitError;
use super::guarded::{Arrival, Guards};
use super::host::HostRepository;
use super::identity::Identity;
use super::names::{ObjectName, RefName};
use super::place::is_in_repository;
use super::program::GIVING;
use super::quarantine::{Quarantine, StoredFile};
use super::work::Work;
use crate::apply::{GuardReason, Leads};
use crate::ignored::Ignored;
use crate::patch::quoted_bytes;
use crate::task::is_directory;

/// The commit to make.
#[derive(Clone, Debug)]
pub struct CommitFiles {
    pub branch: RefName,
    pub message: String,
    /// Only what is at and below these; none: everything.
    pub paths: Vec<TreePath>,
    /// The guarded paths that the user has named, each with what is below it.
    pub allowed: Vec<TreePath>,
    pub time: Timestamp,
    /// The author, if the user's git does not know one.
    pub author: String,
}

/// What was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub branch: RefName,
    pub commit: ObjectName,
    /// How many files were added, changed or removed.
    pub files: usize,
    pub left_out: Vec<LeftOut>,
}

/// A changed path that is not in the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub path: TreePath,
    pub why: WhyLeftOut,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyLeftOut {
    #[error("ignored")]
    Ignored,
    #[error("in a repository of its own")]
    InRepository,
    #[error("not a file that git can hold")]
    NotAFile,
    #[error("{0}; --allow brings it")]
    Guarded(GuardReason),
}

impl Committed {
    /// Whether something of the work is in no commit until the user names it.
    pub fn is_guarded(&self) -> bool {
        self.left_out.iter().any(|left| matches!(left.why, WhyLeftOut::Guarded(_)))
    }
}

impl Work {
    /// Makes a new branch with one commit: what was checked out when the work began, and the changed files as they
    /// are now. Filters (line ends, large-file storage) are not applied: git would start programs for them.
    pub fn commit_files(&self, host: &HostRepository, commit: &CommitFiles) -> Result<Committed, GitError> {
        let (changes, left_out) = self.sorted_out(host, &commit.paths, &commit.allowed)?;
        if changes.is_empty() {
            return Err(GitError::NoFiles);
        }
        let parent = self.parent(host)?;
        let quarantine = Quarantine::new(host.format()?, Some(host), None)?;
        let stream = Stream { work: self, commit, parent: parent.as_ref(), author: author(host, commit)? };
        let import = quarantine.git("writing the commit").args(["fast-import", "--quiet", "--done"]);
        import.output_of(|input| stream.write(&changes, input))?;
        let made =
            quarantine.git("writing the commit").args(["rev-parse", "--verify", "refs/heads/made"]).line()?;
        let tip = ObjectName::new(made.as_bytes()).ok_or(GitError::NoFiles)?;
        let files = changed_files(&quarantine, parent.as_ref(), &tip)?;
        if files == 0 {
            return Err(GitError::NoFiles);
        }
        Delivery { from: &quarantine, tip: &tip, branch: &commit.branch, update: false }.deliver_to(host)?;
        Ok(Committed { branch: commit.branch.clone(), commit: tip, files, left_out })
    }

    /// What was checked out when the work began, so that git can merge the branch as it merges any other.
    fn parent(&self, host: &HostRepository) -> Result<Option<ObjectName>, GitError> {
        let began = self.base_refs().head_commit()?;
        match began.map(|commit| host.commit(commit.as_str())).transpose()?.flatten() {
            Some(commit) => Ok(Some(commit)),
            None => host.head(),
        }
    }

    /// The changes that a commit can hold and should, and those that are left out.
    fn sorted_out(
        &self,
        host: &HostRepository,
        paths: &[TreePath],
        allowed: &[TreePath],
    ) -> Result<(Vec<Change>, Vec<LeftOut>), GitError> {
        let is_wanted = |path: &TreePath| paths.is_empty() || paths.iter().any(|top| path.starts_with(top));
        let mut changes = Vec::new();
        self.base().diff(self.head(), &TreePath::root(), &mut |seen| {
            changes.push(seen.change);
            Ok(())
        })?;
        changes.retain(|change| {
            is_wanted(&change.path) && !is_in_repository(&change.path) && is_for_git(change)
        });
        let mut left_out = Vec::new();
        let mut nested = Nested { work: self, known: HashMap::new() };
        let mut kept = Vec::new();
        for change in changes {
            match nested.holds(&change.path)? {
                true => left_out.push(LeftOut { path: change.path, why: WhyLeftOut::InRepository }),
                false if !is_holdable(change.after.as_ref()) => {
                    left_out.push(LeftOut { path: change.path, why: WhyLeftOut::NotAFile });
                }
                false => kept.push(change),
            }
        }
        let mut ignored = Ignored::new(self.base().clone(), self.head().clone());
        let named: HashSet<TreePath> = paths.iter().cloned().collect();
        let mut wanted = Vec::new();
        let leads = Leads::of(host.project(self.files()), kept.iter().map(|change| &change.path))?;
        let mut guards = Guards::of_files(self, leads);
        for change in kept {
            if ignored.left_out(&change.path, is_directory(&change), &named)?.is_some() {
                left_out.push(LeftOut { path: change.path, why: WhyLeftOut::Ignored });
                continue;
            }
            let arrival = match &change.after {
                None => Arrival::Nothing,
                Some(Entry { kind: EntryKind::Symlink { target }, .. }) => Arrival::Link(target),
                Some(_) => Arrival::File,
            };
            match guards.guard(&change.path, arrival)? {
                Some((_, reason)) if !reason.is_named(&change.path, allowed) => {
                    left_out.push(LeftOut { path: change.path, why: WhyLeftOut::Guarded(reason) });
                }
                _ => wanted.push(change),
            }
        }
        Ok((wanted, left_out))
    }
}

/// How many files a commit adds, changes or removes: some may have been written as they were.
fn changed_files(
    quarantine: &Quarantine,
    parent: Option<&ObjectName>,
    commit: &ObjectName,
) -> Result<usize, GitError> {
    let sides = [parent, Some(commit)].into_iter().flatten().map(ObjectName::as_str);
    let git = quarantine.git("comparing files").args(["diff-tree", "-r", "-z", "--root", "--no-commit-id"]);
    let listed = git.args(["--name-only", "--no-renames"]).args(sides).output()?;
    Ok(listed.iter().filter(|byte| **byte == 0).count())
}

/// Whether a commit would differ by it: git knows no directories, owners or times, and one bit of the mode.
fn is_for_git(change: &Change) -> bool {
    let is_directory = |entry: &Option<Entry>| entry.as_ref().is_none_or(Entry::is_directory);
    let mode = |entry: &Option<Entry>| entry.as_ref().map(mode_of);
    if is_directory(&change.before) && is_directory(&change.after) {
        return false;
    }
    change.changes_content() || mode(&change.before) != mode(&change.after)
}

fn is_holdable(after: Option<&Entry>) -> bool {
    let Some(entry) = after else { return true };
    match entry.kind {
        EntryKind::File { .. } | EntryKind::Symlink { .. } | EntryKind::Directory { .. } => true,
        EntryKind::Fifo
        | EntryKind::Socket
        | EntryKind::CharDevice { .. }
        | EntryKind::BlockDevice { .. } => false,
    }
}

fn mode_of(entry: &Entry) -> &'static str {
    match entry.kind {
        EntryKind::Symlink { .. } => "120000",
        _ if entry.meta.mode & 0o100 != 0 => "100755",
        _ => "100644",
    }
}

/// Which directories are in a repository of their own: a submodule, or one that was cloned there.
struct Nested<'a> {
    work: &'a Work,
    known: HashMap<TreePath, bool>,
}

impl Nested<'_> {
    fn holds(&mut self, path: &TreePath) -> Result<bool, GitError> {
        let (mut at, mut unknown) = (path.clone(), Vec::new());
        let mut holds = loop {
            let Some((directory, _)) = at.split_last().filter(|(directory, _)| !directory.is_root()) else {
                break false;
            };
            if let Some(known) = self.known.get(&directory) {
                break *known;
            }
            unknown.push(directory.clone());
            at = directory;
        };
        while let Some(directory) = unknown.pop() {
            holds = holds || self.is_marked(&directory)?;
            self.known.insert(directory, holds);
        }
        Ok(holds)
    }

    /// Whether a directory has a repository of its own.
    fn is_marked(&self, directory: &TreePath) -> Result<bool, GitError> {
        let marker = directory.join_path(&TreePath::parse(b".git").expect("this is a path"));
        let mut holds = false;
        for reader in [self.work.base(), self.work.head()] {
            holds = holds
                || match reader.find(&marker) {
                    Ok(_) => true,
                    Err(ReadError::Object { path, source }) => {
                        return Err(ReadError::Object { path, source }.into());
                    }
                    Err(_) => false,
                };
        }
        Ok(holds)
    }
}

/// Who the user is for git, as it writes it: a name, and an address in angle brackets.
fn author(host: &HostRepository, commit: &CommitFiles) -> Result<String, GitError> {
    let clean = |text: &str| text.replace(['<', '>', '\n', '\0'], "").trim().to_owned();
    let Identity { name, email } = Identity::in_repository(host)?;
    let name = name.unwrap_or_else(|| commit.author.clone());
    let address = email.unwrap_or_else(|| format!("{}@localhost", commit.author.replace(' ', "-")));
    Ok(format!("{} <{}>", clean(&name), clean(&address)))
}

/// The commit in the words of `git fast-import`.
struct Stream<'a> {
    work: &'a Work,
    commit: &'a CommitFiles,
    parent: Option<&'a ObjectName>,
    author: String,
}

impl Stream<'_> {
    fn write(&self, changes: &[Change], out: &mut dyn Write) -> Result<(), GitError> {
        self.header(out).map_err(GitError::host(GIVING))?;
        // What makes room comes first: a file may be where a directory was.
        for change in changes.iter().filter(|change| change.before.is_some()) {
            let line = [b"D ", &quoted_bytes(change.path.as_bytes())[..], b"\n"].concat();
            out.write_all(&line).map_err(GitError::host(GIVING))?;
        }
        for change in changes {
            if let Some(entry) = &change.after {
                self.entry(&change.path, entry, out)?;
            }
        }
        out.write_all(b"done\n").map_err(GitError::host(GIVING))
    }

    fn header(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let (author, seconds) = (&self.author, self.commit.time.seconds.max(0));
        let message = &self.commit.message;
        writeln!(out, "commit refs/heads/made")?;
        writeln!(out, "author {author} {seconds} +0000")?;
        writeln!(out, "committer {author} {seconds} +0000")?;
        writeln!(out, "data {}\n{message}", message.len())?;
        match self.parent {
            Some(parent) => writeln!(out, "from {parent}"),
            None => Ok(()),
        }
    }

    fn entry(&self, path: &TreePath, entry: &Entry, out: &mut dyn Write) -> Result<(), GitError> {
        let objects = self.work.head().objects();
        let mut begin = |size: u64| {
            let place = quoted_bytes(path.as_bytes());
            let line = [format!("M {} inline ", mode_of(entry)).as_bytes(), &place[..], b"\n"].concat();
            out.write_all(&line).and_then(|()| writeln!(out, "data {size}")).map_err(GitError::host(GIVING))
        };
        match &entry.kind {
            EntryKind::File { size, content } => {
                begin(*size)?;
                StoredFile { objects, size: *size, content: *content }.copy_to(out)?;
            }
            EntryKind::Symlink { target } => {
                begin(target.len() as u64)?;
                out.write_all(target).map_err(GitError::host(GIVING))?;
            }
            EntryKind::Directory { .. }
            | EntryKind::Fifo
            | EntryKind::Socket
            | EntryKind::CharDevice { .. }
            | EntryKind::BlockDevice { .. } => return Ok(()),
        }
        out.write_all(b"\n").map_err(GitError::host(GIVING))
    }
}
