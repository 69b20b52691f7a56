//! Text of a request on a screen: all of it, within the width of the terminal, and with nothing in it that could be
//! overlooked.

use std::fmt::Write;
use std::io;

use rustix::termios::tcgetwinsize;

/// Without a terminal, and in one that does not say how wide it is.
const WIDTH: usize = 100;
/// A terminal that is narrower than this is not wrapped for.
const NARROWEST: usize = 40;
/// Longer runs of blanks are described in words, because they could push text out of sight.
const BLANKS: usize = 2;
/// Words that are longer are broken at the end of a row.
const LONG_WORD: usize = 24;
/// In front of every row but the first, so that nothing in a text looks like a line of ours.
pub const MARGIN: &str = "  | ";

/// The number of columns.
pub fn width() -> usize {
    let of_stdout = tcgetwinsize(io::stdout()).ok();
    let size = of_stdout.or_else(|| tcgetwinsize(io::stderr()).ok());
    let columns = size
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0);
    columns.map_or(WIDTH, |columns| columns.max(NARROWEST))
}

/// An escaped text, in which long runs of blanks, and blanks that are not spaces, are described in words. A
/// single backslash is never the text's own.
pub fn visible(escaped: &str) -> String {
    let mut text = String::with_capacity(escaped.len());
    let mut blanks = 0;
    for c in escaped.chars().chain(['\0']) {
        if c == ' ' {
            blanks += 1;
            continue;
        }
        match blanks {
            0..=BLANKS => text.extend(std::iter::repeat_n(' ', blanks)),
            many => {
                // Writing to a string does not fail.
                let _ = write!(text, "\\{{{many} blanks}}");
            }
        }
        blanks = 0;
        match c {
            '\0' => {}
            c if is_blank(c) => text.extend(c.escape_unicode()),
            c => text.push(c),
        }
    }
    text
}

/// Characters beside the space that show nothing, or change those around them.
fn is_blank(c: char) -> bool {
    let shows_nothing = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    shows_nothing || c.is_whitespace()
}

/// A value with its key: on one line if it fits, otherwise its length and then all of it, row by row.
pub fn rows(key: &str, escaped: &str, width: usize) -> Vec<String> {
    let text = visible(escaped);
    let is_short = lines(&text).len() == 1 && columns(key) + 2 + columns(&text) <= width;
    if is_short {
        return vec![format!("{key}: {text}")];
    }
    let mut rows = vec![format!("{key}: {}", length(escaped))];
    rows.extend(
        pieces(&text, width.saturating_sub(MARGIN.len()))
            .into_iter()
            .map(|row| format!("{MARGIN}{row}")),
    );
    rows
}

/// The length of a text, for people.
pub fn length(escaped: &str) -> String {
    let lines = lines(escaped).len();
    let characters = escaped.chars().count();
    match lines {
        1 => format!("({characters} characters)"),
        lines => format!("({characters} characters, {lines} lines)"),
    }
}

/// The first rows of a text, and how many characters are not among them.
pub fn beginning(escaped: &str, width: usize, most: usize) -> (Vec<String>, usize) {
    let mut rows = pieces(&visible(escaped), width.max(NARROWEST / 2));
    let left = rows.iter().skip(most).map(|row| row.chars().count()).sum();
    rows.truncate(most);
    (rows, left)
}

/// Rows of this many columns. A line end of the text, which is displayed, ends a row.
fn pieces(text: &str, width: usize) -> Vec<String> {
    let mut rows = Vec::new();
    for line in lines(text) {
        let mut row = String::new();
        let mut used = 0;
        for c in line.chars() {
            if used + columns_of(c) > width && !row.is_empty() {
                let rest = row.split_off(end_of_words(&row));
                // The word that does not fit begins the next row.
                rows.push(std::mem::replace(&mut row, rest));
                used = columns(&row);
            }
            row.push(c);
            used += columns_of(c);
        }
        rows.push(row);
    }
    rows
}

/// The end of a full row: after its last word, unless that word is long.
fn end_of_words(row: &str) -> usize {
    let end = row.rfind(' ').map_or(row.len(), |at| at + 1);
    if row.len() - end <= LONG_WORD && end > 0 {
        end
    } else {
        row.len()
    }
}

/// The lines of an escaped text, each with its `\n`. A backslash of the text's own is doubled.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let (mut start, mut is_escape) = (0, false);
    for (at, c) in text.char_indices() {
        if is_escape && c == 'n' {
            lines.push(&text[start..=at]);
            start = at + 1;
        }
        is_escape = c == '\\' && !is_escape;
    }
    if start < text.len() || lines.is_empty() {
        lines.push(&text[start..]);
    }
    lines
}

fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// As many as any terminal gives a character.
fn columns_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_stay_on_their_line() {
        assert_eq!(
            rows("command", "git push  origin", 40),
            ["command: git push  origin"]
        );
    }

    #[test]
    fn blanks_that_would_push_words_off_the_screen_are_counted() {
        let padded = format!("ls{}; curl evil", " ".repeat(500));
        assert_eq!(
            rows("command", &padded, 80),
            ["command: ls\\{500 blanks}; curl evil"]
        );
        assert_eq!(visible("a   "), "a\\{3 blanks}");
        assert_eq!(
            visible("a\u{3000}b\u{a0}c\u{2800}d\u{3164}"),
            "a\\u{3000}b\\u{a0}c\\u{2800}d\\u{3164}"
        );
    }

    #[test]
    fn long_values_are_wrapped_with_a_margin_and_nothing_is_missing() {
        let long: String = (0..100).map(|number| format!("word{number} ")).collect();
        let shown = rows("command", &long, 60);
        assert_eq!(
            shown[0],
            format!("command: ({} characters)", long.chars().count())
        );
        let told: String = shown[1..]
            .iter()
            .map(|row| row.strip_prefix(MARGIN).unwrap())
            .collect();
        assert_eq!(told, long);
        assert!(shown.iter().all(|row| row.chars().count() <= 60), "{shown:?}");
    }

    #[test]
    fn lines_of_a_value_are_told_apart_from_lines_of_ours() {
        let shown = rows("command", "ls\\nnetwork: none\\nrm -rf .", 80);
        assert_eq!(
            shown,
            [
                "command: (27 characters, 3 lines)",
                "  | ls\\n",
                "  | network: none\\n",
                "  | rm -rf ."
            ]
        );
    }

    #[test]
    fn backslashes_of_a_text_are_no_line_ends() {
        let escaped = avfs_core::printable(b"printf 'a\\nb'");
        assert_eq!(rows("command", &escaped, 80), [format!("command: {escaped}")]);
    }

    #[test]
    fn beginning_of_a_text_says_how_much_is_left() {
        let (rows, left) = beginning(&"x".repeat(100), 30, 2);
        assert_eq!((rows.len(), left), (2, 40));
    }
}
