//! The commits that were made in a tree.

use avfs_core::TreePath;

use super::error::GitError;
use super::host::HostRepository;
use super::names::ObjectName;
use super::program::GIVING;
use super::refs::MovedRef;
use super::work::Work;

/// A commit, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLine {
    pub id: ObjectName,
    /// As the commit says, which may be anything.
    pub author: String,
    pub subject: String,
    /// How many files it changes, of a merge against its first parent.
    pub files: usize,
}

/// What was done with git.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitSummary {
    pub moved: Vec<MovedRef>,
    /// The commits that the user's repository does not have, newest first.
    pub commits: Vec<CommitLine>,
    /// Why they cannot be listed, if they cannot.
    pub trouble: Option<String>,
    /// What was done in submodules that the user has.
    pub submodules: Vec<SubmoduleSummary>,
}

/// What was done with git in a submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmoduleSummary {
    pub path: TreePath,
    pub summary: GitSummary,
}

/// What begins the line of a commit: no line of a listing of files begins so.
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
        Ok(GitSummary { moved, commits, trouble, submodules: Vec::new() })
    }

    /// The commits on branches and tags that the user's repository does not have, newest first.
    pub fn commits(&self, host: Option<&HostRepository>) -> Result<Vec<CommitLine>, GitError> {
        let arguments = ["log", "--raw", "--no-abbrev", "--no-renames", "--diff-merges=first-parent", FORMAT];
        let listed = self.walk(host, &arguments[..])?;
        Ok(parse(&listed))
    }

    /// How many commits would be lost with this tree.
    pub fn unmerged_commits(&self, host: Option<&HostRepository>) -> Result<usize, GitError> {
        let listed = self.walk(host, &["rev-list"])?;
        Ok(listed.iter().filter(|byte| **byte == b'\n').count())
    }

    /// What a command prints for the range of new commits.
    fn walk(&self, host: Option<&HostRepository>, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let tips = self.new_tips()?;
        let Some((_, first)) = tips.first() else { return Ok(Vec::new()) };
        let known = host.map_or_else(|| Ok(Vec::new()), HostRepository::tips)?;
        if tips.iter().all(|(_, tip)| known.contains(tip)) {
            return Ok(Vec::new());
        }
        let suspects = self.suspects(first.format(), host)?;
        let listed = suspects.git("listing commits").args(arguments).arg("--stdin").output_of(|input| {
            let wanted = tips.iter().map(|(_, tip)| format!("{tip}\n"));
            for line in wanted.chain(known.iter().map(|tip| format!("^{tip}\n"))) {
                input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
            }
            Ok(())
        });
        listed.map_err(GitError::refused)
    }
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
    let mut text = || fields.next().map(|field| String::from_utf8_lossy(field).into_owned());
    Some(CommitLine { id, author: text()?, subject: text()?, files: 0 })
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
        assert_eq!((commits[0].files, commits[0].subject.as_str()), (2, ":100644 looks like a file"));
    }
}
