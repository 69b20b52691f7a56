//! A vault as the directory of one run: mounted for it, through its rules, and gone with it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use avfs_core::SnapshotId;
use avfs_tree::WorkTree;

use super::copied::Copied;
use super::places::RunDirectory;
use crate::error::{Error, Result};
use crate::keeper::Rhythm;
use crate::mount::{self, MountError, MountHost, MountOptions, Mounts, Report, Unmount};
use crate::open::OpenVault;
use crate::served::ServedVault;
use crate::source::{FollowingPacks, TakingAhead};
use crate::vault::Vault;

/// How long an owner that is about to end may take to store what it has.
const ENDING: Duration = Duration::from_secs(60);

/// A run that is over by then needs nothing of its source that it has not asked for.
const SHORT: Duration = Duration::from_secs(1);

/// What this process does after its run: it serves another run in the same vault, or a mount that somebody made meanwhile,
/// and ends what it took of a source. Who ends the process before it has ended takes their files away from them.
#[derive(Default)]
pub struct Lingering {
    serving: Vec<JoinHandle<()>>,
}

impl Lingering {
    /// Waits until nobody needs this process any more.
    pub fn wait(self) {
        for thread in self.serving {
            // What a thread that panicked served is gone.
            let _ = thread.join();
        }
    }

    fn serve(&mut self, served: ServedVault, mounts: Arc<Mounts>) {
        self.serving.push(std::thread::spawn(move || {
            mounts.await_last();
            // What is not stored now is in the journal, for whoever opens the vault next.
            let _ = served.close();
        }));
    }
}

/// A vault whose mount for a run is there and not served yet: whoever looks into it waits.
pub(crate) struct Unserved {
    vault: Vault,
    directory: RunDirectory,
    options: MountOptions,
    connection: OwnedFd,
}

impl Unserved {
    pub fn connect(vault: &Vault, directory: RunDirectory, options: MountOptions) -> Result<Unserved> {
        let connection = mount::connect(vault.name()?.as_str(), &directory.mountpoint(), &options)?;
        Ok(Unserved { vault: vault.clone(), directory, options, connection })
    }

    pub fn mountpoint(&self) -> PathBuf {
        self.directory.mountpoint()
    }

    pub fn door_place(&self) -> PathBuf {
        self.directory.door()
    }

    /// Serves it. If another process has become the owner, it has to be mounted anew: the answer says whether whoever
    /// waits in the mount is served now.
    pub fn serve(self, report: &Report) -> Result<(Workspace, bool)> {
        let Unserved { vault, directory, options, connection } = self;
        match vault.open() {
            Ok(open) => {
                let workspace = Workspace::own(&vault, open, directory, &options, report, connection)?;
                Ok((workspace, true))
            }
            Err(Error::Busy { .. }) => {
                drop(connection);
                mount::detach(&directory.mountpoint());
                Ok((Workspace::mount(&vault, directory, &options, report)?, false))
            }
            Err(error) => {
                mount::detach(&directory.mountpoint());
                Err(error)
            }
        }
    }

    /// Takes the mount away again.
    pub fn give_up(self) {
        mount::detach(&self.mountpoint());
    }
}

/// A vault that is mounted for a run.
pub(crate) struct Workspace {
    vault: Vault,
    serving: Serving,
    directory: RunDirectory,
}

/// Who serves the mount.
enum Serving {
    /// This process, which owns the vault meanwhile.
    Us { served: Box<ServedVault>, mounts: Arc<Mounts>, ahead: TakingAhead, packs: Option<FollowingPacks> },
    /// The process that owns the vault anyway.
    Owner,
    /// Nobody: it is a copy.
    Copy(Copied),
}

