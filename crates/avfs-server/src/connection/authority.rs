//! Clients of gRPC at a Unix socket, whose path they give as the name of the host.
//!
//! They write it as in an address, `tmp%2Fsocket`, which is no name of a host: the implementation of HTTP/2 refuses the
//! request. So each `%` in it becomes a `_` before anybody reads it. Nobody needs the name: the socket is the server's.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// A name of a header as it is written out, after its length.
const NAME: &[u8; 11] = b"\x0a:authority";
/// The length of the beginning of a frame.
const FRAME: usize = 9;
/// Frames with headers: HEADERS and CONTINUATION.
const WITH_HEADERS: [u8; 2] = [1, 9];

/// Bytes of a connection of HTTP/2 after its preface.
pub(super) struct PlainAuthority<R> {
    reader: R,
    frame: Frame,
    found: Found,
}

/// How far the present frame is read.
enum Frame {
    /// So many bytes of its beginning are known.
    Begin([u8; FRAME], usize),
    /// So many bytes are left.
    Rest { left: usize, has_headers: bool },
}

/// How far a header is recognized.
enum Found {
    /// So many bytes of its name.
    Name(usize),
    /// What is known of the length of its value, and by how many bits the next part is shifted.
    Length(usize, u32),
    /// So many bytes of its value are left.
    Value(usize),
}

impl<R> PlainAuthority<R> {
    pub fn new(reader: R) -> PlainAuthority<R> {
        PlainAuthority {
            reader,
            frame: Frame::Begin([0; FRAME], 0),
            found: Found::Name(0),
        }
    }

    fn pass(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match &mut self.frame {
                Frame::Begin(begin, known) => {
                    begin[*known] = *byte;
                    *known += 1;
                    if *known == FRAME {
                        let length = [0, begin[0], begin[1], begin[2]];
                        self.frame = Frame::Rest {
                            left: usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX),
                            has_headers: WITH_HEADERS.contains(&begin[3]),
                        };
                    }
                }
                Frame::Rest { left, has_headers } => {
                    *left -= 1;
                    if *has_headers {
                        self.found = self.found.after(byte);
                    }
                }
            }
            if matches!(self.frame, Frame::Rest { left: 0, .. }) {
                self.frame = Frame::Begin([0; FRAME], 0);
            }
        }
    }
}

impl Found {
    /// What is found with one more byte, which is replaced if it cannot be in a name.
    fn after(&self, byte: &mut u8) -> Found {
        match *self {
            Found::Name(known) if *byte == NAME[known] && known + 1 == NAME.len() => Found::Length(0, 0),
            Found::Name(known) if *byte == NAME[known] => Found::Name(known + 1),
            Found::Name(_) => Found::Name(usize::from(*byte == NAME[0])),
            // Compressed: those clients do not.
            Found::Length(_, 0) if *byte & 0x80 != 0 => Found::Name(0),
            Found::Length(_, 0) if *byte == 0x7f => Found::Length(0x7f, 1),
            Found::Length(_, 0) => Found::value(usize::from(*byte)),
            Found::Length(so_far, shift) => {
                let more = usize::from(*byte & 0x7f) << (7 * (shift - 1)).min(28);
                if *byte & 0x80 == 0 {
                    Found::value(so_far.saturating_add(more))
                } else {
                    Found::Length(so_far.saturating_add(more), shift + 1)
                }
            }
            Found::Value(left) => {
                if *byte == b'%' {
                    *byte = b'_';
                }
                Found::value(left - 1)
            }
        }
    }

    fn value(left: usize) -> Found {
        if left == 0 {
            Found::Name(0)
        } else {
            Found::Value(left)
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for PlainAuthority<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(context, into);
        self.pass(&mut into.filled_mut()[before..]);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, 4, 0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    fn passed(bytes: &[u8], at_once: usize) -> Vec<u8> {
        let mut filter = PlainAuthority::new(&b""[..]);
        let mut bytes = bytes.to_vec();
        for piece in bytes.chunks_mut(at_once) {
            filter.pass(piece);
        }
        bytes
    }

    #[test]
    fn the_path_of_a_socket_becomes_a_name_and_nothing_else_changes() {
        let long = "a%2F".repeat(40);
        let mut with_long = b"@\x0a:authority\x7f\x21".to_vec();
        with_long.extend(long.as_bytes());
        with_long.extend(b"@\x01x\x03a%b");
        for (payload, expected) in [
            (
                b"@\x05:path\x05/%2Fx@\x0a:authority\x09tmp%2Fa.s\x83\x86@\x02te\x03%2F".to_vec(),
                b"@\x05:path\x05/%2Fx@\x0a:authority\x09tmp_2Fa.s\x83\x86@\x02te\x03%2F".to_vec(),
            ),
            (with_long.clone(), {
                let text = String::from_utf8(with_long).unwrap();
                text.replace(&long, &long.replace('%', "_")).into_bytes()
            }),
            // Compressed values are not touched.
            (
                b"@\x0a:authority\x83%%%".to_vec(),
                b"@\x0a:authority\x83%%%".to_vec(),
            ),
        ] {
            // Data that only looks alike.
            let data = frame(0, b"\x0a:authority\x05%%%%%");
            let sent = [data.clone(), frame(1, &payload), data.clone(), frame(4, b"")].concat();
            let wanted = [data.clone(), frame(1, &expected), data, frame(4, b"")].concat();
            for at_once in [1, 2, 7, sent.len()] {
                assert_eq!(passed(&sent, at_once), wanted, "{at_once}");
            }
        }
    }

    #[test]
    fn any_bytes_pass() {
        let mut bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        bytes.extend(frame(1, b"\x0a:authority\xff\xff\xff\xff\xff\xff"));
        bytes.extend(frame(9, b"\x0a:authority\x7f\xff\xff\xff\xff\xff\xff\xff\x7f"));
        assert_eq!(passed(&bytes, 64).len(), bytes.len());
    }
}
