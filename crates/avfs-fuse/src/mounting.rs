//! Making mounts and taking them away. Serving is another matter: the connection may be passed to another
//! process.

mod fusermount;
mod table;

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

pub use table::{Mounted, is_copy, mounts};

use crate::transport::device;

/// The type of our mounts in the mount table.
pub const FILE_SYSTEM: &str = "fuse.avfs";

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("{path} does not exist")]
    NoSuchPlace { path: PathBuf },
    #[error("{path} is not a directory")]
    NotADirectory { path: PathBuf },
    #[error("there is no /dev/fuse: load the kernel module (modprobe fuse) or give it to the container")]
    NoDevice,
    #[error(
        "/dev/fuse is not the FUSE device (character device 10:229): make it (mknod -m 666 /dev/fuse c 10 229) or give it to the container"
    )]
    NotTheDevice,
    #[error("/dev/fuse may not be opened by this user: allow it (chmod 666 /dev/fuse) or mount as root")]
    DeviceDenied,
    #[error("opening /dev/fuse")]
    Device(#[source] std::io::Error),
    #[error("mounting as an ordinary user needs the program fusermount3: install the package fuse3")]
    NoFusermount,
    #[error("{path} is mounted on already and shows {source_name}")]
    Taken { path: PathBuf, source_name: String },
    #[error("{path} cannot be mounted on: {reason}")]
    Refused { path: PathBuf, reason: String },
    #[error("{path} is in use: stop what works there, or detach the mount")]
    Busy { path: PathBuf },
    #[error("{path} is not a mount")]
    NotMounted { path: PathBuf },
    #[error("{path} cannot be unmounted: {reason}")]
    Stuck { path: PathBuf, reason: String },
    #[error("looking at {path}")]
    Look { path: PathBuf, source: std::io::Error },
    #[error("reading the table of mounts")]
    Table(#[source] std::io::Error),
}

/// What a mount is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// What the mount table shows as the source.
    pub source: String,
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it. An ordinary user may say so only if
    /// `/etc/fuse.conf` has `user_allow_other`.
    pub allow_other: bool,
    /// Whether the kernel checks permissions by mode and owner.
    pub default_permissions: bool,
    /// The longest read in one request.
    pub max_read: u32,
}

impl MountOptions {
    pub fn new(source: impl Into<String>) -> MountOptions {
        MountOptions {
            source: source.into(),
            read_only: false,
            allow_other: false,
            default_permissions: true,
            max_read: 1 << 20,
        }
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec![format!("max_read={}", self.max_read)];
        if self.default_permissions {
            words.push("default_permissions".into());
        }
        if self.allow_other {
            words.push("allow_other".into());
        }
        words
    }
}

/// Mounts on a directory, which need not be empty, and returns the connection to serve. None of our mounts may
/// be there. Every use of the mount waits until the connection is served, and fails once it is closed.
pub fn mount(at: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    check_place(at)?;
    check_device()?;
    if !rustix::process::geteuid().is_root() {
        return fusermount::mount(at, options);
    }
    let connection = device::open().map_err(device_error)?;
    match mount_directly(at, &connection, options) {
        Ok(()) => {
            let_read_ahead(at, options.max_read);
            Ok(connection)
        }
        // Root of a container may lack the capability; what the helper program says about it is the better
        // explanation.
        Err(Errno::PERM) => fusermount::mount(at, options),
        Err(error) => Err(MountError::Refused { path: at.to_owned(), reason: error.to_string() }),
    }
}

fn mount_directly(at: &Path, connection: &OwnedFd, options: &MountOptions) -> Result<(), Errno> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let fd = connection.as_raw_fd();
    let mut words = vec![format!("fd={fd},rootmode=40000,user_id={uid},group_id={gid}")];
    words.extend(options.words());
    let data = CString::new(words.join(",")).expect("the options contain no NUL");
    let flags = if options.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    rustix::mount::mount(options.source.as_str(), at, FILE_SYSTEM, flags, &*data)
}

/// Lets the kernel read as far ahead as one request reaches; by itself it stops at 128 KiB. Said before the
/// connection is served: what is agreed on there can only be less. Where it cannot be said, reading takes more requests.
fn let_read_ahead(at: &Path, bytes: u32) {
    let mounted = mounts().ok().and_then(|mounts| mounts.into_iter().find(|mounted| mounted.at == at));
    if let Some(Mounted { device, .. }) = mounted {
        let _ = std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), (bytes >> 10).to_string());
    }
}

fn check_place(at: &Path) -> Result<(), MountError> {
    let path = at.to_owned();
    // A second mount would hide the first one, and what the two are told by its name would be mixed up.
    if let Some(first) = mounts()?.into_iter().find(|mounted| mounted.at == path) {
        return Err(MountError::Taken { path, source_name: first.source });
    }
    match std::fs::metadata(at) {
        Ok(place) if place.is_dir() => Ok(()),
        Ok(_) => Err(MountError::NotADirectory { path }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(MountError::NoSuchPlace { path }),
        Err(source) => Err(MountError::Look { path, source }),
    }
}

/// Whether `/dev/fuse` is what it should be. Whether this user may open it is another matter: the helper program may.
pub fn check_device() -> Result<(), MountError> {
    let device = std::fs::metadata("/dev/fuse").map_err(device_error)?;
    let is_fuse = device.file_type().is_char_device() && device.rdev() == rustix::fs::makedev(10, 229);
    if is_fuse { Ok(()) } else { Err(MountError::NotTheDevice) }
}

fn device_error(error: std::io::Error) -> MountError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => MountError::NoDevice,
        Some(Errno::ACCESS | Errno::PERM) => MountError::DeviceDenied,
        _ => MountError::Device(error),
    }
}

/// What to do about a mount that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Leave it and say so.
    IfUnused,
    /// Take the name away now, the mount when nobody uses it any more.
    Detach,
    /// Take it away now; whoever uses it gets errors. An ordinary user can only detach.
    Force,
}

pub fn unmount(at: &Path, how: Unmount) -> Result<(), MountError> {
    let flags = match how {
        Unmount::IfUnused => UnmountFlags::NOFOLLOW,
        Unmount::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        Unmount::Force => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    let path = at.to_owned();
    match rustix::mount::unmount(at, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy { path }),
        Err(Errno::INVAL) => Err(MountError::NotMounted { path }),
        Err(Errno::NOENT) => Err(MountError::NoSuchPlace { path }),
        Err(Errno::PERM) => fusermount::unmount(at, how),
        Err(error) => Err(MountError::Stuck { path, reason: error.to_string() }),
    }
}

/// Whether something is mounted here that nobody serves any more. If its server is just dying, this waits
/// until it is dead.
pub fn is_dead(at: &Path) -> bool {
    // The others: the connection, or a thread that served it, ended while it was asked.
    const DEAD: [Errno; 3] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
    // Attributes the kernel may still know from the dead; how much room there is it asks every time.
    rustix::fs::statfs(at).is_err_and(|error| DEAD.contains(&error))
}

/// Takes away what a process that died left mounted here; returns whether there was something.
pub fn clean_up(at: &Path) -> Result<bool, MountError> {
    if !is_dead(at) {
        return Ok(false);
    }
    unmount(at, Unmount::Detach).map(|()| true)
}
