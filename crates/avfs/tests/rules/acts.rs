//! The actions of a program on a name, one or two system calls each.
//!
//! Names that begin with `subject` have the level in question; the others can be written. Both kinds are laid out
//! in `cells.rs`.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self, Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags,
    Timespec, Timestamps, XattrFlags, inotify,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// The directory of one act.
pub struct Site {
    pub dir: PathBuf,
}

impl Site {
    fn subject(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("subject-{kind}"))
    }

    fn plain(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("plain-{kind}"))
    }

    fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open(&self.subject("file"), flags)
    }
}

type Done = Result<(), Errno>;

pub struct Act {
    pub name: &'static str,
    pub run: fn(&Site) -> Done,
}

const fn act(name: &'static str, run: fn(&Site) -> Done) -> Act {
    Act { name, run }
}

const fn flags(one: OFlags, other: OFlags) -> OFlags {
    one.union(other)
}

const CREATE: OFlags = flags(OFlags::WRONLY, OFlags::CREATE);
const CREATE_NEW: OFlags = flags(CREATE, OFlags::EXCL);
const APPEND: OFlags = flags(OFlags::WRONLY, OFlags::APPEND);

pub const ACTS: &[Act] = &[
    act("stat", |site| fs::stat(site.subject("file")).map(drop)),
    act("lstat of a symbolic link", |site| {
        fs::lstat(site.subject("link")).map(drop)
    }),
    act("being listed", |site| lists(&site.dir, "subject-file")),
    act("listing", |site| lists(&site.subject("dir"), "inner")),
    act("chdir and stat of .", |site| {
        let directory = open(&site.subject("dir"), flags(OFlags::PATH, OFlags::DIRECTORY))?;
        fs::statat(directory, ".", AtFlags::empty()).map(drop)
    }),
    act("access F_OK", |site| {
        fs::access(site.subject("file"), Access::EXISTS)
    }),
    act("access R_OK", |site| {
        fs::access(site.subject("file"), Access::READ_OK)
    }),
    act("access W_OK", |site| {
        fs::access(site.subject("file"), Access::WRITE_OK)
    }),
    act("access X_OK", |site| {
        fs::access(site.subject("program"), Access::EXEC_OK)
    }),
    act("statfs", |site| fs::statfs(site.subject("file")).map(drop)),
    act("open O_PATH", |site| site.open(OFlags::PATH).map(drop)),
    act("open O_RDONLY", |site| site.open(OFlags::RDONLY).map(drop)),
    act("open O_WRONLY", |site| site.open(OFlags::WRONLY).map(drop)),
    act("open O_RDWR", |site| site.open(OFlags::RDWR).map(drop)),
    act("open O_APPEND", |site| site.open(APPEND).map(drop)),
    act("open O_TRUNC", |site| {
        site.open(flags(OFlags::WRONLY, OFlags::TRUNC)).map(drop)
    }),
    act("open O_RDONLY O_TRUNC", |site| site.open(OFlags::TRUNC).map(drop)),
    act("open O_CREAT, it exists", |site| site.open(CREATE).map(drop)),
    act("open O_CREAT O_TRUNC, it exists", |site| {
        site.open(flags(CREATE, OFlags::TRUNC)).map(drop)
    }),
    act("open O_CREAT O_EXCL, it exists", |site| {
        site.open(CREATE_NEW).map(drop)
    }),
    act("open O_CREAT", |site| {
        open(&site.subject("new"), CREATE).map(drop)
    }),
    act("open O_CREAT O_EXCL", |site| {
        open(&site.subject("new"), CREATE_NEW).map(drop)
    }),
    act("open O_DIRECTORY", |site| {
        open(&site.subject("dir"), OFlags::DIRECTORY).map(drop)
    }),
    act("open O_NOFOLLOW of a symbolic link", |site| {
        open(&site.subject("link"), OFlags::NOFOLLOW).map(drop)
    }),
    act("open O_NOFOLLOW", |site| site.open(OFlags::NOFOLLOW).map(drop)),
    act("open O_TMPFILE in the directory", |site| {
        open(&site.subject("dir"), flags(OFlags::WRONLY, OFlags::TMPFILE)).map(drop)
    }),
    act("open through a symbolic link", |site| {
        open(&site.subject("link"), OFlags::RDONLY).map(drop)
    }),
    act("open of the end of a plain symbolic link", |site| {
        open(&site.plain("link"), OFlags::RDONLY).map(drop)
    }),
    act("readlink", |site| {
        fs::readlink(site.subject("link"), Vec::new()).map(drop)
    }),
    act("read", |site| {
        rustix::io::read(site.open(OFlags::RDONLY)?, &mut [0; 4]).map(drop)
    }),
    act("lseek SEEK_DATA", |site| {
        fs::seek(site.open(OFlags::RDONLY)?, fs::SeekFrom::Data(0)).map(drop)
    }),
    act("exec", |site| execute(&site.subject("program"))),
    act("mmap to read", |site| {
        map(&site.open(OFlags::RDONLY)?, ProtFlags::READ)
    }),
    act("mmap shared to write, msync", |site| {
        map(&site.open(OFlags::RDWR)?, ProtFlags::READ.union(ProtFlags::WRITE))
    }),
    act("write at the end", |site| {
        write_at(&site.open(OFlags::WRONLY)?, 8)
    }),
    act("write in the middle", |site| {
        write_at(&site.open(OFlags::WRONLY)?, 4)
    }),
    act("write behind the end", |site| {
        write_at(&site.open(OFlags::WRONLY)?, 20)
    }),
    act("write with O_APPEND", |site| {
        rustix::io::write(site.open(APPEND)?, b"more").map(drop)
    }),
    act("copy_file_range from it", |site| {
        copy(
            &site.open(OFlags::RDONLY)?,
            &open(&site.plain("file"), OFlags::WRONLY)?,
            0,
        )
    }),
    act("copy_file_range to its end", |site| {
        copy(
            &open(&site.plain("file"), OFlags::RDONLY)?,
            &site.open(OFlags::WRONLY)?,
            8,
        )
    }),
    act("copy_file_range over it", |site| {
        copy(
            &open(&site.plain("file"), OFlags::RDONLY)?,
            &site.open(OFlags::WRONLY)?,
            0,
        )
    }),
    act("truncate", |site| truncate(&site.subject("file"), 2)),
    act("truncate to more", |site| truncate(&site.subject("file"), 20)),
    act("ftruncate", |site| fs::ftruncate(site.open(OFlags::WRONLY)?, 2)),
    act("fallocate", |site| allocate(site, FallocateFlags::empty())),
    act("fallocate KEEP_SIZE", |site| {
        allocate(site, FallocateFlags::KEEP_SIZE)
    }),
    act("fallocate PUNCH_HOLE", |site| {
        allocate(site, FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE))
    }),
    act("fallocate ZERO_RANGE", |site| {
        allocate(site, FallocateFlags::ZERO_RANGE)
    }),
    act("fallocate ZERO_RANGE KEEP_SIZE", |site| {
        allocate(site, FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE))
    }),
    act("fallocate COLLAPSE_RANGE", |site| {
        allocate(site, FallocateFlags::COLLAPSE_RANGE)
    }),
    act("fallocate INSERT_RANGE", |site| {
        allocate(site, FallocateFlags::INSERT_RANGE)
    }),
    act("fallocate UNSHARE_RANGE", |site| {
        allocate(site, FallocateFlags::UNSHARE_RANGE)
    }),
    act("fsync", |site| fs::fsync(site.open(OFlags::RDONLY)?)),
    act("flock shared", |site| {
        fs::flock(site.open(OFlags::RDONLY)?, FlockOperation::NonBlockingLockShared)
    }),
    act("flock exclusive", |site| {
        fs::flock(
            site.open(OFlags::RDONLY)?,
            FlockOperation::NonBlockingLockExclusive,
        )
    }),
    act("fcntl lock to read", |site| {
        fs::fcntl_lock(site.open(OFlags::RDONLY)?, FlockOperation::NonBlockingLockShared)
    }),
    act("fcntl lock to write", |site| {
        fs::fcntl_lock(
            site.open(OFlags::WRONLY)?,
            FlockOperation::NonBlockingLockExclusive,
        )
    }),
    act("inotify", |site| watch(&site.subject("file"))),
    act("inotify of a directory", |site| watch(&site.subject("dir"))),
    act("chmod", |site| {
        fs::chmod(site.subject("file"), Mode::from_raw_mode(0o600))
    }),
    act("chmod of a directory", |site| {
        fs::chmod(site.subject("dir"), Mode::from_raw_mode(0o700))
    }),
    act("fchmod", |site| {
        fs::fchmod(site.open(OFlags::RDONLY)?, Mode::from_raw_mode(0o600))
    }),
    act("chown", |site| {
        let own = rustix::process::getegid();
        fs::chown(site.subject("file"), None, Some(own))
    }),
    act("utimes", |site| {
        fs::utimensat(CWD, site.subject("file"), &long_ago(), AtFlags::empty())
    }),
    act("utimes of a directory", |site| {
        fs::utimensat(CWD, site.subject("dir"), &long_ago(), AtFlags::empty())
    }),
    act("getxattr", |site| {
        fs::getxattr(site.subject("file"), "user.tag", &mut [0; 64]).map(drop)
    }),
    act("listxattr", |site| {
        fs::listxattr(site.subject("file"), &mut [0; 64]).map(drop)
    }),
    act("setxattr", |site| {
        fs::setxattr(site.subject("file"), "user.tag", b"set", XattrFlags::empty())
    }),
    act("setxattr XATTR_CREATE, it exists", |site| {
        fs::setxattr(site.subject("file"), "user.tag", b"set", XattrFlags::CREATE)
    }),
    act("removexattr", |site| {
        fs::removexattr(site.subject("file"), "user.tag")
    }),
    act("mkdir", |site| {
        fs::mkdir(site.subject("new"), Mode::from_raw_mode(0o755))
    }),
    act("mkdir, it exists", |site| {
        fs::mkdir(site.subject("dir"), Mode::from_raw_mode(0o755))
    }),
    act("mknod of a file", |site| {
        make_node(&site.subject("new"), FileType::RegularFile)
    }),
    act("mknod of a FIFO", |site| {
        make_node(&site.subject("new"), FileType::Fifo)
    }),
    act("mknod of a socket", |site| {
        make_node(&site.subject("new"), FileType::Socket)
    }),
    act("symlink", |site| fs::symlink("plain-file", site.subject("new"))),
    act("create in the directory", |site| {
        open(&site.subject("dir").join("new"), CREATE).map(drop)
    }),
    act("link of it to a plain name", |site| {
        fs::link(site.subject("file"), site.plain("new"))
    }),
    act("link of a plain file to it", |site| {
        fs::link(site.plain("file"), site.subject("new"))
    }),
    act("link of a plain file to it, it exists", |site| {
        fs::link(site.plain("file"), site.subject("file"))
    }),
    act("unlink", |site| fs::unlink(site.subject("file"))),
    act("unlink of a symbolic link", |site| {
        fs::unlink(site.subject("link"))
    }),
    act("unlink in the directory", |site| {
        fs::unlink(site.subject("dir").join("inner"))
    }),
    act("rmdir", |site| fs::rmdir(site.subject("empty"))),
    act("rmdir, it is not empty", |site| fs::rmdir(site.subject("dir"))),
    act("rename to a plain name", |site| {
        fs::rename(site.subject("file"), site.plain("new"))
    }),
    act("rename over a plain file", |site| {
        fs::rename(site.subject("file"), site.plain("file"))
    }),
    act("rename to a name of its level", |site| {
        fs::rename(site.subject("file"), site.subject("new"))
    }),
    act("rename of a plain file to it", |site| {
        fs::rename(site.plain("file"), site.subject("new"))
    }),
    act("rename of a plain file over it", |site| {
        fs::rename(site.plain("file"), site.subject("file"))
    }),
    act("rename of a symbolic link to a plain name", |site| {
        fs::rename(site.subject("link"), site.plain("new"))
    }),
    act("rename of a directory to a plain name", |site| {
        fs::rename(site.subject("dir"), site.plain("new"))
    }),
    act("rename of a plain directory to it", |site| {
        fs::rename(site.plain("dir"), site.subject("new"))
    }),
    act("rename of a plain directory over it", |site| {
        fs::rename(site.plain("dir"), site.subject("empty"))
    }),
    act("rename out of the directory", |site| {
        fs::rename(site.subject("dir").join("inner"), site.plain("new"))
    }),
    act("rename into the directory", |site| {
        fs::rename(site.plain("file"), site.subject("dir").join("new"))
    }),
    act("rename NOREPLACE to a plain name", |site| {
        rename_with(&site.subject("file"), &site.plain("new"), RenameFlags::NOREPLACE)
    }),
    act("rename NOREPLACE of a plain file to it", |site| {
        rename_with(&site.plain("file"), &site.subject("new"), RenameFlags::NOREPLACE)
    }),
    act("rename NOREPLACE of a plain file to it, it exists", |site| {
        rename_with(&site.plain("file"), &site.subject("file"), RenameFlags::NOREPLACE)
    }),
    act("rename WHITEOUT to a plain name", |site| {
        rename_with(&site.subject("file"), &site.plain("new"), RenameFlags::WHITEOUT)
    }),
    act("rename EXCHANGE with a plain file", |site| {
        rename_with(&site.subject("file"), &site.plain("file"), RenameFlags::EXCHANGE)
    }),
    act("rename EXCHANGE of a plain file with it", |site| {
        rename_with(&site.plain("file"), &site.subject("file"), RenameFlags::EXCHANGE)
    }),
    act("rename EXCHANGE of a directory with a plain one", |site| {
        rename_with(&site.subject("dir"), &site.plain("dir"), RenameFlags::EXCHANGE)
    }),
];

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o644))
}

