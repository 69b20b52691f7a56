//! The differences of the file that is looked at.

use agentvfs::patch::{HunkLine, WordDiff};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::tree::letter_style;
use super::{BOLD, CYAN, FAINT, GREEN, RED, put, row_of, sign_of, style_of};
use crate::commands::review::decision::{Decision, Mark, Together};
use crate::commands::review::file::OpenFile;
use crate::commands::review::model::{Model, Pane};
use crate::commands::review::rows::{Form, Place, Row};
use crate::commands::review::text::{Window, shown_line};
use crate::commands::review::tree::TreeRow;
use crate::versions::count;

pub fn title(model: &Model, screen: &mut Buffer, area: Rect) {
    let Some(row) = model.tree.get(model.tree_row) else { return };
    let decisions = || row.files().iter().map(|file| &model.decisions[*file]);
    let (sign, style) = sign_of(Decision::together(decisions()));
    let text = match model.path() {
        Some(path) => path.to_string(),
        None => format!("{} in this directory", count(row.files().len() as u64, "file")),
    };
    let line = Line::from(vec![Span::styled(format!("{sign} "), style), Span::styled(text, BOLD)]);
    put(screen, area, &line);
}

pub fn diff(model: &Model, screen: &mut Buffer, area: Rect) {
    let Some(open) = &model.open else { return directory(model, screen, area) };
    let pane = DiffPane { model, open, digits: open.last_line().to_string().len().max(3) };
    let shown = model.rows().iter().enumerate().skip(model.top).take(area.height.into());
    for (index, row) in shown {
        pane.draw_row(screen, row_of(area, index - model.top), index, row);
    }
}

/// A directory shows what was decided about its files.
fn directory(model: &Model, screen: &mut Buffer, area: Rect) {
    let Some(TreeRow::Directory { files, .. }) = model.tree.get(model.tree_row) else { return };
    for (row, file) in files.iter().take(area.height.into()).enumerate() {
        let (sign, style) = sign_of(Decision::together([&model.decisions[*file]].into_iter()));
        let change = &model.files[*file];
        let line = Line::from(vec![
            Span::styled(format!(" {sign} "), style),
            Span::styled(format!("{} ", change.status.letter()), letter_style(change.status)),
            Span::raw(change.path().to_string()),
        ]);
        put(screen, row_of(area, row), &line);
    }
}

struct DiffPane<'a> {
    model: &'a Model,
    open: &'a OpenFile,
    /// How wide line numbers are.
    digits: usize,
}

/// One of the two sides of a hunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Old,
    New,
}

