//! The thread that serves a run: it has the outer side of the program's terminal, stores the output, and
//! answers clients. It never waits for any one of them: a terminal that reads nothing for a while does not
//! get everything.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use avfs_exec::Cancel;
use avfs_exec::terminal::{Console, ConsoleMessage};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, Winsize, tcsetattr, tcsetwinsize};

use super::connection::{Connection, ConnectionRole};
use super::modes::TerminalModes;
use super::output::OutputLog;
use super::record::{RunPlace, RunRecord};
use super::wire::{Joined, RunFrameKind, RunRequest, WindowSize};
use crate::control::place;

/// The maximum number of clients.
const CONNECTIONS_MAX: usize = 64;
/// How much input may be pending for a program that does not read.
const TYPED_MAX: usize = 64 << 10;
/// How long the last output may take to arrive once nothing of the program is left.
const LAST_OUTPUT: Duration = Duration::from_secs(1);
/// How long clients may take to receive the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// For how long a terminal that joins makes the window smaller: programs draw again when its size changes, and some of them
/// look only now and then.
const NUDGE: Duration = Duration::from_millis(100);

/// The state that the server shares with the thread that runs the program.
pub(super) struct RunShared {
    pub(super) log: Mutex<OutputLog>,
    pub(super) record: Mutex<RunRecord>,
    pub(super) place: RunPlace,
    /// Readable when there is more output, or the run is over.
    pub(super) wake: OwnedFd,
    pub(super) is_over: Mutex<bool>,
}

impl RunShared {
    pub(super) fn log(&self) -> MutexGuard<'_, OutputLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self) -> MutexGuard<'_, RunRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        // It fails only after 2^64 calls.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_over(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake();
    }
}

/// The program's terminal, before the program begins.
pub(super) struct ProgramTerminal {
    pub(super) console: Console,
    pub(super) settings: Option<Termios>,
    pub(super) size: WindowSize,
}

pub(super) struct RunServer {
    pub(super) shared: Arc<RunShared>,
    pub(super) listener: UnixListener,
    pub(super) cancel: Cancel,
    pub(super) line: Option<ProgramTerminal>,
    pub(super) outer: Option<File>,
    pub(super) connections: Vec<Connection>,
    /// Typed input that the program has not read yet.
    pub(super) typed: Vec<u8>,
    pub(super) modes: TerminalModes,
    pub(super) is_stopped: bool,
    /// When the window gets its real size again.
    pub(super) nudged: Option<Instant>,
    /// Until when the last output is waited for.
    pub(super) draining: Option<Instant>,
    /// Told when the terminal that the run was started from has left.
    pub(super) left: Option<Box<dyn FnOnce() + Send>>,
}

/// The sources of events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventSource {
    Wake,
    Listener,
    Console,
    Outer,
    Connection(usize),
}

impl RunServer {
    /// Serves until the run is over and all clients have been notified.
    pub(super) fn serve(mut self) {
        // Both: the runner may report the end before the last output was read from the terminal.
        while !(self.shared.is_over() && self.outer.is_none()) {
            // A failed poll is repeated; the run itself does not depend on it.
            let Ok(ready) = self.wait(self.next_moment()) else {
                continue;
            };
            self.act(&ready);
        }
        self.close_terminals();
        self.tell_end();
        // New clients find the record.
        let _ = place::remove_from(self.shared.place.path());
    }

    fn act(&mut self, ready: &[EventSource]) {
        for source in ready {
            match source {
                EventSource::Wake => self.hear_runner(),
                EventSource::Listener => self.let_in(),
                EventSource::Console => self.hear_console(),
                EventSource::Outer => self.read_outer(),
                EventSource::Connection(at) => self.hear(*at),
            }
        }
        // After the events, so that input that has just arrived counts before a deadline is enforced.
        self.keep_time();
        self.write_outer();
        self.connections.iter_mut().for_each(Connection::flush);
        // Last: the indices of the events above refer to the list as it was.
        self.let_go();
    }

