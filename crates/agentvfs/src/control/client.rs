//! The side of those who do not own the vault.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use avfs_core::SnapshotId;
use avfs_core::rules::Rule;

use super::channel::Channel;
use super::desk::Unmounted;
use super::place;
use super::protocol::{Adopt, Bytes, NO_ROOM, Reply, Request, VERSION};
use crate::error::{CODES, Error, Result};
use crate::mount::{MountState, Unmount};
use crate::owner;
use crate::record::Head;
use crate::vault::Vault;

/// How long an owner that has greeted us may work on a request: it may have much to store.
const WORKING: Duration = Duration::from_secs(600);

/// A connection to the process that has a vault open.
pub struct LiveOwner {
    channel: Channel,
    vault: String,
    pid: u32,
}

impl LiveOwner {
    /// Connects to the owner of a vault; `None` if nobody serves it. One that has no room for us is asked
    /// again for as long as we have patience.
    pub(crate) fn find(vault: &Vault) -> Result<Option<LiveOwner>> {
        let Some(home) = vault.store().home() else { return Ok(None) };
        let directory = owner::work_directory(home, vault.id());
        let start = Instant::now();
        loop {
            match LiveOwner::connect(vault, &directory, vault.store().patience()) {
                Err(Error::OwnerFailed { code: NO_ROOM, .. })
                    if start.elapsed() < vault.store().patience() =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                found => return found,
            }
        }
    }

    /// Whether somebody serves a vault, though he may have no time for us: only one that is gone, or goes in the time
    /// that is given to him, is not there.
    pub(crate) fn is_there(vault: &Vault, at_most: Duration) -> bool {
        let Some(home) = vault.store().home() else { return false };
        let directory = owner::work_directory(home, vault.id());
        !matches!(LiveOwner::connect(vault, &directory, at_most), Ok(None))
    }

    fn connect(vault: &Vault, directory: &Path, patience: Duration) -> Result<Option<LiveOwner>> {
        let silent = |source| silent(vault, source);
        let Some(stream) = place::connect_in(directory, patience).map_err(silent)? else { return Ok(None) };
        if !place::may_answer(&stream, directory).map_err(silent)? {
            return Err(silent(io::ErrorKind::PermissionDenied.into()));
        }
        LiveOwner::greet(vault, Channel::new(stream), patience)
    }

