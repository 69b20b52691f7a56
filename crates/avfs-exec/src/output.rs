//! The output of a command: all of it counted, its beginning and its end kept.

use std::collections::VecDeque;

/// One stream of output, as far as it was kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    /// The first bytes; all of them, if nothing is missing.
    pub head: Vec<u8>,
    /// The last bytes, if something in between was dropped.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub total: u64,
}

impl CapturedOutput {
    /// Whether something was dropped between head and tail.
    pub fn truncated(&self) -> bool {
        self.total > (self.head.len() + self.tail.len()) as u64
    }

    /// Everything that was kept, with a line in place of the dropped part. No character is split: text stays
    /// text.
    pub fn bytes(&self) -> Vec<u8> {
        if !self.truncated() {
            return [self.head.as_slice(), &self.tail].concat();
        }
        let (head, tail) = (whole_end(&self.head), whole_start(&self.tail));
        let missing = self.total - (head.len() + tail.len()) as u64;
        [
            head,
            format!("\n[… {missing} bytes left out …]\n").as_bytes(),
            tail,
        ]
        .concat()
    }
}

/// Without an incomplete character at its end.
fn whole_end(bytes: &[u8]) -> &[u8] {
    let last = bytes.utf8_chunks().last();
    let begun = last.map_or(0, |chunk| chunk.invalid().len());
    let could_go_on = begun > 0 && is_beginning(&bytes[bytes.len() - begun..]);
    if could_go_on {
        &bytes[..bytes.len() - begun]
    } else {
        bytes
    }
}

/// Whether more bytes could complete a character.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Without an incomplete character at its start.
fn whole_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    &bytes[rest..]
}

/// Keeps the first half and the last half of a stream within a number of bytes.
#[derive(Debug)]
pub(crate) struct OutputCapture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    total: u64,
}

impl OutputCapture {
    pub(crate) fn new(room: usize) -> Self {
        let tail_room = room / 2;
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room: room - tail_room,
            tail_room,
            total: 0,
        }
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

    /// How many bytes are kept.
    pub(crate) fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// What was kept so far.
    pub(crate) fn so_far(&self) -> CapturedOutput {
        captured(self.head.clone(), self.tail.iter().copied().collect(), self.total)
    }

    pub(crate) fn finish(self) -> CapturedOutput {
        captured(self.head, self.tail.into(), self.total)
    }
}

fn captured(mut head: Vec<u8>, tail: Vec<u8>, total: u64) -> CapturedOutput {
    if (head.len() + tail.len()) as u64 == total {
        head.extend_from_slice(&tail);
        return CapturedOutput {
            head,
            tail: Vec::new(),
            total,
        };
    }
    CapturedOutput { head, tail, total }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(room: usize, pieces: &[&str]) -> CapturedOutput {
        let mut capture = OutputCapture::new(room);
        pieces.iter().for_each(|piece| capture.add(piece.as_bytes()));
        let so_far = capture.so_far();
        assert_eq!(capture.kept(), so_far.head.len() + so_far.tail.len());
        assert_eq!(so_far, capture.finish());
        so_far
    }

    #[test]
    fn text_that_fits_is_shown_in_full() {
        for pieces in [&["abcdefgh"][..], &["abc", "defgh"], &["a", "bcdefg", "", "h"]] {
            let captured = capture(8, pieces);
            assert_eq!(captured.head, b"abcdefgh");
            assert!(!captured.truncated());
        }
    }

    #[test]
    fn of_what_does_not_fit_the_beginning_and_the_end_are_kept() {
        for pieces in [
            &["abcdefghijk"][..],
            &["abc", "defgh", "ijk"],
            &["abcdefghij", "k"],
        ] {
            let captured = capture(8, pieces);
            assert_eq!(
                (captured.head.as_slice(), captured.tail.as_slice()),
                (&b"abcd"[..], &b"hijk"[..])
            );
            assert_eq!(captured.total, 11);
            assert!(captured.truncated());
            assert_eq!(captured.bytes(), "abcd\n[… 3 bytes left out …]\nhijk".as_bytes());
        }
    }

    #[test]
    fn nothing_is_kept_where_there_is_no_room() {
        let captured = capture(0, &["abc"]);
        assert_eq!(
            (captured.head.len(), captured.tail.len(), captured.total),
            (0, 0, 3)
        );
        assert!(captured.truncated());
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let text = "a€".repeat(100);
        for room in 10..20 {
            let captured = capture(room, &[&text]);
            let kept = String::from_utf8(captured.bytes()).unwrap();
            let (head, rest) = kept.split_once("\n[… ").unwrap();
            let (missing, tail) = rest.split_once(" bytes left out …]\n").unwrap();
            assert_eq!(
                head.len() + tail.len() + missing.parse::<usize>().unwrap(),
                text.len()
            );
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_as_they_are() {
        let mut capture = OutputCapture::new(8);
        capture.add(b"abc\xff----\xffdef");
        let kept = capture.finish().bytes();
        assert!(
            kept.starts_with(b"abc\xff\n") && kept.ends_with(b"\n\xffdef"),
            "{kept:?}"
        );
    }
}