    fn next_moment(&self) -> Option<Instant> {
        let stuck = self.connections.iter().filter_map(Connection::gives_up_at);
        stuck.chain(self.nudged).chain(self.draining).min()
    }

    fn wait(&self, until: Option<Instant>) -> io::Result<Vec<EventSource>> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut sources = vec![EventSource::Wake, EventSource::Listener];
        let mut fds = vec![
            PollFd::new(&self.shared.wake, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        if let Some(line) = &self.line {
            sources.push(EventSource::Console);
            fds.push(PollFd::new(&line.console, PollFlags::IN));
        }
        if let Some((outer, flags)) = self.outer.as_ref().zip(self.outer_flags()) {
            sources.push(EventSource::Outer);
            fds.push(PollFd::new(outer, flags));
        }
        for (at, connection) in self.connections.iter().enumerate() {
            // A connection that waits for nothing is left out: its hang-up would be reported without end.
            let flags = connection.flags(self.typed.len() < TYPED_MAX);
            if !flags.is_empty() {
                sources.push(EventSource::Connection(at));
                fds.push(PollFd::from_borrowed_fd(connection.as_fd(), flags));
            }
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(errno.into()),
        }
        let said = sources
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty());
        Ok(said.map(|(source, _)| source).collect())
    }

    /// The events to poll at the program's terminal. While an attached terminal is full, the program waits as
    /// it would for a slow terminal of its own.
    fn outer_flags(&self) -> Option<PollFlags> {
        let mut flags = PollFlags::empty();
        if !self.connections.iter().any(Connection::is_full) {
            flags |= PollFlags::IN;
        }
        if !self.typed.is_empty() {
            flags |= PollFlags::OUT;
        }
        (!flags.is_empty()).then_some(flags)
    }

    /// More was printed by a program without a terminal, or the run is over.
    fn hear_runner(&mut self) {
        let mut count = [0; 8];
        // One read takes all wake-ups: they are a counter.
        let _ = rustix::io::read(&self.shared.wake, &mut count);
        self.tell_watchers();
        if self.shared.is_over() && self.outer.is_some() && self.draining.is_none() {
            // Nothing inside can open the terminal any longer; what was written is still read.
            self.line = None;
            self.draining = Some(Instant::now() + LAST_OUTPUT);
        }
    }

    fn tell_watchers(&mut self) {
        for watcher in self
            .connections
            .iter_mut()
            .filter(|one| one.role == ConnectionRole::Watcher)
        {
            // Once is enough until it has been heard.
            if watcher.is_idle() {
                watcher.send(RunFrameKind::Grown, b"");
            }
        }
    }

    fn let_in(&mut self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        // Others are dropped without an answer.
        if place::may_ask(&stream) && self.connections.len() < CONNECTIONS_MAX {
            self.connections.extend(Connection::new(stream, false));
        }
    }

    fn hear_console(&mut self) {
        let Some(line) = &self.line else { return };
        match line.console.hear() {
            Ok(ConsoleMessage::Opened(outer)) => {
                if let Err(error) = self.open(outer) {
                    // A program without its terminal cannot go on.
                    self.shared
                        .log()
                        .append(format!("avfs: the terminal: {error}\r\n").as_bytes());
                    self.cancel.cancel();
                }
            }
            Ok(ConsoleMessage::Stopped) => {
                self.is_stopped = true;
                self.for_terminals(|terminal| terminal.send(RunFrameKind::Stopped, b""));
            }
            Ok(ConsoleMessage::Gone) | Err(_) => {
                self.line = None;
                if self.outer.is_some() {
                    self.draining = Some(Instant::now() + LAST_OUTPUT)
                } else {
                    self.close_terminals()
                }
            }
        }
    }

    /// The program begins when its terminal is as it should be.
    fn open(&mut self, outer: OwnedFd) -> io::Result<()> {
        let Some(line) = &self.line else { return Ok(()) };
        if let Some(settings) = &line.settings {
            tcsetattr(&outer, OptionalActions::Now, settings)?;
        }
        // No other process has this side.
        rustix::fs::fcntl_setfl(&outer, OFlags::RDWR | OFlags::NONBLOCK)?;
        fit(outer.as_fd(), line.size);
        line.console.go_on()?;
        self.outer = Some(File::from(outer));
        // Terminals that asked before there was one.
        (0..self.connections.len()).for_each(|at| self.join(at));
        Ok(())
    }

