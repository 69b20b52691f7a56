//! The home of a program: the user's own, seen in part and live, with the caches of tools, which a layer of the vault is
//! over. It is there for as long as the program runs; the layer for as long as the vault.

mod copies;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use avfs_core::rules::{Level, Pattern, Rule, Rules};
use avfs_exec::plan::{
    AlsoAt, HOME, Home, HostCache, INSPECTED_BYTES, Link, OwnPaths, UNPRIVILEGED, caches, is_inspected,
    is_secret, tool_settings,
};
use avfs_fuse::mounting::{self, Unmount};
use avfs_fuse::transport::{Serving, ServingOptions};
use avfs_fuse::{Cache, CacheOptions, LAYER_FILES, OneOwner, Passed, PassedOptions, Session, Settings};

use self::copies::Copies;
use super::workspace::host;
use crate::error::Result;
use crate::mount::{Report, Transport};
use crate::owner::work_directory;
use crate::vault::Vault;

/// Where it is mounted, and where its private part is, in the directory of a run.
pub(super) const MOUNTPOINT: &str = "home";
pub(super) const PRIVATE: &str = "private";

/// In the directory of a vault: what its runs have written to the caches of tools.
pub(crate) const CACHES: &str = "caches";

/// How long the kernel may take to end a mount that nobody uses.
const LEAVING: Duration = Duration::from_millis(200);

/// What is shared of the user's home.
#[derive(Clone, Debug)]
pub struct HomeShare {
    /// The home on the host.
    pub home: PathBuf,
    /// Where it is inside: at its own path, unless the sandbox has something of its own there.
    pub at: PathBuf,
    /// What of it is there, and what can be changed. Everything else is private to the run.
    pub rules: Vec<Rule>,
    /// Files below it of which a run has a copy of its own.
    pub copied: Vec<PathBuf>,
    /// What can be read, and is changed in the vault's own layer.
    pub caches: Vec<HostCache>,
}

impl HomeShare {
    /// The home with the caches and the settings of tools, and nothing else, for a workspace that is at `project`.
    pub fn of_tools(home: &Path, project: Option<&Path>, caller: &[(OsString, OsString)]) -> HomeShare {
        let at = if Home::fits(home, project) { home.to_owned() } else { HOME.into() };
        let settings = tool_settings(home);
        let read = settings.iter().filter_map(|file| {
            let pattern = Pattern::parse(&format!("/{}", file.to_str()?)).ok()?;
            Some(Rule::new(pattern, Level::Read))
        });
        let is_own = at == home;
        HomeShare {
            rules: read.collect(),
            copied: Vec::new(),
            // In another place, a tool looks for its caches where it does without any variable.
            caches: caches(home, if is_own { caller } else { &[] }),
            home: home.to_owned(),
            at,
        }
    }
}

impl HomeShare {
    /// Whether something may be at a path of a cache as a vault's runs see it, absolute and as it is inside.
    pub(super) fn may_have_cached(&self, vault: &Vault, path: &Path) -> bool {
        let layer = vault.store().home().map(|home| work_directory(home, vault.id()).join(CACHES));
        self.caches.iter().any(|cache| {
            let own = self.at.join(&cache.below_home);
            let tops = [Some(&own), cache.also_at.as_ref()];
            let below = tops.into_iter().flatten().find_map(|top| path.strip_prefix(top).ok());
            let Some(below) = below else { return false };
            let in_layer = layer.as_ref().map(|layer| layer.join(LAYER_FILES).join(&cache.below_home));
            let places = [in_layer.as_deref(), cache.from.as_deref()];
            places.into_iter().flatten().any(|top| may_be_below(top, below))
        })
    }

    /// What is at the same path inside as on the host, with a project.
    pub(super) fn own_paths<'a>(&'a self, project: Option<&'a Path>) -> OwnPaths<'a> {
        let is_own = self.at == self.home;
        OwnPaths { project, home: is_own.then_some(&*self.home), caches: &self.caches }
    }
}

