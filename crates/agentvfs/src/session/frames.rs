//! The protocol between a session and its users: frames of a kind, a length and that many bytes.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use avfs_exec::classify::Command;
use serde::{Deserialize, Serialize};

use crate::control::Bytes;

/// A longer frame is not one of ours.
const LONGEST: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionFrameKind {
    /// From a user: the request.
    Request,
    /// From a user, after a request for a command with input: the input.
    Input,
    Stdout,
    Stderr,
    /// The end of a request.
    Answer,
}

impl SessionFrameKind {
    const ALL: [SessionFrameKind; 5] = [
        SessionFrameKind::Request,
        SessionFrameKind::Input,
        SessionFrameKind::Stdout,
        SessionFrameKind::Stderr,
        SessionFrameKind::Answer,
    ];
}

/// A request to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum ShellRequest {
    Exec {
        command: CommandFrame,
        timeout_ms: Option<u64>,
        has_input: bool,
        wait: bool,
    },
    Status,
    /// End. The connection stays until all of it is gone.
    Stop,
}

/// A command, for a shell or as words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CommandFrame {
    Shell(String),
    Argv(Vec<Bytes>),
}

impl From<&Command> for CommandFrame {
    fn from(command: &Command) -> CommandFrame {
        match command {
            Command::Shell(line) => CommandFrame::Shell(line.clone()),
            Command::Argv(words) => {
                CommandFrame::Argv(words.iter().map(|word| Bytes::of_host(Path::new(word))).collect())
            }
        }
    }
}

impl CommandFrame {
    /// `None` if it is not a valid command.
    pub(super) fn command(self) -> Option<Command> {
        match self {
            CommandFrame::Shell(line) => Some(Command::Shell(line)),
            CommandFrame::Argv(words) => {
                let words: Option<Vec<OsString>> = words
                    .iter()
                    .map(|word| Some(word.to_host()?.into_os_string()))
                    .collect();
                words.map(Command::Argv)
            }
        }
    }
}

pub(super) fn send(mut to: impl Write, kind: SessionFrameKind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| bad("a frame is too long"))?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(&frame)
}

/// The next frame; nothing when the other side is done.
pub(super) fn receive(mut from: impl Read) -> io::Result<Option<(SessionFrameKind, Vec<u8>)>> {
    let mut head = [0_u8; 5];
    loop {
        match from.read(&mut head[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            // A host process may have handlers of signals of its own.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    from.read_exact(&mut head[1..])?;
    let [kind, length @ ..] = head;
    let kind = SessionFrameKind::ALL
        .get(usize::from(kind))
        .copied()
        .ok_or_else(|| bad("a frame of no kind"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(bad("a frame is too long"));
    }
    // It grows as it arrives: a length alone costs nothing.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length {
        Ok(Some((kind, bytes)))
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn bad(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn frames_arrive_one_by_one_and_cut_ones_are_errors() {
        let mut wire = Vec::new();
        send(&mut wire, SessionFrameKind::Stdout, b"a\0b").unwrap();
        send(&mut wire, SessionFrameKind::Answer, b"").unwrap();
        let mut from = wire.as_slice();
        assert_eq!(
            receive(&mut from).unwrap(),
            Some((SessionFrameKind::Stdout, b"a\0b".to_vec()))
        );
        assert_eq!(
            receive(&mut from).unwrap(),
            Some((SessionFrameKind::Answer, Vec::new()))
        );
        assert_eq!(receive(&mut from).unwrap(), None);
        for end in 1..8 {
            receive(&wire[..end]).unwrap_err();
        }
        receive(&[9, 0, 0, 0, 0][..]).unwrap_err();
        receive(&[0, 0xff, 0xff, 0xff, 0xff][..]).unwrap_err();
    }

    /// Is interrupted before each byte.
    struct Interrupted<'a>(&'a [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn signals_interrupt_no_frame() {
        let mut wire = Vec::new();
        send(&mut wire, SessionFrameKind::Stdout, b"abc").unwrap();
        let received = receive(Interrupted(&wire, false)).unwrap();
        assert_eq!(received, Some((SessionFrameKind::Stdout, b"abc".to_vec())));
        assert_eq!(receive(Interrupted(&[], false)).unwrap(), None);
    }

    #[test]
    fn commands_of_any_bytes_travel() {
        for command in [
            Command::Shell("a 'b'\nc".into()),
            Command::Argv(vec!["ls".into(), OsString::from_vec(vec![0xff, b' '])]),
        ] {
            let text = serde_json::to_string(&CommandFrame::from(&command)).unwrap();
            let words: CommandFrame = serde_json::from_str(&text).unwrap();
            assert_eq!(words.command(), Some(command));
        }
    }
}
