//! One process: its streams, its captured output, and its state.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::events::{LiveOutput, OutputSoFar};
use super::poller::{PollToken, Poller, ProcessStream};
use super::{CommandEnd, ProcessEnd, StopReason, lock};
use crate::output::OutputCapture;
use crate::terminal::TerminalSize;
use avfs_inside::SpawnStep;

/// How much input may wait for a process that does not read.
const INPUT_ROOM: usize = 1 << 20;

/// How much is read in one go.
const PIECE: usize = 64 << 10;

/// How much is read of a stream after its process has ended: its own output is at most what a pipe holds.
/// Other processes may write forever.
const LAST_BYTES: u64 = 1 << 20;

/// The character that ends the input of a terminal.
const END_OF_TRANSMISSION: u8 = 4;

/// The outer ends of its streams. Those of a terminal are added when it exists.
#[derive(Debug, Default)]
pub(crate) struct ProcessEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pub(crate) id: u64,
    pub(crate) command: Vec<OsString>,
    pub(crate) timeout: Option<Duration>,
    poller: Arc<Poller>,
    pub(super) record: Mutex<ProcessRecord>,
    pub(super) changed: Condvar,
}

#[derive(Debug)]
pub(super) struct ProcessRecord {
    pub(super) phase: ProcessPhase,
    pid: Option<i32>,
    since: Instant,
    stopped: Option<StopReason>,
    input: Option<InputState>,
    outputs: [ProcessOutput; 2],
    pub(super) live: LiveOutput,
    has_terminal: bool,
}

/// The progress of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessPhase {
    Starting,
    Failed { step: SpawnStep, errno: i32 },
    Running,
    Ended(ProcessEnd),
}

#[derive(Debug)]
struct InputState {
    fd: OwnedFd,
    waiting: VecDeque<u8>,
    is_closing: bool,
    is_polled: bool,
}

#[derive(Debug)]
struct ProcessOutput {
    fd: Option<OwnedFd>,
    capture: OutputCapture,
}

/// Why input was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotWritten {
    /// Its input is closed.
    Closed,
    /// Too much input waits already.
    Full,
}

