//! A store and a directory to mount at.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Options;
use super::served::Served;

pub struct Site {
    avfs: PathBuf,
    pub home: PathBuf,
    transport: String,
    /// The directory for mounts, removed at the end.
    mounts: tempfile::TempDir,
    /// The store, if it is temporary.
    _home: Option<tempfile::TempDir>,
}

impl Site {
    /// A new store, removed at the end.
    pub fn new(avfs: &Path, options: &Options) -> Result<Site> {
        let home = tempfile::Builder::new()
            .prefix("scale-")
            .tempdir_in(&options.dir)?;
        let path = fs::canonicalize(home.path())?;
        Site::at(avfs, &options.transport, path, Some(home))
    }

    /// A permanent store, because it takes long to fill.
    pub fn kept(&self, name: &str) -> Result<Site> {
        let home = self.home.with_file_name(name);
        fs::create_dir_all(&home)?;
        Site::at(&self.avfs, &self.transport, home, None)
    }

    fn at(avfs: &Path, transport: &str, home: PathBuf, guard: Option<tempfile::TempDir>) -> Result<Site> {
        let mounts = tempfile::Builder::new()
            .prefix("mounts-")
            .tempdir_in(home.parent().unwrap_or(&home))?;
        Ok(Site {
            avfs: avfs.into(),
            home,
            transport: transport.into(),
            mounts,
            _home: guard,
        })
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.avfs);
        command
            .args(arguments)
            .env("AVFS_HOME", &self.home)
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that must succeed and returns its duration. Its output goes to a file, because the
    /// owner of a mount may keep it open.
    pub fn avfs(&self, arguments: &[&str]) -> Result<Duration> {
        let talk = tempfile::NamedTempFile::new()?;
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(talk.reopen()?);
        let start = Instant::now();
        let status = command.status()?;
        let time = start.elapsed();
        ensure!(
            status.success(),
            "avfs {}: {}",
            arguments.join(" "),
            fs::read_to_string(talk.path())?
        );
        Ok(time)
    }

    /// Feeds a command with the output of `write`.
    pub fn feed(
        &self,
        arguments: &[&str],
        write: impl FnOnce(&mut dyn std::io::Write) -> Result<()>,
    ) -> Result<()> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        if let Some(input) = child.stdin.take() {
            write(&mut std::io::BufWriter::with_capacity(1 << 20, input))?;
        }
        ensure!(child.wait()?.success(), "avfs {} failed", arguments.join(" "));
        Ok(())
    }

    /// Mounts a vault; its duration is recorded.
    pub fn mount(&self, vault: &str) -> Result<Mount<'_>> {
        self.mount_at(vault, vault)
    }

    /// Mounts a vault in a directory of this name.
    pub fn mount_at(&self, vault: &str, name: &str) -> Result<Mount<'_>> {
        let dir = self.mounts.path().join(name);
        fs::create_dir_all(&dir)?;
        let dir = fs::canonicalize(dir)?;
        let text = dir.display().to_string();
        let took = self.avfs(&["mount", vault, &text, "--transport", &self.transport])?;
        Ok(Mount {
            site: self,
            dir,
            took,
        })
    }

    /// Makes a new vault and mounts it.
    pub fn mount_new(&self, vault: &str) -> Result<Mount<'_>> {
        self.avfs(&["vault", "create", vault])?;
        self.mount(vault)
    }
}

/// A mount, until it is dropped.
pub struct Mount<'a> {
    site: &'a Site,
    pub dir: PathBuf,
    pub took: Duration,
}

impl Mount<'_> {
    pub fn served(&self) -> Result<Served> {
        let output = self.site.command(&["mounts", "--json"]).output()?;
        Served::parse(&output.stdout, &self.dir)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn create(&self, name: &str) -> Result<()> {
        File::create_new(self.path(name))?;
        Ok(())
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        if self
            .site
            .avfs(&["unmount", &self.dir.display().to_string()])
            .is_err()
        {
            _ = Command::new("umount").arg("-l").arg(&self.dir).status();
        }
    }
}
