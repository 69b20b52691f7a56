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
    AlsoAt, HOME, HostCache, INSPECTED_BYTES, OwnPaths, SandboxHome, SandboxLink, UNPRIVILEGED, caches,
    is_inspected, is_secret, tool_settings,
};
use avfs_fuse::mounting::{self, UnmountMode};
use avfs_fuse::transport::{FuseServing, ServingOptions};
use avfs_fuse::{
    CacheOptions, CachedPlace, FuseSession, LAYER_FILES, OneOwner, PassthroughFs, PassthroughOptions,
    SessionSettings,
};

use self::copies::Copies;
use super::workspace::{AfterRun, host};
use crate::error::Result;
use crate::local_work::CACHES;
use crate::mount::{Report, Transport};
use crate::run_directory::{HOME_MOUNTPOINT, HOME_PRIVATE};
use crate::vault::Vault;

/// How long the kernel may take to end a mount that nobody uses.
const LEAVING: Duration = Duration::from_millis(200);

/// The shared part of the user's home.
#[derive(Clone, Debug)]
pub struct HomeShare {
    /// The home on the host.
    pub home: PathBuf,
    /// Where it is inside: at its own path, unless the sandbox has something of its own there.
    pub at: PathBuf,
    /// Which paths are visible, and which can be changed. Everything else is private to the run.
    pub rules: Vec<Rule>,
    /// Files below it of which a run has a copy of its own.
    pub copied: Vec<PathBuf>,
    /// Readable directories that are changed in the vault's own layer.
    pub caches: Vec<HostCache>,
}

impl HomeShare {
    /// The home with the caches and the settings of tools, and nothing else, for a workspace that is at `project`.
    pub fn of_tools(home: &Path, project: Option<&Path>, caller: &[(OsString, OsString)]) -> HomeShare {
        let at = if SandboxHome::fits(home, project) {
            home.to_owned()
        } else {
            HOME.into()
        };
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
    /// Whether there may be an entry at a path of a cache as a vault's runs see it; the path is absolute and
    /// inside.
    pub(super) fn may_have_cached(&self, vault: &Vault, path: &Path) -> bool {
        let work = vault.store().work();
        let layer = work.existing_of_vault(vault.id()).map(|place| place.join(CACHES));
        self.caches.iter().any(|cache| {
            let own = self.at.join(&cache.below_home);
            let tops = [Some(&own), cache.also_at.as_ref()];
            let below = tops
                .into_iter()
                .flatten()
                .find_map(|top| path.strip_prefix(top).ok());
            let Some(below) = below else { return false };
            let in_layer = layer
                .as_ref()
                .map(|layer| layer.join(LAYER_FILES).join(&cache.below_home));
            let places = [in_layer.as_deref(), cache.from.as_deref()];
            places.into_iter().flatten().any(|top| may_be_below(top, below))
        })
    }

    /// The paths that are the same inside as on the host, with a project.
    pub(super) fn own_paths<'a>(&'a self, project: Option<&'a Path>) -> OwnPaths<'a> {
        let is_own = self.at == self.home;
        OwnPaths {
            project,
            home: is_own.then_some(&*self.home),
            caches: &self.caches,
        }
    }
}

/// The things that are placed into it inside.
pub(crate) struct HomePlaces<'a> {
    /// The paths over which something is mounted, and whether each is a directory.
    pub(crate) covered: &'a [(&'a Path, bool)],
    pub(crate) link: Option<&'a SandboxLink>,
    /// Caches can be written to, in the vault's own layer, which later runs read.
    pub(crate) write: bool,
}

/// A home that is mounted. It is gone when this is dropped.
pub(crate) struct HomeView {
    mountpoint: PathBuf,
    share: HomeShare,
    serving: Option<FuseServing>,
    copies: Copies,
}