    fn greet(vault: &Vault, mut channel: Channel, patience: Duration) -> Result<Option<LiveOwner>> {
        // One that does not listen to us any more may have said why before.
        let sent = channel.send(&Request::Hello { version: VERSION }, None);
        let greeted =
            channel.receive(patience).and_then(|reply| reply.map_or(sent.map(|()| None), |r| Ok(Some(r))));
        let name = || vault.name().map(|name| name.to_string());
        match greeted {
            Ok(Some(Reply::Hello { version: VERSION, pid, vault: id })) if id == vault.id() => {
                Ok(Some(LiveOwner { channel, vault: name()?, pid }))
            }
            Ok(Some(Reply::Hello { version, pid, .. })) => {
                Err(Error::OwnerVersion { vault: name()?, pid, theirs: version, ours: VERSION })
            }
            Ok(Some(Reply::Failed { code, message, hint })) => Err(failed(name()?, &code, message, hint)),
            Ok(Some(_)) => Err(silent(vault, io::ErrorKind::InvalidData.into())),
            // It ended at this moment.
            Ok(None) => Ok(None),
            Err(error) if is_end(&error) => Ok(None),
            Err(error) => Err(silent(vault, error)),
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn ask(mut self, request: &Request, descriptor: Option<BorrowedFd<'_>>) -> Result<Reply> {
        let answered = self.channel.send(request, descriptor).and_then(|()| self.channel.receive(WORKING));
        match answered {
            Ok(Some(Reply::Conflict { path })) => {
                Err(Error::Overtaken { vault: self.vault, path: path.and_then(|path| path.to_path()) })
            }
            Ok(Some(Reply::Failed { code, message, hint })) => Err(failed(self.vault, &code, message, hint)),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(Error::OwnerGone { vault: self.vault, pid: self.pid }),
            Err(error) if is_end(&error) => Err(Error::OwnerGone { vault: self.vault, pid: self.pid }),
            Err(source) => Err(Error::OwnerSilent { vault: self.vault, source }),
        }
    }

    fn ask_done(self, request: &Request, descriptor: Option<BorrowedFd<'_>>) -> Result<()> {
        let vault = self.vault.clone();
        match self.ask(request, descriptor)? {
            Reply::Done => Ok(()),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it take a snapshot of what is not stored yet; returns its head.
    pub fn settle(self) -> Result<SnapshotId> {
        let vault = self.vault.clone();
        match self.ask(&Request::Settle, None)? {
            Reply::Settled { head } => Ok(head),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it make a stored state the head; returns what the head is then.
    pub(crate) fn adopt(self, adopt: &Adopt) -> Result<(u64, Head)> {
        let vault = self.vault.clone();
        match self.ask(&Request::Adopt(Box::new(adopt.clone())), None)? {
            Reply::Adopted { seq, snapshot, inodes, conflicts } => {
                Ok((seq, Head { snapshot, inodes, journal: 0, conflicts }))
            }
            _ => Err(misunderstood(vault)),
        }
    }

    /// Tells it that the limits of the vault have changed.
    pub(crate) fn refresh_limits(self) -> Result<()> {
        self.ask_done(&Request::Limits, None)
    }

    /// Has it serve the vault at a directory, through a connection to the kernel if there is one already.
    pub fn mount(self, dir: &Path, options: &[String], connection: Option<BorrowedFd<'_>>) -> Result<()> {
        let request = Request::Mount { dir: Bytes::of_host(dir), options: options.to_vec() };
        self.ask_done(&request, connection)
    }

    pub fn unmount(self, dir: &Path, how: Unmount) -> Result<Unmounted> {
        let vault = self.vault.clone();
        let request = Request::Unmount {
            dir: Bytes::of_host(dir),
            force: how != Unmount::IfUnused,
            cut_off: how == Unmount::Force,
        };
        match self.ask(&request, None)? {
            Reply::Unmounted { left } => Ok(left),
            // One that does not say more.
            Reply::Done => Ok(Unmounted::Wholly),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it show the vault at a directory through other rules; they hold when this returns.
    pub fn set_rules(self, dir: &Path, rules: &[Rule]) -> Result<()> {
        let rules = rules.iter().map(ToString::to_string).collect();
        self.ask_done(&Request::Rules { dir: Bytes::of_host(dir), rules }, None)
    }

    /// Where it serves the vault.
    pub fn mounts(self) -> Result<Vec<MountState>> {
        let vault = self.vault.clone();
        match self.ask(&Request::Mounts, None)? {
            Reply::Mounts { mounts } => Ok(mounts),
            _ => Err(misunderstood(vault)),
        }
    }

    /// Has it end; it does so as soon as everything is stored.
    pub fn stop(self) -> Result<()> {
        self.ask_done(&Request::Stop, None)
    }
}

fn silent(vault: &Vault, source: io::Error) -> Error {
    let vault = vault.name().map(|name| name.to_string()).unwrap_or_default();
    Error::OwnerSilent { vault, source }
}

fn misunderstood(vault: String) -> Error {
    Error::OwnerSilent { vault, source: io::ErrorKind::InvalidData.into() }
}

fn failed(vault: String, code: &str, message: String, hint: Option<String>) -> Error {
    let known = CODES.iter().find(|(known, _)| *known == code);
    Error::OwnerFailed { vault, code: known.map_or("owner-failed", |(code, _)| code), message, hint }
}

/// Whether the other side is gone.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
