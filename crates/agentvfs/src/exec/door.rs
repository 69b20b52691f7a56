//! The inner door: a socket through which a run can ask for a few things about its own vault, and nothing else, so
//! that an agent can undo its own mistake.
//!
//! What goes through it are the words of a command line and the output of what was done. Whoever starts the run says
//! what is answered ([`InnerDoor`]); the library only carries words, one asker at a time, in bounded pieces.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use avfs_exec::Plan;
use avfs_exec::plan::{DOOR, PROGRAMS};

/// The variable that says inside where the door is.
pub const DOOR_VARIABLE: &str = "AVFS_DOOR";

/// How many words, and how many bytes in each piece, are taken.
const WORDS_MAX: u32 = 256;
const WORD_MAX: u32 = 64 << 10;
const OUTPUT_MAX: u32 = 64 << 20;
/// How long an asker may take to say what he wants, or to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers what is asked from inside a run.
pub trait InnerDoor: Sync {
    fn answer(&self, words: &[OsString]) -> DoorReply;
}

/// What was done, as a program would have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorReply {
    pub status: u8,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Asks, from inside.
pub fn ask(door: &Path, words: &[OsString]) -> io::Result<DoorReply> {
    let mut stream = UnixStream::connect(door)?;
    put_number(&mut stream, words.len())?;
    words.iter().try_for_each(|word| put_bytes(&mut stream, word.as_bytes()))?;
    let mut status = [0];
    stream.read_exact(&mut status)?;
    let stdout = take_bytes(&mut stream, OUTPUT_MAX)?;
    Ok(DoorReply { status: status[0], stdout, stderr: take_bytes(&mut stream, OUTPUT_MAX)? })
}

/// Opens the door for the time of a run. A run without one lacks only that.
pub(super) fn behind_door<R>(
    door: Option<&dyn InnerDoor>,
    place: &Path,
    mut plan: Plan,
    launch: impl FnOnce(&Plan) -> R,
) -> R {
    let Some((door, opened)) = door.and_then(|door| Some((door, Opened::at(place).ok()?))) else {
        return launch(&plan);
    };
    show_door(&mut plan, place);
    std::thread::scope(|scope| {
        scope.spawn(|| opened.serve(door));
        let launched = launch(&plan);
        opened.close();
        launched
    })
}

/// Has a sandbox show the door, and the program that asks through it.
pub(crate) fn show_door(plan: &mut Plan, place: &Path) {
    plan.door = Some(place.to_owned());
    plan.env.push((DOOR_VARIABLE.into(), DOOR.into()));
    if let Some((_, path)) = plan.env.iter_mut().find(|(name, _)| name == "PATH") {
        path.push(format!(":{PROGRAMS}"));
    }
}

/// A door that is open while this lives.
struct Opened {
    listener: UnixListener,
    place: PathBuf,
    closing: AtomicBool,
}

impl Opened {
    /// The directory that it is in is nobody else's; whoever is shown the socket may use it.
    fn at(place: &Path) -> io::Result<Opened> {
        let listener = UnixListener::bind(place)?;
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o666))?;
        Ok(Opened { listener, place: place.to_owned(), closing: AtomicBool::new(false) })
    }

    /// Answers, until it is closed.
    fn serve(&self, door: &dyn InnerDoor) {
        for stream in self.listener.incoming() {
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            // Whoever asks badly, or goes away, hears nothing; the next one is answered.
            let _ = stream.and_then(|stream| answer(stream, door));
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // Whoever waits for the next asker hears of it, also if the socket has no place any more.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.place);
    }
}

/// A door that a thread of its own answers at, until this is dropped.
pub(crate) struct Staffed {
    opened: Arc<Opened>,
    thread: Option<JoinHandle<()>>,
}

impl Staffed {
    pub fn open(place: &Path, door: Arc<dyn InnerDoor + Send>) -> io::Result<Staffed> {
        let opened = Arc::new(Opened::at(place)?);
        let serving = Arc::clone(&opened);
        let thread = std::thread::Builder::new().name("door".into()).spawn(move || serving.serve(&*door))?;
        Ok(Staffed { opened, thread: Some(thread) })
    }
}

impl Drop for Staffed {
    fn drop(&mut self) {
        self.opened.close();
        // What a thread that panicked was asked is answered by nobody.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: UnixStream, door: &dyn InnerDoor) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let count = take_number(&mut stream, WORDS_MAX)?;
    let words: io::Result<Vec<OsString>> =
        (0..count).map(|_| Ok(OsString::from_vec(take_bytes(&mut stream, WORD_MAX)?))).collect();
    let DoorReply { status, stdout, stderr } = door.answer(&words?);
    stream.write_all(&[status])?;
    put_bytes(&mut stream, cut(&stdout))?;
    put_bytes(&mut stream, cut(&stderr))
}

fn cut(output: &[u8]) -> &[u8] {
    &output[..output.len().min(OUTPUT_MAX as usize)]
}

fn put_number(stream: &mut UnixStream, number: usize) -> io::Result<()> {
    let number = u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&number.to_le_bytes())
}

fn put_bytes(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    put_number(stream, bytes.len())?;
    stream.write_all(bytes)
}

fn take_number(stream: &mut UnixStream, most: u32) -> io::Result<u32> {
    let mut number = [0; 4];
    stream.read_exact(&mut number)?;
    match u32::from_le_bytes(number) {
        number if number <= most => Ok(number),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn take_bytes(stream: &mut UnixStream, most: u32) -> io::Result<Vec<u8>> {
    let length = take_number(stream, most)?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl InnerDoor for Echo {
        fn answer(&self, words: &[OsString]) -> DoorReply {
            DoorReply {
                status: 7,
                stdout: words.join(&OsString::from("+")).into_vec(),
                stderr: b"e".to_vec(),
            }
        }
    }

    #[test]
    fn words_go_in_and_what_was_done_comes_out() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("door");
        let opened = Opened::at(&place).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| opened.serve(&Echo));
            let words = ["checkpoint", "save", "a b"].map(OsString::from);
            let reply = ask(&place, &words).unwrap();
            assert_eq!((reply.status, &reply.stdout[..]), (7, &b"checkpoint+save+a b"[..]));
            // Nonsense ends with nobody being hurt.
            UnixStream::connect(&place).unwrap().write_all(&[0xff; 8]).unwrap();
            assert_eq!(ask(&place, &[]).unwrap().stderr, b"e");
            opened.close();
        });
        drop(opened);
        assert!(!place.exists());
    }
}
