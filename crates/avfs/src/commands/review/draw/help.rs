//! All keys in a window.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};

use super::{BOLD, FAINT, put, row_of};
use crate::commands::review::keys::KEYS;

const KEY_COLUMN: usize = 15;

pub fn help(screen: &mut Buffer) {
    let lines: Vec<Line<'static>> = KEYS.iter().map(|(keys, what)| line(keys, what)).collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) + 4;
    let window = middle(screen.area, width, lines.len() + 2);
    let inner = usize::from(window.width).saturating_sub(2);
    // The style of the screen behind the window is cleared.
    for place in window.positions() {
        screen[place].reset();
    }
    for row in 0..usize::from(window.height) {
        let edge = format!("│{}│", " ".repeat(inner));
        put(screen, row_of(window, row), &Line::styled(edge, FAINT));
    }
    put(
        screen,
        row_of(window, 0),
        &Line::styled(format!("╭{:─^inner$}╮", " keys "), FAINT),
    );
    let last = usize::from(window.height).saturating_sub(1);
    put(
        screen,
        row_of(window, last),
        &Line::styled(format!("╰{:─^inner$}╯", " any key closes this "), FAINT),
    );
    let text = Rect {
        x: window.x + 2,
        width: window.width.saturating_sub(4),
        ..window
    };
    for (row, line) in lines.iter().enumerate().take(last.saturating_sub(1)) {
        put(screen, row_of(text, row + 1), line);
    }
}

fn line(keys: &str, what: &str) -> Line<'static> {
    Line::from(vec![
        Span::styled(format!("{keys:<KEY_COLUMN$}"), BOLD),
        Span::raw(what.to_owned()),
    ])
}

fn middle(screen: Rect, width: usize, height: usize) -> Rect {
    let width = u16::try_from(width).unwrap_or(u16::MAX).min(screen.width);
    let height = u16::try_from(height).unwrap_or(u16::MAX).min(screen.height);
    Rect::new(
        (screen.width - width) / 2,
        (screen.height - height) / 2,
        width,
        height,
    )
}
