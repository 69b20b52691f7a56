//! The changed files of a tree as one commit in the user's repository.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use avfs_core::diff::TreeChange;
use avfs_core::{Entry, EntryKind, Timestamp, TreePath};
use avfs_tree::ReadError;

use super::deliver::Delivery;
use super::guarded::{Arrival, Guards};
use super::host::HostRepository;
use super::identity::Identity;
use super::place::is_in_repository;
use super::program::GIVING;
use super::quarantine::{Quarantine, QuarantinedFile};
use super::work::Work;
use crate::apply::{GuardReason, Leads};
use crate::error::GitError;
use crate::git_names::{ObjectName, RefName};
use crate::ignored::Ignored;
use crate::ignored::is_directory;
use avfs_query::patch::quoted_bytes;

/// The commit to make.
#[derive(Clone, Debug)]
pub struct CommitFiles {
    /// The branch that gets the commit.
    pub branch: RefName,
    /// The message of the commit.
    pub message: String,
    /// Only these paths and everything below them; none: everything.
    pub paths: Vec<TreePath>,
    /// The guarded paths that the user has named, including everything below them.
    pub allowed: Vec<TreePath>,
    /// The time of the commit.
    pub time: Timestamp,
    /// The author, if the user's git does not know one.
    pub author: String,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The branch that has the commit.
    pub branch: RefName,
    /// The commit.
    pub commit: ObjectName,
    /// How many files were added, changed or removed.
    pub files: usize,
    /// Changes that it does not have.
    pub left_out: Vec<LeftOutPath>,
    /// Whether the branch existed already, with this commit.
    pub was_there: bool,
}

/// A changed path that is not in the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutPath {
    /// The path.
    pub path: TreePath,
    /// Why it is not in the commit.
    pub why: WhyLeftOut,
}

/// Why a changed path is not in a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyLeftOut {
    /// The repository ignores it.
    #[error("ignored")]
    Ignored,
    /// It is a part of the repository itself, or of another one.
    #[error("in a repository of its own")]
    InRepository,
    /// Git has no entries of its kind.
    #[error("not a file that git can hold")]
    NotAFile,
    /// The host would run it, and the user has not named it.
    #[error("{0}")]
    Guarded(GuardReason),
}

impl Committed {
    /// Whether a part of the work is in no commit until the user names it.
    pub fn is_guarded(&self) -> bool {
        self.left_out
            .iter()
            .any(|left| matches!(left.why, WhyLeftOut::Guarded(_)))
    }
}

impl Work {
    /// Makes a new branch with one commit: the checked-out state when the work began, and the changed files
    /// in their current state. Filters (line ends, large-file storage) are not applied: git would start
    /// programs for them.
    pub fn commit_files(&self, host: &HostRepository, commit: &CommitFiles) -> Result<Committed, GitError> {
        let (changes, left_out) = self.sorted_out(host, &commit.paths, &commit.allowed)?;
        if changes.is_empty() {
            return Err(GitError::NoFiles);
        }
        let parent = self.parent(host)?;
        // Made apart from the user's repository, which gets the commit only when it is whole.
        let quarantine = Quarantine::new(host.format()?, Some(host), None)?;
        // At the time of a commit that is there already, the same files are the same commit.
        let seconds = host
            .author_seconds(&commit.branch)?
            .unwrap_or(commit.time.seconds.max(0));
        let author = author(host, commit)?;
        let stream = Stream {
            work: self,
            commit,
            parent: parent.as_ref(),
            author,
            seconds,
        };
        let import = quarantine
            .git("writing the commit")
            .args(["fast-import", "--quiet", "--done"]);
        import.output_of(|input| stream.write(&changes, input))?;
        let made = quarantine
            .git("writing the commit")
            .args(["rev-parse", "--verify", "refs/heads/made"])
            .line()?;
        let tip = ObjectName::new(made.as_bytes()).ok_or(GitError::NoFiles)?;
        // Counted in the commit: a change here may be none for the parent that was found.
        let files = changed_files(&quarantine, parent.as_ref(), &tip)?;
        if files == 0 {
            return Err(GitError::NoFiles);
        }
        // Before the delivery, after which the branch is there in any case.
        let was_there = host.branch(&commit.branch)?.as_ref() == Some(&tip);
        Delivery {
            from: &quarantine,
            tip: &tip,
            branch: &commit.branch,
            update: false,
        }
        .deliver_to(host)?;
        Ok(Committed {
            branch: commit.branch.clone(),
            commit: tip,
            files,
            left_out,
            was_there,
        })
    }

