//! Binary contents in git's patches: zlib, in lines of base 85.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// How many bytes a line holds.
const LINE: usize = 52;
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Writes both directions, so that the patch can also be reverted.
pub(super) fn write_binary(out: &mut dyn Write, old: &[u8], new: &[u8]) -> io::Result<()> {
    out.write_all(b"GIT binary patch\n")?;
    write_literal(out, new)?;
    write_literal(out, old)
}

fn write_literal(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    writeln!(out, "literal {}", bytes.len())?;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    for line in encoder.finish()?.chunks(LINE) {
        out.write_all(&encode_line(line))?;
    }
    out.write_all(b"\n")
}

/// A letter for the length, then five digits for each four bytes; the last four are filled up with zeros.
fn encode_line(bytes: &[u8]) -> Vec<u8> {
    let length = match bytes.len() as u8 {
        short @ 0..=26 => b'A' + short - 1,
        long => b'a' + long - 27,
    };
    let mut line = vec![length];
    for group in bytes.chunks(4) {
        let mut padded = [0u8; 4];
        padded[..group.len()].copy_from_slice(group);
        let mut number = u32::from_be_bytes(padded);
        let mut digits = [0u8; 5];
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(number % 85) as usize];
            number /= 85;
        }
        line.extend(digits);
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_their_length() {
        assert_eq!(encode_line(&[0; 4]), b"D00000\n");
        assert_eq!(
            encode_line(&[0xff; 4]),
            b"D|NsC0
"
        );
        assert_eq!(encode_line(&[1; 52]).len(), 1 + 65 + 1);
        assert_eq!(encode_line(&[1; 52])[0], b'z');
        assert_eq!(encode_line(&[1; 27])[0], b'a');
    }
}