/// ENOENT if the name is not listed.
fn lists(directory: &Path, name: &str) -> Done {
    let directory = open(directory, OFlags::DIRECTORY)?;
    for entry in fs::Dir::read_from(&directory)? {
        if entry?.file_name().to_bytes() == name.as_bytes() {
            return Ok(());
        }
    }
    Err(Errno::NOENT)
}

fn write_at(file: &OwnedFd, offset: u64) -> Done {
    rustix::io::pwrite(file, b"more", offset).map(drop)
}

fn copy(from: &OwnedFd, to: &OwnedFd, at: u64) -> Done {
    fs::copy_file_range(from, Some(&mut 0), to, Some(&mut { at }), 4).map(drop)
}

fn truncate(path: &Path, size: u64) -> Done {
    // `truncate(2)` on a path needs no open file; the kernel makes the same checks.
    match std::ffi::CString::new(path.as_os_str().as_encoded_bytes()) {
        Ok(path) => truncate_by_path(&path, size),
        Err(_) => Err(Errno::INVAL),
    }
}

#[allow(unsafe_code, reason = "only libc has truncate(2)")]
fn truncate_by_path(path: &std::ffi::CStr, size: u64) -> Done {
    // SAFETY: the path ends with a NUL byte.
    match unsafe { libc::truncate(path.as_ptr(), size as libc::off_t) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

fn last_error() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}

pub fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or_else(|| panic!("not an error of the system: {error}"))
}

