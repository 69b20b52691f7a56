//! A directory in which calls are made, seen through one door or several, and the descriptors that were
//! opened there.

use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use super::call::{Call, Filling, Name, SLOTS, Slot};
use super::survey::{Seen, attribute};

/// The answer of a successful call.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Names(Vec<OsString>),
    Seen(Seen),
    /// The call is not made: nothing suitable is open there.
    NotMade,
}

type Result<T = Answer> = rustix::io::Result<T>;

pub struct EntryPlace {
    doors: Vec<PathBuf>,
    open: [Option<Opened>; SLOTS],
}

struct Opened {
    door: usize,
    file: OwnedFd,
}

impl EntryPlace {
    pub fn new(doors: Vec<PathBuf>) -> EntryPlace {
        EntryPlace {
            doors,
            open: Default::default(),
        }
    }

    pub fn doors(&self) -> &[PathBuf] {
        &self.doors
    }

    /// Makes a call; if it uses a name, through this door.
    pub fn perform(&mut self, door: usize, call: &Call) -> Result {
        match *call {
            Call::Open(slot, name, flags, mode) => {
                let path = self.doors[door].join(name);
                let file = rustix::fs::open(path, flags, Mode::from_raw_mode(mode))?;
                self.open[slot] = Some(Opened { door, file });
                Ok(Answer::Done)
            }
            Call::Close(slot) => Ok(self.close(slot)),
            Call::Dup(from, to) => self.dup(from, to),
            Call::Snapshot | Call::MountAgain => Ok(Answer::NotMade),
            _ => {
                self.look_before(door, call);
                self.perform_on_descriptor(call)
                    .unwrap_or_else(|| perform_on_name(&self.doors[door], call))
            }
        }
    }

    /// With several doors, makes the kernel request data that it would take for granted although it was
    /// notified of a change: the length of a file that is appended to (for the position afterwards) or copied
    /// from; and within a rename it cannot refresh a directory that was moved (ESTALE).
    fn look_before(&self, door: usize, call: &Call) {
        if self.doors.len() == 1 {
            return;
        }
        let look_at = |name: Name| rustix::fs::lstat(self.doors[door].join(name)).is_ok();
        let ask_of = |slot: Slot| {
            self.open_near(slot)
                .is_some_and(|slot| rustix::fs::fstat(&self.opened(slot).file).is_ok())
        };
        // Their results show in the call itself.
        let _ = match *call {
            Call::Rename(from, to, _) => [from, to].map(look_at),
            Call::Write(slot, _) => [ask_of(slot); 2],
            Call::Copy(from, _, to, _, _) => [from, to].map(ask_of),
            _ => return,
        };
    }

    /// `None` if the call uses a name.
    fn perform_on_descriptor(&self, call: &Call) -> Option<Result> {
        let with = |slot: Slot, act: &dyn Fn(&OwnedFd) -> Result| {
            Some(
                self.open_near(slot)
                    .map_or(Ok(Answer::NotMade), |slot| act(&self.opened(slot).file)),
            )
        };
        match *call {
            Call::Read(slot, length) => with(slot, &|file| {
                read(length, |buffer| rustix::io::read(file, buffer))
            }),
            Call::ReadAt(slot, offset, length) => with(slot, &|file| {
                read(length, |buffer| rustix::io::pread(file, buffer, offset))
            }),
            Call::Write(slot, filling) => {
                with(slot, &|file| number(rustix::io::write(file, &filling.bytes())))
            }
            Call::WriteAt(slot, offset, filling) => with(slot, &|file| {
                number(rustix::io::pwrite(file, &filling.bytes(), offset))
            }),
            Call::Map(slot, offset, filling) => with(slot, &|file| write_by_mapping(file, offset, filling)),
            Call::Seek(slot, to) => with(slot, &|file| seek(file, to)),
            Call::FindData(slot, from) => with(slot, &|file| find_data(file, from)),
            Call::FindHole(slot, from) => with(slot, &|file| find_hole(file, from)),
            Call::SetLength(slot, length) => with(slot, &|file| done(rustix::fs::ftruncate(file, length))),
            Call::Allocate(slot, flags, offset, length) => {
                with(slot, &|file| allocate(file, flags, offset, length))
            }
            Call::Copy(from, at, to, there, length) => Some(self.copy((from, at), (to, there), length)),
            Call::Sync(slot) => with(slot, &|file| done(rustix::fs::fsync(file))),
            Call::SyncData(slot) => with(slot, &|file| done(rustix::fs::fdatasync(file))),
            Call::Lock(slot, operation) => with(slot, &|file| done(rustix::fs::flock(file, operation))),
            Call::StatOpen(slot) => with(slot, &|file| {
                Ok(Answer::Seen(Seen::of(&rustix::fs::fstat(file)?)))
            }),
            _ => None,
        }
    }

