//! Wildcards as git interprets them, matched in time proportional to pattern times text: patterns in a
//! `.gitignore` may be malicious, and none may take long.

/// A compiled pattern that must match a whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wildcard {
    tokens: Vec<WildcardToken>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WildcardToken {
    Byte(u8),
    /// One byte of a set, which never holds `/`.
    Class(Box<ByteSet>),
    /// Any bytes but `/`.
    Star,
    /// Any bytes.
    DoubleStar,
    /// What comes next, or what comes after the next `**/`.
    MaybeDirectories,
}

type ByteSet = [bool; 256];

/// The tokens of a `**/`, without the one that allows it to match nothing.
const DIRECTORIES: usize = 2;

impl Wildcard {
    /// `None`: git matches nothing with it, because a bracket or a backslash has no end.
    pub(super) fn compile(pattern: &[u8]) -> Option<Wildcard> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(byte) = pattern.get(at) {
            match byte {
                b'\\' => {
                    // A backslash at the end makes a pattern that matches nothing, as in git.
                    tokens.push(WildcardToken::Byte(*pattern.get(at + 1)?));
                    at += 2;
                }
                b'?' => {
                    let mut set = [true; 256];
                    set[usize::from(b'/')] = false;
                    tokens.push(WildcardToken::Class(Box::new(set)));
                    at += 1;
                }
                b'*' => at = stars(pattern, at, &mut tokens),
                b'[' => {
                    let (set, end) = class(pattern, at)?;
                    tokens.push(WildcardToken::Class(Box::new(set)));
                    at = end;
                }
                other => {
                    tokens.push(WildcardToken::Byte(*other));
                    at += 1;
                }
            }
        }
        Some(Wildcard { tokens })
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let end = self.tokens.len();
        // All positions at once: the time is the product of the lengths, for any number of stars.
        let mut now = vec![false; end + 1];
        self.reach(0, &mut now);
        for byte in text {
            let mut next = vec![false; end + 1];
            for (at, _) in now[..end]
                .iter()
                .enumerate()
                .filter(|(_, is_reached)| **is_reached)
            {
                match &self.tokens[at] {
                    WildcardToken::Byte(wanted) if wanted == byte => self.reach(at + 1, &mut next),
                    WildcardToken::Class(set) if set[usize::from(*byte)] => self.reach(at + 1, &mut next),
                    WildcardToken::Star if *byte != b'/' => self.reach(at, &mut next),
                    WildcardToken::DoubleStar => self.reach(at, &mut next),
                    WildcardToken::Byte(_)
                    | WildcardToken::Class(_)
                    | WildcardToken::Star
                    | WildcardToken::MaybeDirectories => {}
                }
            }
            now = next;
        }
        now[end]
    }

    /// Marks a place in the pattern, and those that are reached from it without a byte.
    fn reach(&self, at: usize, reached: &mut [bool]) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            // Each position once, so that stars in a row cannot make this long.
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            match self.tokens.get(at) {
                Some(WildcardToken::Star | WildcardToken::DoubleStar) => waiting.push(at + 1),
                // Either through the stars and the slash, or past them.
                Some(WildcardToken::MaybeDirectories) => waiting.extend([at + 1, at + 1 + DIRECTORIES]),
                Some(WildcardToken::Byte(_) | WildcardToken::Class(_)) | None => {}
            }
        }
    }
}

/// Consumes the stars at a position of a pattern; returns the position after them.
fn stars(pattern: &[u8], at: usize, tokens: &mut Vec<WildcardToken>) -> usize {
    let count = pattern[at..].iter().take_while(|byte| **byte == b'*').count();
    let end = at + count;
    // Two stars cross directories only as a whole name; elsewhere they are one star.
    let begins_name = at == 0 || pattern[at - 1] == b'/';
    let rest = &pattern[end..];
    let ends_name = rest.is_empty() || rest[0] == b'/' || rest.starts_with(b"\\/");
    match count > 1 && begins_name && ends_name {
        false => tokens.push(WildcardToken::Star),
        true if rest.first() == Some(&b'/') => {
            tokens.extend([
                WildcardToken::MaybeDirectories,
                WildcardToken::DoubleStar,
                WildcardToken::Byte(b'/'),
            ]);
            return end + 1;
        }
        true => tokens.push(WildcardToken::DoubleStar),
    }
    end
}

