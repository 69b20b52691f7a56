//! The title at the top, and the keys, the filter or a question at the bottom.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::{BOLD, FAINT, YELLOW, put, sign_of};
use crate::commands::review::decision::{Mark, Together};
use crate::commands::review::keys::{Mode, ReviewQuestion};
use crate::commands::review::model::{Model, Pane};

pub fn title(model: &Model, screen: &mut Buffer, area: Rect) {
    let bar = Style::new().add_modifier(Modifier::REVERSED);
    screen.set_style(area, bar);
    let name = Span::styled(format!(" {} ", model.task), bar.add_modifier(Modifier::BOLD));
    put(
        screen,
        area,
        &Line::from(vec![name, Span::styled(format!("→ {}", model.root), bar)]),
    );
    let counts = counts(model);
    let width = counts.width() as u16;
    let right = Rect {
        x: area.right().saturating_sub(width),
        width: width.min(area.width),
        ..area
    };
    put(screen, right, &counts.style(bar));
}

fn counts(model: &Model) -> Line<'static> {
    let counts = model.counts();
    let numbers = [
        (Together::Same(Mark::Accepted), counts.accepted),
        (Together::Mixed, counts.partly),
        (Together::Same(Mark::Rejected), counts.rejected),
        (Together::Same(Mark::Undecided), counts.undecided),
    ];
    let shown = numbers.map(|(decided, number)| format!(" {} {number}", sign_of(decided).0));
    let conflicts = match (model.is_looking, model.open_conflicts()) {
        (true, _) => " looking for conflicts".to_owned(),
        (false, 0) => String::new(),
        (false, open) => format!(" ! {open}"),
    };
    Line::raw(format!("{conflicts} {} ", shown.concat()))
}

pub fn bottom(model: &Model, screen: &mut Buffer, area: Rect) {
    let line = match (model.mode, &model.message) {
        (Mode::Filter, _) => Line::from(vec![
            Span::styled("/", BOLD),
            Span::raw(model.filter.clone()),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            Span::styled("  Enter keeps it, Esc shows all files", FAINT),
        ]),
        (Mode::Ask(question), _) => Line::styled(question_of(model, question), YELLOW.patch(BOLD)),
        (_, Some(message)) => Line::styled(message.clone(), YELLOW),
        (_, None) => keys(model, area.width.into()),
    };
    put(screen, area, &line);
}

fn question_of(model: &Model, question: ReviewQuestion) -> String {
    match question {
        ReviewQuestion::Apply => format!("apply {} to {}?  y / n", model.accepted().summary(), model.root),
    }
}

/// As many keys as there is room for, the most needed ones first.
fn keys(model: &Model, width: usize) -> Line<'static> {
    let what = match model.pane {
        Pane::Tree => "file",
        Pane::Diff => "hunk",
    };
    let other = match model.pane {
        Pane::Tree => "differences",
        Pane::Diff => "files",
    };
    let mut line = Line::default();
    let usual = [
        ("?", "help".to_owned()),
        ("a", format!("accept {what}")),
        ("r", "reject".to_owned()),
        ("Enter", "apply".to_owned()),
        ("n", "next hunk".to_owned()),
        ("Tab", other.to_owned()),
        ("q", "leave".to_owned()),
        ("A", "accept all".to_owned()),
        ("s", "split".to_owned()),
        ("/", "filter".to_owned()),
        ("o", "open or close".to_owned()),
        ("v", "side by side".to_owned()),
    ];
    let conflict = model.open.as_ref().and_then(|open| open.conflict.as_ref());
    let hints = match conflict.map(|conflict| conflict.places.len()) {
        None => usual.to_vec(),
        Some(places) => conflict_keys(model.pane, places),
    };
    for (key, text) in hints {
        let hint = [Span::styled(key, BOLD), Span::styled(format!(" {text}  "), FAINT)];
        if line.width() + hint.iter().map(Span::width).sum::<usize>() > width {
            break;
        }
        hint.into_iter().for_each(|span| line.push_span(span));
    }
    line
}

/// The keys of a conflict. Where there are several in a file, they say how many a key decides.
fn conflict_keys(pane: Pane, places: usize) -> Vec<(&'static str, String)> {
    let (of_which, next) = match pane {
        Pane::Tree if places > 1 => (format!(" in all {places}"), ("Tab", "one by one")),
        Pane::Diff if places > 1 => (" here".to_owned(), ("n", "next conflict")),
        Pane::Tree | Pane::Diff => (String::new(), ("n", "next hunk")),
    };
    vec![
        ("?", "help".to_owned()),
        ("m", format!("keep mine{of_which}")),
        ("t", format!("take the task's{of_which}")),
        ("b", format!("both with markers{of_which}")),
        (next.0, next.1.to_owned()),
        ("e", "edit the file".to_owned()),
        ("q", "leave".to_owned()),
    ]
}