fn allocate(site: &Site, mode: FallocateFlags) -> Done {
    fs::fallocate(site.open(OFlags::WRONLY)?, mode, 0, 4096)
}

fn make_node(path: &Path, kind: FileType) -> Done {
    fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o644), 0)
}

fn rename_with(from: &Path, to: &Path, flags: RenameFlags) -> Done {
    fs::renameat_with(CWD, from, CWD, to, flags)
}

fn watch(path: &Path) -> Done {
    let watcher = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(
        &watcher,
        path,
        inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE,
    )
    .map(drop)
}

fn long_ago() -> Timestamps {
    let then = Timespec {
        tv_sec: 5,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: then,
        last_modification: then,
    }
}

fn execute(program: &Path) -> Done {
    let ended = std::process::Command::new(program).arg(OsString::new()).status();
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => panic!("{}: {status}", program.display()),
        Err(error) => Err(errno_of(&error)),
    }
}

/// Maps a file, reads its first byte, and where it may be written, changes it and waits until the file has it.
#[allow(unsafe_code, reason = "a mapping is what this is about")]
pub fn map(file: impl AsFd, protection: ProtFlags) -> Done {
    let length = 4096;
    // SAFETY: the mapping is used within the length of the file and unmapped at the end.
    let map = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            length,
            protection,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    let first = map.cast::<u8>();
    // SAFETY: the file has a first byte.
    let byte = unsafe { first.read_volatile() };
    let mut done = Ok(());
    if protection.contains(ProtFlags::WRITE) {
        // SAFETY: the same byte.
        unsafe { first.write_volatile(byte ^ 0x20) };
        // SAFETY: the whole mapping.
        done = unsafe { rustix::mm::msync(map, length, MsyncFlags::SYNC) };
    }
    // SAFETY: nothing uses the mapping any longer.
    unsafe { rustix::mm::munmap(map, length)? };
    done
}
