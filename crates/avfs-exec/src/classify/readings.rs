//! Where the words of a tool begin if it is unknown which of its flags take a value.

use std::collections::BTreeSet;

use super::script::ShellWord;
use super::tools::{ToolFlag, ToolSpec};

/// More readings than this are not examined separately.
pub(crate) const MOST: usize = 8;

/// The possible positions of the first word after the flags; the first is the one where unknown flags take no
/// value.
pub(crate) fn starts(words: &[ShellWord], spec: &ToolSpec, above: Option<&ToolSpec>) -> Vec<usize> {
    let known = |name: &str| {
        spec.flags
            .get(name)
            .or(above.and_then(|above| above.flags.get(name)))
            .copied()
    };
    let mut open = BTreeSet::from([0]);
    let mut found = Vec::new();
    while let Some(at) = open.pop_first() {
        let Some(word) = words.get(at) else { continue };
        match flag_of(word) {
            _ if found.len() > MOST => break,
            None => found.push(at),
            Some("--") => found.extend((at + 1 < words.len()).then_some(at + 1)),
            Some(flag) => match takes_value(flag, &known) {
                Some(true) => _ = open.insert(at + 2),
                Some(false) => _ = open.insert(at + 1),
                None => open.extend([at + 1, at + 2]),
            },
        }
    }
    found.dedup();
    found
}

fn flag_of(word: &ShellWord) -> Option<&str> {
    word.literal()
        .filter(|text| text.len() > 1 && text.starts_with('-'))
}

/// Whether the next word belongs to a flag; `None` if unknown.
fn takes_value(flag: &str, known: &impl Fn(&str) -> Option<ToolFlag>) -> Option<bool> {
    if let Some(flag) = known(flag) {
        return Some(flag.takes_value);
    }
    if flag.contains('=') {
        return Some(false);
    }
    let letters = flag
        .strip_prefix('-')
        .filter(|letters| !letters.starts_with('-'))?;
    for (at, letter) in letters.char_indices() {
        let flag = known(&format!("-{letter}"))?;
        if flag.takes_value {
            return Some(at + letter.len_utf8() == letters.len());
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &[usize]) {
        let known = ToolFlag {
            takes_value: true,
            ..ToolFlag::default()
        };
        let flags = [("-w", known), ("--prefix", known), ("-s", ToolFlag::default())]
            .into_iter()
            .collect();
        let spec = ToolSpec {
            flags,
            ..ToolSpec::default()
        };
        let words: Vec<ShellWord> = line.split_whitespace().map(ShellWord::exact).collect();
        assert_eq!(starts(&words, &spec, None), expected, "{line}");
    }

    #[test]
    fn a_flag_that_is_not_known_is_read_both_ways() {
        check("publish now", &[0]);
        check("-s publish", &[1]);
        check("-w a publish", &[2]);
        check("-sw a publish", &[2]);
        check("-wa publish", &[1]);
        check("--prefix=a publish", &[1]);
        check("--tag beta publish", &[1, 2]);
        check("--tag=beta publish", &[1]);
        check("--tag beta --otp 1 publish", &[1, 3, 4]);
        check("-x --tag publish", &[2]);
        check("-- --tag", &[1]);
        check("--tag", &[]);
        check("", &[]);
    }

    #[test]
    fn the_number_of_readings_has_a_bound() {
        let words: Vec<ShellWord> = ["--a", "b"]
            .repeat(1000)
            .into_iter()
            .map(ShellWord::exact)
            .collect();
        assert!(starts(&words, &ToolSpec::default(), None).len() <= MOST + 2);
    }
}
