//! The canonical encoding: one value has exactly one encoding, and a decoder accepts nothing else.
//!
//! Integers are little-endian base-128 with the shortest length; byte strings carry their length first.
//! Every decoder is total: bad bytes give a [`DecodeError`], never a panic and never a huge allocation.

use crate::id::ObjectId;

/// Why some bytes are not the encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a value.
    #[error("the bytes end too early")]
    Truncated,
    /// Bytes are left after the last value: so many.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// A number is not encoded in its shortest form, or is too large.
    #[error("a number is not in its shortest form or too large")]
    BadNumber,
    /// A tag has no meaning in this version.
    #[error("unknown {what} {value}")]
    Unknown {
        /// What the tag should have named.
        what: &'static str,
        /// The tag.
        value: u64,
    },
    /// The values are well formed and contradict each other; the text says how.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Appends a number in groups of seven bits, the lowest first.
pub fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps 0, -1, 1, -2 … to 0, 1, 2, 3 …, so that small negative numbers stay short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_number(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a byte string after its length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends the 32 bytes of an id.
pub fn put_id(out: &mut Vec<u8>, id: ObjectId) {
    out.extend_from_slice(id.as_bytes());
}

/// Reads values off the front of a byte string.
#[derive(Clone, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// Reads from the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest: bytes }
    }

    /// Succeeds if everything was read: a canonical encoding has no trailing bytes.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing(self.rest.len()))
        }
    }

    /// How many bytes are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `len` bytes as they are.
    pub fn raw(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.raw(1)?[0])
    }

    /// Reads what [`put_number`] wrote.
    pub fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::BadNumber);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let shortest = shift == 0 || byte != 0;
                return if shortest {
                    Ok(value)
                } else {
                    Err(DecodeError::BadNumber)
                };
            }
        }
        Err(DecodeError::BadNumber)
    }

    /// Reads a number that must fit into 32 bits.
    pub fn number_u32(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.number()?).map_err(|_| DecodeError::BadNumber)
    }

    /// Reads a number with a sign, in zigzag form.
    pub fn signed(&mut self) -> Result<i64, DecodeError> {
        let raw = self.number()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads what [`put_bytes`] wrote.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.number()?;
        self.raw(usize::try_from(len).map_err(|_| DecodeError::Truncated)?)
    }

    /// Reads a byte string that must be UTF-8.
    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Invalid("a text is not UTF-8"))
    }

    /// Reads what [`put_id`] wrote.
    pub fn id(&mut self) -> Result<ObjectId, DecodeError> {
        let mut id = [0u8; 32];
        id.copy_from_slice(self.raw(32)?);
        Ok(ObjectId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_read_back(value: u64, signed: i64) {
            let mut out = Vec::new();
            put_number(&mut out, value);
            put_signed(&mut out, signed);
            let mut reader = ByteReader::new(&out);
            prop_assert_eq!(reader.number(), Ok(value));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert_eq!(reader.finish(), Ok(()));
        }

        #[test]
        fn an_accepted_number_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 1..12)) {
            let mut reader = ByteReader::new(&bytes);
            if let Ok(value) = reader.number() {
                let used = bytes.len() - reader.rest.len();
                let mut again = Vec::new();
                put_number(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..used]);
            }
        }
    }

    #[test]
    fn a_length_beyond_the_bytes_is_truncated_not_allocated() {
        let mut out = Vec::new();
        put_number(&mut out, u64::MAX);
        assert_eq!(ByteReader::new(&out).bytes(), Err(DecodeError::Truncated));
    }
}
