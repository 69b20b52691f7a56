//! Creates and removes mounts. Serving is separate: the connection may be passed to another process.

mod fusermount;
mod table;

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

pub use table::{MountedEntry, is_copy, mounts};

use crate::transport::device;

/// The type of our mounts in the mount table.
pub const FILE_SYSTEM: &str = "fuse.avfs";

/// Why a mount could not be made or taken away.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point does not exist.
    #[error("{path} does not exist")]
    NoSuchPlace {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount point is not a directory.
    #[error("{path} is not a directory")]
    NotADirectory {
        /// The mount point.
        path: PathBuf,
    },
    /// The kernel has no FUSE, or the container has no device for it.
    #[error("there is no /dev/fuse: load the kernel module (modprobe fuse) or give it to the container")]
    NoDevice,
    /// Another file is in the place of the device.
    #[error(
        "/dev/fuse is not the FUSE device (character device 10:229): make it (mknod -m 666 /dev/fuse c 10 229) or give it to the container"
    )]
    NotTheDevice,
    /// This user may not open the device.
    #[error("/dev/fuse may not be opened by this user: allow it (chmod 666 /dev/fuse) or mount as root")]
    DeviceDenied,
    /// The device could not be opened.
    #[error("opening /dev/fuse")]
    Device(#[source] std::io::Error),
    /// An ordinary user needs a program that is missing.
    #[error("mounting as an ordinary user needs the program fusermount3: install the package fuse3")]
    NoFusermount,
    /// Something of ours is mounted there.
    #[error("{path} is mounted on already and shows {source_name}")]
    Taken {
        /// The mount point.
        path: PathBuf,
        /// What it shows.
        source_name: String,
    },
    /// The kernel or `fusermount3` refused.
    #[error("{path} cannot be mounted on: {reason}")]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Programs use the mount.
    #[error("{path} is in use: stop what works there, or detach the mount")]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// There is no mount.
    #[error("{path} is not a mount")]
    NotMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount did not end.
    #[error("{path} cannot be unmounted: {reason}")]
    Stuck {
        /// The mount point.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The mount point could not be looked at.
    #[error("looking at {path}")]
    Look {
        /// The mount point.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The table of mounts could not be read.
    #[error("reading the table of mounts")]
    Table(#[source] std::io::Error),
}

/// The properties of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuseMountOptions {
    /// The source that the mount table shows.
    pub source: String,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it. An ordinary user may set this only if
    /// `/etc/fuse.conf` has `user_allow_other`.
    pub allow_other: bool,
    /// Whether the kernel checks permissions by mode and owner.
    pub default_permissions: bool,
    /// The longest read in one request.
    pub max_read: u32,
}

impl FuseMountOptions {
    /// Options for a mount that everything can be done in, by the user who made it.
    pub fn new(source: impl Into<String>) -> FuseMountOptions {
        FuseMountOptions {
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

/// Mounts on a directory, which need not be empty, and returns the connection to serve. The directory must
/// not have one of our mounts already. Every use of the mount waits until the connection is served, and fails
/// once it is closed.
pub fn mount(at: &Path, options: &FuseMountOptions) -> Result<OwnedFd, MountError> {
    check_place(at)?;
    check_device()?;
    // Only root may mount by itself; for others, a program with the set-user-ID bit does it.
    if !rustix::process::geteuid().is_root() {
        return fusermount::mount(at, options);
    }
    let connection = device::open().map_err(device_error)?;
    match mount_directly(at, &connection, options) {
        Ok(()) => {
            let_read_ahead(at, options.max_read);
            Ok(connection)
        }
        // Root in a container may lack the capability; the error of the helper program is more informative.
        Err(Errno::PERM) => fusermount::mount(at, options),
        Err(error) => Err(MountError::Refused {
            path: at.to_owned(),
            reason: error.to_string(),
        }),
    }
}

fn mount_directly(at: &Path, connection: &OwnedFd, options: &FuseMountOptions) -> Result<(), Errno> {
    let uid = rustix::process::getuid().as_raw();
    let gid = rustix::process::getgid().as_raw();
    let fd = connection.as_raw_fd();
    let mut words = vec![format!("fd={fd},rootmode=40000,user_id={uid},group_id={gid}")];
    words.extend(options.words());
    let data = CString::new(words.join(",")).expect("the options contain no NUL");
    let flags = if options.read_only {
        MountFlags::RDONLY
    } else {
        MountFlags::empty()
    };
    rustix::mount::mount(options.source.as_str(), at, FILE_SYSTEM, flags, &*data)
}

/// Lets the kernel read ahead as far as one request reaches; by default it stops at 128 KiB. Set before the
/// connection is served, because the value negotiated there can only be lower. If it cannot be set, reading
/// takes more requests.
fn let_read_ahead(at: &Path, bytes: u32) {
    let mounted = mounts()
        .ok()
        .and_then(|mounts| mounts.into_iter().find(|mounted| mounted.at == at));
    if let Some(MountedEntry { device, .. }) = mounted {
        let _ = std::fs::write(
            format!("/sys/class/bdi/{device}/read_ahead_kb"),
            (bytes >> 10).to_string(),
        );
    }
}

fn check_place(at: &Path) -> Result<(), MountError> {
    let path = at.to_owned();
    // A second mount would hide the first one, and requests by name would reach the wrong one of the two.
    if let Some(first) = mounts()?.into_iter().find(|mounted| mounted.at == path) {
        return Err(MountError::Taken {
            path,
            source_name: first.source,
        });
    }
    match std::fs::metadata(at) {
        Ok(place) if place.is_dir() => Ok(()),
        Ok(_) => Err(MountError::NotADirectory { path }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(MountError::NoSuchPlace { path }),
        Err(source) => Err(MountError::Look { path, source }),
    }
}

/// Whether `/dev/fuse` is the FUSE device. This user may be unable to open it: the helper program can.
pub fn check_device() -> Result<(), MountError> {
    let device = std::fs::metadata("/dev/fuse").map_err(device_error)?;
    let is_fuse = device.file_type().is_char_device() && device.rdev() == rustix::fs::makedev(10, 229);
    if is_fuse {
        Ok(())
    } else {
        Err(MountError::NotTheDevice)
    }
}

fn device_error(error: std::io::Error) -> MountError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // The module is missing, or was never loaded.
        Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => MountError::NoDevice,
        Some(Errno::ACCESS | Errno::PERM) => MountError::DeviceDenied,
        _ => MountError::Device(error),
    }
}

/// How to treat a mount that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmountMode {
    /// Leave it and report that it is in use.
    IfUnused,
    /// Remove the name now, and the mount once it is unused.
    Detach,
    /// Remove it now; programs that use it get errors. An ordinary user can only detach.
    Force,
}

/// Takes a mount away.
pub fn unmount(at: &Path, how: UnmountMode) -> Result<(), MountError> {
    let flags = match how {
        UnmountMode::IfUnused => UnmountFlags::NOFOLLOW,
        UnmountMode::Detach => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
        UnmountMode::Force => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH | UnmountFlags::FORCE,
    };
    let path = at.to_owned();
    match rustix::mount::unmount(at, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy { path }),
        Err(Errno::INVAL) => Err(MountError::NotMounted { path }),
        Err(Errno::NOENT) => Err(MountError::NoSuchPlace { path }),
        Err(Errno::PERM) => fusermount::unmount(at, how),
        Err(error) => Err(MountError::Stuck {
            path,
            reason: error.to_string(),
        }),
    }
}

/// Whether a mount here has lost its server. If the server is just dying, this waits until it is dead.
pub fn is_dead(at: &Path) -> bool {
    // The others occur if the connection, or a thread that served it, ended during this request.
    const DEAD: [Errno; 3] = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
    // The kernel may have cached attributes of a dead mount; it requests the free space every time.
    rustix::fs::statfs(at).is_err_and(|error| DEAD.contains(&error))
}

/// Removes the mount of a process that died; returns whether there was one.
pub fn clean_up(at: &Path) -> Result<bool, MountError> {
    if !is_dead(at) {
        return Ok(false);
    }
    unmount(at, UnmountMode::Detach).map(|()| true)
}
