//! A terminal that hands on every key, and is as before when this is dropped.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcsetattr};

pub(super) struct Raw {
    usual: Termios,
    raw: Termios,
}

impl Raw {
    /// From now on no key means anything to the user's terminal; `usual` is how it was.
    pub(super) fn enter(usual: Termios) -> io::Result<Raw> {
        let mut raw = usual.clone();
        raw.make_raw();
        let mut own = Raw { usual, raw };
        own.again()?;
        Ok(own)
    }

    pub(super) fn again(&mut self) -> io::Result<()> {
        Ok(tcsetattr(io::stdin(), OptionalActions::Now, &self.raw)?)
    }

    /// For a while: others have the terminal.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        // Pending output is displayed first.
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &self.usual)?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        self.leave().ok();
    }
}
