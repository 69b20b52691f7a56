//! Characters that make a command look like another one.

use super::script::Unreadable;

/// Lines and tabs are ordinary; everything else that steers a terminal or hides text is not.
pub(crate) fn check(text: &str) -> Result<(), Unreadable> {
    match text.chars().find(|character| is_deceptive(*character)) {
        Some(character) => Err(Unreadable::Character(character.escape_unicode().to_string())),
        None => Ok(()),
    }
}

fn is_deceptive(character: char) -> bool {
    let control = character.is_control() && !matches!(character, '\n' | '\t');
    control || is_invisible(character)
}

/// Marks of direction, joiners and other characters without a shape, and spaces that the shell takes for
/// letters.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{a0}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{1680}'
            | '\u{180e}'
            | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}'
            | '\u{205f}'..='\u{206f}'
            | '\u{3000}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_are_found_and_others_pass() {
        for bad in ["a\rb", "a\0b", "\u{1b}[2J", "\u{202e}x", "a\u{200b}b", "a\u{a0}b", "\u{7f}", "\u{85}"] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in ["ls\n-la\t", "echo ü 漢字 🙂 é", ""] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }
}
