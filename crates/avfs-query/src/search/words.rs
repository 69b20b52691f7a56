//! The definition of a word, for texts, paths and queries alike.
//!
//! A word is a run of letters and digits, in lower case; `_` and all other signs separate words, so that
//! `parse_config` is found by `config`, and asking for `parse_config` means these two words next to each
//! other. Scripts that are written without spaces give one word per character. Very long words are cut.

use std::ops::Range;

/// The longest word, in bytes: longer ones are usually not words (base64, minified code).
const WORD_MAX: usize = 64;

/// The words of a text: where they are.
pub(super) fn words(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut position = 0;
    std::iter::from_fn(move || {
        let rest = &text[position..];
        let start = position + rest.find(is_word_char)?;
        let mut chars = text[start..].char_indices();
        let (_, first) = chars.next()?;
        let end = if stands_alone(first) {
            start + first.len_utf8()
        } else {
            let end = chars.find(|(_, char)| !is_word_char(*char) || stands_alone(*char));
            end.map_or(text.len(), |(offset, _)| start + offset)
        };
        position = end;
        Some(start..end)
    })
}

fn is_word_char(char: char) -> bool {
    match char {
        '\0'..='\x7f' => char.is_ascii_alphanumeric(),
        // Accents written as signs of their own.
        '\u{300}'..='\u{36f}' => true,
        _ => char.is_alphanumeric(),
    }
}

/// Chinese and Japanese characters.
fn stands_alone(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Appends the form in which a word is compared.
pub(super) fn fold_into(word: &str, out: &mut String) {
    let start = out.len();
    for char in word.chars() {
        if char.is_ascii() {
            out.push(char.to_ascii_lowercase());
        } else {
            out.extend(char.to_lowercase());
        }
        if out.len() - start >= WORD_MAX {
            break;
        }
    }
}

pub(super) fn fold(word: &str) -> String {
    let mut folded = String::new();
    fold_into(word, &mut folded);
    folded
}

/// The words of a text in their normalised form, separated by spaces: the input of the index.
pub(super) fn indexed_form(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for range in words(text) {
        fold_into(&text[range], &mut out);
        out.push(' ');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        let check = |text: &str, expected: &str| assert_eq!(indexed_form(text).trim_end(), expected);
        check("fn parse_config(x2: &str)", "fn parse config x2 str");
        check("ÄRGER Straße", "ärger straße");
        check("日本 語x", "日 本 語 x");
        check("a\"b*c'(d)", "a b c d");
        check("--- \0 ", "");
        check(&"x".repeat(100), &"x".repeat(64));
    }
}