    fn read_outer(&mut self) {
        let Some(outer) = &mut self.outer else { return };
        let mut buffer = [0; 16 << 10];
        match outer.read(&mut buffer) {
            Ok(0) => self.outer_is_gone(),
            Ok(count) => self.show(&buffer[..count]),
            Err(error) if is_for_later(&error) => {}
            // The program, and all that had its terminal, are gone.
            Err(_) => self.outer_is_gone(),
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        self.shared.log().append(bytes);
        self.modes.follow(bytes);
        self.for_terminals(|terminal| terminal.show(bytes));
        self.tell_watchers();
    }

    fn outer_is_gone(&mut self) {
        self.outer = None;
        self.draining = None;
        // Before, something inside may open it again.
        if self.line.is_none() {
            self.close_terminals();
        }
    }

    fn write_outer(&mut self) {
        let Some(outer) = self.outer.as_mut().filter(|_| !self.typed.is_empty()) else {
            return;
        };
        match outer.write(&self.typed) {
            Ok(count) => drop(self.typed.drain(..count)),
            Err(error) if is_for_later(&error) => {}
            Err(_) => self.typed.clear(),
        }
    }

    fn hear(&mut self, at: usize) {
        self.connections[at].receive();
        while let Some((kind, bytes)) = self.connections[at].next() {
            match kind {
                RunFrameKind::Request => self.answer(at, &bytes),
                RunFrameKind::Typed => self.typed.extend(bytes),
                RunFrameKind::Size => {
                    if let Ok(size) = serde_json::from_slice(&bytes) {
                        self.resize(size);
                    }
                }
                RunFrameKind::GoOn => self.go_on(),
                RunFrameKind::Detach => self.connections[at].leave(),
                _ => self.connections[at].drop_out(),
            }
        }
    }

    fn answer(&mut self, at: usize, bytes: &[u8]) {
        match serde_json::from_slice(bytes) {
            Ok(RunRequest::Attach { size }) => {
                self.connections[at].role = ConnectionRole::Terminal { is_shown: false };
                self.resize(size);
                self.join(at);
            }
            Ok(RunRequest::Watch) => {
                self.connections[at].role = ConnectionRole::Watcher;
                // Output since it connected.
                self.connections[at].send(RunFrameKind::Grown, b"");
            }
            Ok(RunRequest::Stop { kill_after_ms }) => {
                self.connections[at].role = ConnectionRole::Watcher;
                self.cancel
                    .cancel_with_grace(Duration::from_millis(kill_after_ms));
            }
            Err(_) => self.connections[at].drop_out(),
        }
    }

    /// From now on a terminal is shown everything, once there is something to be shown.
    fn join(&mut self, at: usize) {
        if self.outer.is_none() || self.connections[at].role != (ConnectionRole::Terminal { is_shown: false })
        {
            return;
        }
        // Before anything more is shown: the offset says where live output continues the stored one.
        let joined = self.joined();
        let (is_first, has_stopped) = (joined.offset == 0, self.is_stopped);
        self.connections[at].role = ConnectionRole::Terminal { is_shown: true };
        self.connections[at].send_json(RunFrameKind::Joined, &joined);
        if has_stopped {
            self.go_on();
        }
        if !is_first {
            self.nudge();
        }
    }

    fn joined(&self) -> Joined {
        let record = self.shared.record();
        Joined {
            task: record.task.clone(),
            vault: record.vault.clone(),
            run: record.id.clone(),
            offset: self.shared.log().total(),
            modes: self.modes.restore(),
            is_alternate: self.modes.is_alternate(),
        }
    }

    fn resize(&mut self, size: WindowSize) {
        // A terminal without a size is one too.
        let Some(line) = self.line.as_mut().filter(|_| size.rows > 0 && size.columns > 0) else {
            return;
        };
        line.size = size;
        if let Some(outer) = &self.outer {
            fit(outer.as_fd(), size);
        }
        // The program draws again for the new size anyway.
        self.nudged = None;
    }

    /// Has the program draw again.
    fn nudge(&mut self) {
        if let (Some(outer), Some(line)) = (&self.outer, &self.line) {
            // A program that gets the size that it already has is not told of it.
            let rows = if line.size.rows > 1 { line.size.rows - 1 } else { 2 };
            fit(outer.as_fd(), WindowSize { rows, ..line.size });
            self.nudged = Some(Instant::now() + NUDGE);
        }
    }

    fn go_on(&mut self) {
        self.is_stopped = false;
        if let Some(line) = &self.line {
            // If nothing is left inside, that is heard next.
            let _ = line.console.go_on();
        }
    }

    fn keep_time(&mut self) {
        let now = Instant::now();
        if self.nudged.is_some_and(|until| now >= until) {
            self.nudged = None;
            if let (Some(outer), Some(line)) = (&self.outer, &self.line) {
                fit(outer.as_fd(), line.size);
            }
        }
        if self.draining.is_some_and(|until| now >= until) {
            self.outer_is_gone();
        }
        for at in 0..self.connections.len() {
            if self.connections[at].catches_up(now) {
                self.connections[at].role = ConnectionRole::Terminal { is_shown: false };
                self.join(at);
            }
        }
    }

    /// Removes clients that are gone. If the terminal from which the run was started disappears without
    /// detaching, its process was killed, and the run ends with it.
    fn let_go(&mut self) {
        for connection in self.connections.extract_if(.., |connection| connection.is_gone()) {
            match (connection.is_starter, connection.has_left) {
                (true, true) => {
                    let mut record = self.shared.record();
                    record.is_detached = true;
                    // If it cannot be recorded, reports are only less precise.
                    let _ = self.shared.place.write(&record);
                    drop(record);
                    if let Some(left) = self.left.take() {
                        left();
                    }
                }
                (true, false) => self.cancel.cancel(),
                (false, _) => {}
            }
        }
    }

    fn for_terminals(&mut self, tell: impl FnMut(&mut Connection)) {
        let is_shown = |one: &&mut Connection| one.role == (ConnectionRole::Terminal { is_shown: true });
        self.connections.iter_mut().filter(is_shown).for_each(tell);
    }

    fn close_terminals(&mut self) {
        for connection in &mut self.connections {
            if let ConnectionRole::Terminal { .. } = connection.role {
                connection.role = ConnectionRole::Watcher;
                // From now on its leaving must not cancel the run, whose end is still being recorded.
                connection.is_starter = false;
                connection.send(RunFrameKind::Closed, b"");
            }
        }
    }

    fn tell_end(&mut self) {
        let record = self.shared.record().clone();
        for connection in &mut self.connections {
            connection.send_json(RunFrameKind::Ended, &record);
        }
        let until = Instant::now() + LAST_WORDS;
        loop {
            self.connections.iter_mut().for_each(Connection::flush);
            self.connections
                // Only those that have not read everything are waited for.
                .retain(|connection| !connection.is_idle() && !connection.is_gone());
            let left = until.saturating_duration_since(Instant::now());
            if self.connections.is_empty() || left.is_zero() {
                return;
            }
            let mut fds: Vec<PollFd<'_>> = self
                .connections
                .iter()
                .map(|connection| PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::OUT))
                .collect();
            // An interruption only means that the rest is tried earlier.
            let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        }
    }
}

fn fit(outer: std::os::fd::BorrowedFd<'_>, size: WindowSize) {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // A terminal that is gone needs no size.
    let _ = tcsetwinsize(outer, size);
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// The stream of the terminal that the run is started from.
pub(super) fn starter(stream: UnixStream) -> io::Result<Connection> {
    Connection::new(stream, true).ok_or(io::ErrorKind::BrokenPipe.into())
}
