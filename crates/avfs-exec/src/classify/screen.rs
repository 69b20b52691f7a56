//! Characters that make a command look like another one.

use super::script::UnreadableScript;

/// Line feeds and tabs are ordinary; all other characters that control a terminal or hide text are refused.
pub(crate) fn check(text: &str) -> Result<(), UnreadableScript> {
    let mut before = None;
    let found = text.chars().find(|character| {
        let before = before.replace(*character);
        is_deceptive(*character) && !is_of_emoji(before, *character)
    });
    match found.or_else(|| piled_up(text)) {
        Some(character) => Err(UnreadableScript::Character(
            character.escape_unicode().to_string(),
        )),
        None => Ok(()),
    }
}

/// The variation selector that displays a symbol in colour, as in commit messages.
fn is_of_emoji(before: Option<char>, character: char) -> bool {
    let is_symbol = |before: char| {
        matches!(before, '\u{2190}'..='\u{27ff}' | '\u{2900}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
            || matches!(
                before,
                '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
            )
    };
    character == '\u{fe0f}' && before.is_some_and(is_symbol)
}

fn is_deceptive(character: char) -> bool {
    let control = character.is_control() && !matches!(character, '\n' | '\t');
    control || is_invisible(character)
}

/// Characters that Unicode displays as nothing if they are unsupported (`Default_Ignorable_Code_Point`):
/// direction marks, joiners, fillers, variation selectors, tags. In addition, characters that no font
/// displays, and spaces that the shell treats as letters.
fn is_invisible(character: char) -> bool {
    is_default_ignorable(character) || is_blank(character)
}

/// As Unicode 16 lists them.
fn is_default_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fff8}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Spaces other than the ordinary one, line separators that the shell does not treat as such, and the braille
/// pattern without dots.
fn is_blank(character: char) -> bool {
    matches!(
        character,
        '\u{a0}'
            | '\u{1680}'
            | '\u{2000}'..='\u{200a}'
            | '\u{2028}'..='\u{2029}'
            | '\u{202f}'
            | '\u{205f}'
            | '\u{2800}'
            | '\u{3000}'
            | '\u{fff9}'..='\u{fffb}'
    )
}

/// How many marks one letter may have: Vietnamese has two, Hebrew and Thai up to three.
const MARKS_MAX: usize = 3;

/// The mark with which a letter has more marks than any language uses: text below and above is hidden by
/// them.
fn piled_up(text: &str) -> Option<char> {
    let mut marks = 0;
    text.chars().find(|character| {
        marks = if is_mark(*character) { marks + 1 } else { 0 };
        marks > MARKS_MAX
    })
}

/// Combining marks that are drawn over the previous letter, of all languages.
fn is_mark(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}'
            | '\u{483}'..='\u{489}'
            | '\u{591}'..='\u{5bd}'
            | '\u{5bf}'
            | '\u{5c1}'..='\u{5c2}'
            | '\u{5c4}'..='\u{5c5}'
            | '\u{610}'..='\u{61a}'
            | '\u{64b}'..='\u{65f}'
            | '\u{6d6}'..='\u{6dc}'
            | '\u{e31}'
            | '\u{e34}'..='\u{e3a}'
            | '\u{e47}'..='\u{e4e}'
            | '\u{1ab0}'..='\u{1aff}'
            | '\u{1dc0}'..='\u{1dff}'
            | '\u{20d0}'..='\u{20ff}'
            | '\u{fe20}'..='\u{fe2f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_deceive_are_found_and_others_pass() {
        for bad in [
            "a\rb",
            "a\0b",
            "\u{1b}[2J",
            "\u{202e}x",
            "a\u{200b}b",
            "a\u{a0}b",
            "\u{7f}",
            "\u{85}",
            "a\u{34f}b",
            "\u{17b4}",
            "\u{17b5}",
            "\u{180b}",
            "\u{180f}",
            "\u{2800}",
            "\u{3164}",
            "\u{ffa0}",
            "\u{fe00}",
            "a\u{fe0f}",
            "\u{26a0}\u{fe0f}\u{fe0f}",
            "\u{e0100}",
            "\u{e01ef}",
            "\u{1d173}",
            "\u{1d17a}",
            "a\u{301}\u{302}\u{303}\u{304}",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in [
            "ls\n-la\t",
            "echo ü 漢字 🙂 é",
            "a\u{301}\u{302}",
            "\u{5e9}\u{5bc}\u{5c1}",
            "\u{26a0}\u{fe0f} \u{2714}\u{fe0f}",
            "",
        ] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
    }
}
