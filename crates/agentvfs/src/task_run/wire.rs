//! What a run and those who look at it say to each other: frames of a kind, a length and that many bytes.

use std::io;

use serde::{Deserialize, Serialize};

/// A longer frame is none of ours.
const LONGEST: usize = 1 << 20;
const HEAD: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// To the run: what is wanted ([`Request`]), first of all.
    Request,
    /// To the run: what was typed.
    Typed,
    /// To the run: the window has another size ([`WindowSize`]).
    Size,
    /// To the run: a program that has stopped goes on.
    GoOn,
    /// To the run: the terminal is about to leave, and the program goes on.
    Detach,
    /// From the run: what a terminal needs to know to join ([`Joined`]).
    Joined,
    /// From the run: what the program wrote.
    Shown,
    /// From the run: the program has stopped.
    Stopped,
    /// From the run: more was printed.
    Grown,
    /// From the run: the program's terminal is gone; its end is told when its work is stored.
    Closed,
    /// From the run: how it ended ([`super::RunRecord`]).
    Ended,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Request,
        Kind::Typed,
        Kind::Size,
        Kind::GoOn,
        Kind::Detach,
        Kind::Joined,
        Kind::Shown,
        Kind::Stopped,
        Kind::Grown,
        Kind::Closed,
        Kind::Ended,
    ];
}

/// What can be asked of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Share the program's terminal.
    Attach { size: WindowSize },
    /// Hear when more was printed, and how it ended.
    Watch,
    /// End the program: ask it, and kill it if it is still there after so long.
    Stop { kill_after_ms: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    pub rows: u16,
    pub columns: u16,
}

impl Default for WindowSize {
    fn default() -> WindowSize {
        WindowSize { rows: 24, columns: 80 }
    }
}

/// What a terminal that joins needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    pub task: String,
    /// The name of the task everywhere.
    pub vault: String,
    pub run: String,
    /// What is printed from here on is shown; what was printed before is in the output that is kept.
    pub offset: u64,
    /// Puts a terminal into the modes that the program expects.
    pub modes: String,
    /// Whether the program draws on the screen that has no history.
    pub is_alternate: bool,
}

pub(super) fn frame(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    // Nothing that is sent is as long as that.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(bytes.len() + HEAD);
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}

/// Frames that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Frames {
    arrived: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let Some((head, rest)) = self.arrived.split_first_chunk::<HEAD>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let bad = |reason: &'static str| io::Error::new(io::ErrorKind::InvalidData, reason);
        let kind = Kind::ALL.get(usize::from(kind)).copied().ok_or_else(|| bad("a frame of no kind"))?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(bad("a frame is too long"));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let bytes = rest[..length].to_vec();
        self.arrived.drain(..HEAD + length);
        Ok(Some((kind, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_whole_wherever_they_are_cut() {
        let wire = [frame(Kind::Typed, b"a\0b"), frame(Kind::Detach, b"")].concat();
        for at in 0..wire.len() {
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for piece in [&wire[..at], &wire[at..]] {
                frames.push(piece);
                got.extend(std::iter::from_fn(|| frames.next().unwrap()));
            }
            assert_eq!(got, [(Kind::Typed, b"a\0b".to_vec()), (Kind::Detach, Vec::new())], "cut at {at}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bytes in [[99, 0, 0, 0, 0], [0, 0xff, 0xff, 0xff, 0xff]] {
            let mut frames = Frames::default();
            frames.push(&bytes);
            frames.next().unwrap_err();
        }
    }

    #[test]
    fn requests_travel() {
        let size = WindowSize { rows: 40, columns: 100 };
        for request in [Request::Attach { size }, Request::Watch, Request::Stop { kill_after_ms: 5 }] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
        }
    }
}