impl ProcessHandle {
    pub(super) fn new(
        id: u64,
        command: Vec<OsString>,
        timeout: Option<Duration>,
        output_bytes: usize,
        ends: ProcessEnds,
        poller: Arc<Poller>,
    ) -> Self {
        let output = |fd| ProcessOutput {
            fd,
            capture: OutputCapture::new(output_bytes),
        };
        let record = ProcessRecord {
            phase: ProcessPhase::Starting,
            pid: None,
            since: Instant::now(),
            stopped: None,
            input: ends.stdin.map(InputState::new),
            outputs: [output(ends.stdout), output(ends.stderr)],
            live: LiveOutput::default(),
            has_terminal: false,
        };
        Self {
            id,
            command,
            timeout,
            poller,
            record: Mutex::new(record),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn phase(&self) -> ProcessPhase {
        lock(&self.record).phase
    }

    /// Its number inside.
    pub(crate) fn pid(&self) -> Option<i32> {
        lock(&self.record).pid
    }

    /// Waits while it is in a phase, at most for the given time. Returns the phase afterwards.
    pub(crate) fn wait_while(
        &self,
        is_in: impl Fn(ProcessPhase) -> bool,
        most: Option<Duration>,
    ) -> ProcessPhase {
        let record = lock(&self.record);
        let waits = |record: &mut ProcessRecord| is_in(record.phase);
        let record = match most {
            Some(most) => {
                let waited = self.changed.wait_timeout_while(record, most, waits);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let waited = self.changed.wait_while(record, waits);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        record.phase
    }

    pub(crate) fn so_far(&self) -> OutputSoFar {
        lock(&self.record).so_far()
    }

    pub(super) fn kept(&self) -> usize {
        let record = lock(&self.record);
        record.outputs.iter().map(|output| output.capture.kept()).sum()
    }

    /// Whether it has ended and no other process writes to its streams.
    pub(super) fn is_done(&self) -> bool {
        let record = lock(&self.record);
        matches!(record.phase, ProcessPhase::Ended(_)) && record.is_silent()
    }

    /// Accepts as much input as there is room for. Returns the number of bytes.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<usize, NotWritten> {
        let mut record = lock(&self.record);
        let input = record
            .input
            .as_mut()
            .filter(|input| !input.is_closing)
            .ok_or(NotWritten::Closed)?;
        let room = INPUT_ROOM.saturating_sub(input.waiting.len());
        if room == 0 && !bytes.is_empty() {
            return Err(NotWritten::Full);
        }
        // A part is accepted rather than nothing: the caller continues with the rest.
        let taken = &bytes[..bytes.len().min(room)];
        input.waiting.extend(taken);
        self.write_waiting(&mut record);
        // The write above found that the reader is gone.
        if record.input.is_none() {
            return Err(NotWritten::Closed);
        }
        Ok(taken.len())
    }

    /// Waits until there is room for more input, or input is closed. Returns false on a timeout.
    pub(crate) fn wait_for_room(&self, most: Option<Duration>) -> bool {
        let is_full = |record: &mut ProcessRecord| {
            let input = record.input.as_ref().filter(|input| !input.is_closing);
            input.is_some_and(|input| input.waiting.len() >= INPUT_ROOM)
        };
        let mut record = lock(&self.record);
        match most {
            Some(most) => {
                let waited = self.changed.wait_timeout_while(record, most, is_full);
                record = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => {
                let waited = self.changed.wait_while(record, is_full);
                record = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        !is_full(&mut record)
    }

    /// Ends its input after the pending bytes. For a terminal, this simulates a key, and the terminal stays
    /// open.
    pub(crate) fn close_input(&self) {
        let mut record = lock(&self.record);
        let has_terminal = record.has_terminal;
        let Some(input) = record.input.as_mut() else {
            return;
        };
        if has_terminal {
            input.waiting.push_back(END_OF_TRANSMISSION);
        } else {
            input.is_closing = true;
        }
        self.write_waiting(&mut record);
    }

    /// Returns false if it has no terminal, or its terminal is closed.
    pub(crate) fn resize(&self, size: TerminalSize) -> io::Result<bool> {
        let record = lock(&self.record);
        let terminal = record.outputs[0].fd.as_ref().filter(|_| record.has_terminal);
        terminal.map_or(Ok(false), |terminal| size.apply(terminal).map(|()| true))
    }

    pub(super) fn stop(&self, stop: StopReason) {
        let mut record = lock(&self.record);
        if record.phase == ProcessPhase::Running {
            record.stopped = record.stopped.or(Some(stop));
        }
    }

    /// It runs, on this terminal if it has one.
    pub(super) fn hear_started(&self, pid: i32, terminal: Option<OwnedFd>) -> io::Result<()> {
        let mut record = lock(&self.record);
        // Forgotten or closed meanwhile.
        if record.phase != ProcessPhase::Starting {
            return Ok(());
        }
        if let Some(terminal) = terminal {
            // The supervisor serves all processes, so no single one may block it. Pipes are opened that
            // way.
            rustix::fs::fcntl_setfl(&terminal, OFlags::NONBLOCK)?;
            // One terminal, two descriptors: input and output are polled and closed separately.
            record.input = Some(InputState::new(terminal.try_clone()?));
            record.outputs[0].fd = Some(terminal);
            record.has_terminal = true;
        }
        for (output, side) in record
            .outputs
            .iter()
            .zip([ProcessStream::Stdout, ProcessStream::Stderr])
        {
            if let Some(fd) = &output.fd {
                self.poller
                    .add(fd, PollToken::Of(self.id, side), EventFlags::IN)?;
            }
        }
        (record.pid, record.since, record.phase) = (Some(pid), Instant::now(), ProcessPhase::Running);
        self.changed.notify_all();
        Ok(())
    }

    pub(super) fn hear_failed(&self, step: SpawnStep, errno: i32) {
        let mut record = lock(&self.record);
        record.phase = ProcessPhase::Failed { step, errno };
        record.close(&self.poller);
        self.changed.notify_all();
    }

    /// It has ended. Its earlier output is read first.
    pub(super) fn hear_ended(&self, end: CommandEnd) {
        self.read_rest();
        let mut record = lock(&self.record);
        if let ProcessPhase::Failed { .. } | ProcessPhase::Ended(_) = record.phase {
            return;
        }
        record.end(end);
        if let Some(input) = record.input.take() {
            self.poller.remove(&input.fd);
        }
        self.changed.notify_all();
    }

    /// Everything that could have used its streams is gone.
    pub(super) fn close(&self, stopped: Option<StopReason>) {
        self.read_rest();
        let mut record = lock(&self.record);
        record.stopped = record.stopped.or(stopped);
        match record.phase {
            ProcessPhase::Starting => {
                let (step, errno) = (SpawnStep::Leaving, libc::ESHUTDOWN);
                record.phase = ProcessPhase::Failed { step, errno };
            }
            ProcessPhase::Running => record.end(CommandEnd::Signaled(libc::SIGKILL)),
            ProcessPhase::Failed { .. } | ProcessPhase::Ended(_) => {}
        }
        record.close(&self.poller);
        self.changed.notify_all();
    }

    /// Its streams are no longer needed.
    pub(super) fn let_go(&self) {
        lock(&self.record).close(&self.poller);
        self.changed.notify_all();
    }

    /// Reads or writes one piece.
    pub(super) fn attend(&self, side: ProcessStream) {
        let mut record = lock(&self.record);
        match side {
            ProcessStream::Input => self.write_waiting(&mut record),
            ProcessStream::Stdout => drop(self.read(&mut record, 0)),
            ProcessStream::Stderr => drop(self.read(&mut record, 1)),
        }
    }

    /// Returns the number of bytes that were read.
    fn read(&self, record: &mut ProcessRecord, index: usize) -> Option<usize> {
        let fd = record.outputs[index].fd.as_ref()?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); PIECE];
        match rustix::io::read(fd, &mut buffer) {
            Ok((bytes, _)) if !bytes.is_empty() => {
                record.outputs[index].capture.add(bytes);
                // Both under one lock: a listener that starts now gets the captured part and what follows,
                // without a gap.
                record.live.add(index == 1, bytes);
                self.changed.notify_all();
                Some(bytes.len())
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            // The end of a pipe, or of a terminal (EIO).
            Ok(_) | Err(_) => {
                record.outputs[index].close(&self.poller);
                self.changed.notify_all();
                None
            }
        }
    }

    fn read_rest(&self) {
        for index in [0, 1] {
            let mut record = lock(&self.record);
            let waiting = record.outputs[index].fd.as_ref().map(rustix::io::ioctl_fionread);
            // What the pipe holds now was written before the end. More may come from background processes,
            // without end.
            let mut left = waiting.and_then(Result::ok).unwrap_or(0).max(LAST_BYTES);
            while let Some(count) = self.read(&mut record, index) {
                left = left.saturating_sub(count as u64);
                if left == 0 {
                    break;
                }
            }
        }
    }

    fn write_waiting(&self, record: &mut ProcessRecord) {
        let Some(input) = record.input.as_mut() else {
            return;
        };
        let is_over = loop {
            let (first, _) = input.waiting.as_slices();
            if first.is_empty() {
                break input.is_closing;
            }
            match rustix::io::write(&input.fd, first) {
                Ok(count) => drop(input.waiting.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break false,
                // The reader is gone.
                Err(_) => break true,
            }
        };
        // Polled only while something waits: a pipe with room is always writable and would keep the poller
        // busy.
        let has_waiting = !input.waiting.is_empty() && !is_over;
        if has_waiting && !input.is_polled {
            let token = PollToken::Of(self.id, ProcessStream::Input);
            input.is_polled = self.poller.add(&input.fd, token, EventFlags::OUT).is_ok();
        } else if !has_waiting && input.is_polled {
            self.poller.remove(&input.fd);
            input.is_polled = false;
        }
        if is_over {
            record.input = None;
        }
        self.changed.notify_all();
    }
}

impl ProcessRecord {
    pub(super) fn so_far(&self) -> OutputSoFar {
        let [stdout, stderr] = &self.outputs;
        OutputSoFar {
            stdout: stdout.capture.so_far(),
            stderr: stderr.capture.so_far(),
        }
    }

    /// Whether no more output can come.
    pub(super) fn is_silent(&self) -> bool {
        self.outputs.iter().all(|output| output.fd.is_none())
    }

    fn end(&mut self, end: CommandEnd) {
        let (stopped, duration) = (self.stopped, self.since.elapsed());
        self.phase = ProcessPhase::Ended(ProcessEnd {
            end,
            stopped,
            duration,
        });
        self.live.end();
    }

    fn close(&mut self, poller: &Poller) {
        for output in &mut self.outputs {
            output.close(poller);
        }
        if let Some(input) = self.input.take() {
            poller.remove(&input.fd);
        }
    }
}

impl InputState {
    fn new(fd: OwnedFd) -> Self {
        Self {
            fd,
            waiting: VecDeque::new(),
            is_closing: false,
            is_polled: false,
        }
    }
}

impl ProcessOutput {
    fn close(&mut self, poller: &Poller) {
        if let Some(fd) = self.fd.take() {
            poller.remove(fd.as_fd());
        }
    }
}
