//! A line of a file as it is drawn: escaped, tabs as blanks, the changed words emphasised.

use avfs_core::printable;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

const TAB: usize = 4;

/// Which columns of a line are shown.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub first: usize,
    pub width: usize,
}

/// The cost depends on the visible part, not on the length of the line.
pub fn shown_line(line: &[u8], style_at: &dyn Fn(usize) -> Style, window: Window) -> Line<'static> {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    // No character has more bytes; later bytes can only be combining marks.
    let near = &text[..text.len().min((window.first + window.width + 1) * 8)];
    let mut cells = Cells {
        window,
        column: 0,
        spans: Vec::new(),
        is_cut: false,
    };
    let mut at = 0;
    for chunk in near.utf8_chunks() {
        for c in chunk.valid().chars() {
            cells.push_char(c, style_at(at));
            at += c.len_utf8();
        }
        if !chunk.invalid().is_empty() {
            cells.push(&printable(chunk.invalid()), style_at(at));
            at += chunk.invalid().len();
        }
        if cells.is_cut {
            break;
        }
    }
    cells.is_cut |= near.len() < text.len();
    if !line.ends_with(b"\n") && !cells.is_cut {
        cells.push(" (no line feed)", Style::new().add_modifier(Modifier::DIM));
    }
    cells.finish()
}

struct Cells {
    window: Window,
    column: usize,
    spans: Vec<Span<'static>>,
    /// There is more to the right.
    is_cut: bool,
}

impl Cells {
    fn push_char(&mut self, c: char, style: Style) {
        match c {
            '\t' => self.push(&" ".repeat(TAB - self.column % TAB), style),
            // In a text, a backslash is literal.
            '\\' => self.push("\\", style),
            c => self.push(&printable(c.encode_utf8(&mut [0; 4]).as_bytes()), style),
        }
    }

    fn push(&mut self, text: &str, style: Style) {
        if self.is_cut {
            return;
        }
        let (start, width) = (self.column, Span::raw(text).width());
        let end = self.window.first + self.window.width;
        if start + width > end {
            self.is_cut = true;
            return;
        }
        self.column += width;
        if start >= self.window.first {
            self.append(text, style);
        } else {
            // Half of it is to the left of the window.
            self.append(&" ".repeat(self.column.saturating_sub(self.window.first)), style);
        }
    }

    fn append(&mut self, text: &str, style: Style) {
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn finish(mut self) -> Line<'static> {
        if self.is_cut {
            self.make_room();
            let filled = self.column.saturating_sub(self.window.first);
            let blanks = self.window.width.saturating_sub(filled + 1);
            let mark = format!("{}…", " ".repeat(blanks));
            self.spans
                .push(Span::styled(mark, Style::new().add_modifier(Modifier::DIM)));
        }
        Line::from(self.spans)
    }

    /// Removes the last character if nothing else fits after it.
    fn make_room(&mut self) {
        if self.column < self.window.first + self.window.width {
            return;
        }
        if let Some(last) = self.spans.last_mut()
            && let Some(c) = last.content.to_mut().pop()
        {
            self.column -= Span::raw(c.to_string()).width();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[u8], first: usize, width: usize, expected: &str) {
        let shown = shown_line(line, &|_| Style::new(), Window { first, width });
        assert!(shown.width() <= width, "{shown}");
        assert_eq!(shown.to_string(), expected);
    }

    #[test]
    fn terminal_control_characters_are_escaped() {
        check(b"\x1b[2J\x07\n", 0, 40, "\\u{1b}[2J\\u{7}");
        check(b"a\xffb\\c\r\n", 0, 40, "a\\xffb\\c\\r");
        check("\u{202e}x\n".as_bytes(), 0, 40, "\\u{202e}x");
    }

    #[test]
    fn tabs_reach_to_the_next_stop() {
        check(b"\ta\tb\n", 0, 40, "    a   b");
        check(b"\ta\n", 2, 40, "  a");
    }

    #[test]
    fn long_lines_are_cut_and_can_be_moved() {
        check(b"0123456789\n", 0, 10, "0123456789");
        check(b"0123456789\n", 0, 5, "0123…");
        check(b"0123456789\n", 5, 5, "56789");
        check(b"0123456789\n", 20, 5, "");
        check(&[b'x'; 1 << 20], 100, 3, "xx…");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        check("日本語\n".as_bytes(), 0, 6, "日本語");
        check("日本語\n".as_bytes(), 0, 5, "日本…");
        check("日本語\n".as_bytes(), 0, 4, "日 …");
        check("日本語\n".as_bytes(), 1, 5, " 本語");
    }

    #[test]
    fn missing_line_feed_at_the_end_is_reported() {
        check(b"end", 0, 40, "end (no line feed)");
    }

    #[test]
    fn changed_words_stand_out() {
        let window = Window { first: 0, width: 40 };
        let style_at = |at: usize| {
            if (2..4).contains(&at) {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            }
        };
        let shown = shown_line(b"a bc d\n", &style_at, window);
        let marked = shown
            .iter()
            .filter(|span| span.style.add_modifier.contains(Modifier::REVERSED));
        assert_eq!(
            marked.map(|span| span.content.as_ref()).collect::<Vec<_>>(),
            ["bc"]
        );
    }
}
