//! `avfs compare`: what several tasks changed, side by side.

use std::collections::BTreeMap;

use agentvfs::patch::{FileChange, PatchOptions, Stat, Status};
use agentvfs::{Entry, Here, TreePath};
use anyhow::Result;
use serde::Serialize;

use crate::commands::diff::compare;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::json::PathField;
use crate::printer::{HEADING, PrintError, Printer};
use crate::view::View;

/// Put the changes of several tasks side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "A row for each file that one of them changed, a column for each task: lines
added and removed, and '=N' for what the task in column N has too.

Examples:
  avfs compare try-1 try-2 try-3
  avfs compare try-1 try-2 --json
  avfs apply try-2 && avfs discard try-1 try-3 --yes")]
pub struct CompareArgs {
    #[arg(required = true, num_args = 2.., value_name = "TASK")]
    tasks: Vec<String>,
}

/// What one task did to one file.
struct Cell {
    after: Option<Entry>,
    status: Status,
    stat: Stat,
    /// The first column with the same result.
    same_as: Option<usize>,
}

/// A row for each path, a cell for each task that changed it.
type Rows = BTreeMap<TreePath, Vec<Option<Cell>>>;

#[derive(Serialize)]
struct CompareBody {
    tasks: Vec<String>,
    files: Vec<FileBody>,
}

#[derive(Serialize)]
struct FileBody {
    #[serde(flatten)]
    path: PathField,
    /// For each task; `null` where it left the file alone.
    changes: Vec<Option<CellBody>>,
}

#[derive(Serialize)]
struct CellBody {
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    insertions: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deletions: Option<u32>,
    /// The task whose result is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &CompareArgs) -> Result<ExitStatus> {
    let rows = rows(&context.here()?, &args.tasks)?;
    if context.out.is_json() {
        let files = rows.iter().map(|(path, cells)| FileBody {
            path: path.into(),
            changes: cells.iter().map(|cell| cell.as_ref().map(|cell| cell.body(&args.tasks))).collect(),
        });
        context.out.object("compare", &CompareBody { tasks: args.tasks.clone(), files: files.collect() })?;
    } else if rows.is_empty() {
        context.out.talk("none of these tasks changed anything");
    } else {
        print(context.out, &args.tasks, &rows)?;
    }
    Ok(ExitStatus::Success)
}

fn rows(here: &Here, names: &[String]) -> Result<Rows> {
    let mut rows = Rows::new();
    for (column, name) in names.iter().enumerate() {
        let task = here.task(name)?;
        let from = View::new(task.vault().clone(), task.base()?)?;
        let to = View::new(task.vault().clone(), task.head()?)?;
        for change in compare(&from.reader, &to.reader, &[])? {
            let stat = Stat::of(to.reader.objects(), &change, &PatchOptions::default())?;
            let row = rows.entry(change.path().clone()).or_default();
            row.resize_with(column, || None);
            let cell = Cell::of(change, stat, row);
            row.push(Some(cell));
        }
    }
    rows.values_mut().for_each(|row| row.resize_with(names.len(), || None));
    Ok(rows)
}

impl Cell {
    fn of(change: FileChange, stat: Stat, earlier: &[Option<Cell>]) -> Cell {
        let after = change.new.map(|side| side.entry);
        let same_as =
            earlier.iter().position(|cell| cell.as_ref().is_some_and(|cell| alike(&cell.after, &after)));
        Cell { after, status: change.status, stat, same_as }
    }

    fn body(&self, tasks: &[String]) -> CellBody {
        let (insertions, deletions) = match self.stat {
            Stat::Lines { insertions, deletions } => (Some(insertions), Some(deletions)),
            Stat::Binary { .. } => (None, None),
        };
        let same_as = self.same_as.map(|column| tasks[column].clone());
        CellBody { status: self.status.letter().to_string(), insertions, deletions, same_as }
    }

    fn text(&self) -> String {
        if let Some(column) = self.same_as {
            return format!("={}", column + 1);
        }
        match (self.status, self.stat) {
            (Status::Removed, _) => "gone".to_owned(),
            (_, Stat::Lines { insertions: 0, deletions: 0 }) => "attributes".to_owned(),
            (_, Stat::Lines { insertions, deletions }) => format!("+{insertions} -{deletions}"),
            (_, Stat::Binary { .. }) => "binary".to_owned(),
        }
    }
}

/// Whether two results are the same but for their times.
fn alike(one: &Option<Entry>, other: &Option<Entry>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.kind == other.kind && one.meta.mode == other.meta.mode,
        (None, None) => true,
        _ => false,
    }
}

fn print(out: &mut Printer, tasks: &[String], rows: &Rows) -> Result<(), PrintError> {
    let texts: Vec<(String, Vec<String>)> = rows
        .iter()
        .map(|(path, cells)| {
            let cell = |cell: &Option<Cell>| cell.as_ref().map_or_else(|| "·".to_owned(), Cell::text);
            (path.to_string(), cells.iter().map(cell).collect())
        })
        .collect();
    let path_width = texts.iter().map(|(path, _)| path.chars().count()).max().unwrap_or(0).max(4);
    let widths: Vec<usize> = (0..tasks.len())
        .map(|column| {
            let cells = texts.iter().map(|(_, cells)| cells[column].chars().count());
            cells.chain([tasks[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |path: &str, cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{path:<path_width$}{}", cells.collect::<String>())
    };
    out.line(out.paint(HEADING, line("PATH", tasks)))?;
    for (path, cells) in &texts {
        out.line(line(path, cells))?;
    }
    let shared = rows.values().filter(|cells| is_shared(cells)).count();
    out.talk(format_args!("{} files, {shared} of them changed by more than one task", rows.len()));
    Ok(())
}

fn is_shared(cells: &[Option<Cell>]) -> bool {
    cells.iter().flatten().count() > 1
}
