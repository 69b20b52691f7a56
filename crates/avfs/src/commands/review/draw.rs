//! Draws a review on the screen, only the visible part.

mod bars;
mod diff;
mod help;
mod tree;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use ratatui_core::text::Line;

use super::decision::{Mark, Together};
use super::keys::Mode;
use super::model::Model;
use super::palette::Palette;

const FAINT: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const RED: Style = Style::new().fg(Color::Red);
const GREEN: Style = Style::new().fg(Color::Green);
const YELLOW: Style = Style::new().fg(Color::Yellow);
const CYAN: Style = Style::new().fg(Color::Cyan);
const BLUE: Style = Style::new().fg(Color::Blue);

pub fn draw(model: &Model, palette: Palette, screen: &mut Buffer) {
    let geometry = model.geometry();
    bars::title(model, screen, geometry.title);
    tree::tree(model, screen, geometry.tree);
    divide(screen, geometry.tree);
    diff::title(model, screen, geometry.diff_title);
    diff::diff(model, palette, screen, geometry.diff);
    bars::bottom(model, screen, geometry.keys);
    if model.mode == Mode::Help {
        help::help(screen);
    }
}

/// The line between the panes.
fn divide(screen: &mut Buffer, tree: Rect) {
    for y in tree.top()..tree.bottom() {
        put(
            screen,
            Rect::new(tree.right(), y, 1, 1),
            &Line::styled("│", FAINT),
        );
    }
}

/// A line at the beginning of an area, as much of it as there is room for.
fn put(screen: &mut Buffer, area: Rect, line: &Line<'_>) {
    let area = area.intersection(screen.area);
    if !area.is_empty() {
        screen.set_line(area.x, area.y, line, area.width);
    }
}

/// One row of an area.
fn row_of(area: Rect, row: usize) -> Rect {
    let row = u16::try_from(row).unwrap_or(u16::MAX);
    Rect {
        y: area.y.saturating_add(row),
        height: 1,
        ..area
    }
}

fn sign_of(decided: Together) -> (&'static str, Style) {
    match decided {
        Together::Same(Mark::Undecided) => ("·", FAINT),
        Together::Same(Mark::Accepted) => ("✓", GREEN),
        Together::Same(Mark::Rejected) => ("✗", RED),
        Together::Mixed => ("◐", YELLOW),
    }
}

#[cfg(test)]
mod tests;
