//! The differences of the selected file.

use std::ops::Range;

use agentvfs::patch::{HunkLine, WordDiff};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::tree::letter_style;
use super::{BOLD, CYAN, FAINT, GREEN, RED, YELLOW, put, row_of, sign_of};
use crate::commands::review::decision::{Decision, Mark, Together};
use crate::commands::review::file::OpenFile;
use crate::commands::review::model::{Model, Pane};
use crate::commands::review::palette::{LineSide, Palette};
use crate::commands::review::rows::{DiffForm, DiffRow, ShownLine};
use crate::commands::review::syntax::{SyntaxToken, TextSide};
use crate::commands::review::text::{Window, shown_line};
use crate::commands::review::tree::{Fold, TreeRow};
use crate::conflict_view::LineRole;
use crate::versions::count;

pub fn title(model: &Model, screen: &mut Buffer, area: Rect) {
    let Some(row) = model.tree.get(model.tree_row) else {
        return;
    };
    let decisions = || row.files().iter().map(|file| &model.decisions[*file]);
    let (sign, style) = sign_of(Decision::together(decisions()));
    let text = match model.path() {
        Some(path) => path.to_string(),
        None => about_directory(row),
    };
    let line = Line::from(vec![
        Span::styled(format!("{sign} "), style),
        Span::styled(text, BOLD),
    ]);
    put(screen, area, &line);
}

fn about_directory(row: &TreeRow) -> String {
    let files = count(row.files().len() as u64, "file");
    match row.folded().or(row.unfolded()) {
        Some(Fold::Conflicts) => format!("{files} that you and the task changed"),
        Some(Fold::Ignored) => format!("{files} that git ignores: omitted unless you accept them"),
        Some(Fold::Directory(_)) | None => format!("{files} in this directory"),
    }
}

pub fn diff(model: &Model, palette: Palette, screen: &mut Buffer, area: Rect) {
    let Some(open) = &model.open else {
        if model.is_comparing {
            put(screen, area, &Line::styled(" comparing …", FAINT));
        }
        return directory(model, screen, area);
    };
    let pane = DiffPane {
        model,
        palette,
        open,
        // At least three, so that the columns of most files stand in the same place.
        digits: open.last_line().to_string().len().max(3),
    };
    let shown = model
        .rows()
        .iter()
        .enumerate()
        .skip(model.top)
        .take(area.height.into());
    for (index, row) in shown {
        pane.draw_row(screen, row_of(area, index - model.top), index, row);
    }
}

/// A directory shows the decisions on its files.
fn directory(model: &Model, screen: &mut Buffer, area: Rect) {
    let Some(TreeRow::Directory { files, .. }) = model.tree.get(model.tree_row) else {
        return;
    };
    for (row, file) in files.iter().take(area.height.into()).enumerate() {
        let (sign, style) = sign_of(Decision::together([&model.decisions[*file]].into_iter()));
        let change = &model.files[*file];
        let line = Line::from(vec![
            Span::styled(format!(" {sign} "), style),
            Span::styled(
                format!("{} ", change.status.letter()),
                letter_style(change.status),
            ),
            Span::raw(change.path().to_string()),
        ]);
        put(screen, row_of(area, row), &line);
    }
}

struct DiffPane<'a> {
    model: &'a Model,
    palette: Palette,
    open: &'a OpenFile,
    /// How wide line numbers are.
    digits: usize,
}