    fn close(&mut self, slot: Slot) -> Answer {
        let file = self.open_near(slot).and_then(|slot| self.open[slot].take());
        file.map_or(Answer::NotMade, |_| Answer::Done)
    }

    pub fn close_all(&mut self) {
        self.open = Default::default();
    }

    fn dup(&mut self, from: Slot, to: Slot) -> Result {
        let Some(from) = self.open_near(from) else {
            return Ok(Answer::NotMade);
        };
        let Opened { door, ref file } = *self.opened(from);
        let file = rustix::io::dup(file)?;
        self.open[to] = Some(Opened { door, file });
        Ok(Answer::Done)
    }

    /// This slot or the next open one.
    fn open_near(&self, slot: Slot) -> Option<Slot> {
        (slot..slot + SLOTS)
            .map(|slot| slot % SLOTS)
            .find(|slot| self.open[*slot].is_some())
    }

    fn opened(&self, slot: Slot) -> &Opened {
        self.open[slot].as_ref().expect("it is open")
    }

    /// Not through two doors: there the kernel does not know that two nodes are the same file.
    fn copy(&self, (from, at): (Slot, u64), (to, there): (Slot, u64), length: usize) -> Result {
        let (Some(from), Some(to)) = (self.open_near(from), self.open_near(to)) else {
            return Ok(Answer::NotMade);
        };
        let from = self.opened(from);
        let to = self.opened(to);
        if from.door != to.door {
            return Ok(Answer::NotMade);
        }
        let mut at = at;
        let mut there = there;
        let mut copied = 0;
        // A file system may copy less than requested, and a busy one does.
        while copied < length {
            let rest = length - copied;
            match rustix::fs::copy_file_range(&from.file, Some(&mut at), &to.file, Some(&mut there), rest) {
                Ok(0) => break,
                Ok(count) => copied += count,
                Err(_) if copied > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::Number(copied as u64))
    }
}

fn perform_on_name(root: &Path, call: &Call) -> Result {
    let at = |name: Name| root.join(name);
    match *call {
        Call::Truncate(name, length) => truncate(&at(name), length),
        Call::MakeDirectory(name, mode) => done(rustix::fs::mkdir(at(name), Mode::from_raw_mode(mode))),
        Call::RemoveDirectory(name) => done(rustix::fs::rmdir(at(name))),
        Call::Unlink(name) => done(rustix::fs::unlink(at(name))),
        Call::Rename(from, to, flags) => done(rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags)),
        Call::Link(from, to) => done(rustix::fs::link(at(from), at(to))),
        Call::Symlink(target, name) => done(rustix::fs::symlink(target, at(name))),
        Call::ReadLink(name) => Ok(Answer::Bytes(
            rustix::fs::readlink(at(name), Vec::new())?.into_bytes(),
        )),
        Call::List(name) => list(&at(name)),
        Call::Stat(name) => Ok(Answer::Seen(Seen::of(&rustix::fs::stat(at(name))?))),
        Call::StatLink(name) => Ok(Answer::Seen(Seen::of(&rustix::fs::lstat(at(name))?))),
        Call::SetMode(name, mode) => done(rustix::fs::chmod(at(name), Mode::from_raw_mode(mode))),
        Call::SetOwner(name, user, group) => done(rustix::fs::chown(
            at(name),
            Some(Uid::from_raw(user)),
            Some(Gid::from_raw(group)),
        )),
        Call::SetTime(name, seconds) => set_time(&at(name), seconds),
        Call::SetAttribute(name, attribute, ref value, flags) => {
            done(rustix::fs::setxattr(at(name), attribute, value, flags))
        }
        Call::Attribute(name, of) => Ok(Answer::Bytes(attribute(&at(name), of)?)),
        Call::RemoveAttribute(name, attribute) => done(rustix::fs::removexattr(at(name), attribute)),
        _ => unreachable!("{call:?} is about a descriptor"),
    }
}

impl Filling {
    fn bytes(self) -> Vec<u8> {
        vec![self.byte; self.length]
    }
}

fn done(result: Result<()>) -> Result {
    result.map(|()| Answer::Done)
}

fn number(result: Result<usize>) -> Result {
    result.map(|number| Answer::Number(number as u64))
}

fn read(length: usize, call: impl Fn(&mut [u8]) -> Result<usize>) -> Result {
    let mut buffer = vec![0; length];
    let length = call(&mut buffer)?;
    buffer.truncate(length);
    Ok(Answer::Bytes(buffer))
}

/// Whether an allocation without effect counts as a modification differs between file systems.
fn allocate(file: &OwnedFd, flags: FallocateFlags, offset: u64, length: u64) -> Result {
    rustix::fs::fallocate(file, flags, offset, length)?;
    done(rustix::fs::futimens(file, &both_times(0)))
}