    /// The checked-out commit when the work began, so that git can merge the branch like any other.
    fn parent(&self, host: &HostRepository) -> Result<Option<ObjectName>, GitError> {
        let began = self.base_refs().head_commit()?;
        match began
            .map(|commit| host.commit(commit.as_str()))
            .transpose()?
            .flatten()
        {
            // What the task began with, if the user still has it: later commits of the user's stay a matter
            // of merging.
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
    ) -> Result<(Vec<TreeChange>, Vec<LeftOutPath>), GitError> {
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
        let mut nested = Nested {
            work: self,
            known: HashMap::new(),
        };
        let mut kept = Vec::new();
        for change in changes {
            match nested.holds(&change.path)? {
                true => left_out.push(LeftOutPath {
                    path: change.path,
                    why: WhyLeftOut::InRepository,
                }),
                false if !is_holdable(change.after.as_ref()) => {
                    left_out.push(LeftOutPath {
                        path: change.path,
                        why: WhyLeftOut::NotAFile,
                    });
                }
                false => kept.push(change),
            }
        }
        let mut ignored = Ignored::new(self.base().clone(), self.head().clone());
        let named: HashSet<TreePath> = paths.iter().cloned().collect();
        let mut wanted = Vec::new();
        let leads = Leads::of(host.project(self.files()), kept.iter().map(|change| &change.path))?;
        // After the files that cannot be in a commit anyway: what is guarded is told to the user.
        let mut guards = Guards::of_files(self, leads);
        for change in kept {
            if ignored
                .left_out(&change.path, is_directory(&change), &named)?
                .is_some()
            {
                left_out.push(LeftOutPath {
                    path: change.path,
                    why: WhyLeftOut::Ignored,
                });
                continue;
            }
            let arrival = match &change.after {
                None => Arrival::Nothing,
                Some(Entry {
                    kind: EntryKind::Symlink { target },
                    ..
                }) => Arrival::Link(target),
                Some(_) => Arrival::File,
            };
            match guards.guard(&change.path, arrival)? {
                Some((_, reason)) if !reason.is_named(&change.path, allowed) => {
                    left_out.push(LeftOutPath {
                        path: change.path,
                        why: WhyLeftOut::Guarded(reason),
                    });
                }
                _ => wanted.push(change),
            }
        }
        Ok((wanted, left_out))
    }
}

/// How many files a commit adds, changes or removes: some may have been rewritten unchanged.
fn changed_files(
    quarantine: &Quarantine,
    parent: Option<&ObjectName>,
    commit: &ObjectName,
) -> Result<usize, GitError> {
    let sides = [parent, Some(commit)]
        .into_iter()
        .flatten()
        .map(ObjectName::as_str);
    let git = quarantine
        .git("comparing files")
        .args(["diff-tree", "-r", "-z", "--root", "--no-commit-id"]);
    let listed = git.args(["--name-only", "--no-renames"]).args(sides).output()?;
    Ok(listed.iter().filter(|byte| **byte == 0).count())
}

/// Whether it makes a difference for a commit: git stores no directories, owners or times, and one bit of the
/// mode.
fn is_for_git(change: &TreeChange) -> bool {
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
            // Up to a directory that is known, then down again: what holds above holds below.
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
        // In either state: a repository that the task removed was not the project's, either.
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

/// The user's identity in git's notation: a name, and an address in angle brackets.
fn author(host: &HostRepository, commit: &CommitFiles) -> Result<String, GitError> {
    // These would end the field, or the line, of the commit.
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
    /// When, since 1970.
    seconds: i64,
}

impl Stream<'_> {
    fn write(&self, changes: &[TreeChange], out: &mut dyn Write) -> Result<(), GitError> {
        self.header(out).map_err(GitError::host(GIVING))?;
        // Removals come first: a file may replace a directory.
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
        let (author, seconds) = (&self.author, self.seconds);
        let message = &self.commit.message;
        writeln!(out, "commit refs/heads/made")?;
        writeln!(out, "author {author} {seconds} +0000")?;
        writeln!(out, "committer {author} {seconds} +0000")?;
        // With its length in front, so that no text of a message is read as a command.
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
            let line = [
                format!("M {} inline ", mode_of(entry)).as_bytes(),
                &place[..],
                b"\n",
            ]
            .concat();
            out.write_all(&line)
                .and_then(|()| writeln!(out, "data {size}"))
                .map_err(GitError::host(GIVING))
        };
        match &entry.kind {
            EntryKind::File { size, content } => {
                begin(*size)?;
                QuarantinedFile {
                    objects,
                    size: *size,
                    content: *content,
                }
                .copy_to(out)?;
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