impl Workspace {
    /// Mounts a vault. If nobody owns it, this process does until the end of the run, and serves whoever comes.
    pub fn mount(
        vault: &Vault,
        directory: RunDirectory,
        options: &MountOptions,
        report: &Report,
    ) -> Result<Workspace> {
        let start = Instant::now();
        loop {
            let busy = match vault.open() {
                Ok(open) => {
                    let name = vault.name()?;
                    let connection = mount::connect(name.as_str(), &directory.mountpoint(), options)?;
                    return Workspace::own(vault, open, directory, options, report, connection);
                }
                Err(busy @ Error::Busy { .. }) => busy,
                Err(error) => return Err(error),
            };
            if ask_owner(vault, &directory.mountpoint(), options)? {
                return Ok(Workspace { vault: vault.clone(), serving: Serving::Owner, directory });
            }
            if start.elapsed() > ENDING {
                return Err(busy);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn own(
        vault: &Vault,
        open: OpenVault,
        directory: RunDirectory,
        options: &MountOptions,
        report: &Report,
        connection: OwnedFd,
    ) -> Result<Workspace> {
        let mountpoint = directory.mountpoint();
        let served = Self::serve(open, &mountpoint, options, report, connection);
        let (served, mounts) = served.inspect_err(|_| mount::detach(&mountpoint))?;
        let ahead = TakingAhead::start(vault, options.rules.clone(), SHORT);
        let packs = FollowingPacks::start(served.open());
        let serving = Serving::Us { served: Box::new(served), mounts, ahead, packs };
        Ok(Workspace { vault: vault.clone(), serving, directory })
    }

    fn serve(
        open: OpenVault,
        mountpoint: &Path,
        options: &MountOptions,
        report: &Report,
        connection: OwnedFd,
    ) -> Result<(ServedVault, Arc<Mounts>)> {
        let open = Arc::new(open);
        let mounts = Mounts::new(Arc::clone(&open), Arc::clone(report));
        let heard = Arc::clone(report);
        let log = Arc::new(move |error: &Error| heard(&avfs_core::with_causes(error)));
        let host = Arc::new(MountHost(Arc::clone(&mounts)));
        let served = ServedVault::start(open, host, Rhythm::default(), log)?;
        served.mount(mountpoint, &options.words(), Some(connection))?;
        Ok((served, mounts))
    }

    /// Copies a vault, where nothing can be mounted.
    pub fn copy(vault: &Vault, directory: RunDirectory, run: &str) -> Result<Workspace> {
        let copy = Copied::make(vault, run)?;
        Ok(Workspace { vault: vault.clone(), serving: Serving::Copy(copy), directory })
    }

    pub fn mountpoint(&self) -> PathBuf {
        match &self.serving {
            Serving::Us { .. } | Serving::Owner => self.directory.mountpoint(),
            Serving::Copy(copy) => copy.place().to_owned(),
        }
    }

    pub fn door_place(&self) -> PathBuf {
        self.directory.door()
    }

    /// The tree, if this process serves it.
    pub fn tree(&self) -> Option<&WorkTree> {
        match &self.serving {
            Serving::Us { served, .. } => Some(served.open().tree()),
            Serving::Owner | Serving::Copy(_) => None,
        }
    }

    /// The state of the vault as it is now, stored.
    pub fn settle(&self) -> Result<SnapshotId> {
        match &self.serving {
            Serving::Us { served, .. } => {
                served.open().settle().map_err(|error| self.vault.if_unstored(error))
            }
            Serving::Owner => self.vault.head(),
            Serving::Copy(copy) => Ok(copy.before()),
        }
    }

    /// The state of the vault as it is now, stored under a name if it is a new one.
    pub fn save(&self, action: &str, detail: &str) -> Result<SnapshotId> {
        if let Serving::Us { served, .. } = &self.serving {
            served.open().save(action, detail)?;
        }
        self.settle()
    }

    /// Unmounts, and stores what the run has done under a name of its own; returns the state then. If others have
    /// come meanwhile, they are served on. What cannot be stored stays in the journal, and nothing stays mounted.
    pub fn end(self, action: &str, detail: &str, lingering: &mut Lingering) -> Result<SnapshotId> {
        let Workspace { vault, serving, directory } = self;
        let mountpoint = directory.mountpoint();
        match serving {
            Serving::Us { served, mounts, ahead, packs } => {
                drop(packs);
                lingering.serving.extend(ahead.stop());
                // Before the end of the mount, which would store it under its own name.
                let saved = served.open().save(action, detail);
                // Whatever could not be stored: a mount that nobody will serve is of no use to anybody.
                let ended = end_mount(|how| served.unmount(&mountpoint, how).map(drop));
                let stored = saved.and(ended).and_then(|()| {
                    served.open().save(action, detail)?;
                    served.open().settle()
                });
                let closed = match mounts.close_if_only(&mountpoint) {
                    true => served.close().map(drop),
                    false => {
                        lingering.serve(*served, mounts);
                        Ok(())
                    }
                };
                stored.and_then(|head| closed.map(|()| head)).map_err(|error| vault.if_unstored(error))
            }
            Serving::Owner => {
                end_mount(|how| match vault.live_owner()? {
                    Some(owner) => owner.unmount(&mountpoint, how).map(drop),
                    None => {
                        mount::detach(&mountpoint);
                        Ok(())
                    }
                })?;
                vault.head()
            }
            Serving::Copy(copy) => copy.take_back(&vault, action, detail),
        }
    }
}

/// Everything that used the mount for the run is gone. What is left are copies of it, in namespaces that others have made
/// meanwhile: the run does not wait for their end.
fn end_mount(unmount: impl Fn(Unmount) -> Result<()>) -> Result<()> {
    match unmount(Unmount::Force) {
        Err(Error::Mount(MountError::NotMounted { .. })) => Ok(()),
        ended => ended,
    }
}

/// Has the process that owns the vault serve the mount; says whether there is one.
fn ask_owner(vault: &Vault, mountpoint: &Path, options: &MountOptions) -> Result<bool> {
    let Some(owner) = vault.live_owner()? else { return Ok(false) };
    let connection = mount::connect(vault.name()?.as_str(), mountpoint, options)?;
    match owner.mount(mountpoint, &options.words(), Some(connection.as_fd())) {
        Ok(()) => Ok(true),
        Err(error) => {
            drop(connection);
            mount::detach(mountpoint);
            // It is about to end: its place is free soon.
            if error.code() == "owner-gone" { Ok(false) } else { Err(error) }
        }
    }
}

pub(super) fn host(action: &'static str, place: &Path, source: std::io::Error) -> Error {
    Error::Host { action, place: place.display().to_string(), source }
}