impl HomeView {
    /// Mounts it in the directory of a run. Everything that is placed into it inside has a mount point there.
    pub(crate) fn mount(
        vault: &Vault,
        place: &Path,
        share: &HomeShare,
        places: &HomePlaces<'_>,
        transport: Transport,
        report: &Report,
    ) -> Result<HomeView> {
        let (mountpoint, private) = (place.join(HOME_MOUNTPOINT), place.join(HOME_PRIVATE));
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
        let passed = PassthroughFs::new(PassthroughOptions {
            shared: open_directory(&share.home)?,
            private: open_directory(&private)?,
            rules: Rules::shared(share.rules.clone())?,
            caches: cache_options(vault, share, places)?,
            owner: is_root.then_some(OneOwner {
                uid: UNPRIVILEGED,
                gid: UNPRIVILEGED,
            }),
        })
        .map_err(|source| host("opening", place, source))?;
        let settings = SessionSettings {
            log: Arc::clone(report),
            ..SessionSettings::default()
        };
        let session = Arc::new(FuseSession::new(Arc::new(passed), settings));
        let options = mounting::FuseMountOptions {
            allow_other: is_root,
            ..mounting::FuseMountOptions::new("avfs:home")
        };
        let connection = mounting::mount(&mountpoint, &options)?;
        let mut view = HomeView {
            mountpoint,
            share: share.clone(),
            serving: None,
            copies,
        };
        let serving = ServingOptions {
            transport,
            ..ServingOptions::default()
        };
        view.serving = Some(FuseServing::start(session, connection, serving)?);
        Ok(view)
    }

    /// The paths that are the same inside as on the host, with a project.
    pub(crate) fn own_paths<'a>(&'a self, project: Option<&'a Path>) -> OwnPaths<'a> {
        self.share.own_paths(project)
    }

    /// As a plan has it.
    pub(crate) fn shown(&self) -> SandboxHome {
        let also = self.share.caches.iter().filter_map(|cache| {
            Some(AlsoAt {
                below: cache.below_home.clone(),
                at: cache.also_at.clone()?,
            })
        });
        SandboxHome {
            at: self.share.at.clone(),
            shows: Some(self.mountpoint.clone()),
            also: also.collect(),
        }
    }

    /// The copies that the run has changed, which end with it.
    pub(super) fn changed_copies(&self) -> Vec<PathBuf> {
        self.copies.changed()
    }
}

impl HomeView {
    /// Unmounts it. Remaining server threads end in the background.
    pub(super) fn end(mut self, lingering: &mut AfterRun) {
        if let Some(serving) = self.unmount() {
            lingering.later(move || serving.end_within(LEAVING));
        }
    }

    /// Returns its server, unless that has ended already. No process of the run is alive then: only copies of
    /// the mount, in namespaces that other programs have created, are left.
    fn unmount(&mut self) -> Option<FuseServing> {
        let serving = self.serving.take()?;
        // If it is no longer there, that is fine.
        mounting::unmount(&self.mountpoint, UnmountMode::Detach)
            .ok()
            .map(|()| serving)
    }
}

impl Drop for HomeView {
    fn drop(&mut self) {
        if let Some(serving) = self.unmount() {
            serving.end_within(LEAVING);
        }
    }
}

/// Whether there may be an entry below a directory. The targets of links inside are unknown here.
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

/// Where a vault keeps the writes of its runs to caches. Deleted with the vault.
fn cache_options(vault: &Vault, share: &HomeShare, places: &HomePlaces<'_>) -> Result<Option<CacheOptions>> {
    let layer = vault.store().work().of_vault(vault.id())?.join(CACHES);
    make_directory(&layer)?;
    let caches = share.caches.iter().map(|cache| CachedPlace {
        below: cache.below_home.as_os_str().as_bytes().to_vec(),
        // A cache that is gone by now, or that may not be opened, has no files to show.
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
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|source| host("making", path, source))
}

/// An empty directory or file for something to be mounted on.
fn make_place(path: &Path, is_directory: bool) -> Result<()> {
    if is_directory {
        return make_directory(path);
    }
    path.parent().map_or(Ok(()), make_directory)?;
    File::create(path)
        .map(drop)
        .map_err(|source| host("making", path, source))
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
