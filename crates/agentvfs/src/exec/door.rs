//! The inner door: a socket through which a run can ask for a few things about its own vault, and nothing else, so
//! that an agent can undo its own mistake.
//!
//! The words of a command line and the output of the command pass through it. The caller that starts the run
//! decides what is answered ([`InnerDoor`]); the library only carries words, one client at a time, in bounded
//! pieces.

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

use avfs_core::rules::{Level, Rule, Rules};
use avfs_core::{Labels, TreePath};
use avfs_exec::plan::{DOOR, PROGRAMS};
use avfs_exec::{Capabilities, SandboxPlan};

use super::RunSpec;
use super::inner_environment::DOOR_VARIABLE;
use crate::error::Result;

/// How many words, and how many bytes of each, are accepted.
const WORDS_MAX: u32 = 256;
const WORD_MAX: u32 = 64 << 10;
const OUTPUT_MAX: u32 = 64 << 20;
/// How long a client may take to send its request, or to read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers requests from inside a run.
pub trait InnerDoor: Sync {
    /// Whatever the words are, the answer must not do anything that the run could not do itself.
    fn answer(&self, words: &[OsString], run: &DoorScope) -> DoorReply;
}

/// The capabilities of the requesting run, from which its sandbox is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorScope {
    /// It can change files of its vault.
    pub write: bool,
    /// The one directory of the vault that it has; `None`: all of it.
    pub path: Option<TreePath>,
}

impl DoorScope {
    pub(crate) fn of(spec: &RunSpec, granted: &Capabilities) -> Result<DoorScope> {
        Ok(DoorScope {
            write: granted.write && can_change(spec.rules.as_deref())?,
            path: spec.path.clone().filter(|path| !path.is_root()),
        })
    }

    /// A person who runs a program gives it the whole task, as far as the rules allow.
    pub(crate) fn of_program(plan: &SandboxPlan, rules: Option<&[Rule]>) -> Result<DoorScope> {
        Ok(DoorScope {
            write: !plan.read_only && can_change(rules)?,
            path: None,
        })
    }
}

/// Whether rules allow any change. They then do not refuse actions without a path, such as a checkpoint.
fn can_change(rules: Option<&[Rule]>) -> Result<bool> {
    let Some(rules) = rules else { return Ok(true) };
    let rules = Rules::shared(rules.to_vec())?;
    let root = rules.root(&Labels::default());
    Ok(root.level() >= Level::Append || rules.is_any_below(&root, Level::Append))
}

/// The result, in the form of a program's exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorReply {
    /// The exit status.
    pub status: u8,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: Vec<u8>,
}

/// Asks, from inside.
pub fn ask(door: &Path, words: &[OsString]) -> io::Result<DoorReply> {
    let mut stream = UnixStream::connect(door)?;
    put_number(&mut stream, words.len())?;
    words
        .iter()
        .try_for_each(|word| put_bytes(&mut stream, word.as_bytes()))?;
    let mut status = [0];
    stream.read_exact(&mut status)?;
    let stdout = take_bytes(&mut stream, OUTPUT_MAX)?;
    Ok(DoorReply {
        status: status[0],
        stdout,
        stderr: take_bytes(&mut stream, OUTPUT_MAX)?,
    })
}

/// Opens the door for the time of a run. A run without one lacks only that.
pub(super) fn behind_door<R>(
    door: Option<(&dyn InnerDoor, DoorScope)>,
    place: &Path,
    mut plan: SandboxPlan,
    launch: impl FnOnce(&SandboxPlan) -> R,
) -> R {
    let opened = door.and_then(|(door, scope)| Some((door, scope, Opened::at(place).ok()?)));
    let Some((door, scope, opened)) = opened else {
        return launch(&plan);
    };
    show_door(&mut plan, place);
    std::thread::scope(|threads| {
        threads.spawn(|| opened.serve(door, &scope));
        let launched = launch(&plan);
        opened.close();
        launched
    })
}

/// Makes a sandbox show the door, and the program that uses it.
pub(crate) fn show_door(plan: &mut SandboxPlan, place: &Path) {
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
    /// Its directory is private; a process that can see the socket may use it.
    fn at(place: &Path) -> io::Result<Opened> {
        let listener = UnixListener::bind(place)?;
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o666))?;
        Ok(Opened {
            listener,
            place: place.to_owned(),
            closing: AtomicBool::new(false),
        })
    }

    /// Answers, until it is closed.
    fn serve(&self, door: &dyn InnerDoor, scope: &DoorScope) {
        for stream in self.listener.incoming() {
            if self.closing.load(Ordering::Acquire) {
                return;
            }
            // A client that sends nonsense, or goes away, gets no answer; the next one is served.
            let _ = stream.and_then(|stream| answer(stream, door, scope));
        }
    }

    fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // The thread that waits for the next client notices this, even if the socket has no path any longer.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.place);
    }
}

/// A door that a thread of its own answers at, until this is dropped.
pub(crate) struct ServedDoor {
    opened: Arc<Opened>,
    thread: Option<JoinHandle<()>>,
}

impl ServedDoor {
    pub(crate) fn open(
        place: &Path,
        door: Arc<dyn InnerDoor + Send>,
        scope: DoorScope,
    ) -> io::Result<ServedDoor> {
        let opened = Arc::new(Opened::at(place)?);
        let serving = Arc::clone(&opened);
        let thread = std::thread::Builder::new()
            .name("door".into())
            .spawn(move || serving.serve(&*door, &scope))?;
        Ok(ServedDoor {
            opened,
            thread: Some(thread),
        })
    }
}

impl Drop for ServedDoor {
    fn drop(&mut self) {
        self.opened.close();
        // A request to a thread that panicked stays unanswered.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn answer(mut stream: UnixStream, door: &dyn InnerDoor, scope: &DoorScope) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let count = take_number(&mut stream, WORDS_MAX)?;
    let words: io::Result<Vec<OsString>> = (0..count)
        .map(|_| Ok(OsString::from_vec(take_bytes(&mut stream, WORD_MAX)?)))
        .collect();
    let DoorReply {
        status,
        stdout,
        stderr,
    } = door.answer(&words?, scope);
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
        fn answer(&self, words: &[OsString], _run: &DoorScope) -> DoorReply {
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
        let run = DoorScope {
            write: true,
            path: None,
        };
        std::thread::scope(|scope| {
            scope.spawn(|| opened.serve(&Echo, &run));
            let words = ["checkpoint", "save", "a b"].map(OsString::from);
            let reply = ask(&place, &words).unwrap();
            assert_eq!(
                (reply.status, &reply.stdout[..]),
                (7, &b"checkpoint+save+a b"[..])
            );
            // Nonsense does no harm.
            UnixStream::connect(&place)
                .unwrap()
                .write_all(&[0xff; 8])
                .unwrap();
            assert_eq!(ask(&place, &[]).unwrap().stderr, b"e");
            opened.close();
        });
        drop(opened);
        assert!(!place.exists());
    }
}
