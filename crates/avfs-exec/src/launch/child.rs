//! Starting a process: what happens to it between fork and exec.

#![allow(unsafe_code, reason = "what a child does before it becomes another program")]

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::FdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::process::{Gid, Pid, Signal, Uid};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::vaults::mounted_vaults;
use crate::plan::UNPRIVILEGED;

/// Where root shows the unprivileged user of a run what that one could not reach: a directory that every system has,
/// covered in a mount namespace of the child's own.
const STAGING: &CStr = c"/tmp";

/// A process to be.
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Descriptors that stay open, under their own numbers. All others above standard error are closed.
    pub(super) keep: Vec<RawFd>,
    /// Those of them that nobody else needs once the child has started.
    pub(super) held: Vec<OwnedFd>,
    /// Where its own talk goes; its standard input and output are nothing.
    pub(super) talk: OwnedFd,
    /// Files of the host to show in the staging place, if this process can.
    pub(super) staged: Option<Staging>,
    /// Only the kernel's knowledge of the parent's end is fast enough where the child has nobody to ask.
    pub(super) dies_with_parent: bool,
}

impl Start {
    pub(super) fn spawn(self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(self.talk);
        let (keep, mut staged) = (self.keep, self.staged);
        let parent = rustix::process::getpid();
        let drop_root = is_root();
        let before_exec = move || {
            if let Some(staged) = &mut staged {
                staged.mount()?;
            }
            keep_only(&keep)?;
            rustix::process::setsid()?;
            if drop_root {
                become_unprivileged()?;
            }
            if self.dies_with_parent { die_with(parent) } else { Ok(()) }
        };
        // SAFETY: system calls only; everything that they need was allocated before.
        let child = unsafe { command.pre_exec(before_exec) }.spawn();
        drop(self.held);
        child
    }
}

/// Whether runs have to be given away to another user.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may make mount namespaces without a user namespace.
fn may_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

fn keep_only(keep: &[RawFd]) -> io::Result<()> {
    // SAFETY: a flag of descriptors; memory is not involved. Descriptors of other owners belong to the parent's copy.
    let closed = unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC.cast_signed()) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    for number in keep {
        // SAFETY: the parent holds it open until the child has started.
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*number) }, FdFlags::empty())?;
    }
    Ok(())
}

/// For this thread, which is all that a child has after a fork.
fn become_unprivileged() -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it was asked for.
    match rustix::process::getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Directories and files, and where each is staged.
pub(super) struct Staging {
    items: Vec<Item>,
    /// Where vaults are mounted: each has a copy in the namespace of the child, which would keep it from ending.
    vaults: Vec<CString>,
}

struct Item {
    from: CString,
    at: CString,
    is_directory: bool,
    tree: Option<OwnedFd>,
}

impl Staging {
    /// Nothing if this process needs no staging, or is not allowed to.
    pub(super) fn new() -> Option<Self> {
        (is_root() && may_mount()).then(|| Self { items: Vec::new(), vaults: mounted_vaults() })
    }

    /// Adds a path of the host, and answers where it will be.
    pub(super) fn add(&mut self, from: &std::path::Path) -> io::Result<PathBuf> {
        let at = format!("{}/{}", STAGING.to_string_lossy(), self.items.len());
        let is_directory = is_directory(from)?;
        let from = CString::new(from.as_os_str().as_encoded_bytes())?;
        self.items.push(Item { from, at: CString::new(at.as_str())?, is_directory, tree: None });
        Ok(at.into())
    }

    /// In the child: everything is taken before the staging place covers it, and put there afterwards.
    fn mount(&mut self) -> io::Result<()> {
        // SAFETY: only mounts are unshared, by the only thread of a child.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
        // Not private: what the host unmounts must not be kept in use here. That is so where its mounts are shared.
        let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", slave)?;
        for item in &mut self.items {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            item.tree = Some(rustix::mount::open_tree(CWD, item.from.as_c_str(), flags)?);
        }
        for vault in &self.vaults {
            // One that has gone meanwhile is not kept.
            let _ = rustix::mount::unmount(vault.as_c_str(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(c"tmpfs", STAGING, c"tmpfs", flags, c"mode=0755")?;
        self.items.iter().try_for_each(Item::put)
    }
}

impl Item {
    fn put(&self) -> io::Result<()> {
        let Some(tree) = &self.tree else { return Ok(()) };
        let at = self.at.as_c_str();
        match self.is_directory {
            true => rustix::fs::mkdir(at, Mode::RWXU)?,
            false => {
                drop(rustix::fs::open(at, OFlags::CREATE | OFlags::CLOEXEC | OFlags::RDONLY, Mode::RUSR)?)
            }
        }
        let empty_source = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(rustix::mount::move_mount(tree.as_fd(), c"", CWD, at, empty_source)?)
    }
}

/// As far as is known without asking: a workspace may be one that nobody serves yet.
fn is_directory(path: &std::path::Path) -> io::Result<bool> {
    let known = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(known.stx_mode.into()).is_dir())
}

/// The numbers of descriptors, for those that are kept.
pub(super) fn numbers<'a>(fds: impl IntoIterator<Item = &'a OwnedFd>) -> Vec<RawFd> {
    fds.into_iter().map(AsRawFd::as_raw_fd).collect()
}
