//! The user's own repository: its contents, and the two ways to add to it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use avfs_core::TreePath;

use super::place::RepositoryPlace;
use super::program::{FileOwner, Git};
use crate::error::GitError;
use crate::git_names::{ObjectFormat, ObjectName, RefName};

/// The message in the log of a branch when it is made.
const NOTE: &str = "agentvfs apply";

/// A repository of the host. Its index, working directory, settings and hooks are left alone: hooks do not run, and
/// nothing is written but packs and branches.
#[derive(Clone, Debug)]
pub struct HostRepository {
    place: RepositoryPlace,
    /// The working directory, or the one of a bare repository.
    directory: PathBuf,
}

impl HostRepository {
    /// The repository of a working directory (which may be a worktree or a submodule), or a bare one.
    pub fn open(directory: &Path) -> Result<HostRepository, GitError> {
        match RepositoryPlace::of(directory) {
            Some(place) => Ok(HostRepository {
                place,
                directory: directory.to_owned(),
            }),
            None => Err(GitError::NotARepository {
                place: directory.to_owned(),
            }),
        }
    }

    pub(super) fn git(&self, action: &'static str) -> Git {
        Git::new(&self.place.own, action)
    }

    /// A call that adds something. Files that root adds to the repository of another user must belong to that
    /// user, who could not commit there otherwise.
    fn adding(&self, action: &'static str) -> Git {
        let git = self.git(action);
        match self.owner() {
            Some(owner) => git.run_by(owner),
            None => git,
        }
    }

