//! The changed files, with the decisions on them.

use agentvfs::patch::ChangeStatus;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::{BLUE, BOLD, CYAN, FAINT, GREEN, RED, YELLOW, put, row_of, sign_of};
use crate::commands::review::decision::Decision;
use crate::commands::review::model::{Model, Pane};
use crate::commands::review::tree::{Fold, TreeRow};

pub fn tree(model: &Model, screen: &mut Buffer, area: Rect) {
    if model.tree.is_empty() {
        put(screen, area, &Line::styled(" no such file", FAINT));
    }
    let shown = model
        .tree
        .iter()
        .enumerate()
        .skip(model.tree_top)
        .take(area.height.into());
    for (index, row) in shown {
        let place = row_of(area, index - model.tree_top);
        put(screen, place, &line(model, row, area.width.into()));
        if index == model.tree_row {
            screen.set_style(place, cursor(model.pane));
        }
    }
}

fn cursor(pane: Pane) -> Style {
    match pane {
        Pane::Tree => Style::new().add_modifier(Modifier::REVERSED),
        Pane::Diff => Style::new().add_modifier(Modifier::UNDERLINED | Modifier::BOLD),
    }
}

fn line(model: &Model, row: &TreeRow, width: usize) -> Line<'static> {
    let decided = Decision::together(row.files().iter().map(|file| &model.decisions[*file]));
    let (sign, style) = match row.file() {
        Some(file) if model.is_conflict(file) && model.decisions[file].is_undecided() => ("!", YELLOW),
        _ => sign_of(decided),
    };
    let mark = Span::styled(format!(" {sign} "), style);
    let room = width.saturating_sub(5);
    match row {
        TreeRow::Directory {
            depth,
            name,
            files,
            fold,
            is_folded,
        } => {
            let style = match fold {
                Fold::Conflicts => YELLOW.patch(BOLD),
                Fold::Ignored => FAINT,
                Fold::Directory(_) => BLUE.patch(BOLD),
            };
            let (arrow, count) = if *is_folded {
                ("▸ ", format!(" {}", files.len()))
            } else {
                ("", String::new())
            };
            let taken = depth * 2 + arrow.chars().count() + count.len();
            let name = cut(name.clone(), (room + 2).saturating_sub(taken));
            let indent = Span::raw(format!("{}{arrow}", "  ".repeat(*depth)));
            Line::from(vec![
                mark,
                indent,
                Span::styled(name, style),
                Span::styled(count, FAINT),
            ])
        }
        TreeRow::File { depth, name, file } => {
            let status = model.files[*file].status;
            let letter = Span::styled(
                format!("{}{} ", "  ".repeat(*depth), status.letter()),
                letter_style(status),
            );
            let name = cut(name.clone(), room.saturating_sub(depth * 2));
            Line::from(vec![mark, letter, Span::raw(name)])
        }
    }
}

pub fn letter_style(status: ChangeStatus) -> Style {
    match status {
        ChangeStatus::Added => GREEN,
        ChangeStatus::Removed => RED,
        ChangeStatus::Modified | ChangeStatus::TypeChanged | ChangeStatus::Attributes => YELLOW,
        ChangeStatus::Renamed => CYAN,
    }
}

/// A name that is too long loses its middle: both ends distinguish it from others.
fn cut(name: String, width: usize) -> String {
    let count = name.chars().count();
    if Span::raw(&name).width() <= width || width < 4 {
        return name;
    }
    let head = (width - 1) / 2;
    let tail = width - 1 - head;
    name.chars()
        .take(head)
        .chain(['…'])
        .chain(name.chars().skip(count.saturating_sub(tail)))
        .collect()
}
