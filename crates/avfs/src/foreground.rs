//! A command as two processes: the *worker* does everything, the *front* is the process that the caller sees.
//!
//! A worker may have to continue after its own answer: it serves the vault to runs and mounts that came
//! meanwhile. The front does not wait for that. It ends with the worker's answer, and a signal that ends the
//! front cancels the work.
//!
//! The two communicate over one pair of sockets. Any message from the front, and its end, means: stop. The
//! worker sends the exit status of the front; if it sends none, its own status is used. Once the front was
//! released, its end means nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use agentvfs::exec::sandbox::Cancel;
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;
use tokio_util::sync::CancellationToken;

use crate::exit::ExitStatus;
use crate::failure::Failure;

/// The signals that ask a command to end.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// The code of the error for a worker that was killed.
pub const KILLED: &str = "worker-killed";

/// Which of the two this process is.
pub enum Side {
    Foreground(Foreground),
    Worker(Worker),
}

/// Becomes two processes. Only for a command that has printed nothing, opened no store and started no thread yet.
pub fn split() -> Result<Side> {
    let (front, worker) = UnixStream::pair()?;
    match fork()? {
        Some(process) => {
            // Each side keeps one end only: otherwise neither would see the end of the other.
            drop(worker);
            Ok(Side::Foreground(Foreground {
                worker: front,
                process,
            }))
        }
        None => {
            drop(front);
            // No signal of a terminal reaches a session that has none. A new process leads no group: it cannot fail.
            rustix::process::setsid()?;
            Ok(Side::Worker(Worker {
                front: worker,
                is_released: Arc::default(),
            }))
        }
    }
}

/// The new process gets nothing, the old one its number.
#[allow(
    unsafe_code,
    reason = "no library makes a process that goes on with the same program"
)]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this is the only thread, so no lock is held that would never be released in the new process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        process => Ok(Pid::from_raw(process)),
    }
}

/// The process that was called.
pub struct Foreground {
    worker: UnixStream,
    process: Pid,
}

impl Foreground {
    /// The number of the worker's process.
    pub fn worker(&self) -> u32 {
        self.process.as_raw_nonzero().get().unsigned_abs()
    }

    /// Hands signals on and waits for the status to end with.
    pub fn wait(self) -> Result<ExitStatus> {
        self.hand_on_signals()?;
        self.status()
    }

    /// From now on, signals that ask this process to end are passed to the worker.
    pub fn hand_on_signals(&self) -> Result<()> {
        self.hand_on(&ENDING)
    }

    /// The same for the front of a program with a terminal: that the terminal is lost ends nothing.
    pub fn hand_on_signals_but_hangup(&self) -> Result<()> {
        let others: Vec<i32> = ENDING.into_iter().filter(|signal| *signal != SIGHUP).collect();
        self.hand_on(&others)
    }

    fn hand_on(&self, signals: &[i32]) -> Result<()> {
        for signal in signals {
            // The handler itself writes to the worker. Until there is one, a signal ends us, which means the same.
            pipe::register(*signal, self.worker.try_clone()?)?;
        }
        Ok(())
    }

    /// Waits for the status to end with.
    pub fn status(mut self) -> Result<ExitStatus> {
        let mut status = [0];
        match self.worker.read_exact(&mut status) {
            Ok(()) => Ok(ExitStatus::OfCommand(status[0])),
            Err(_) => self.end_of_worker(),
        }
    }

    /// The status of a worker that ended without a word to us.
    fn end_of_worker(&self) -> Result<ExitStatus> {
        let ended = rustix::io::retry_on_intr(|| waitpid(Some(self.process), WaitOptions::empty()))?;
        let Some((_, status)) = ended else {
            return Ok(ExitStatus::Internal);
        };
        match status.exit_status().and_then(|status| u8::try_from(status).ok()) {
            Some(status) => Ok(ExitStatus::OfCommand(status)),
            // No status, so a signal ended it: the kernel's memory killer, for example.
            None => Err(killed(status.terminating_signal()).into()),
        }
    }
}

fn killed(signal: Option<i32>) -> Failure {
    let signal = signal
        .map(|signal| format!(" by signal {signal}"))
        .unwrap_or_default();
    Failure::new(
        KILLED,
        ExitStatus::Refused,
        format!("the process that did the work was killed{signal}"),
    )
    .hint(Some(
        "`avfs audit` and `avfs log` tell how far it came".to_owned(),
    ))
}

/// The process that does the work.
pub struct Worker {
    front: UnixStream,
    is_released: Arc<AtomicBool>,
}

impl Worker {
    /// Cancels the work when this process or its front is asked to end, and when the front ends without
    /// having been released.
    pub fn cancels(&self, cancel: &Cancel) -> Result<()> {
        let (heard, signalled) = UnixStream::pair()?;
        for signal in ENDING {
            pipe::register(signal, signalled.try_clone()?)?;
        }
        let (front, cancel) = (self.front.try_clone()?, cancel.clone());
        let is_released = Arc::clone(&self.is_released);
        thread::Builder::new().name("cancelling".into()).spawn(move || {
            // The end of the front counts as a request to stop, until it was released.
            await_any(&[&heard, &front]);
            if is_released.load(Ordering::Acquire) {
                await_any(&[&heard]);
            }
            cancel.cancel();
        })?;
        Ok(())
    }

    /// A token for a server in this process, which is cancelled as [`Worker::cancels`] describes.
    pub fn stopping(&self) -> Result<CancellationToken> {
        /// How long is waited at a time.
        const LONG: Duration = Duration::from_secs(60 * 60);
        let cancel = Cancel::new()?;
        self.cancels(&cancel)?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        thread::Builder::new().name("stopping".into()).spawn(move || {
            while !cancel.wait(LONG) {}
            stopped.cancel();
        })?;
        Ok(stop)
    }

    /// Ends the front with this status, and closes our streams for their readers. The work continues.
    pub fn release(self, status: ExitStatus) {
        Releaser {
            front: self.front,
            is_released: self.is_released,
        }
        .release(status);
    }

    /// Releases the front while the work is still being done.
    pub fn releaser(&self) -> Result<Releaser> {
        Ok(Releaser {
            front: self.front.try_clone()?,
            is_released: Arc::clone(&self.is_released),
        })
    }
}

/// Lets the front of a worker end.
pub struct Releaser {
    front: UnixStream,
    is_released: Arc<AtomicBool>,
}

impl Releaser {
    /// As [`Worker::release`]. Only the first release counts.
    pub fn release(&self, status: ExitStatus) {
        if self.is_released.swap(true, Ordering::AcqRel) {
            return;
        }
        // If a stream stays open, its reader keeps waiting; the work itself was successful.
        let _ = let_go_of_streams();
        let _ = (&self.front).write_all(&[status.number()]);
    }

    pub fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Acquire)
    }
}

/// Waits until one of them has something to say, or has ended.
fn await_any(sockets: &[&UnixStream]) {
    let mut fds: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(*socket, PollFlags::IN))
        .collect();
    // Without a time limit: each of these sockets reports its end, too.
    while poll(&mut fds, None) == Err(Errno::INTR) {}
}

fn let_go_of_streams() -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    // Replaced and not closed: the next file that is opened would otherwise become standard output.
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // The directory that we were started in may be unmounted or removed one day.
    std::env::set_current_dir("/")
}
