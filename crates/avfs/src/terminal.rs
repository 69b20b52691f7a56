//! The user's terminal while it is shared with a program: bytes pass unchanged in both directions.
//!
//! This process serves nothing else: it may be stopped, with the program, and continued; it may leave, and
//! the program continues without it.

mod detach_keys;
mod raw;

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use agentvfs::task_run::{
    Attachment, FromRun, Joined, RunOutput, RunRecord, TerminalModes, WindowSize, replay,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{Termios, tcgetattr, tcgetwinsize};
use signal_hook::consts::{SIGCONT, SIGWINCH};
use signal_hook::low_level::pipe;

pub use detach_keys::DetachKeys;
use detach_keys::Typed;
use raw::Raw;

/// How much input may be pending for a program that does not read.
const PENDING_MAX: usize = 64 << 10;
/// How much of the output is repeated to a terminal that joins.
const REPLAYED: u64 = 64 << 10;

/// Whether there is a terminal to share.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The settings of the user's terminal.
pub fn settings() -> Option<Termios> {
    tcgetattr(io::stdin()).ok()
}

/// The size of the window, if there is one.
pub fn size() -> WindowSize {
    let found = tcgetwinsize(io::stdout())
        .ok()
        .filter(|size| size.ws_row > 0 && size.ws_col > 0);
    found.map_or_else(WindowSize::default, |size| WindowSize {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}

/// How the sharing of a terminal ended.
pub enum SharingEnd {
    /// The program's terminal is gone. If it was heard of: how the run ended.
    Ended(Option<Box<RunRecord>>),
    /// The user left with the detach keys; the program continues.
    Detached(Joined),
    /// The terminal is gone, or this process was asked to end; the program continues.
    Lost,
}

/// How a terminal is shared.
pub struct Sharing<'a> {
    pub keys: DetachKeys,
    /// Earlier output, for a terminal that joins later.
    pub output: Option<RunOutput>,
    /// The signals that make it leave.
    pub leaving: &'a [i32],
    /// Waits for the report of the end if the program's terminal is gone already.
    pub awaits_end: bool,
}

/// Shares the user's terminal with a program until the program is gone, or the user leaves. The terminal is
/// then restored.
pub fn share(attachment: Attachment, sharing: Sharing<'_>) -> io::Result<SharingEnd> {
    let mut relay = Relay::new(attachment, sharing)?;
    let parting = loop {
        if let Some(parting) = relay.turn()? {
            break parting;
        }
    };
    // Before anything else is printed.
    relay.restore();
    if let SharingEnd::Detached(_) | SharingEnd::Lost = parting {
        // If the other side is gone, the program has ended.
        let _ = relay.attachment.detach();
    }
    Ok(parting)
}

struct Relay {
    attachment: Attachment,
    keys: Typed,
    output: Option<RunOutput>,
    awaits_end: bool,
    /// Since it joined: the user's terminal in raw mode, and the state that the program has set.
    joined: Option<(Joined, Raw)>,
    modes: TerminalModes,
    is_closed: bool,
    /// Has something to say when the size changed, and when we go on after a stop.
    woken: UnixStream,
    /// Has something to say when we are to leave.
    leaving: UnixStream,
}

/// The events to handle.
struct Ready {
    news: bool,
    woken: bool,
    leaving: bool,
    typed: bool,
}

impl Relay {
    fn new(attachment: Attachment, sharing: Sharing<'_>) -> io::Result<Relay> {
        Ok(Relay {
            attachment,
            keys: Typed::new(sharing.keys),
            output: sharing.output,
            awaits_end: sharing.awaits_end,
            joined: None,
            modes: TerminalModes::default(),
            is_closed: false,
            woken: signals(&[SIGWINCH, SIGCONT])?,
            leaving: signals(sharing.leaving)?,
        })
    }

    /// Waits for something and does it. Answers when it is over, and how.
    fn turn(&mut self) -> io::Result<Option<SharingEnd>> {
        let ready = self.wait()?;
        // First: a user who closes the window must not wait for output that is still coming.
        if ready.leaving {
            return Ok(Some(SharingEnd::Lost));
        }
        if ready.woken {
            self.rouse()?;
        }
        if ready.news {
            let is_there = self.attachment.receive()?;
            // Also if the connection has ended: messages that arrived before its end still count.
            while let Some(heard) = self.attachment.next_heard()? {
                if let Some(parting) = self.hear(heard)? {
                    return Ok(Some(parting));
                }
            }
            if !is_there {
                return Ok(Some(SharingEnd::Ended(None)));
            }
        }
        if ready.typed
            && let Some(parting) = self.read_typed()?
        {
            return Ok(Some(parting));
        }
        // The first of the detach keys is held back for a moment, in case the second one follows.
        let late = self.keys.take_late(Instant::now());
        if !late.is_empty() {
            self.attachment.type_bytes(&late)?;
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<Option<SharingEnd>> {
        // If it is not received, the end of the connection shows it.
        let _ = self.attachment.flush();
        Ok(None)
    }

    fn wait(&self) -> io::Result<Ready> {
        let stdin = io::stdin();
        // While the program does not read, typing stays in the terminal's own buffer.
        let wants_more = self.joined.is_some() && !self.is_closed && self.attachment.pending() < PENDING_MAX;
        let mut news = PollFlags::IN;
        if self.attachment.pending() > 0 {
            news |= PollFlags::OUT;
        }
        let mut fds = vec![
            PollFd::new(&self.attachment, news),
            PollFd::new(&self.woken, PollFlags::IN),
            PollFd::new(&self.leaving, PollFlags::IN),
        ];
        fds.extend(wants_more.then(|| PollFd::new(&stdin, PollFlags::IN)));
        let left = self
            .keys
            .late_at()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => {
                return Ok(Ready {
                    news: false,
                    woken: false,
                    leaving: false,
                    typed: false,
                });
            }
            Err(errno) => return Err(errno.into()),
        }
        let said = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        let has_news = fds[0]
            .revents()
            .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        Ok(Ready {
            news: has_news,
            woken: said(1),
            leaving: said(2),
            typed: said(3),
        })
    }

    /// Another program may have changed the terminal meanwhile.
    fn rouse(&mut self) -> io::Result<()> {
        let mut signals = [0; 64];
        // Several signals may have come; the current size is the answer to all of them.
        while self.woken.read(&mut signals).is_ok_and(|count| count > 0) {}
        if let Some((_, raw)) = &mut self.joined {
            raw.again()?;
            self.attachment.resize(size())?;
        }
        Ok(())
    }

    fn hear(&mut self, heard: FromRun) -> io::Result<Option<SharingEnd>> {
        match heard {
            FromRun::Joined(joined) => self.join(joined),
            FromRun::Shown(bytes) => Ok(self.show(&bytes)),
            FromRun::Stopped => self.stop().map(|()| None),
            FromRun::Closed if self.awaits_end => {
                self.restore();
                self.is_closed = true;
                Ok(None)
            }
            FromRun::Closed => Ok(Some(SharingEnd::Ended(None))),
            FromRun::Ended(record) => Ok(Some(SharingEnd::Ended(Some(record)))),
        }
    }

    /// The terminal is put where the program is.
    fn join(&mut self, joined: Joined) -> io::Result<Option<SharingEnd>> {
        let raw = match self.joined.take() {
            Some((_, raw)) => raw,
            None => Raw::enter(tcgetattr(io::stdin())?)?,
        };
        let mut shown = joined.modes.clone().into_bytes();
        if joined.is_alternate {
            // The alternate screen may hold what another program left there.
            shown.extend(b"\x1b[H\x1b[2J");
        }
        if let Some(output) = &self.output {
            // Output that cannot be read is redrawn by the program.
            let (tail, is_cut) = output.tail(joined.offset, REPLAYED).unwrap_or_default();
            shown.extend(replay(&tail, is_cut));
        }
        self.joined = Some((joined, raw));
        Ok(self.show(&shown))
    }

    fn show(&mut self, bytes: &[u8]) -> Option<SharingEnd> {
        self.modes.follow(bytes);
        match write_all(bytes) {
            Ok(()) => None,
            Err(_) => Some(SharingEnd::Lost),
        }
    }

    fn read_typed(&mut self) -> io::Result<Option<SharingEnd>> {
        let mut buffer = [0; 4096];
        let count = match rustix::io::read(io::stdin(), &mut buffer) {
            Ok(0) => return Ok(Some(SharingEnd::Lost)),
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            Err(_) => return Ok(Some(SharingEnd::Lost)),
        };
        let (bytes, is_leaving) = self.keys.push(&buffer[..count], Instant::now());
        if !bytes.is_empty() {
            self.attachment.type_bytes(&bytes)?;
        }
        match &self.joined {
            Some((joined, _)) if is_leaving => Ok(Some(SharingEnd::Detached(joined.clone()))),
            Some(_) | None => Ok(None),
        }
    }

    /// As Ctrl-Z does to a job: the script or shell that waits for us is stopped or notified.
    fn stop(&mut self) -> io::Result<()> {
        let Some((_, raw)) = &mut self.joined else {
            return Ok(());
        };
        raw.leave()?;
        // This call returns only when the user continues the job.
        kill_current_process_group(Signal::TSTP)?;
        raw.again()?;
        self.attachment.resize(size())?;
        self.attachment.go_on()
    }

    /// Restores the user's terminal.
    fn restore(&mut self) {
        if let Some((_, raw)) = self.joined.take() {
            // A terminal that is gone needs nothing.
            let _ = write_all(self.modes.undo().as_bytes());
            drop(raw);
        }
    }
}

/// A stream that has something to say when one of these signals came.
fn signals(signals: &[i32]) -> io::Result<UnixStream> {
    let (heard, signalled) = UnixStream::pair()?;
    heard.set_nonblocking(true)?;
    for signal in signals {
        pipe::register(*signal, signalled.try_clone()?)?;
    }
    // Without a signal to listen to, it would have ended.
    std::mem::forget(signalled);
    Ok(heard)
}

fn write_all(mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(io::stdout().as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
