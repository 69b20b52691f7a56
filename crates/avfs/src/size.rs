//! Sizes as people write and read them. Units are powers of 1024.

use std::fmt;

use agentvfs::query::find::SizeTest;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a size: write bytes or a unit, such as 4096, 10k, 1.5M or 2GiB")]
pub struct BadSize(String);

const UNITS: [(&str, u64); 5] = [
    ("", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// Reads `4096`, `10k`, `1.5M`, `2GiB`.
pub fn parse_size(text: &str) -> Result<u64, BadSize> {
    read_size(text).ok_or_else(|| BadSize(text.to_owned()))
}

/// With less, the kernel ends the first program of a sandbox before it can start another one.
const LEAST_MEMORY: u64 = 16 << 20;

/// Reads how much memory processes may use.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|bad| bad.to_string())?;
    if bytes < LEAST_MEMORY {
        let (least, given) = (HumanSize(LEAST_MEMORY), HumanSize(bytes));
        return Err(format!(
            "{given} are too little to start a program; the least is {least}"
        ));
    }
    Ok(bytes)
}

fn read_size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = unit_factor(unit)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

fn unit_factor(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let short = lower
        .strip_suffix("ib")
        .or_else(|| lower.strip_suffix('b'))
        .unwrap_or(&lower);
    UNITS
        .iter()
        .find(|(name, _)| *name == short)
        .map(|(_, factor)| *factor)
}

/// A size in the notation of `find`: `+10k` is larger than, `-10k` smaller than, `10k` exactly that many
/// bytes.
pub fn parse_size_test(text: &str) -> Result<SizeTest, BadSize> {
    let whole = |_| BadSize(text.to_owned());
    match text.as_bytes().first() {
        Some(b'+') => parse_size(&text[1..]).map(SizeTest::Above).map_err(whole),
        Some(b'-') => parse_size(&text[1..]).map(SizeTest::Below).map_err(whole),
        _ => parse_size(text).map(SizeTest::Exactly),
    }
}

/// Shows a number of bytes in at most four digits: `0 B`, `1.5 KiB`, `23 MiB`.
#[derive(Clone, Copy, Debug)]
pub struct HumanSize(pub u64);

impl fmt::Display for HumanSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        // 1023.95 would be shown as `1024.0`, which belongs to the next unit.
        while value >= 1023.95 && unit + 1 < NAMES.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = usize::from(unit > 0 && value < 99.95);
        f.pad(&format!("{value:.digits$} {}", NAMES[unit]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_starts_no_program_is_refused_with_the_reason() {
        let refused = parse_memory("10").unwrap_err();
        assert_eq!(
            refused,
            "10 B are too little to start a program; the least is 16.0 MiB"
        );
        assert_eq!(parse_memory("16M"), Ok(16 << 20));
        assert!(parse_memory("much").is_err());
    }

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("10k", 10 << 10),
            ("10K", 10 << 10),
            ("10KB", 10 << 10),
            ("1.5M", 3 << 19),
            ("2GiB", 2 << 30),
            ("1t", 1 << 40),
            ("7b", 7),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_size_is_refused_by_name() {
        for text in [
            "",
            "k",
            "-1",
            "1x",
            "1.2.3M",
            "ten",
            "1 k",
            "99999999999999999999",
            "20000000t",
        ] {
            assert_eq!(parse_size(text), Err(BadSize(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_sign_makes_a_bound() {
        assert_eq!(parse_size_test("+10k"), Ok(SizeTest::Above(10240)));
        assert_eq!(parse_size_test("-1"), Ok(SizeTest::Below(1)));
        assert_eq!(parse_size_test("5"), Ok(SizeTest::Exactly(5)));
        assert_eq!(parse_size_test("+"), Err(BadSize("+".to_owned())));
    }

    #[test]
    fn sizes_are_shown_short() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (150 << 10, "150 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (23 << 20, "23.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(HumanSize(bytes).to_string(), expected);
        }
    }
}