impl DiffPane<'_> {
    fn draw_row(&self, screen: &mut Buffer, area: Rect, index: usize, row: &Row) {
        let (bar, rest) = split(area, 1);
        if let Some(hunk) = row.hunk() {
            put(screen, bar, &self.bar(hunk));
        }
        match row {
            Row::Note(note) => put(screen, rest, &Line::styled(self.open.notes[*note].clone(), FAINT)),
            Row::Header { hunk } => put(screen, rest, &self.header(*hunk, rest.width.into())),
            Row::Line { hunk, old, new } => match self.model.form() {
                Form::Unified => self.draw_unified(screen, rest, *hunk, *old, *new),
                Form::SideBySide => self.draw_both(screen, rest, *hunk, *old, *new),
            },
        }
        if index == self.model.row && self.model.pane == Pane::Diff {
            screen.set_style(
                split(area, self.digits as u16 + 1).0,
                Style::new().add_modifier(Modifier::REVERSED),
            );
        }
    }

    /// Shows which lines belong to the hunk that is looked at, and what was decided about it.
    fn bar(&self, hunk: usize) -> Line<'static> {
        let mark = self.mark(hunk);
        let style = if mark == Mark::Undecided { CYAN } else { style_of(mark) };
        match (self.model.hunk() == Some(hunk), mark) {
            (true, _) => Line::styled("▌", style),
            (false, Mark::Undecided) => Line::raw(" "),
            (false, _) => Line::styled("▏", style),
        }
    }

    fn header(&self, hunk: usize, width: usize) -> Line<'static> {
        let place = &self.open.hunks[hunk];
        let mark = self.mark(hunk);
        let (sign, style) = sign_of(Together::Same(mark));
        let told = format!(" {sign} {} ", mark.name());
        let count = self.open.hunks.len();
        let text = format!("── hunk {} of {count} ── line {} ", hunk + 1, place.new.start + 1);
        let rule = width.saturating_sub(Span::raw(&text).width() + Span::raw(&told).width() + 1);
        Line::from(vec![
            Span::styled(format!("{text}{}", "─".repeat(rule)), CYAN),
            Span::styled(told, style),
            Span::styled("─", CYAN),
        ])
    }

    fn draw_unified(
        &self,
        screen: &mut Buffer,
        area: Rect,
        hunk: usize,
        old: Option<Place>,
        new: Option<Place>,
    ) {
        let (left, rest) = split(area, self.digits as u16 + 1);
        let (right, text) = split(rest, self.digits as u16 + 1);
        put(screen, left, &self.number(old));
        put(screen, right, &self.number(new));
        let line = match (old, new) {
            (Some(_), Some(new)) => self.unchanged(hunk, new, text),
            (Some(old), None) => self.changed(hunk, old, Side::Old, text),
            (None, Some(new)) => self.changed(hunk, new, Side::New, text),
            (None, None) => return,
        };
        put(screen, text, &line);
    }

    fn draw_both(
        &self,
        screen: &mut Buffer,
        area: Rect,
        hunk: usize,
        old: Option<Place>,
        new: Option<Place>,
    ) {
        let (left, rest) = split(area, area.width.saturating_sub(1) / 2);
        let (middle, right) = split(rest, 1);
        put(screen, middle, &Line::styled("│", FAINT));
        let is_unchanged = matches!((old, new), (Some(old), Some(new)) if old.line == new.line);
        for (place, side, half) in [(old, Side::Old, left), (new, Side::New, right)] {
            let Some(place) = place else { continue };
            let (number, text) = split(half, self.digits as u16 + 1);
            put(screen, number, &self.number(Some(place)));
            let line = match is_unchanged {
                true => self.unchanged(hunk, place, text),
                false => self.changed(hunk, place, side, text),
            };
            put(screen, text, &line);
        }
    }

    fn number(&self, place: Option<Place>) -> Line<'static> {
        let digits = self.digits;
        let text = place.map(|place| format!("{:>digits$}", place.number)).unwrap_or_default();
        Line::styled(text, FAINT)
    }

    fn unchanged(&self, hunk: usize, place: Place, area: Rect) -> Line<'static> {
        signed(
            " ",
            Style::new(),
            shown_line(&self.line(hunk, place.line).text, &[], Style::new(), self.window(area)),
        )
    }

    fn changed(&self, hunk: usize, place: Place, side: Side, area: Rect) -> Line<'static> {
        let (sign, style) = match side {
            Side::Old => ("-", RED),
            Side::New => ("+", GREEN),
        };
        let style = match self.mark(hunk) {
            Mark::Rejected => style.patch(FAINT),
            Mark::Undecided | Mark::Accepted => style,
        };
        let own = &self.line(hunk, place.line).text;
        let words = place.partner.and_then(|partner| {
            let other = &self.line(hunk, partner).text;
            match side {
                Side::Old => WordDiff::compute(own, other).map(|words| words.old),
                Side::New => WordDiff::compute(other, own).map(|words| words.new),
            }
        });
        signed(sign, style, shown_line(own, &words.unwrap_or_default(), style, self.window(area)))
    }

    fn line(&self, hunk: usize, line: usize) -> &HunkLine {
        &self.open.hunks[hunk].lines[line]
    }

    fn mark(&self, hunk: usize) -> Mark {
        self.model.decisions[self.open.index].hunk(hunk)
    }

    /// One column is for the sign.
    fn window(&self, area: Rect) -> Window {
        Window { first: self.model.column, width: usize::from(area.width).saturating_sub(1) }
    }
}

fn signed(sign: &'static str, style: Style, mut line: Line<'static>) -> Line<'static> {
    line.spans.insert(0, Span::styled(sign, style));
    line
}

/// The first columns of an area, and the rest.
fn split(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    let rest = Rect { x: area.x + columns, width: area.width - columns, ..area };
    (Rect { width: columns, ..area }, rest)
}
