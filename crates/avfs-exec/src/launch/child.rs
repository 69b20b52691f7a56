//! Starts a process: the steps between fork and exec.

#![allow(unsafe_code, reason = "what a child does before it becomes another program")]

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::FdFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use rustix::process::{Gid, Pid, Signal, Uid};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::vaults::mounted_vaults;
use crate::plan::UNPRIVILEGED;

mod shared;

use shared::SharedStart;
pub(super) use shared::StartedChild;

/// Where root shows the unprivileged user of a run files that it could not reach otherwise: a directory that
/// every system has, covered in a mount namespace of the child's own.
const STAGING: &CStr = c"/tmp";

/// A directory that every system has, in which no vault can be mounted. It may have many mounts itself, such as those of
/// control groups.
const SYSTEM_CONTROLS: &CStr = c"/sys";

/// A process to start.
pub(super) struct ChildStart {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Descriptors that stay open, with the same numbers. All others above standard error are closed.
    pub(super) keep: Vec<RawFd>,
    /// The kept descriptors that this process does not need once the child has started.
    pub(super) held: Vec<OwnedFd>,
    /// The destination of its messages; its standard input and output are empty.
    pub(super) talk: OwnedFd,
    /// Files of the host to show in the staging place, if this process can.
    pub(super) staged: Option<StagedPaths>,
    /// Set if the child has no other way to learn of the parent's end, and only the kernel is fast enough.
    pub(super) dies_with_parent: bool,
    /// The kept descriptors get the numbers from this one on, in their order.
    pub(super) renumbered_from: Option<RawFd>,
}

impl ChildStart {
    /// The child runs in the memory of this process until it has become the program, as one of `posix_spawn` does: a
    /// copy of the tables of a large process would take longer than everything else. Nothing that the child does there
    /// may allocate, or leave a descriptor of its own in a value that this process drops.
    pub(super) fn spawn(mut self) -> io::Result<StartedChild> {
        let held = std::mem::take(&mut self.held);
        let child = SharedStart::new(self)?.carry_out();
        drop(held);
        child
    }

    /// In the child, before it becomes the program.
    fn prepare(&mut self, parent: Pid, drop_root: bool) -> io::Result<()> {
        if let Some(staged) = &mut self.staged {
            staged.mount()?;
        }
        keep_only(&self.keep)?;
        if let Some(first) = self.renumbered_from {
            renumber(&mut self.keep, first)?;
        }
        rustix::process::setsid()?;
        if drop_root {
            become_unprivileged()?;
        }
        if self.dies_with_parent {
            die_with(parent)
        } else {
            Ok(())
        }
    }
}

/// Whether runs must use another user id.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this process may make mount namespaces without a user namespace.
fn may_mount() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;

fn keep_only(keep: &[RawFd]) -> io::Result<()> {
    // SAFETY: sets a flag of descriptors; memory is not involved. Descriptors of other owners belong to the
    // parent's copy. Not all C libraries have a function for the call.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_RANGE_CLOEXEC) };
    if closed != 0 {
        return Err(io::Error::last_os_error());
    }
    for number in keep {
        // SAFETY: the parent holds it open until the child has started.
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(*number) }, FdFlags::empty())?;
    }
    Ok(())
}

/// Moves all of them out of the way first: a number that is wanted may be another one's.
fn renumber(keep: &mut [RawFd], first: RawFd) -> io::Result<()> {
    let highest = keep
        .iter()
        .copied()
        .max()
        .unwrap_or(first)
        .max(first + keep.len() as RawFd);
    for number in keep.iter_mut() {
        // SAFETY: numbers of this process, which is a copy about to become another program.
        *number = check(unsafe { libc::fcntl(*number, libc::F_DUPFD_CLOEXEC, highest + 1) })?;
    }
    for (wanted, number) in (first..).zip(keep) {
        // SAFETY: as above; the copy stays open when the program is executed.
        check(unsafe { libc::dup2(*number, wanted) })?;
    }
    Ok(())
}

fn check(number: RawFd) -> io::Result<RawFd> {
    if number < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(number)
    }
}

/// For this thread only, which is the only one of a child after a fork.
fn become_unprivileged() -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have ended before this call.
    match rustix::process::getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Directories and files, and the staged path of each.
pub(super) struct StagedPaths {
    items: Vec<StagedItem>,
    /// Mount points of vaults: each has a copy in the namespace of the child, which would prevent the mount
    /// from ending.
    vaults: Vec<CString>,
    /// Where each of them is moved, before they are all removed.
    away: Vec<CString>,
    /// A mount that the program does not need.
    unneeded: Option<&'static CStr>,
}

