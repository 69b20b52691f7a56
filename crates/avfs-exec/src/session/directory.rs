//! What a session and its shell talk by: a directory of pipes and files, which the sandbox sees and cannot change.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, inotify};
use rustix::io::Errno;

/// After so many turns their numbers come again. What a turn has left is long done then.
pub(super) const TURNS: u8 = 8;

/// How much may wait in a pipe: what a background job can print between commands without being held up.
const PIPE_BYTES: usize = 1 << 20;

/// The directory, with the host's ends of its pipes. What the shell does to them is seen by their names.
#[derive(Debug)]
pub struct Directory {
    place: PathBuf,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) opened: OwnedFd,
    /// The last status that was told.
    status: Option<u8>,
}

impl Directory {
    /// Makes the directory, which must not be there. What is above it must keep strangers out.
    pub fn make(place: &Path) -> io::Result<Directory> {
        std::fs::DirBuilder::new().mode(0o755).create(place)?;
        let names = (0..=u8::MAX).map(|status| status.to_string()).chain((0..TURNS).map(turn_name));
        for name in names.chain(["out".to_owned(), "err".to_owned()]) {
            make_pipe(&place.join(name))?;
        }
        let opened = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        inotify::add_watch(&opened, place, inotify::WatchFlags::OPEN)?;
        let (stdout, stderr) = (open_pipe(&place.join("out"))?, open_pipe(&place.join("err"))?);
        Ok(Directory { place: place.to_owned(), stdout, stderr, opened, status: None })
    }

    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Puts a new file in the place of an old one: whoever still has that keeps it as it was.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.place.join(name);
        match std::fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&place)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(bytes)
    }

    /// The status of a turn, if it was told by now.
    pub(super) fn status_of(&mut self, turn: u8) -> io::Result<Option<u8>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4 << 10];
        let mut reader = inotify::Reader::new(&self.opened, &mut buffer);
        loop {
            let name = match reader.next() {
                Ok(event) => event.file_name().map(|name| name.to_bytes().to_vec()).unwrap_or_default(),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let name = String::from_utf8_lossy(&name);
            if let Ok(status) = name.parse() {
                self.status = Some(status);
            } else if *name == turn_name(turn) && self.status.is_some() {
                return Ok(self.status.take());
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Whoever made what is above it removes what is left.
        std::fs::remove_dir_all(&self.place).ok();
    }
}

/// The pipe that is opened when a turn is over.
pub(super) fn turn_name(turn: u8) -> String {
    format!("g{turn}")
}

/// For everybody: only whoever is let into the directory comes so far, and as root we are not the user of the sandbox.
fn make_pipe(place: &Path) -> io::Result<()> {
    rustix::fs::mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    std::fs::set_permissions(place, Permissions::from_mode(0o666))
}

/// With both ends, so that it never has an end.
fn open_pipe(place: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = rustix::fs::open(place, flags, Mode::empty())?;
    // The system may allow less.
    rustix::pipe::fcntl_setpipe_size(&pipe, PIPE_BYTES).ok();
    Ok(pipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(directory: &Directory, name: &str) {
        drop(File::options().read(true).write(true).open(directory.place().join(name)).unwrap());
    }

    #[test]
    fn a_status_counts_when_its_own_turn_is_told_behind_it() {
        let root = tempfile::tempdir().unwrap();
        let mut directory = Directory::make(&root.path().join("io")).unwrap();
        assert_eq!(directory.status_of(3).unwrap(), None);
        for name in ["out", "7", "g2"] {
            touch(&directory, name);
        }
        assert_eq!(directory.status_of(3).unwrap(), None);
        for name in ["130", "g3"] {
            touch(&directory, name);
        }
        assert_eq!(directory.status_of(3).unwrap(), Some(130));
        touch(&directory, "g3");
        assert_eq!(directory.status_of(3).unwrap(), None, "a turn without a status is none");
    }

    #[test]
    fn a_file_that_is_replaced_stays_as_it_was_for_those_who_have_it() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::make(&root.path().join("io")).unwrap();
        directory.put("c1", b"old").unwrap();
        let held = File::open(directory.place().join("c1")).unwrap();
        directory.put("c1", b"new").unwrap();
        assert_eq!(io::read_to_string(held).unwrap(), "old");
        assert_eq!(std::fs::read(directory.place().join("c1")).unwrap(), b"new");
    }
}