impl DiffPane<'_> {
    fn draw_row(&self, screen: &mut Buffer, area: Rect, index: usize, row: &DiffRow) {
        let (bar, rest) = split(area, 1);
        if let Some(hunk) = row.hunk() {
            put(screen, bar, &self.bar(hunk));
        }
        let place = self.open.place_of(row);
        // Over the bar of the hunk: what a key decides now is this conflict.
        if place.is_some() && self.model.pane == Pane::Diff && place == self.model.place() {
            put(screen, bar, &Line::styled("▌", YELLOW));
        }
        match row {
            DiffRow::Note(note) => put(screen, rest, &Line::styled(self.open.notes[*note].clone(), FAINT)),
            DiffRow::Conflict(line) => self.draw_conflict(screen, rest, *line),
            DiffRow::Header { hunk } => put(screen, rest, &self.header(*hunk, rest.width.into())),
            DiffRow::Line { hunk, old, new } => match self.model.form() {
                DiffForm::Unified => self.draw_unified(screen, rest, *hunk, *old, *new),
                DiffForm::SideBySide => self.draw_both(screen, rest, *hunk, *old, *new),
            },
        }
        if index == self.model.row && self.model.pane == Pane::Diff {
            screen.set_style(
                split(area, self.digits as u16 + 1).0,
                Style::new().add_modifier(Modifier::REVERSED),
            );
        }
    }

    /// Shows which lines belong to the selected hunk, and the decision on it.
    fn bar(&self, hunk: usize) -> Line<'static> {
        let decided = self.decided(hunk);
        let style = match decided {
            // Undecided has no color of its own, and the selected hunk must be seen.
            Together::Same(Mark::Undecided) => CYAN,
            decided => sign_of(decided).1,
        };
        match (self.model.hunk() == Some(hunk), decided) {
            (true, _) => Line::styled("▌", style),
            (false, Together::Same(Mark::Undecided)) => Line::raw(" "),
            (false, _) => Line::styled("▏", style),
        }
    }

    fn header(&self, hunk: usize, width: usize) -> Line<'static> {
        let (place, part) = (&self.open.hunks[hunk], self.open.parts[hunk]);
        let decided = self.decided(hunk);
        let (sign, style) = sign_of(decided);
        let told = format!(" {sign} {} ", decided.name());
        let whole = format!("hunk {} of {}", part.hunk + 1, self.open.hunk_count());
        let name = match part.change {
            Some(change) => {
                let changes = self.open.shape.get(part.hunk).copied().unwrap_or(1);
                format!("{whole}, change {} of {changes}", change + 1)
            }
            None => whole,
        };
        let text = format!("── {name} ── line {} ", place.new.start + 1);
        // In columns and not in bytes: paths and signs may be wide.
        let rule = width.saturating_sub(Span::raw(&text).width() + Span::raw(&told).width() + 1);
        Line::from(vec![
            Span::styled(format!("{text}{}", "─".repeat(rule)), CYAN),
            Span::styled(told, style),
            Span::styled("─", CYAN),
        ])
    }

    fn draw_conflict(&self, screen: &mut Buffer, area: Rect, line: usize) {
        let Some(conflict) = &self.open.conflict else {
            return;
        };
        let place = conflict.place_of(line);
        let Some(line) = conflict.lines.get(line) else {
            return;
        };
        let style = match line.role {
            LineRole::Title => YELLOW.patch(BOLD),
            LineRole::Label => BOLD,
            LineRole::Unchanged => Style::new(),
            LineRole::Here => CYAN,
            LineRole::Base => FAINT,
            LineRole::Task => GREEN,
        };
        let (sign, text) = split(area, line.sign().len() as u16);
        put(screen, sign, &Line::styled(line.sign(), style));
        // Labels are not lines of a file.
        let bytes = if line.text.ends_with(b"\n") || matches!(line.role, LineRole::Title | LineRole::Label) {
            line.text.strip_suffix(b"\n").unwrap_or(&line.text).to_vec()
        } else {
            line.text.to_vec()
        };
        let window = Window {
            first: self.model.column,
            width: text.width.into(),
        };
        put(
            screen,
            text,
            &shown_line(&[&bytes[..], b"\n"].concat(), &|_| style, window),
        );
        if let Some(place) = place.filter(|_| line.role == LineRole::Title) {
            self.draw_decided(screen, text, &bytes, place);
        }
    }

    /// The decision on a conflict, after its title, or over the end of the title if there is no room.
    fn draw_decided(&self, screen: &mut Buffer, area: Rect, title: &[u8], place: usize) {
        let file = self.open.index;
        let chosen = self
            .model
            .choices
            .get(&file)
            .and_then(|choice| choice.how.told(place));
        let decided = match (chosen, &self.model.decisions[file]) {
            (Some(chosen), _) => Line::styled(format!(" ✓ {chosen} "), GREEN),
            (None, Decision::Whole(Mark::Rejected)) => Line::styled(" ✗ rejected ", RED),
            (None, _) => Line::styled(" ! open ", YELLOW),
        };
        let width = decided.width() as u16;
        // Behind the title, or at the right edge if that is too long: the decision is always seen.
        let behind = title.len().saturating_sub(self.model.column) as u16 + 1;
        let offset = behind.min(area.width.saturating_sub(width));
        put(screen, split(area, offset).1, &decided);
    }

    fn draw_unified(
        &self,
        screen: &mut Buffer,
        area: Rect,
        hunk: usize,
        old: Option<ShownLine>,
        new: Option<ShownLine>,
    ) {
        let (left, rest) = split(area, self.digits as u16 + 1);
        let (right, text) = split(rest, self.digits as u16 + 1);
        put(screen, left, &self.number(old));
        put(screen, right, &self.number(new));
        match (old, new) {
            (Some(_), Some(new)) => put(screen, text, &self.unchanged(hunk, new, TextSide::New, text)),
            (Some(old), None) => self.draw_changed(screen, text, hunk, old, LineSide::Removed),
            (None, Some(new)) => self.draw_changed(screen, text, hunk, new, LineSide::Added),
            (None, None) => {}
        }
    }

    fn draw_both(
        &self,
        screen: &mut Buffer,
        area: Rect,
        hunk: usize,
        old: Option<ShownLine>,
        new: Option<ShownLine>,
    ) {
        let (left, rest) = split(area, area.width.saturating_sub(1) / 2);
        let (middle, right) = split(rest, 1);
        put(screen, middle, &Line::styled("│", FAINT));
        let is_unchanged = matches!((old, new), (Some(old), Some(new)) if old.line == new.line);
        for (place, change, half) in [(old, LineSide::Removed, left), (new, LineSide::Added, right)] {
            let Some(place) = place else { continue };
            let (number, text) = split(half, self.digits as u16 + 1);
            put(screen, number, &self.number(Some(place)));
            if is_unchanged {
                put(screen, text, &self.unchanged(hunk, place, side_of(change), text))
            } else {
                self.draw_changed(screen, text, hunk, place, change)
            }
        }
    }

    fn number(&self, place: Option<ShownLine>) -> Line<'static> {
        let digits = self.digits;
        let text = place
            .map(|place| format!("{:>digits$}", place.number))
            .unwrap_or_default();
        Line::styled(text, FAINT)
    }

    fn unchanged(&self, hunk: usize, place: ShownLine, side: TextSide, area: Rect) -> Line<'static> {
        let line = &self.line(hunk, place.line).text;
        let tokens = self.tokens(side, place, line);
        let style_at = |at: usize| match token_at(&tokens, at) {
            Some(token) => self.palette.token(token, Style::new()),
            None => Style::new(),
        };
        signed(" ", Style::new(), shown_line(line, &style_at, self.window(area)))
    }

    fn draw_changed(&self, screen: &mut Buffer, area: Rect, hunk: usize, place: ShownLine, change: LineSide) {
        let sign = match change {
            LineSide::Removed => "-",
            LineSide::Added => "+",
        };
        let mut style = self.palette.changed(change);
        // What is rejected will not be applied, and steps back.
        if self.decided(hunk) == Together::Same(Mark::Rejected) {
            style = style.patch(FAINT);
        }
        let own = &self.line(hunk, place.line).text;
        let words = place.partner.and_then(|partner| {
            let other = &self.line(hunk, partner).text;
            match change {
                LineSide::Removed => WordDiff::compute(own, other).map(|words| words.old),
                LineSide::Added => WordDiff::compute(other, own).map(|words| words.new),
            }
        });
        // Lines that have too little in common are marked as a whole.
        let words = words.unwrap_or_default();
        let tokens = self.tokens(side_of(change), place, own);
        let style_at = |at: usize| {
            let style = token_at(&tokens, at).map_or(style, |token| self.palette.token(token, style));
            if words.iter().any(|word| word.contains(&at)) {
                self.palette.word(style, change)
            } else {
                style
            }
        };
        // The background to the end of the row; the text follows over it.
        screen.set_style(area.intersection(screen.area), style);
        put(
            screen,
            area,
            &signed(sign, style, shown_line(own, &style_at, self.window(area))),
        );
    }

    fn tokens(&self, side: TextSide, place: ShownLine, line: &[u8]) -> Vec<(Range<usize>, SyntaxToken)> {
        let syntax = self.open.syntax.as_ref();
        syntax
            .map(|syntax| syntax.tokens(side, place.number, line))
            .unwrap_or_default()
    }

    fn line(&self, hunk: usize, line: usize) -> &HunkLine {
        &self.open.hunks[hunk].lines[line]
    }

    fn decided(&self, hunk: usize) -> Together {
        self.model.decisions[self.open.index].part(self.open.parts[hunk])
    }

    /// One column is for the sign.
    fn window(&self, area: Rect) -> Window {
        Window {
            first: self.model.column,
            // Without the column of the sign.
            width: usize::from(area.width).saturating_sub(1),
        }
    }
}

fn side_of(change: LineSide) -> TextSide {
    match change {
        LineSide::Removed => TextSide::Old,
        LineSide::Added => TextSide::New,
    }
}

/// The token at a byte. They are in order.
fn token_at(tokens: &[(Range<usize>, SyntaxToken)], at: usize) -> Option<SyntaxToken> {
    // Asked for every character of a line: a search, and no walk.
    let next = tokens.partition_point(|(range, _)| range.end <= at);
    tokens
        .get(next)
        .filter(|(range, _)| range.contains(&at))
        .map(|(_, token)| *token)
}

fn signed(sign: &'static str, style: Style, mut line: Line<'static>) -> Line<'static> {
    line.spans.insert(0, Span::styled(sign, style));
    line
}

/// The first columns of an area, and the rest.
fn split(area: Rect, columns: u16) -> (Rect, Rect) {
    let columns = columns.min(area.width);
    let rest = Rect {
        x: area.x + columns,
        width: area.width - columns,
        ..area
    };
    (
        Rect {
            width: columns,
            ..area
        },
        rest,
    )
}