/// The set in brackets at a position of a pattern, and the position after it.
fn class(pattern: &[u8], open: usize) -> Option<(ByteSet, usize)> {
    let mut set = [false; 256];
    let mut at = open + 1;
    let is_negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(is_negated);
    let mut previous = None;
    loop {
        let byte = *pattern.get(at)?;
        let next = pattern.get(at + 1).copied();
        match (byte, previous, next) {
            (b'\\', ..) => {
                at += 1;
                let escaped = *pattern.get(at)?;
                set[usize::from(escaped)] = true;
                previous = Some(escaped);
            }
            (b'-', Some(from), Some(to)) if to != b']' => {
                at += 1;
                let mut last = to;
                if last == b'\\' {
                    at += 1;
                    last = *pattern.get(at)?;
                }
                (from..=last).for_each(|byte| set[usize::from(byte)] = true);
                previous = None;
            }
            (b'[', _, Some(b':')) => match named_class(pattern, at) {
                Some((name, end)) => {
                    add_named(name, &mut set)?;
                    at = end;
                    previous = None;
                }
                None => {
                    set[usize::from(b'[')] = true;
                    previous = Some(b'[');
                }
            },
            _ => {
                set[usize::from(byte)] = true;
                previous = Some(byte);
            }
        }
        at += 1;
        if *pattern.get(at)? == b']' {
            break;
        }
    }
    if is_negated {
        set.iter_mut().for_each(|is_in| *is_in = !*is_in);
    }
    set[usize::from(b'/')] = false;
    Some((set, at + 1))
}

/// The name in `[:name:]`, and the place of its last byte. `None`: it is only brackets.
fn named_class(pattern: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = &pattern[at + 2..];
    let close = rest.iter().position(|byte| *byte == b']')?;
    let name = rest[..close].strip_suffix(b":")?;
    Some((name, at + 2 + close))
}

/// `None`: there is no such class, and git matches nothing with the pattern.
fn add_named(name: &[u8], set: &mut ByteSet) -> Option<()> {
    let is_in: fn(u8) -> bool = match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte == b' ' || byte.is_ascii_graphic(),
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    };
    (0..=u8::MAX)
        .filter(|byte| is_in(*byte))
        .for_each(|byte| set[usize::from(byte)] = true);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        let matches = |text: &str| {
            Wildcard::compile(pattern.as_bytes()).is_some_and(|pattern| pattern.matches(text.as_bytes()))
        };
        for text in matching {
            assert!(matches(text), "{pattern} should match {text}");
        }
        for text in others {
            assert!(!matches(text), "{pattern} should not match {text}");
        }
    }

    #[test]
    fn one_star_stays_within_a_name_and_two_cross_them() {
        check("*.o", &["a.o", ".o"], &["a/b.o", "a.oo"]);
        check("a/*/c", &["a/b/c", "a//c"], &["a/b/b/c", "a/c"]);
        check("a/**/c", &["a/c", "a/b/c", "a/b/b/c"], &["ac", "a/bc"]);
        check("**/c", &["c", "a/c", "a/b/c"], &["ac", "a/bc"]);
        check("a/**", &["a/b", "a/b/c"], &["a", "ab"]);
        check("a**c", &["abc", "ac"], &["a/c"]);
        check("?", &["a"], &["/", "ab", ""]);
    }

    #[test]
    fn brackets_are_sets_ranges_and_classes() {
        check("[a-c]x", &["ax", "cx"], &["dx", "x"]);
        check("[!a]", &["b"], &["a", "/"]);
        check("[^a]", &["b"], &["a"]);
        check("[]]", &["]"], &["["]);
        check("[[:digit:]x]", &["1", "x"], &["y"]);
        check("[[:nope:]]", &[], &["n", ":"]);
        check("[a\\]]", &["a", "]"], &["\\"]);
        check("[a-", &[], &["a", "[a-"]);
        check("a\\*", &["a*"], &["ab"]);
        check("a\\", &[], &["a", "a\\"]);
    }

    #[test]
    fn a_pattern_of_many_stars_is_matched_at_once() {
        let pattern = format!("{}b", "*a".repeat(200));
        check(&pattern, &[], &[&"a".repeat(4000)]);
    }
}
