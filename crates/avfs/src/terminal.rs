//! The user's terminal while a program has one of its own: bytes go both ways, as they are.
//!
//! The process that does this serves nothing: it may be stopped, with the program, and go on.

mod raw;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agentvfs::exec::boundary::terminal::{Console, News};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use signal_hook::consts::{SIGCONT, SIGWINCH};
use signal_hook::low_level::pipe;

use raw::Raw;

/// How much may wait for a program that does not read.
const PENDING_MAX: usize = 64 << 10;
/// How long the last output may take to arrive once nothing of the program is left.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Whether there is a terminal to share.
pub fn is_there() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Shares the user's terminal with a program until nothing of it is left. The terminal is then as it was.
pub fn share(console: &Console) -> io::Result<()> {
    let News::Opened(outer) = console.hear()? else { return Ok(()) };
    let usual = tcgetattr(io::stdin())?;
    // The program's terminal begins as the user's is.
    tcsetattr(&outer, OptionalActions::Now, &usual)?;
    let mut relay = Relay::new(console, outer)?;
    let mut raw = Raw::enter(usual)?;
    relay.fit();
    console.go_on()?;
    while relay.turn(&mut raw)? {}
    relay.finish()
}

struct Relay<'a> {
    console: &'a Console,
    outer: File,
    /// Has something to say when the size changed, and when we go on after a stop.
    woken: UnixStream,
    /// What was typed, and the program has not taken yet.
    pending: Vec<u8>,
    /// Whether more can be typed, and more can be shown.
    is_typing: bool,
    is_showing: bool,
}

impl<'a> Relay<'a> {
    fn new(console: &'a Console, outer: OwnedFd) -> io::Result<Relay<'a>> {
        let (woken, signalled) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        for signal in [SIGWINCH, SIGCONT] {
            pipe::register(signal, signalled.try_clone()?)?;
        }
        // Nobody else has this side.
        rustix::fs::fcntl_setfl(&outer, OFlags::RDWR | OFlags::NONBLOCK)?;
        let outer = outer.into();
        Ok(Relay { console, outer, woken, pending: Vec::new(), is_typing: true, is_showing: true })
    }

    /// Waits for something and does it. Answers whether there will be more.
    fn turn(&mut self, raw: &mut Raw) -> io::Result<bool> {
        let [news, woken, shown, typed] = self.wait()?;
        if woken {
            self.rouse(raw)?;
        }
        if shown {
            self.show();
        }
        if typed {
            self.read_typed();
        }
        self.give_typed();
        match news {
            true => self.hear(raw),
            false => Ok(true),
        }
    }

    /// Whether there is news, a signal, output, input.
    fn wait(&self) -> io::Result<[bool; 4]> {
        let stdin = io::stdin();
        let takes = if self.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let outer = if self.is_showing { takes | PollFlags::IN } else { PollFlags::empty() };
        let wants_more = self.is_typing && self.pending.len() < PENDING_MAX;
        let mut fds = vec![PollFd::new(self.console, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        // What has ended says so again and again.
        fds.extend(self.is_showing.then(|| PollFd::new(&self.outer, outer)));
        let typed_at = fds.len();
        fds.extend(wants_more.then(|| PollFd::new(&stdin, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let said = |index: usize| fds.get(index).is_some_and(|fd| !fd.revents().is_empty());
        Ok([said(0), said(1), self.is_showing && said(2), wants_more && said(typed_at)])
    }

    /// Whoever had the terminal meanwhile may have left it otherwise.
    fn rouse(&mut self, raw: &mut Raw) -> io::Result<()> {
        let mut signals = [0; 64];
        while self.woken.read(&mut signals).is_ok_and(|count| count > 0) {}
        raw.again()?;
        self.fit();
        Ok(())
    }

    /// Gives the program's terminal the size of the user's.
    fn fit(&self) {
        // A terminal without a size is one too.
        if let Ok(size) = tcgetwinsize(io::stdout()) {
            tcsetwinsize(&self.outer, size).ok();
        }
    }

    fn show(&mut self) {
        let mut buffer = [0; 16 << 10];
        match self.outer.read(&mut buffer) {
            Ok(0) => self.is_showing = false,
            // If the user's terminal is gone, the program is about to hear of it.
            Ok(count) => drop(write_all(&buffer[..count])),
            Err(error) if is_for_later(&error) => {}
            // The program, and all that had its terminal, are gone.
            Err(_) => self.is_showing = false,
        }
    }

    fn read_typed(&mut self) {
        let mut buffer = [0; 4096];
        match rustix::io::read(io::stdin(), &mut buffer) {
            Ok(0) => self.is_typing = false,
            Ok(count) => self.pending.extend_from_slice(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.is_typing = false,
        }
    }

    fn give_typed(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        match self.outer.write(&self.pending) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(error) if is_for_later(&error) => {}
            Err(_) => self.pending.clear(),
        }
    }

    /// Answers whether the program is still there.
    fn hear(&mut self, raw: &mut Raw) -> io::Result<bool> {
        match self.console.hear()? {
            News::Opened(_) => Ok(true),
            News::Stopped => {
                self.show();
                raw.leave()?;
                // As Ctrl-Z does to a job: whoever waits for us, a script or a shell, is stopped or told.
                kill_current_process_group(Signal::TSTP)?;
                raw.again()?;
                self.fit();
                self.console.go_on()?;
                Ok(true)
            }
            News::Gone => Ok(false),
        }
    }

    /// Shows what is still on its way.
    fn finish(&mut self) -> io::Result<()> {
        let end = Instant::now() + LAST_OUTPUT;
        while self.is_showing {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(&self.outer, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(()),
                Ok(_) => self.show(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
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
