//! The body of a page request: exactly as long as the head says. Bytes after it would be another request,
//! which has not been checked.

use std::io::{self, BufRead, Read, Write};

/// The length of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyLength {
    Bytes(u64),
    /// In chunks, each with its length in front.
    Chunks,
}

/// Longer lines are neither lengths of chunks nor trailers.
const LONGEST_LINE: u64 = 8 << 10;

impl BodyLength {
    /// Determines the body from the headers of a request: names, and whole lines. `None` if two readers could
    /// understand it differently.
    pub(super) fn of(headers: &[(&str, &str)]) -> Option<Self> {
        let values = |wanted: &str| -> Vec<&str> {
            let lines = headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            lines
                .map(|(name, line)| line[name.len() + 1..].trim_matches(' '))
                .collect()
        };
        match (&values("content-length")[..], &values("transfer-encoding")[..]) {
            ([], []) => Some(Self::Bytes(0)),
            ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().ok().map(Self::Bytes)
            }
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Some(Self::Chunks),
            _ => None,
        }
    }

    /// Copies exactly one body.
    pub(super) fn copy(self, from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Bytes(count) => copy_exactly(from, to, count),
            Self::Chunks => copy_chunks(from, to),
        }
    }
}

fn copy_exactly(from: &mut impl BufRead, to: &mut impl Write, count: u64) -> io::Result<()> {
    let copied = io::copy(&mut from.take(count), to)?;
    if copied < count {
        Err(io::ErrorKind::UnexpectedEof.into())
    } else {
        Ok(())
    }
}

fn copy_chunks(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    loop {
        let line = copy_line(from, to)?;
        let digits = line.split(';').next().unwrap_or_default().trim_end_matches(' ');
        let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u64::from_str_radix(digits, 16).ok().filter(|_| is_number) {
            Some(0) => break,
            Some(count) => copy_exactly(from, to, count)?,
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
        if !copy_line(from, to)?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    // Trailers, and the empty line after them.
    while !copy_line(from, to)?.is_empty() {}
    Ok(())
}

/// Copies a line once it is complete. Returns it without its end.
fn copy_line(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    let text = std::str::from_utf8(&line)
        .ok()
        .and_then(|line| line.strip_suffix("\r\n"));
    let Some(text) = text.filter(|text| !text.contains(char::is_control)) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    to.write_all(&line)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: BodyLength, sent: &str, expected: Option<&str>) {
        let mut to = Vec::new();
        let copied = body.copy(&mut sent.as_bytes(), &mut to);
        assert_eq!(
            copied.is_ok().then(|| String::from_utf8(to).unwrap()).as_deref(),
            expected,
            "{sent:?}"
        );
    }

    #[test]
    fn bytes_after_a_body_are_not_forwarded() {
        check(
            BodyLength::Bytes(0),
            "GET http://other.example/ HTTP/1.1\r\n\r\n",
            Some(""),
        );
        check(BodyLength::Bytes(3), "abcGET http://other.example/", Some("abc"));
        check(BodyLength::Bytes(3), "ab", None);
        check(
            BodyLength::Chunks,
            "3\r\nabc\r\n0\r\n\r\nGET http://other.example/",
            Some("3\r\nabc\r\n0\r\n\r\n"),
        );
        check(
            BodyLength::Chunks,
            "a;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\n.",
            Some("a;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\n"),
        );
    }

    #[test]
    fn chunks_that_could_be_read_in_another_way_are_not_passed_on() {
        for bad in [
            "3\nabc\r\n0\r\n\r\n",
            "+3\r\nabc\r\n0\r\n\r\n",
            "3\r\nabcd\r\n",
            "\r\n",
            "x\r\n",
            "3;\u{1}\r\nabc\r\n",
            "3",
        ] {
            check(BodyLength::Chunks, bad, None);
        }
    }
}
