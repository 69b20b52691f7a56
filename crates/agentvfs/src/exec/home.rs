//! The home of a program: the user's own, seen in part and live, for as long as the program runs.

mod copies;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::rules::{Rule, Rules};
use avfs_exec::plan::{Link, UNPRIVILEGED};
use avfs_fuse::mounting::{self, Unmount};
use avfs_fuse::transport::{Serving, ServingOptions};
use avfs_fuse::{OneOwner, Passed, PassedOptions, Session, Settings};

use self::copies::Copies;
use super::workspace::host;
use crate::error::Result;
use crate::mount::{Report, Transport};

/// Where it is mounted, and where its private part is, in the directory of a run.
pub(super) const MOUNTPOINT: &str = "home";
pub(super) const PRIVATE: &str = "private";

/// What is shared of the user's home.
#[derive(Clone, Debug)]
pub struct HomeShare {
    /// The home, which is at the same path inside.
    pub home: PathBuf,
    /// What of it is there, and what can be changed. Everything else is private to the run.
    pub rules: Vec<Rule>,
    /// Files below it of which a run has a copy of its own.
    pub copied: Vec<PathBuf>,
}

/// What is put into it inside.
pub(super) struct Places<'a> {
    /// What is mounted over it, and whether that is a directory.
    pub(super) covered: &'a [(&'a Path, bool)],
    pub(super) link: Option<&'a Link>,
}

/// A home that is mounted. It is gone when this is dropped.
pub(super) struct HomeView {
    mountpoint: PathBuf,
    serving: Option<Serving>,
    copies: Copies,
}

impl HomeView {
    /// Mounts it in the directory of a run. What is put into it inside has a place there.
    pub(super) fn mount(
        place: &Path,
        share: &HomeShare,
        places: &Places<'_>,
        transport: Transport,
        report: &Report,
    ) -> Result<HomeView> {
        let (mountpoint, private) = (place.join(MOUNTPOINT), place.join(PRIVATE));
        make_directory(&mountpoint)?;
        make_directory(&private)?;
        for (path, is_directory) in places.covered {
            if let Ok(below) = path.strip_prefix(&share.home) {
                make_place(&private.join(below), *is_directory)?;
            }
        }
        if let Some(link) = places.link
            && let Ok(below) = link.at.strip_prefix(&share.home)
        {
            make_link(&private.join(below), &link.to)?;
        }
        let copies = Copies::make(&share.home, &private, &share.copied)?;
        let is_root = rustix::process::geteuid().is_root();
        let passed = Passed::new(PassedOptions {
            shared: open_directory(&share.home)?,
            private: open_directory(&private)?,
            rules: Rules::new(share.rules.clone())?,
            caches: None,
            owner: is_root.then_some(OneOwner { uid: UNPRIVILEGED, gid: UNPRIVILEGED }),
        })
        .map_err(|source| host("opening", place, source))?;
        let settings = Settings { log: Arc::clone(report), ..Settings::default() };
        let session = Arc::new(Session::new(Arc::new(passed), settings));
        let options =
            mounting::MountOptions { allow_other: is_root, ..mounting::MountOptions::new("avfs:home") };
        let connection = mounting::mount(&mountpoint, &options)?;
        let mut view = HomeView { mountpoint, serving: None, copies };
        let serving = ServingOptions { transport, ..ServingOptions::default() };
        view.serving = Some(Serving::start(session, connection, serving)?);
        Ok(view)
    }

    pub(super) fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The copies that the run has changed, which end with it.
    pub(super) fn changed_copies(&self) -> Vec<PathBuf> {
        self.copies.changed()
    }
}

impl Drop for HomeView {
    fn drop(&mut self) {
        // If it is not there any more, that is what was wanted.
        let gone = mounting::unmount(&self.mountpoint, Unmount::Detach).is_ok();
        if let Some(serving) = self.serving.take().filter(|_| gone) {
            serving.wait();
        }
    }
}

fn make_directory(path: &Path) -> Result<()> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|source| host("making", path, source))
}

/// An empty directory or file for something to be mounted on.
fn make_place(path: &Path, is_directory: bool) -> Result<()> {
    if is_directory {
        return make_directory(path);
    }
    path.parent().map_or(Ok(()), make_directory)?;
    File::create(path).map(drop).map_err(|source| host("making", path, source))
}

fn make_link(path: &Path, to: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), make_directory)?;
    std::os::unix::fs::symlink(to, path).map_err(|source| host("making", path, source))
}

fn open_directory(path: &Path) -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| host("opening", path, errno.into()))
}
