//! What a session and those who use it say to each other: frames of a kind, a length and that many bytes.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use avfs_exec::classify::Command;
use serde::{Deserialize, Serialize};

use crate::control::Bytes;

/// A longer frame is none of ours.
const LONGEST: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From a user: what is wanted.
    Request,
    /// From a user, behind a request for a command that reads: what it reads.
    Input,
    Stdout,
    Stderr,
    /// The end of a request.
    Answer,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Request, Kind::Input, Kind::Stdout, Kind::Stderr, Kind::Answer];
}

/// What can be asked of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    Exec {
        command: Words,
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
pub(super) enum Words {
    Shell(String),
    Argv(Vec<Bytes>),
}

impl From<&Command> for Words {
    fn from(command: &Command) -> Words {
        match command {
            Command::Shell(line) => Words::Shell(line.clone()),
            Command::Argv(words) => {
                Words::Argv(words.iter().map(|word| Bytes::of_host(Path::new(word))).collect())
            }
        }
    }
}

impl Words {
    /// Nothing if it is no command of ours.
    pub fn command(self) -> Option<Command> {
        match self {
            Words::Shell(line) => Some(Command::Shell(line)),
            Words::Argv(words) => {
                let words: Option<Vec<OsString>> =
                    words.iter().map(|word| Some(word.to_host()?.into_os_string())).collect();
                words.map(Command::Argv)
            }
        }
    }
}

pub(super) fn send(mut to: impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| bad("a frame is too long"))?;
    let mut frame = Vec::with_capacity(bytes.len() + 5);
    frame.push(kind as u8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(&frame)
}

/// The next frame; nothing when the other side is done.
pub(super) fn receive(mut from: impl Read) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut head = [0_u8; 5];
    match from.read(&mut head[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut head[1..])?,
    }
    let [kind, length @ ..] = head;
    let kind = Kind::ALL.get(usize::from(kind)).copied().ok_or_else(|| bad("a frame of no kind"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(bad("a frame is too long"));
    }
    // It grows as it arrives: a length alone costs nothing.
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() == length { Ok(Some((kind, bytes))) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
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
        send(&mut wire, Kind::Stdout, b"a\0b").unwrap();
        send(&mut wire, Kind::Answer, b"").unwrap();
        let mut from = wire.as_slice();
        assert_eq!(receive(&mut from).unwrap(), Some((Kind::Stdout, b"a\0b".to_vec())));
        assert_eq!(receive(&mut from).unwrap(), Some((Kind::Answer, Vec::new())));
        assert_eq!(receive(&mut from).unwrap(), None);
        for end in 1..8 {
            receive(&wire[..end]).unwrap_err();
        }
        receive(&[9, 0, 0, 0, 0][..]).unwrap_err();
        receive(&[0, 0xff, 0xff, 0xff, 0xff][..]).unwrap_err();
    }

    #[test]
    fn commands_of_any_bytes_travel() {
        for command in [
            Command::Shell("a 'b'\nc".into()),
            Command::Argv(vec!["ls".into(), OsString::from_vec(vec![0xff, b' '])]),
        ] {
            let text = serde_json::to_string(&Words::from(&command)).unwrap();
            let words: Words = serde_json::from_str(&text).unwrap();
            assert_eq!(words.command(), Some(command));
        }
    }
}
