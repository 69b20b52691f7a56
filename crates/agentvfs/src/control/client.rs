//! The side of processes that do not own the vault.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use avfs_core::SnapshotId;
use avfs_core::rules::Rule;
use avfs_fuse::mounting::UnmountMode;

use super::channel::Channel;
use super::mount_state::{MountState, Unmounted};
use super::place;
use super::protocol::{Adopt, Bytes, NO_ROOM, OwnerReply, OwnerRequest, VERSION};
use crate::error::{Error, ErrorCode, FileError, Hint, OwnerError, Result};
use crate::record::Head;
use crate::vault::Vault;

/// How long an owner that has greeted us may take for a request: it may have much to store.
const WORKING: Duration = Duration::from_secs(600);

/// A connection to the process that has a vault open.
pub struct LiveOwner {
    channel: Channel,
    vault: String,
    pid: u32,
}

impl LiveOwner {
    /// Connects to the owner of a vault; `None` if no process serves it. An owner that has no room for us is
    /// asked again until the timeout.
    pub(crate) fn find(vault: &Vault) -> Result<Option<LiveOwner>> {
        let Some(directory) = vault.store().work().existing_of_vault(vault.id()) else {
            return Ok(None);
        };
        let start = Instant::now();
        loop {
            match LiveOwner::connect(vault, &directory, vault.store().patience()) {
                Err(Error::Owner(OwnerError::Failed { code: NO_ROOM, .. }))
                    if start.elapsed() < vault.store().patience() =>
                {
                    // There is nothing to wait on: the owner does not announce free places.
                    std::thread::sleep(Duration::from_millis(5));
                }
                found => return found,
            }
        }
    }

    /// Whether a process serves a vault, even if it is too busy to answer; false only if it is gone, or goes
    /// within the given time.
    pub(crate) fn is_there(vault: &Vault, at_most: Duration) -> bool {
        let Some(directory) = vault.store().work().existing_of_vault(vault.id()) else {
            return false;
        };
        !matches!(LiveOwner::connect(vault, &directory, at_most), Ok(None))
    }

    fn connect(vault: &Vault, directory: &Path, patience: Duration) -> Result<Option<LiveOwner>> {
        let silent = |source| silent(vault, source);
        let Some(stream) = place::connect_in(directory, patience).map_err(silent)? else {
            return Ok(None);
        };
        // A socket of another user's process must not receive our requests.
        if !place::may_answer(&stream, directory).map_err(silent)? {
            return Err(silent(io::ErrorKind::PermissionDenied.into()));
        }
        LiveOwner::greet(vault, Channel::new(stream), patience)
    }

    fn greet(vault: &Vault, mut channel: Channel, patience: Duration) -> Result<Option<LiveOwner>> {
        // An owner that no longer reads may have sent the reason before.
        let sent = channel.send(&OwnerRequest::Hello { version: VERSION }, None);
        let greeted = channel
            .receive(patience)
            .and_then(|reply| reply.map_or(sent.map(|()| None), |r| Ok(Some(r))));
        let name = || vault.name().map(|name| name.to_string());
        match greeted {
            Ok(Some(OwnerReply::Hello {
                version: VERSION,
                pid,
                vault: id,
            })) if id == vault.id() => Ok(Some(LiveOwner {
                channel,
                vault: name()?,
                pid,
            })),
            Ok(Some(OwnerReply::Hello { version, pid, .. })) => Err(Error::Owner(OwnerError::Version {
                vault: name()?,
                pid,
                theirs: version,
                ours: VERSION,
            })),
            Ok(Some(OwnerReply::Failed { code, message, hint })) => {
                Err(failed(name()?, &code, message, hint))
            }
            Ok(Some(_)) => Err(silent(vault, io::ErrorKind::InvalidData.into())),
            // It ended at this moment.
            Ok(None) => Ok(None),
            Err(error) if is_end(&error) => Ok(None),
            Err(error) => Err(silent(vault, error)),
        }
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// An owner that ends in order answers all requests that have arrived, and accepts no more. So a request
    /// that could not be sent completely, or that was unread when the socket closed (the kernel then resets
    /// the connection), was never executed. A request that was read and not answered may have been.
    fn ask(mut self, request: &OwnerRequest, descriptor: Option<BorrowedFd<'_>>) -> Result<OwnerReply> {
        let answered = match self.channel.send(request, descriptor) {
            Err(error) if is_end(&error) => Err(io::ErrorKind::ConnectionReset.into()),
            sent => sent.and_then(|()| self.channel.receive(WORKING)),
        };
        match answered {
            Ok(Some(OwnerReply::Conflict { path })) => Err(Error::File(FileError::Overtaken {
                vault: self.vault,
                path: path.and_then(|path| path.to_path()),
            })),
            Ok(Some(OwnerReply::Failed { code, message, hint })) => {
                Err(failed(self.vault, &code, message, hint))
            }
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(Error::Owner(OwnerError::Gone {
                vault: self.vault,
                pid: self.pid,
            })),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                Err(Error::Owner(OwnerError::Left {
                    vault: self.vault,
                    pid: self.pid,
                }))
            }
            Err(error) if is_end(&error) => Err(Error::Owner(OwnerError::Gone {
                vault: self.vault,
                pid: self.pid,
            })),
            Err(source) => Err(Error::Owner(OwnerError::Silent {
                vault: self.vault,
                source,
            })),
        }
    }

