//! Repositories of our own, made for one purpose and thrown away.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::Content;
use avfs_tree::{Objects, content};

use super::bounds::Bounds;
use super::host::HostRepository;
use super::program::{GIVING, Git};
use crate::error::GitError;
use crate::git_names::{ObjectFormat, ObjectName};
use avfs_query::patch::quoted_bytes;

const MAKING: &str = "making a temporary repository";

/// A bare repository in a private directory, with settings of ours alone. It can see the objects of the host's
/// repository, and has its own beside them.
pub(super) struct Quarantine {
    directory: tempfile::TempDir,
    format: ObjectFormat,
    /// For one that holds data from a stranger.
    bounds: Option<Bounds>,
}

impl Quarantine {
    pub(super) fn new(
        format: ObjectFormat,
        host: Option<&HostRepository>,
        bounds: Option<Bounds>,
    ) -> Result<Quarantine, GitError> {
        let directory = tempfile::Builder::new().prefix("avfs-git-").tempdir();
        let quarantine = Quarantine {
            directory: directory.map_err(GitError::host(MAKING))?,
            format,
            bounds,
        };
        quarantine.lay_out(host).map_err(GitError::host(MAKING))?;
        Ok(quarantine)
    }

    fn lay_out(&self, host: Option<&HostRepository>) -> std::io::Result<()> {
        let at = |name: &str| self.path().join(name);
        for directory in ["objects/info", "objects/pack", "refs/heads"] {
            fs::create_dir_all(at(directory))?;
        }
        fs::write(at("HEAD"), "ref: refs/heads/none\n")?;
        fs::write(at("config"), settings(self.format))?;
        let Some(host) = host else { return Ok(()) };
        let objects = host.objects();
        let line = [&quoted_bytes(objects.as_os_str().as_bytes())[..], b"\n"].concat();
        fs::write(at("objects/info/alternates"), line)?;
        // Where the history of the host's repository was cut off.
        match fs::read(host.common().join("shallow")) {
            Ok(cuts) => fs::write(at("shallow"), cuts),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn format(&self) -> ObjectFormat {
        self.format
    }

    pub(super) fn bounds(&self) -> Option<Bounds> {
        self.bounds
    }

    pub(super) fn git(&self, action: &'static str) -> Git {
        let git = Git::new(self.path(), action);
        match self.bounds {
            Some(bounds) => git.bounded(bounds),
            None => git,
        }
    }

    /// Takes a file of one object, whatever is in it.
    pub(super) fn add_loose(&self, name: &ObjectName, file: &QuarantinedFile<'_>) -> Result<(), GitError> {
        let (directory, rest) = name.as_str().split_at(2);
        let directory = self.path().join("objects").join(directory);
        fs::create_dir_all(&directory).map_err(GitError::host(MAKING))?;
        let mut out = fs::File::create(directory.join(rest)).map_err(GitError::host(MAKING))?;
        file.copy_to(&mut out)
    }

    /// Adds a pack. Its contents are checked, and its index is rebuilt.
    pub(super) fn add_pack(&self, file: &QuarantinedFile<'_>) -> Result<(), GitError> {
        let indexed = self
            .git("reading a pack")
            .args(["index-pack", "--stdin"])
            .output_of(|input| file.copy_to(input));
        indexed.map(drop).map_err(GitError::refused)
    }

    /// The commit to which a name refers.
    pub(super) fn commit_of(&self, name: &ObjectName) -> Result<ObjectName, GitError> {
        let peeled = format!("{name}^{{commit}}");
        let line = self
            .git("looking up a commit")
            .args(["rev-parse", "--verify", "--end-of-options", &peeled])
            .line();
        let line = line.map_err(GitError::refused)?;
        ObjectName::new(line.as_bytes()).ok_or_else(|| GitError::Refused {
            reason: format!("{name} is no commit"),
        })
    }

    /// Whether `old` is `new` or one of its ancestors.
    pub(super) fn is_ancestor(&self, old: &ObjectName, new: &ObjectName) -> Result<bool, GitError> {
        let git =
            self.git("comparing commits")
                .args(["merge-base", "--is-ancestor", old.as_str(), new.as_str()]);
        match git.output() {
            Ok(_) => Ok(true),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(other) => Err(other),
        }
    }

    /// Whether a commit leads to others than those reachable from `known` ones. A name that is not a commit
    /// is refused later.
    pub(super) fn leads_further(
        &self,
        tip: &ObjectName,
        known: &BTreeSet<ObjectName>,
    ) -> Result<bool, GitError> {
        if self.commit_of(tip).is_err() {
            return Ok(true);
        }
        let git =
            self.git("comparing commits")
                .args(["rev-list", "--max-count=1", "--ignore-missing", "--stdin"]);
        let listed = git.output_of(|input| {
            let lines = known.iter().map(|known| format!("^{known}\n"));
            for line in [format!("{tip}\n")].into_iter().chain(lines) {
                input.write_all(line.as_bytes()).map_err(GitError::host(GIVING))?;
            }
            Ok(())
        });
        Ok(!listed?.trim_ascii().is_empty())
    }

    /// A place for a file beside the repository's own.
    pub(super) fn place_for(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

fn settings(format: ObjectFormat) -> String {
    let (version, extensions) = match format {
        ObjectFormat::Sha1 => (0, ""),
        ObjectFormat::Sha256 => (1, "[extensions]\n\tobjectFormat = sha256\n"),
    };
    format!("[core]\n\trepositoryFormatVersion = {version}\n\tbare = true\n{extensions}")
}

/// The contents of a file in a stored tree.
pub(super) struct QuarantinedFile<'a> {
    pub(super) objects: &'a Objects,
    pub(super) size: u64,
    pub(super) content: Content,
}

/// The bytes that are read at a time.
const PIECE: usize = 1 << 20;

impl QuarantinedFile<'_> {
    pub(super) fn copy_to(&self, out: &mut dyn Write) -> Result<(), GitError> {
        let mut piece = vec![0; PIECE.min(self.size as usize)];
        let mut offset = 0;
        while offset < self.size {
            let read = content::read_at(self.objects, self.content, self.size, offset, &mut piece)?;
            out.write_all(&piece[..read]).map_err(GitError::host(GIVING))?;
            offset += read as u64;
        }
        Ok(())
    }
}
