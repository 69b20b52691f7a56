//! A command as two processes: the *worker* does everything, the *front* is what whoever called it sees.
//!
//! A worker may have to go on after its own answer: it serves the vault to runs and mounts that came meanwhile. The
//! front does not wait for that. It ends with the worker's answer, and what ends the front cancels the work.
//!
//! The two talk by one pair of sockets. What the front sends, and its end, means: stop. What the worker sends is the
//! status to end with; if it sends none, the status is its own.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use agentvfs::exec::boundary::Cancel;
use anyhow::Result;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::exit::ExitStatus;
use crate::failure::Failure;

/// What asks a command to end.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Which of the two this process is.
pub enum Side {
    Front(Front),
    Worker(Worker),
}

/// Becomes two processes. Only for a command that has printed nothing, opened no store and started no thread yet.
pub fn split() -> Result<Side> {
    let (front, worker) = UnixStream::pair()?;
    match fork()? {
        Some(process) => {
            drop(worker);
            Ok(Side::Front(Front { worker: front, process }))
        }
        None => {
            drop(front);
            // No signal of a terminal reaches a session that has none. A new process leads no group: it cannot fail.
            rustix::process::setsid()?;
            Ok(Side::Worker(Worker { front: worker }))
        }
    }
}

/// The new process gets nothing, the old one its number.
#[allow(unsafe_code, reason = "no library makes a process that goes on with the same program")]
fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this is the only thread, so no lock is held that nobody would release in the new process.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        process => Ok(Pid::from_raw(process)),
    }
}

/// The process that was called.
pub struct Front {
    worker: UnixStream,
    process: Pid,
}

impl Front {
    /// Hands signals on and waits for the status to end with.
    pub fn wait(self) -> Result<ExitStatus> {
        self.hand_on_signals()?;
        self.status()
    }

    /// From now on, what asks this process to end asks the worker.
    pub fn hand_on_signals(&self) -> Result<()> {
        for signal in ENDING {
            // The handler itself writes to the worker. Until there is one, a signal ends us, which means the same.
            pipe::register(signal, self.worker.try_clone()?)?;
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
        let Some((_, status)) = ended else { return Ok(ExitStatus::Internal) };
        match status.exit_status().and_then(|status| u8::try_from(status).ok()) {
            Some(status) => Ok(ExitStatus::OfCommand(status)),
            None => Err(killed(status.terminating_signal()).into()),
        }
    }
}

fn killed(signal: Option<i32>) -> Failure {
    let signal = signal.map(|signal| format!(" by signal {signal}")).unwrap_or_default();
    Failure::new(
        "worker-killed",
        ExitStatus::Refused,
        format!("the process that did the work was killed{signal}"),
    )
    .hint(Some("`avfs audit` and `avfs log` tell how far it came".to_owned()))
}

/// The process that does the work.
pub struct Worker {
    front: UnixStream,
}

impl Worker {
    /// Has the work cancelled when this process or its front is asked to end, and when there is no front any more.
    pub fn cancels(&self, cancel: &Cancel) -> Result<()> {
        let (heard, signalled) = UnixStream::pair()?;
        for signal in ENDING {
            pipe::register(signal, signalled.try_clone()?)?;
        }
        let (front, cancel) = (self.front.try_clone()?, cancel.clone());
        thread::Builder::new().name("cancelling".into()).spawn(move || {
            await_any(&[&heard, &front]);
            cancel.cancel();
        })?;
        Ok(())
    }

    /// Lets the front end with this status, and whoever reads our streams see their end. The work goes on.
    pub fn release(mut self, status: ExitStatus) {
        // What is not let go keeps somebody waiting; what was done is not wrong for that.
        let _ = let_go_of_streams();
        let _ = self.front.write_all(&[status.number()]);
    }
}

/// Waits until one of them has something to say, or has ended.
fn await_any(sockets: &[&UnixStream]) {
    let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(*socket, PollFlags::IN)).collect();
    while poll(&mut fds, None) == Err(Errno::INTR) {}
}

fn let_go_of_streams() -> io::Result<()> {
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // The directory that we were started in may be unmounted or removed one day.
    std::env::set_current_dir("/")
}
