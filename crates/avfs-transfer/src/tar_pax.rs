//! Extended headers of the pax format: `length keyword=value` records.

use std::io;

use avfs_core::{Timestamp, Xattrs};

use super::host_file::is_kept_xattr;

const XATTR: &[u8] = b"SCHILY.xattr.";

/// Adds a record. Its length counts its own digits.
pub(super) fn put_record(out: &mut Vec<u8>, keyword: &[u8], value: &[u8]) {
    let rest = keyword.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    out.extend_from_slice(format!("{len} ").as_bytes());
    out.extend_from_slice(keyword);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// The records of an extended header, in order.
pub(super) fn records(mut bytes: &[u8]) -> io::Result<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let space = bytes
            .iter()
            .position(|byte| *byte == b' ')
            .ok_or_else(malformed)?;
        let len: usize = number(&bytes[..space])?;
        if len <= space + 1 || len > bytes.len() || bytes[len - 1] != b'\n' {
            return Err(malformed());
        }
        let record = &bytes[space + 1..len - 1];
        let equals = record
            .iter()
            .position(|byte| *byte == b'=')
            .ok_or_else(malformed)?;
        found.push((&record[..equals], &record[equals + 1..]));
        bytes = &bytes[len..];
    }
    Ok(found)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an extended header is malformed")
}

/// A decimal number.
pub(super) fn number<N: std::str::FromStr>(text: &[u8]) -> io::Result<N> {
    let digits = text.first().is_some_and(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| digits);
    text.and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

/// Seconds with as many decimals as are needed.
pub(super) fn put_time(time: Timestamp) -> String {
    let nanos = time.as_nanos();
    let per_second = u128::from(Timestamp::NANOS_PER_SECOND);
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, fraction) = (
        nanos.unsigned_abs() / per_second,
        nanos.unsigned_abs() % per_second,
    );
    let text = format!("{sign}{seconds}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parses such seconds; digits beyond nanoseconds are dropped.
pub(super) fn time(text: &[u8]) -> io::Result<Timestamp> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let point = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let seconds: u64 = number(&text[..point])?;
    let decimals = text.get(point + 1..).unwrap_or_default();
    if !decimals.iter().all(u8::is_ascii_digit) {
        return Err(malformed());
    }
    let fraction = (0..9).map(|place| decimals.get(place).map_or(0, |digit| digit - b'0'));
    let fraction = fraction.fold(0, |sum: i128, digit| sum * 10 + i128::from(digit));
    let nanos = i128::from(seconds) * i128::from(Timestamp::NANOS_PER_SECOND) + fraction;
    Ok(Timestamp::from_nanos(if negative { -nanos } else { nanos }))
}

/// Adds a record for each extended attribute, as GNU tar does: `=` and `%` in names are escaped.
pub(super) fn put_xattrs(out: &mut Vec<u8>, xattrs: &Xattrs) {
    for (name, value) in xattrs.iter() {
        let mut keyword = XATTR.to_vec();
        for byte in name {
            match byte {
                b'%' => keyword.extend_from_slice(b"%25"),
                b'=' => keyword.extend_from_slice(b"%3D"),
                byte => keyword.push(*byte),
            }
        }
        put_record(out, &keyword, value);
    }
}

/// The name of the extended attribute that a record is about, if it is one that a vault keeps.
pub(super) fn xattr_name(keyword: &[u8]) -> Option<Vec<u8>> {
    let mut rest = keyword.strip_prefix(XATTR)?;
    let mut name = Vec::with_capacity(rest.len());
    while let Some((byte, behind)) = rest.split_first() {
        let (byte, behind) = match (byte, behind) {
            (b'%', [b'2', b'5', behind @ ..]) => (b'%', behind),
            (b'%', [b'3', b'D', behind @ ..]) => (b'=', behind),
            (byte, behind) => (*byte, behind),
        };
        name.push(byte);
        rest = behind;
    }
    is_kept_xattr(&name).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_record_counts_its_own_digits() {
        let mut out = Vec::new();
        put_record(&mut out, b"path", b"a");
        assert_eq!(out, b"9 path=a\n");
        out.clear();
        put_record(&mut out, b"path", &[b'x'; 90]);
        assert_eq!(&out[..9], b"99 path=x");
        assert_eq!(out.len(), 99);
        out.clear();
        put_record(&mut out, b"path", &[b'x'; 91]);
        assert_eq!(out.len(), 101);
        assert_eq!(&out[..4], b"101 ");
    }

    #[test]
    fn records_that_lie_about_their_length_are_refused() {
        for bad in [
            &b"8 path=a\n"[..],
            b"99 path=a\n",
            b"path=a\n",
            b"10 path_a\n",
            b"0 a=b\n",
            b"3 a\n",
            b"+9 pat=a\n",
        ] {
            assert!(records(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_before_1970_have_a_sign_and_decimals() {
        assert_eq!(
            put_time(Timestamp {
                seconds: -6,
                nanos: 500_000_000
            }),
            "-5.5"
        );
        assert_eq!(
            put_time(Timestamp {
                seconds: 12,
                nanos: 0
            }),
            "12"
        );
        assert!(time(b"1.x").is_err() && time(b"").is_err() && time(b"--1").is_err());
    }

    proptest! {
        #[test]
        fn a_time_reads_back(seconds in -10_000_000_000i64..10_000_000_000, nanos in 0u32..1_000_000_000) {
            let stamp = Timestamp { seconds, nanos };
            prop_assert_eq!(time(put_time(stamp).as_bytes()).unwrap(), stamp);
        }

        #[test]
        fn records_read_back(pairs in proptest::collection::vec(("[a-z.]{1,20}", proptest::collection::vec(any::<u8>(), 0..200)), 0..5)) {
            let mut out = Vec::new();
            pairs.iter().for_each(|(keyword, value)| put_record(&mut out, keyword.as_bytes(), value));
            let expected: Vec<_> = pairs.iter().map(|(keyword, value)| (keyword.as_bytes(), &value[..])).collect();
            prop_assert_eq!(records(&out).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = records(&bytes);
            let _ = time(&bytes);
            let _ = xattr_name(&bytes);
        }
    }
}
