//! The user's own repository: what it has, and the two ways to add to it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::TreePath;

use super::error::GitError;
use super::names::{ObjectFormat, ObjectName, RefName};
use super::place::Place;
use super::program::Git;

/// What the log of a branch says of its making.
const NOTE: &str = "avfs apply";

/// A repository of the host. Its index, working directory, settings and hooks are left alone: hooks do not run, and
/// nothing is written but packs and branches.
#[derive(Clone, Debug)]
pub struct HostRepository {
    place: Place,
    /// The working directory, or the one of a bare repository.
    directory: PathBuf,
}

impl HostRepository {
    /// The repository of a working directory (which may be a worktree or a submodule), or a bare one.
    pub fn open(directory: &Path) -> Result<HostRepository, GitError> {
        match Place::of(directory) {
            Some(place) => Ok(HostRepository { place, directory: directory.to_owned() }),
            None => Err(GitError::NotARepository { place: directory.to_owned() }),
        }
    }

    pub(super) fn git(&self, action: &'static str) -> Git {
        Git::new(&self.place.own, action)
    }

    /// The directory of the project in which its files are `below`.
    pub(super) fn project(&self, below: &TreePath) -> &Path {
        self.directory.ancestors().nth(below.components().count()).unwrap_or(&self.directory)
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
        let line = self.git("asking for its format").args(["rev-parse", "--show-object-format"]).line()?;
        match line == ObjectFormat::Sha256.as_str() {
            true => Ok(ObjectFormat::Sha256),
            false => Ok(ObjectFormat::Sha1),
        }
    }

    /// What all refs and the HEAD name.
    pub(super) fn tips(&self) -> Result<Vec<ObjectName>, GitError> {
        let listed = self.git("listing refs").args(["for-each-ref", "--format=%(objectname)"]).output()?;
        let mut tips: Vec<_> = listed.split(|byte| *byte == b'\n').filter_map(ObjectName::new).collect();
        tips.extend(self.head()?);
        tips.sort();
        tips.dedup();
        Ok(tips)
    }

    /// The branches that were brought from tasks, by what is noted when they are made or moved, and by their names.
    pub(super) fn made_branches(&self) -> Result<Vec<String>, GitError> {
        let git = self.git("looking for brought branches").args(["log", "-g", "--format=%gD%x00%gs"]);
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

    /// The commit that is checked out; `None` if there is none yet.
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

    pub(super) fn branch(&self, branch: &RefName) -> Result<Option<ObjectName>, GitError> {
        self.commit(&String::from_utf8_lossy(branch.as_bytes()))
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
        let git = self.git("making the branch").args(["update-ref", "--create-reflog", "-m", NOTE]);
        git.arg(name).args([to.as_str(), from]).output().map(drop)
    }

    /// The working directory in which a branch is checked out.
    pub(super) fn checked_out(&self, branch: &RefName) -> Result<Option<PathBuf>, GitError> {
        let git = self.git("looking for working directories");
        let git =
            git.args(["for-each-ref", "--format=%(worktreepath)"]).arg(OsStr::from_bytes(branch.as_bytes()));
        Ok(git.line_if_any()?.map(PathBuf::from))
    }

    /// Adds the objects of a pack, which stay until what is returned is dropped, or longer if something names them.
    pub(super) fn add_pack(&self, pack: File) -> Result<KeptPack, GitError> {
        let git = self.git("adding objects").args(["index-pack", "--strict", "--stdin", "--keep=avfs apply"]);
        let told = git.between(pack.into(), std::process::Stdio::piped())?;
        let hash = told.trim_ascii().strip_prefix(b"keep\t").and_then(ObjectName::new);
        Ok(KeptPack(hash.map(|hash| self.objects().join(format!("pack/pack-{hash}.keep")))))
    }
}

/// A pack that no clean-up of git takes away. `None`: it was there before.
pub(super) struct KeptPack(Option<PathBuf>);

impl Drop for KeptPack {
    fn drop(&mut self) {
        if let Some(mark) = &self.0 {
            // If it stays, the pack stays too: that costs space and nothing else.
            _ = fs::remove_file(mark);
        }
    }
}
