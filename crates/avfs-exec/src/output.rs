//! What a command wrote: all of it counted, its beginning and its end kept.

use std::collections::VecDeque;

/// One stream of output, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes; all of them, if nothing is missing.
    pub head: Vec<u8>,
    /// The last bytes, if something between was dropped.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub total: u64,
}

impl Captured {
    /// Whether something was dropped between head and tail.
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// Everything that was kept, with a line in place of what was not.
    pub fn bytes(&self) -> Vec<u8> {
        let mut all = self.head.clone();
        if self.truncated() {
            let missing = self.total - (self.head.len() + self.tail.len()) as u64;
            all.extend_from_slice(format!("\n[… {missing} bytes left out …]\n").as_bytes());
        }
        all.extend_from_slice(&self.tail);
        all
    }
}

/// Keeps the first half and the last half of a stream within a number of bytes.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    total: u64,
}

impl Capture {
    pub(crate) fn new(room: usize) -> Self {
        let tail_room = room / 2;
        Self { head: Vec::new(), tail: VecDeque::new(), head_room: room - tail_room, tail_room, total: 0 }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.tail_room)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_room);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn finish(self) -> Captured {
        let Self { mut head, tail, total, .. } = self;
        let tail = Vec::from(tail);
        if (head.len() + tail.len()) as u64 == total {
            head.extend_from_slice(&tail);
            return Captured { head, tail: Vec::new(), total };
        }
        Captured { head, tail, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(room: usize, pieces: &[&str]) -> Captured {
        let mut capture = Capture::new(room);
        pieces.iter().for_each(|piece| capture.add(piece.as_bytes()));
        capture.finish()
    }

    #[test]
    fn what_fits_is_whole() {
        for pieces in [&["abcdefgh"][..], &["abc", "defgh"], &["a", "bcdefg", "", "h"]] {
            let captured = capture(8, pieces);
            assert_eq!(captured.head, b"abcdefgh");
            assert!(!captured.truncated());
        }
    }

    #[test]
    fn of_what_does_not_fit_the_beginning_and_the_end_are_kept() {
        for pieces in [&["abcdefghijk"][..], &["abc", "defgh", "ijk"], &["abcdefghij", "k"]] {
            let captured = capture(8, pieces);
            assert_eq!((captured.head.as_slice(), captured.tail.as_slice()), (&b"abcd"[..], &b"hijk"[..]));
            assert_eq!(captured.total, 11);
            assert!(captured.truncated());
            assert_eq!(captured.bytes(), "abcd\n[… 3 bytes left out …]\nhijk".as_bytes());
        }
    }

    #[test]
    fn nothing_is_kept_where_there_is_no_room() {
        let captured = capture(0, &["abc"]);
        assert_eq!((captured.head.len(), captured.tail.len(), captured.total), (0, 0, 3));
        assert!(captured.truncated());
    }
}