/// The length of an open file; `None` for other kinds.
fn length_of_file(file: &OwnedFd) -> Result<Option<u64>> {
    let stat = rustix::fs::fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Ok(is_file.then_some(stat.st_size as u64))
}

/// Pages after the end of a file can be mapped, but not written.
fn write_by_mapping(file: &OwnedFd, offset: u64, filling: Filling) -> Result {
    const PAGE: u64 = 4096;
    let Some(length) = length_of_file(file)? else {
        return Ok(Answer::NotMade);
    };
    if length == 0 || filling.length == 0 {
        return Ok(Answer::NotMade);
    }
    let offset = offset % length;
    let first = offset / PAGE * PAGE;
    let start = (offset % PAGE) as usize;
    let mapped = start + filling.length.min((length - offset) as usize);
    #[allow(unsafe_code, reason = "there is no other way to map a file")]
    // SAFETY: the mapped range is inside the file, which is not shortened meanwhile, and no other code uses
    // the memory.
    unsafe {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let memory = rustix::mm::mmap(std::ptr::null_mut(), mapped, both, MapFlags::SHARED, file, first)?;
        std::slice::from_raw_parts_mut(memory.cast::<u8>(), mapped)[start..].fill(filling.byte);
        rustix::mm::msync(memory, mapped, MsyncFlags::SYNC)?;
        rustix::mm::munmap(memory, mapped)?;
    }
    Ok(Answer::Done)
}

fn seek(file: &OwnedFd, to: SeekFrom) -> Result {
    match length_of_file(file)? {
        Some(_) => Ok(Answer::Number(rustix::fs::seek(file, to)?)),
        None => Ok(Answer::NotMade),
    }
}

/// The boundaries of holes differ between file systems; every reported hole must be empty.
fn find_data(file: &OwnedFd, from: u64) -> Result {
    let Some(bytes) = bytes_of(file)? else {
        return Ok(Answer::NotMade);
    };
    let is_past_end = from >= bytes.len() as u64;
    match seek_and_return(file, SeekFrom::Data(from)) {
        Err(Errno::NXIO) if !is_past_end => assert_empty(&bytes[from as usize..]),
        Ok(found) => assert_empty(&bytes[from as usize..found as usize]),
        Err(error) => return Err(error),
    }
    Ok(Answer::Done)
}

fn find_hole(file: &OwnedFd, from: u64) -> Result {
    let Some(bytes) = bytes_of(file)? else {
        return Ok(Answer::NotMade);
    };
    let found = seek_and_return(file, SeekFrom::Hole(from))? as usize;
    assert!(
        found == bytes.len() || bytes[found] == 0,
        "there is data where a hole begins"
    );
    Ok(Answer::Done)
}

fn assert_empty(bytes: &[u8]) {
    assert!(bytes.iter().all(|byte| *byte == 0), "there is data in a hole");
}

/// Restores the position afterwards.
fn seek_and_return(file: &OwnedFd, to: SeekFrom) -> Result<u64> {
    let before = rustix::fs::seek(file, SeekFrom::Current(0))?;
    let found = rustix::fs::seek(file, to);
    rustix::fs::seek(file, SeekFrom::Start(before))?;
    found
}

/// All bytes of an open file, if it is a file that can be read.
fn bytes_of(file: &OwnedFd) -> Result<Option<Vec<u8>>> {
    let can_read = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE != OFlags::WRONLY;
    let Some(length) = length_of_file(file)?.filter(|_| can_read) else {
        return Ok(None);
    };
    let mut bytes = vec![0; length as usize];
    let read = rustix::io::pread(file, &mut bytes[..], 0)?;
    assert_eq!(read as u64, length, "nothing is missing");
    Ok(Some(bytes))
}

fn truncate(path: &Path, length: u64) -> Result {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    #[allow(unsafe_code, reason = "there is no other way to truncate what is not open")]
    // SAFETY: the path is NUL-terminated and outlives the call.
    match unsafe { libc::truncate(path.as_ptr(), length as libc::off_t) } {
        0 => Ok(Answer::Done),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap()),
    }
}

fn list(path: &Path) -> Result {
    let entries = std::fs::read_dir(path).map_err(|error| Errno::from_io_error(&error).unwrap())?;
    let mut names: Vec<OsString> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    Ok(Answer::Names(names))
}

fn set_time(path: &Path, seconds: u32) -> Result {
    done(rustix::fs::utimensat(
        CWD,
        path,
        &both_times(seconds),
        AtFlags::SYMLINK_NOFOLLOW,
    ))
}

fn both_times(seconds: u32) -> Timestamps {
    let time = Timespec {
        tv_sec: seconds.into(),
        tv_nsec: 123_456_789,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
