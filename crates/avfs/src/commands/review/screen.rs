//! The terminal during a review: entered, and restored whatever happens.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use ratatui_core::layout::Size;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui_crossterm::crossterm::{execute, style};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGHUP, SIGTERM};
use signal_hook::iterator::Signals;

use super::draw::draw;
use super::model::Model;
use super::palette::Palette;

/// How soon a signal to end is noticed while no key is pressed.
const PATIENCE: Duration = Duration::from_millis(200);

pub struct ReviewScreen<W: Write> {
    terminal: Terminal<CrosstermBackend<W>>,
    palette: Palette,
    signals: Signals,
}

/// External events for a review.
pub enum ReviewInput {
    Key(KeyEvent),
    Resized,
    /// Nothing for a while.
    Idle,
    /// A signal asks this program to end.
    Signal(i32),
}

/// Whether a user can see the screen and press keys.
pub fn is_possible() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal()
}

impl<W: Write> ReviewScreen<W> {
    pub fn enter(out: W, palette: Palette) -> io::Result<ReviewScreen<W>> {
        let in_color = palette != Palette::None;
        style::force_color_output(in_color);
        restore_on_panic();
        leave_with_terminal()?;
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let mut screen = ReviewScreen {
            terminal,
            palette,
            signals: Signals::new([SIGTERM, SIGHUP])?,
        };
        screen.take()?;
        Ok(screen)
    }

    fn take(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(self.terminal.backend_mut(), EnterAlternateScreen, Hide)?;
        self.terminal.clear()
    }

    fn give_back(&mut self) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), LeaveAlternateScreen, Show)?;
        disable_raw_mode()
    }

    pub fn size(&self) -> io::Result<Size> {
        self.terminal.size()
    }

    pub fn draw(&mut self, model: &Model) -> io::Result<()> {
        let palette = self.palette;
        self.terminal
            .draw(|frame| draw(model, palette, frame.buffer_mut()))
            .map(drop)
    }

    /// Whether there are keys that have not been read yet.
    pub fn has_input(&self) -> bool {
        event::poll(Duration::ZERO).unwrap_or(false)
    }

    /// Waits for the next thing to happen.
    pub fn next(&mut self) -> io::Result<ReviewInput> {
        loop {
            if let Some(signal) = self.signals.pending().next() {
                return Ok(ReviewInput::Signal(signal));
            }
            // With an end, so that signals and the work of other threads are seen without a key.
            if !event::poll(PATIENCE)? {
                return Ok(ReviewInput::Idle);
            }
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => return Ok(ReviewInput::Key(key)),
                Event::Resize(..) => return Ok(ReviewInput::Resized),
                _ => {}
            }
        }
    }

    /// Gives the terminal to another program until it has ended.
    pub fn lend<T>(&mut self, other: impl FnOnce() -> T) -> io::Result<T> {
        self.give_back()?;
        let done = other();
        self.take()?;
        Ok(done)
    }

    /// Gives the terminal to the shell until the user comes back.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.give_back()?;
        // The whole group: the shell takes the terminal back only if every process of the job has stopped.
        kill_current_process_group(Signal::TSTP)?;
        self.take()
    }
}

impl<W: Write> Drop for ReviewScreen<W> {
    fn drop(&mut self) {
        // An error while restoring the terminal cannot be reported.
        let _ = self.give_back();
    }
}

/// Ends the program when its terminal is gone. The reader of keys would wait for them forever, and there is
/// nothing to restore.
fn leave_with_terminal() -> io::Result<()> {
    let watch = || {
        let stdin = io::stdin();
        let mut gone = [PollFd::new(&stdin, PollFlags::empty())];
        // No event is asked for: errors and the end of the terminal are reported anyway.
        while poll(&mut gone, None) == Err(Errno::INTR) {}
        // As the shell reports a program that the end of its terminal has ended.
        std::process::exit(128 + SIGHUP);
    };
    std::thread::Builder::new()
        .name("hangup".into())
        .spawn(watch)
        .map(drop)
}

/// A message of a panic on the screen of a review would vanish with it. The printer is out of reach then.
fn restore_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // First leave the other screen, or the message would go with it.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        report(panic);
    }));
}