struct StagedItem {
    from: CString,
    at: CString,
    is_directory: bool,
    /// A number in the table of the child, which means nothing in that of the parent: it is closed by `exec`.
    tree: Option<RawFd>,
}

impl StagedPaths {
    /// `None` if this process needs no staging, or is not allowed to mount.
    pub(super) fn new() -> Option<Self> {
        if !is_root() || !may_mount() {
            return None;
        }
        let vaults = mounted_vaults();
        let top = SYSTEM_CONTROLS.to_string_lossy();
        let away = (0..vaults.len()).map(|number| CString::new(format!("{top}/{number}")));
        let away = away.collect::<Result<_, _>>().ok()?;
        Some(Self {
            items: Vec::new(),
            vaults,
            away,
            unneeded: None,
        })
    }

    /// For a program that does not look into `/sys`, and that reads the list of all mounts again and again.
    pub(super) fn without_system_controls(self) -> Self {
        Self {
            unneeded: Some(SYSTEM_CONTROLS),
            ..self
        }
    }

    /// Adds a path of the host, and returns its staged path.
    pub(super) fn add(&mut self, from: &std::path::Path) -> io::Result<PathBuf> {
        let at = format!("{}/{}", STAGING.to_string_lossy(), self.items.len());
        let is_directory = is_directory(from)?;
        let from = CString::new(from.as_os_str().as_encoded_bytes())?;
        self.items.push(StagedItem {
            from,
            at: CString::new(at.as_str())?,
            is_directory,
            tree: None,
        });
        Ok(at.into())
    }

    /// In the child: all paths are opened before the staging directory covers them, and mounted there
    /// afterwards.
    fn mount(&mut self) -> io::Result<()> {
        // SAFETY: only mounts are unshared, by the only thread of a child.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS)? };
        // Not private: a mount that the host removes must not be kept in use here. That requires shared
        // mounts on the host.
        let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", slave)?;
        for item in &mut self.items {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            item.tree = Some(rustix::mount::open_tree(CWD, item.from.as_c_str(), flags)?.into_raw_fd());
        }
        if let Some(unneeded) = self.unneeded {
            // There may be nothing mounted, which is fine.
            let _ = rustix::mount::unmount(unneeded, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        self.remove_vaults();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        rustix::mount::mount(c"tmpfs", STAGING, c"tmpfs", flags, c"mode=0755")?;
        self.items.iter().try_for_each(StagedItem::put)
    }

    /// All of them with one unmount of what they are moved into: after each unmount, the kernel waits until no processor
    /// uses the mount, and there are as many as sandboxes are open.
    fn remove_vaults(&self) {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let leaving = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        let is_held = !self.vaults.is_empty()
            && rustix::mount::mount(c"tmpfs", SYSTEM_CONTROLS, c"tmpfs", flags, c"mode=0700").is_ok();
        for (vault, away) in self.vaults.iter().zip(&self.away) {
            let is_moved = is_held
                && rustix::fs::mkdir(away.as_c_str(), Mode::RWXU).is_ok()
                && rustix::mount::move_mount(
                    CWD,
                    vault.as_c_str(),
                    CWD,
                    away.as_c_str(),
                    MoveMountFlags::empty(),
                )
                .is_ok();
            if !is_moved {
                // Fails if the mount has been removed meanwhile, or with one that it was in; both are fine.
                let _ = rustix::mount::unmount(vault.as_c_str(), leaving);
            }
        }
        if is_held {
            let _ = rustix::mount::unmount(SYSTEM_CONTROLS, leaving);
        }
    }
}

impl StagedItem {
    fn put(&self) -> io::Result<()> {
        let Some(tree) = self.tree else { return Ok(()) };
        // SAFETY: opened above, in this child, and closed by nobody before `exec`.
        let tree = unsafe { BorrowedFd::borrow_raw(tree) };
        let at = self.at.as_c_str();
        if self.is_directory {
            rustix::fs::mkdir(at, Mode::RWXU)?
        } else {
            drop(rustix::fs::open(
                at,
                OFlags::CREATE | OFlags::CLOEXEC | OFlags::RDONLY,
                Mode::RUSR,
            )?)
        }
        let empty_source = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        Ok(rustix::mount::move_mount(tree, c"", CWD, at, empty_source)?)
    }
}

/// As far as is known without accessing it: a workspace may not be served yet.
fn is_directory(path: &std::path::Path) -> io::Result<bool> {
    let known = rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(known.stx_mode.into()).is_dir())
}

/// The numbers of descriptors to keep.
pub(super) fn numbers<'a>(fds: impl IntoIterator<Item = &'a OwnedFd>) -> Vec<RawFd> {
    fds.into_iter().map(AsRawFd::as_raw_fd).collect()
}
