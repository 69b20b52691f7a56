//! The protocol between a run and its clients: frames of a kind, a length and that many bytes.

use std::io;

use serde::{Deserialize, Serialize};

/// A longer frame is not one of ours.
const LONGEST: usize = 1 << 20;
const HEAD: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunFrameKind {
    /// To the run: the request ([`RunRequest`]), first of all.
    Request,
    /// To the run: typed input.
    Typed,
    /// To the run: the window has another size ([`WindowSize`]).
    Size,
    /// To the run: continue a stopped program.
    GoOn,
    /// To the run: the terminal is about to leave, and the program continues.
    Detach,
    /// From the run: information for a terminal that joins ([`Joined`]).
    Joined,
    /// From the run: the program's output.
    Shown,
    /// From the run: the program has stopped.
    Stopped,
    /// From the run: more was printed.
    Grown,
    /// From the run: the program's terminal is gone; its end is reported when its work is stored.
    Closed,
    /// From the run: how it ended ([`super::RunRecord`]).
    Ended,
}

impl RunFrameKind {
    const ALL: [RunFrameKind; 11] = [
        RunFrameKind::Request,
        RunFrameKind::Typed,
        RunFrameKind::Size,
        RunFrameKind::GoOn,
        RunFrameKind::Detach,
        RunFrameKind::Joined,
        RunFrameKind::Shown,
        RunFrameKind::Stopped,
        RunFrameKind::Grown,
        RunFrameKind::Closed,
        RunFrameKind::Ended,
    ];
}

/// A request to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum RunRequest {
    /// Share the program's terminal.
    Attach { size: WindowSize },
    /// Hear when more was printed, and how it ended.
    Watch,
    /// End the program: ask it, and kill it if it is still there after so long.
    Stop { kill_after_ms: u64 },
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl Default for WindowSize {
    fn default() -> WindowSize {
        WindowSize {
            rows: 24,
            columns: 80,
        }
    }
}

/// Information for a terminal that joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The name of the task's vault.
    pub task: String,
    /// The name of the task everywhere.
    pub vault: String,
    /// The id of the run.
    pub run: String,
    /// Output from here on is sent; earlier output is in the stored output.
    pub offset: u64,
    /// Puts a terminal into the modes that the program expects.
    pub modes: String,
    /// Whether the program uses the alternate screen, which has no history.
    pub is_alternate: bool,
}

pub(super) fn frame(kind: RunFrameKind, bytes: &[u8]) -> Vec<u8> {
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
    pub(super) fn next(&mut self) -> io::Result<Option<(RunFrameKind, Vec<u8>)>> {
        let Some((head, rest)) = self.arrived.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [kind, length @ ..] = *head;
        let bad = |reason: &'static str| io::Error::new(io::ErrorKind::InvalidData, reason);
        let kind = RunFrameKind::ALL
            .get(usize::from(kind))
            .copied()
            .ok_or_else(|| bad("a frame of no kind"))?;
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
        let wire = [
            frame(RunFrameKind::Typed, b"a\0b"),
            frame(RunFrameKind::Detach, b""),
        ]
        .concat();
        for at in 0..wire.len() {
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for piece in [&wire[..at], &wire[at..]] {
                frames.push(piece);
                got.extend(std::iter::from_fn(|| frames.next().unwrap()));
            }
            assert_eq!(
                got,
                [
                    (RunFrameKind::Typed, b"a\0b".to_vec()),
                    (RunFrameKind::Detach, Vec::new())
                ],
                "cut at {at}"
            );
        }
    }

    #[test]
    fn invalid_frame_is_refused() {
        for bytes in [[99, 0, 0, 0, 0], [0, 0xff, 0xff, 0xff, 0xff]] {
            let mut frames = Frames::default();
            frames.push(&bytes);
            frames.next().unwrap_err();
        }
    }

    #[test]
    fn requests_travel() {
        let size = WindowSize {
            rows: 40,
            columns: 100,
        };
        for request in [
            RunRequest::Attach { size },
            RunRequest::Watch,
            RunRequest::Stop { kill_after_ms: 5 },
        ] {
            let text = serde_json::to_string(&request).unwrap();
            assert_eq!(serde_json::from_str::<RunRequest>(&text).unwrap(), request);
        }
    }
}
