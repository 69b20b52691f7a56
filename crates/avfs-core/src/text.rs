//! Bytes and words as text for people and for shells.

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A word as a shell reads it back: as it is, or in single quotes.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-=@:,+%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        // Within single quotes nothing can be escaped: they are closed and opened again.
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted_only_if_a_shell_would_change_them() {
        for (word, quoted) in [
            ("run", "run"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
            ("[::1]:80", "'[::1]:80'"),
        ] {
            assert_eq!(shell_word(word), quoted);
        }
    }

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(to_hex(&[0, 10, 255]), "000aff");
    }
}
