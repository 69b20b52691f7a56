//! The commits that were made in a tree.

use std::collections::HashSet;

use avfs_core::TreePath;

use super::host::HostRepository;
use super::program::GIVING;
use super::refs::MovedRef;
use super::work::Work;
use crate::error::GitError;
use crate::git_names::ObjectName;

/// A commit, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLine {
    /// Its name.
    pub id: ObjectName,
    /// As in the commit, where it may be anything.
    pub author: String,
    /// The first line of its message.
    pub subject: String,
    /// How many files it changes; for a merge, compared with its first parent.
    pub files: usize,
}

/// Git work in a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitSummary {
    /// The branches and tags that differ.
    pub moved: Vec<MovedRef>,
    /// The commits that the user's repository does not have, newest first.
    pub commits: Vec<CommitLine>,
    /// Why they cannot be listed, if they cannot.
    pub trouble: Option<String>,
    /// Git work in submodules that the user has.
    pub submodules: Vec<SubmoduleSummary>,
}

/// Git work in a submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmoduleSummary {
    /// Its path.
    pub path: TreePath,
    /// What is new in it.
    pub summary: GitSummary,
}

/// The first byte of a commit's line: no line of a listing of files begins with it.
const MARK: u8 = 1;
const FORMAT: &str = "--format=%x01%H%x00%an%x00%s";

impl Work {
    /// Moved refs and new commits. Damaged or forged ones do not make it fail. Starts no program if no branch moved.
    pub fn git_summary(&self, host: Option<&HostRepository>) -> Result<GitSummary, GitError> {
        let moved = self.moved_refs()?;
        let (commits, trouble) = match self.commits(host) {
            Ok(commits) => (commits, None),
            Err(GitError::Refused { reason }) => (Vec::new(), Some(reason)),
            Err(error) => return Err(error),
        };
        Ok(GitSummary {
            moved,
            commits,
            trouble,
            submodules: Vec::new(),
        })
    }

    /// The commits on branches and tags that the user's repository does not have, newest first.
    pub fn commits(&self, host: Option<&HostRepository>) -> Result<Vec<CommitLine>, GitError> {
        let arguments = [
            "log",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--diff-merges=first-parent",
            FORMAT,
        ];
        let listed = self.walk(host, &[], &arguments[..])?;
        Ok(parse(&listed))
    }

    /// How many commits would be lost with this tree.
    pub fn unmerged_commits(&self, host: Option<&HostRepository>) -> Result<usize, GitError> {
        let listed = self.walk(host, &[], &["rev-list"])?;
        Ok(lines(&listed))
    }

    /// How many of them were made since the tree began here, because it may contain earlier ones.
    pub(super) fn own_unmerged_commits(&self, host: Option<&HostRepository>) -> Result<usize, GitError> {
        if self.new_tips()?.is_empty() {
            return Ok(0);
        }
        let earlier: Vec<ObjectName> = self.base_refs().tips()?.into_iter().collect();
        // Commits that were made earlier may have been replaced and removed.
        let listed = self.walk(host, &earlier, &["rev-list", "--ignore-missing"])?;
        Ok(lines(&listed))
    }

    /// Whether the checked-out state of a repository has every file that the new commits changed as they left
    /// it.
    pub(super) fn is_squashed_into(&self, host: &HostRepository) -> Result<bool, GitError> {
        let (Some(began), Some(here)) = (self.base_refs().head_commit()?, host.head()?) else {
            return Ok(false);
        };
        let tips = self.new_tips()?;
        let Some((_, first)) = tips.first() else {
            return Ok(true);
        };
        let suspects = self.suspects(first.format(), Some(host))?;
        let paths = |from: &ObjectName, to: &ObjectName| -> Result<HashSet<Vec<u8>>, GitError> {
            let arguments = [
                "diff-tree",
                "-r",
                "-z",
                "--name-only",
                "--no-renames",
                from.as_str(),
                to.as_str(),
            ];
            let listed = suspects
                .git("comparing files")
                .args(arguments)
                .output()
                .map_err(GitError::refused)?;
            let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Ok(names.map(<[u8]>::to_vec).collect())
        };
        for (_, tip) in tips.iter().filter(|(_, tip)| *tip != began) {
            let changed = paths(&began, tip)?;
            // Commits without files have nothing by which they could be known again.
            if changed.is_empty() || !changed.is_disjoint(&paths(&here, tip)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The output of a command for the range of new commits, without those reachable from `earlier` ones.
    fn walk(
        &self,
        host: Option<&HostRepository>,
        earlier: &[ObjectName],
        arguments: &[&str],
    ) -> Result<Vec<u8>, GitError> {
        let tips = self.new_tips()?;
        let Some((_, first)) = tips.first() else {
            return Ok(Vec::new());
        };
        let mut known = host.map_or_else(|| Ok(Vec::new()), HostRepository::tips)?;
        known.extend_from_slice(earlier);
        if tips.iter().all(|(_, tip)| known.contains(tip)) {
            return Ok(Vec::new());
        }
        let suspects = self.suspects(first.format(), host)?;
        let listed = suspects
            .git("listing commits")
            .args(arguments)
            .arg("--stdin")
            .output_of(|input| {
                let wanted = tips.iter().map(|(_, tip)| format!("{tip}\n"));
                for line in wanted.chain(known.iter().map(|tip| format!("^{tip}\n"))) {
                    input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
                }
                Ok(())
            });
        listed.map_err(GitError::refused)
    }
}

fn lines(listed: &[u8]) -> usize {
    listed.iter().filter(|byte| **byte == b'\n').count()
}

fn parse(listed: &[u8]) -> Vec<CommitLine> {
    let mut commits: Vec<CommitLine> = Vec::new();
    for line in listed.split(|byte| *byte == b'\n') {
        match line.first() {
            Some(&MARK) => commits.extend(parse_commit(&line[1..])),
            Some(b':') => {
                if let Some(last) = commits.last_mut() {
                    last.files += 1;
                }
            }
            _ => {}
        }
    }
    commits
}

fn parse_commit(line: &[u8]) -> Option<CommitLine> {
    let mut fields = line.splitn(3, |byte| *byte == 0);
    let id = ObjectName::new(fields.next()?)?;
    let mut text = || {
        fields
            .next()
            .map(|field| String::from_utf8_lossy(field).into_owned())
    };
    Some(CommitLine {
        id,
        author: text()?,
        subject: text()?,
        files: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_cannot_look_like_a_file() {
        let id = "c".repeat(40);
        let listed = format!("\x01{id}\0Someone\0:100644 looks like a file\n\n:100644 x\n:100644 y\n");
        let commits = parse(listed.as_bytes());
        assert_eq!(commits.len(), 1);
        assert_eq!(
            (commits[0].files, commits[0].subject.as_str()),
            (2, ":100644 looks like a file")
        );
    }
}