/// What is put into it inside.
pub(crate) struct Places<'a> {
    /// What is mounted over it, and whether that is a directory.
    pub(crate) covered: &'a [(&'a Path, bool)],
    pub(crate) link: Option<&'a Link>,
    /// Caches can be written to, in the vault's own layer, which later runs read.
    pub(crate) write: bool,
}

/// A home that is mounted. It is gone when this is dropped.
pub(crate) struct HomeView {
    mountpoint: PathBuf,
    share: HomeShare,
    serving: Option<Serving>,
    copies: Copies,
}

impl HomeView {
    /// Mounts it in the directory of a run. What is put into it inside has a place there.
    pub(crate) fn mount(
        vault: &Vault,
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
            if let Ok(below) = path.strip_prefix(&share.at) {
                make_place(&private.join(below), *is_directory)?;
            }
        }
        if let Some(link) = places.link
            && let Ok(below) = link.at.strip_prefix(&share.at)
        {
            make_link(&private.join(below), &link.to)?;
        }
        let copies = Copies::make(&share.home, &private, &share.copied)?;
        let is_root = rustix::process::geteuid().is_root();
        let passed = Passed::new(PassedOptions {
            shared: open_directory(&share.home)?,
            private: open_directory(&private)?,
            rules: Rules::new(share.rules.clone())?,
            caches: cache_options(vault, share, places)?,
            owner: is_root.then_some(OneOwner { uid: UNPRIVILEGED, gid: UNPRIVILEGED }),
        })
        .map_err(|source| host("opening", place, source))?;
        let settings = Settings { log: Arc::clone(report), ..Settings::default() };
        let session = Arc::new(Session::new(Arc::new(passed), settings));
        let options =
            mounting::MountOptions { allow_other: is_root, ..mounting::MountOptions::new("avfs:home") };
        let connection = mounting::mount(&mountpoint, &options)?;
        let mut view = HomeView { mountpoint, share: share.clone(), serving: None, copies };
        let serving = ServingOptions { transport, ..ServingOptions::default() };
        view.serving = Some(Serving::start(session, connection, serving)?);
        Ok(view)
    }

    /// What is at the same path inside as on the host, with a project.
    pub(crate) fn own_paths<'a>(&'a self, project: Option<&'a Path>) -> OwnPaths<'a> {
        self.share.own_paths(project)
    }

    /// As a plan has it.
    pub(crate) fn shown(&self) -> Home {
        let also =
            self.share.caches.iter().filter_map(|cache| {
                Some(AlsoAt { below: cache.below_home.clone(), at: cache.also_at.clone()? })
            });
        Home { at: self.share.at.clone(), shows: Some(self.mountpoint.clone()), also: also.collect() }
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
            // Nothing of the run is alive: only copies of the mount, in namespaces that others have made, are left.
            serving.end_within(LEAVING);
        }
    }
}

/// Whether something may be below a directory. Where a link leads to inside is not known here.
fn may_be_below(top: &Path, below: &Path) -> bool {
    let mut place = top.to_owned();
    for name in below {
        place.push(name);
        match place.symlink_metadata() {
            Ok(found) if found.is_symlink() => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
        }
    }
    true
}

/// Where a vault keeps what its runs have written to caches. It goes with the vault.
fn cache_options(vault: &Vault, share: &HomeShare, places: &Places<'_>) -> Result<Option<CacheOptions>> {
    let Some(home) = vault.store().home() else { return Ok(None) };
    let layer = work_directory(home, vault.id()).join(CACHES);
    make_directory(&layer)?;
    let caches = share.caches.iter().map(|cache| Cache {
        below: cache.below_home.as_os_str().as_bytes().to_vec(),
        // One that is gone by now, or that we are not let into, has nothing to show.
        lower: cache.from.as_deref().and_then(|from| open_directory(from).ok()),
    });
    Ok(Some(CacheOptions {
        caches: caches.collect(),
        layer: open_directory(&layer)?,
        read_only: !places.write,
        is_inspected,
        inspected_bytes: INSPECTED_BYTES,
        is_secret,
    }))
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
