//! The places of the work: existing directories, and mounts that are created for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::requests::Requests;
use super::user::{User, as_user};

/// The transports. By default, all of them are measured.
pub const TRANSPORTS: [&str; 2] = ["device", "uring"];

const VAULT: &str = "bench";

pub struct Target {
    pub label: String,
    pub dir: PathBuf,
    /// The user who works in it, if not the measuring user.
    pub user: Option<User>,
    mount: Option<Mount>,
}

impl Target {
    pub fn directory(label: &str, dir: &Path) -> Result<Target> {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        Ok(Target {
            label: label.to_owned(),
            dir: fs::canonicalize(dir)?,
            user: None,
            mount: None,
        })
    }

    /// A new vault in a new store beside the host directory, mounted.
    pub fn mount(avfs: &Path, transport: &str, beside: &Path) -> Result<Target> {
        Target::mount_with(avfs, transport, beside, &format!("avfs {transport}"), Vec::new())
    }

    /// The same as the only mount of its vault.
    pub fn mount_alone(avfs: &Path, transport: &str, beside: &Path) -> Result<Target> {
        let label = format!("avfs {transport}, alone");
        Target::mount_with(avfs, transport, beside, &label, vec!["--exclusive".into()])
    }

    /// The same, created and used by an ordinary user.
    pub fn mount_as(avfs: &Path, transport: &str, beside: &Path, user: User) -> Result<Target> {
        let label = format!("avfs {transport}, user");
        Target::made(avfs, transport, beside, &label, Vec::new(), Some(user))
    }

    /// The same with more flags for `avfs mount`.
    pub fn mount_with(
        avfs: &Path,
        transport: &str,
        beside: &Path,
        label: &str,
        flags: Vec<String>,
    ) -> Result<Target> {
        Target::made(avfs, transport, beside, label, flags, None)
    }

    fn made(
        avfs: &Path,
        transport: &str,
        beside: &Path,
        label: &str,
        flags: Vec<String>,
        user: Option<User>,
    ) -> Result<Target> {
        let home = tempfile::Builder::new().prefix("store-").tempdir_in(beside)?;
        let dir = tempfile::Builder::new().prefix("mount-").tempdir_in(beside)?;
        if let Some(User(id)) = user {
            for made in [&home, &dir] {
                std::os::unix::fs::chown(made.path(), Some(id), Some(id))?;
            }
        }
        let place = fs::canonicalize(dir.path())?;
        let mount = Mount {
            avfs: avfs.to_owned(),
            transport: transport.to_owned(),
            flags,
            user,
            home,
            dir,
        };
        mount.avfs(&["vault", "create", VAULT])?;
        mount.open()?;
        Ok(Target {
            label: label.to_owned(),
            dir: place,
            user,
            mount: Some(mount),
        })
    }

    /// Makes the kernel drop names, attributes and pages, and a mount everything else.
    pub fn forget(&mut self) -> Result<()> {
        rustix::fs::sync();
        if let Some(mount) = &self.mount {
            mount.close()?;
            mount.open()?;
        }
        fs::write("/proc/sys/vm/drop_caches", "3").context("only root can measure with cold caches")
    }

    /// The transport of requests, if known.
    pub fn transport(&self) -> Option<&str> {
        self.mount.as_ref().map(|mount| mount.transport.as_str())
    }

    /// The kernel's requests so far, if known.
    pub fn requests(&self) -> Result<Option<Requests>> {
        match &self.mount {
            Some(mount) => as_user(self.user, || {
                Requests::read(&mount.avfs, mount.home.path(), &self.dir)
            }),
            None => Ok(None),
        }
    }
}

/// Whether this binary can mount.
pub fn can_mount(avfs: &Path) -> Result<bool> {
    let mut help = Command::new(avfs);
    Ok(help
        .args(["mount", "--help"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success())
}

/// Makes a program read its settings in an empty directory: another user could not read those of the
/// measuring user.
pub fn settings_of_nobody(program: &mut Command, home: &Path) {
    program.env("HOME", home).env_remove("XDG_CONFIG_HOME");
}

struct Mount {
    avfs: PathBuf,
    transport: String,
    flags: Vec<String>,
    user: Option<User>,
    home: tempfile::TempDir,
    dir: tempfile::TempDir,
}

impl Mount {
    fn open(&self) -> Result<()> {
        let dir = self.dir.path().display().to_string();
        let words = ["mount", VAULT, &dir, "--transport", &self.transport];
        self.avfs(
            &words
                .into_iter()
                .chain(self.flags.iter().map(String::as_str))
                .collect::<Vec<_>>(),
        )
    }

    fn close(&self) -> Result<()> {
        self.avfs(&["unmount", &self.dir.path().display().to_string()])
    }

    /// Its output goes to a file, because the owner of the mount may keep it open.
    fn avfs(&self, arguments: &[&str]) -> Result<()> {
        let talk = tempfile::NamedTempFile::new()?;
        let mut avfs = Command::new(&self.avfs);
        avfs.args(arguments)
            .env("AVFS_HOME", self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        settings_of_nobody(&mut avfs, self.home.path());
        avfs.stderr(talk.reopen()?);
        let status = as_user(self.user, || {
            avfs.status()
                .with_context(|| format!("starting {} as an ordinary user", self.avfs.display()))
        })?;
        ensure!(
            status.success(),
            "avfs {}: {}",
            arguments.join(" "),
            fs::read_to_string(talk.path())?
        );
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.close().is_err() {
            _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
        }
    }
}