    fn ask_done(self, request: &OwnerRequest, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let vault = self.vault.clone();
        match self.ask(request, descriptor)? {
            OwnerReply::Done => Ok(()),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Requests a snapshot of all unstored changes; returns its head.
    pub fn settle(self) -> Result<SnapshotId> {
        let vault = self.vault.clone();
        match self.ask(&OwnerRequest::Settle, None)? {
            OwnerReply::Settled { head } => Ok(head),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Asks it to make a stored state the head; returns the head afterwards.
    pub(crate) fn adopt(self, adopt: &Adopt) -> Result<(u64, Head)> {
        let vault = self.vault.clone();
        match self.ask(&OwnerRequest::Adopt(Box::new(adopt.clone())), None)? {
            OwnerReply::Adopted {
                seq,
                snapshot,
                inodes,
                conflicts,
            } => Ok((
                seq,
                Head {
                    snapshot,
                    inodes,
                    journal: 0,
                    conflicts,
                },
            )),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Tells it that the limits of the vault have changed.
    pub(crate) fn refresh_limits(self) -> Result<()> {
        self.ask_done(&OwnerRequest::Limits, None)
    }

    /// Has it serve the vault at a directory, through a connection to the kernel if there is one already.
    pub fn mount(self, dir: &Path, options: &[String], connection: Option<BorrowedFd<'_>>) -> Result<()> {
        let request = OwnerRequest::Mount {
            dir: Bytes::of_host(dir),
            options: options.to_vec(),
        };
        self.ask_done(&request, connection)
    }

    /// Has the owner take a mount away.
    pub fn unmount(self, dir: &Path, how: UnmountMode) -> Result<Unmounted> {
        let vault = self.vault.clone();
        let request = OwnerRequest::Unmount {
            dir: Bytes::of_host(dir),
            force: how != UnmountMode::IfUnused,
            cut_off: how == UnmountMode::Force,
        };
        match self.ask(&request, None)? {
            OwnerReply::Unmounted { left } => Ok(left),
            // A reply without details counts as a complete unmount.
            OwnerReply::Done => Ok(Unmounted::Wholly),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it show the vault at a directory through other rules; they hold when this returns.
    pub fn set_rules(self, dir: &Path, rules: &[Rule]) -> Result<()> {
        let rules = rules.iter().map(ToString::to_string).collect();
        self.ask_done(
            &OwnerRequest::Rules {
                dir: Bytes::of_host(dir),
                rules,
            },
            None,
        )
    }

    /// Where it serves the vault.
    pub fn mounts(self) -> Result<Vec<MountState>> {
        let vault = self.vault.clone();
        match self.ask(&OwnerRequest::Mounts, None)? {
            OwnerReply::Mounts { mounts } => Ok(mounts),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it end; it does so as soon as everything is stored.
    pub fn stop(self) -> Result<()> {
        self.ask_done(&OwnerRequest::Stop, None)
    }
}

fn silent(vault: &Vault, source: io::Error) -> Error {
    let vault = vault.name().map(|name| name.to_string()).unwrap_or_default();
    Error::Owner(OwnerError::Silent { vault, source })
}

fn misunderstood(vault: String) -> Error {
    Error::Owner(OwnerError::Silent {
        vault,
        source: io::ErrorKind::InvalidData.into(),
    })
}

fn failed(vault: String, code: &str, message: String, hint: Option<Hint>) -> Error {
    let code = ErrorCode::named(code).unwrap_or(ErrorCode::OwnerFailed);
    Error::Owner(OwnerError::Failed {
        vault,
        code,
        message,
        hint,
    })
}

/// Whether the other side is gone.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
