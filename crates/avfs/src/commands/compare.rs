//! `avfs compare`: the changes of several tasks, side by side.

use std::collections::BTreeMap;

use agentvfs::patch::{ChangeStatus, FileChange, PatchOptions, PatchStat};
use agentvfs::{Entry, Here, TreePath};
use anyhow::Result;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::ignored::IgnoredArgs;
use crate::json::PathField;
use crate::listing::shown;
use crate::printer::{HEADING, PrintError, Printer};
use crate::progress::Progress;
use crate::versions::count;

/// Compare the changes of several tasks side by side
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints a row for each file that a task changed and a column for each task: lines added
and removed, or '=N' if the task in column N has the same change. Ignored files are
left out.

Examples:
  avfs compare try-1 try-2 try-3
  avfs compare try-1 try-2 --json
  avfs apply try-2 && avfs discard try-1 try-3 --yes"
)]
pub struct CompareArgs {
    /// The tasks to compare
    #[arg(required = true, num_args = 2.., value_name = "TASK")]
    tasks: Vec<String>,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// The maximum width of the column of paths.
const PATH_WIDTH: usize = 80;

/// The change of one task to one file.
struct ComparedCell {
    after: Option<Entry>,
    status: ChangeStatus,
    stat: PatchStat,
    /// The first column with the same result.
    same_as: Option<usize>,
}

/// A row for each path, a cell for each task that changed it.
type Rows = BTreeMap<TreePath, Vec<Option<ComparedCell>>>;

#[derive(Serialize)]
struct CompareBody {
    tasks: Vec<String>,
    files: Vec<CompareFileBody>,
}

#[derive(Serialize)]
struct CompareFileBody {
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
    /// The task with the same result.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<String>,
}

pub fn run(context: &mut Context<'_>, args: &CompareArgs) -> Result<ExitStatus> {
    let waiting = Progress::if_slow(context.out, "comparing");
    let with_ignored = args.ignored.are_wanted(context);
    let rows = rows(&context.here()?, &args.tasks, with_ignored)?;
    drop(waiting);
    if context.out.is_json() {
        let files = rows.iter().map(|(path, cells)| CompareFileBody {
            path: path.into(),
            changes: cells
                .iter()
                .map(|cell| cell.as_ref().map(|cell| cell.body(&args.tasks)))
                .collect(),
        });
        context.out.object(
            "compare",
            &CompareBody {
                tasks: args.tasks.clone(),
                files: files.collect(),
            },
        )?;
    } else if rows.is_empty() {
        context.out.talk("none of these tasks changed anything");
    } else {
        context.out.paged(|out| Ok(print(out, &args.tasks, &rows)?))?;
        let shared = rows.values().filter(|cells| is_shared(cells)).count();
        let files = count(rows.len() as u64, "file");
        context.out.talk(format_args!(
            "{files}, {shared} of them changed by more than one task"
        ));
    }
    Ok(ExitStatus::Success)
}

fn rows(here: &Here, names: &[String], with_ignored: bool) -> Result<Rows> {
    let mut rows = Rows::new();
    for (column, name) in names.iter().enumerate() {
        let task = here.task(name)?;
        let changes = task.changes()?;
        let ignored = changes.ignored.into_iter().filter(|_| with_ignored);
        let objects = task.vault().reader_at(task.head()?)?;
        for change in changes.files.into_iter().chain(ignored) {
            let stat = PatchStat::of(objects.objects(), &change, &PatchOptions::default())?;
            let row = rows.entry(change.path().clone()).or_default();
            row.resize_with(column, || None);
            let cell = ComparedCell::of(change, stat, row);
            row.push(Some(cell));
        }
    }
    rows.values_mut()
        .for_each(|row| row.resize_with(names.len(), || None));
    Ok(rows)
}

impl ComparedCell {
    fn of(change: FileChange, stat: PatchStat, earlier: &[Option<ComparedCell>]) -> ComparedCell {
        let after = change.new.map(|side| side.entry);
        let same_as = earlier
            .iter()
            .position(|cell| cell.as_ref().is_some_and(|cell| alike(&cell.after, &after)));
        ComparedCell {
            after,
            status: change.status,
            stat,
            same_as,
        }
    }

    fn body(&self, tasks: &[String]) -> CellBody {
        let (insertions, deletions) = match self.stat {
            PatchStat::Lines {
                insertions,
                deletions,
            } => (Some(insertions), Some(deletions)),
            PatchStat::Binary { .. } | PatchStat::Large { .. } => (None, None),
        };
        let same_as = self.same_as.map(|column| tasks[column].clone());
        CellBody {
            status: self.status.letter().to_string(),
            insertions,
            deletions,
            same_as,
        }
    }

    fn text(&self) -> String {
        if let Some(column) = self.same_as {
            return format!("={}", column + 1);
        }
        match (self.status, self.stat) {
            (ChangeStatus::Removed, _) => "gone".to_owned(),
            (ChangeStatus::Renamed, _) => "renamed".to_owned(),
            (
                _,
                PatchStat::Lines {
                    insertions: 0,
                    deletions: 0,
                },
            ) => "attributes".to_owned(),
            (
                _,
                PatchStat::Lines {
                    insertions,
                    deletions,
                },
            ) => format!("+{insertions} -{deletions}"),
            (_, PatchStat::Binary { .. }) => "binary".to_owned(),
            (_, PatchStat::Large { .. }) => "large".to_owned(),
        }
    }
}

/// Whether two results are equal apart from their times.
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
            let cell = |cell: &Option<ComparedCell>| {
                cell.as_ref().map_or_else(|| "·".to_owned(), ComparedCell::text)
            };
            (shown(path, false), cells.iter().map(cell).collect())
        })
        .collect();
    let path_width = texts
        .iter()
        .map(|(path, _)| path.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(4, PATH_WIDTH);
    let widths: Vec<usize> = (0..tasks.len())
        .map(|column| {
            let cells = texts.iter().map(|(_, cells)| cells[column].chars().count());
            cells.chain([tasks[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let line = |path: &str, cells: &[String]| {
        let cells = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{path:<path_width$}{}", cells.collect::<String>())
    };
    out.line(out.paint(HEADING, line("PATH", tasks)))?;
    for (path, cells) in &texts {
        out.line(line(path, cells))?;
    }
    Ok(())
}

fn is_shared(cells: &[Option<ComparedCell>]) -> bool {
    cells.iter().flatten().count() > 1
}