    /// Whom it belongs to, if we are root, that is another user, and git can look at it as that user: the way to it may be
    /// closed to them, or they may be no user of this container.
    fn owner(&self) -> Option<FileOwner> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let found = fs::symlink_metadata(&self.place.common).ok()?;
        let owner = FileOwner {
            uid: found.uid(),
            gid: found.gid(),
        };
        let looking = self.git("looking at the repository").run_by(owner);
        let can_look = owner.uid != 0 && looking.args(["rev-parse", "--git-dir"]).output().is_ok();
        can_look.then_some(owner)
    }

    /// Explains an operation that git could not perform as the owner of the repository, because of files that
    /// root left there before.
    fn explained(&self, error: GitError) -> GitError {
        match error {
            GitError::Failed { action, message } if message.contains("ermission") => {
                let Some(FileOwner { uid, gid }) = self.owner() else {
                    return GitError::Failed { action, message };
                };
                let place = avfs_core::printable(self.place.common.as_os_str().as_bytes());
                let message = format!(
                    "{message}; git ran as the owner of the repository, and something in it belongs to another user: \
                     `chown -Rh {uid}:{gid} {place}` gives it to the owner"
                );
                GitError::Failed { action, message }
            }
            other => other,
        }
    }

    /// The directory of the project in which its files are `below`.
    pub(super) fn project(&self, below: &TreePath) -> &Path {
        self.directory
            .ancestors()
            .nth(below.components().count())
            .unwrap_or(&self.directory)
    }

    pub(super) fn place(&self) -> &Path {
        &self.place.own
    }

    pub(super) fn common(&self) -> &Path {
        &self.place.common
    }

    pub(super) fn objects(&self) -> PathBuf {
        self.place.common.join("objects")
    }

    pub(super) fn format(&self) -> Result<ObjectFormat, GitError> {
        let line = self
            .git("asking for its format")
            .args(["rev-parse", "--show-object-format"])
            .line()?;
        if line == ObjectFormat::Sha256.as_str() {
            Ok(ObjectFormat::Sha256)
        } else {
            Ok(ObjectFormat::Sha1)
        }
    }

    /// The objects that all refs and the HEAD name.
    pub(super) fn tips(&self) -> Result<Vec<ObjectName>, GitError> {
        let listed = self
            .git("listing refs")
            .args(["for-each-ref", "--format=%(objectname)"])
            .output()?;
        let mut tips: Vec<_> = listed
            .split(|byte| *byte == b'\n')
            .filter_map(ObjectName::new)
            .collect();
        tips.extend(self.head()?);
        tips.sort();
        tips.dedup();
        Ok(tips)
    }

    /// The branches that were brought from tasks, recognised by the message in their logs, and by their
    /// names.
    pub(super) fn made_branches(&self) -> Result<Vec<String>, GitError> {
        let git = self
            .git("looking for brought branches")
            .args(["log", "-g", "--format=%gD%x00%gs"]);
        let listed = git.args(["--glob=refs/heads/*", "--"]).output()?;
        let listed = String::from_utf8_lossy(&listed);
        let noted = listed.lines().filter_map(|line| {
            let (entry, note) = line.split_once('\0')?;
            let (name, _) = entry.rsplit_once("@{")?;
            (note == NOTE).then(|| name.to_owned())
        });
        let mut names: Vec<String> = noted.chain(["refs/heads/avfs/*".to_owned()]).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The checked-out commit; `None` if there is none yet.
    pub(super) fn head(&self) -> Result<Option<ObjectName>, GitError> {
        self.commit("HEAD")
    }

    /// The commit that a revision names.
    pub(super) fn commit(&self, revision: &str) -> Result<Option<ObjectName>, GitError> {
        let peeled = format!("{revision}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &peeled];
        let line = self.git("looking up a revision").args(arguments).line_if_any()?;
        Ok(line.and_then(|line| ObjectName::new(line.as_bytes())))
    }

    /// The commit of a branch, if there is one of this name.
    pub fn branch(&self, branch: &RefName) -> Result<Option<ObjectName>, GitError> {
        self.commit(&String::from_utf8_lossy(branch.as_bytes()))
    }

    /// Whether a ref leads to a commit, which may be missing.
    pub(super) fn leads_to(&self, commit: &ObjectName) -> Result<bool, GitError> {
        let git = self.git("looking for a commit");
        let git = git.args(["for-each-ref", "--count=1", "--format=%(refname)", "--contains"]);
        Ok(git.arg(commit.as_str()).line_if_any()?.is_some())
    }

    /// When the commit of a branch was written, in seconds since 1970, if there is such a branch.
    pub(super) fn author_seconds(&self, branch: &RefName) -> Result<Option<i64>, GitError> {
        let Some(commit) = self.branch(branch)? else {
            return Ok(None);
        };
        let arguments = [
            "log",
            "-1",
            "--no-show-signature",
            "--format=%at",
            commit.as_str(),
            "--",
        ];
        let line = self.git("looking at a commit").args(arguments).line()?;
        Ok(line.trim().parse().ok())
    }

    /// Makes a branch, or moves it from where it is known to be.
    pub(super) fn set_branch(
        &self,
        branch: &RefName,
        to: &ObjectName,
        from: Option<&ObjectName>,
    ) -> Result<(), GitError> {
        let nothing = "0".repeat(to.as_str().len());
        let from = from.map_or(&*nothing, ObjectName::as_str);
        let name = OsStr::from_bytes(branch.as_bytes());
        let git = self
            .adding("making the branch")
            .args(["update-ref", "--create-reflog", "-m", NOTE]);
        let made = git.arg(name).args([to.as_str(), from]).output();
        made.map(drop).map_err(|error| self.explained(error))
    }

    /// The working directory in which a branch is checked out.
    pub(super) fn checked_out(&self, branch: &RefName) -> Result<Option<PathBuf>, GitError> {
        let git = self.git("looking for working directories");
        let git = git
            .args(["for-each-ref", "--format=%(worktreepath)"])
            .arg(OsStr::from_bytes(branch.as_bytes()));
        Ok(git.line_if_any()?.map(PathBuf::from))
    }

    /// Adds the objects of a pack, which stay until the returned value is dropped, or longer if something
    /// refers to them.
    pub(super) fn add_pack(&self, pack: File) -> Result<KeptPack, GitError> {
        let git = self.adding("adding objects").args([
            "index-pack",
            "--strict",
            "--stdin",
            "--keep=agentvfs apply",
        ]);
        let told = git.between(pack.into(), std::process::Stdio::piped());
        let told = told.map_err(|error| self.explained(error))?;
        let hash = told
            .trim_ascii()
            .strip_prefix(b"keep\t")
            .and_then(ObjectName::new);
        Ok(KeptPack(hash.map(|hash| {
            self.objects().join(format!("pack/pack-{hash}.keep"))
        })))
    }
}

/// A pack that git's clean-up does not remove. `None`: it existed before.
pub(super) struct KeptPack(Option<PathBuf>);

impl Drop for KeptPack {
    fn drop(&mut self) {
        if let Some(mark) = &self.0 {
            // If it stays, the pack stays too: that costs space and nothing else.
            _ = fs::remove_file(mark);
        }
    }
}
