//! The communication between a session and its shell: a directory of pipes and files, which the sandbox sees
//! and cannot change.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, inotify};
use rustix::io::Errno;

/// Numbers are reused after this many turns. All traces of a turn are long gone then.
pub(super) const TURNS: u8 = 8;

/// The capacity of a pipe: how much a background job can print between commands without blocking.
const PIPE_BYTES: usize = 1 << 20;

/// The directory, with the host's ends of its pipes. The shell's actions on them are recognised by their
/// names.
#[derive(Debug)]
pub struct PipeDirectory {
    place: PathBuf,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) opened: OwnedFd,
    /// The last reported status.
    status: Option<u8>,
}

impl PipeDirectory {
    /// Creates the directory, which must not exist. Its parent must keep strangers out.
    pub fn make(place: &Path) -> io::Result<PipeDirectory> {
        std::fs::DirBuilder::new().mode(0o755).create(place)?;
        let names = (0..=u8::MAX)
            .map(|status| status.to_string())
            .chain((0..TURNS).map(turn_name));
        // One pipe for each possible status: the shell reports a status by opening the pipe of that name,
        // which needs no process and no data.
        for name in names.chain(["out".to_owned(), "err".to_owned()]) {
            make_pipe(&place.join(name))?;
        }
        let opened = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        // Before the shell starts, so that no report can be missed.
        inotify::add_watch(&opened, place, inotify::WatchFlags::OPEN)?;
        let (stdout, stderr) = (open_pipe(&place.join("out"))?, open_pipe(&place.join("err"))?);
        Ok(PipeDirectory {
            place: place.to_owned(),
            stdout,
            stderr,
            opened,
            status: None,
        })
    }

    /// The directory.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Replaces a file: readers that have the old one open keep it unchanged.
    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.place.join(name);
        // Removed and not truncated: an earlier command may still be reading the old file.
        match std::fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = File::create_new(&place)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(bytes)
    }

    /// The status of a turn, if it has been reported.
    pub(super) fn status_of(&mut self, turn: u8) -> io::Result<Option<u8>> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4 << 10];
        let mut reader = inotify::Reader::new(&self.opened, &mut buffer);
        loop {
            let name = match reader.next() {
                Ok(event) => event
                    .file_name()
                    .map(|name| name.to_bytes().to_vec())
                    .unwrap_or_default(),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let name = String::from_utf8_lossy(&name);
            // The status comes first, then the name of the turn confirms which command it belongs to.
            if let Ok(status) = name.parse() {
                self.status = Some(status);
            } else if *name == turn_name(turn) && self.status.is_some() {
                return Ok(self.status.take());
            }
        }
    }
}

impl Drop for PipeDirectory {
    fn drop(&mut self) {
        // The creator of the parent directory removes what is left.
        std::fs::remove_dir_all(&self.place).ok();
    }
}

/// The pipe that is opened when a turn is over.
pub(super) fn turn_name(turn: u8) -> String {
    format!("g{turn}")
}

/// Open to all users: only those with access to the directory get here, and a launcher that is root is not
/// the user of the sandbox.
fn make_pipe(place: &Path) -> io::Result<()> {
    rustix::fs::mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    std::fs::set_permissions(place, Permissions::from_mode(0o666))
}

/// With both ends, so that readers never see an end of file.
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

    fn touch(directory: &PipeDirectory, name: &str) {
        drop(
            File::options()
                .read(true)
                .write(true)
                .open(directory.place().join(name))
                .unwrap(),
        );
    }

    #[test]
    fn status_counts_only_with_the_mark_of_its_turn() {
        let root = tempfile::tempdir().unwrap();
        let mut directory = PipeDirectory::make(&root.path().join("io")).unwrap();
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
        assert_eq!(
            directory.status_of(3).unwrap(),
            None,
            "a turn without a status is none"
        );
    }

    #[test]
    fn open_file_keeps_its_contents_when_it_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let directory = PipeDirectory::make(&root.path().join("io")).unwrap();
        directory.put("c1", b"old").unwrap();
        let held = File::open(directory.place().join("c1")).unwrap();
        directory.put("c1", b"new").unwrap();
        assert_eq!(io::read_to_string(held).unwrap(), "old");
        assert_eq!(std::fs::read(directory.place().join("c1")).unwrap(), b"new");
    }
}
