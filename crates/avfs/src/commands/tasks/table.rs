//! The tasks as a table.

use agentvfs::task_run::{EndReason, RunRecord};
use agentvfs::{Clash, TreePath};
use anstyle::Style;

use super::{CountsBody, ListedTaskBody, UNREADABLE};
use crate::listing::shown;
use crate::printer::{CYAN, GREEN, HEADING, PrintError, Printer, RED, YELLOW};
use crate::time::{Age, now};
use crate::versions::count;

/// How many characters of a command are shown.
const SHOWN: usize = 50;
/// How many paths of a conflict are named.
const NAMED: usize = 3;

pub fn print(out: &mut Printer, tasks: &[ListedTaskBody]) -> Result<(), PrintError> {
    let name_width = tasks
        .iter()
        .map(|task| task.shown.chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    let changes: Vec<String> = tasks.iter().map(work).collect();
    let change_width = changes
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("CHANGED".len());
    let ages: Vec<String> = tasks
        .iter()
        .map(|task| {
            Age {
                then: task.since,
                now: now(),
            }
            .to_string()
        })
        .collect();
    let conflicts: Vec<String> = tasks.iter().map(conflicts).collect();
    let age_width = ages
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("STARTED".len());
    let heading = format!(
        "{:<name_width$}  {:<10}  {:<change_width$}  CONFLICTS  {:<age_width$}  COMMAND",
        "NAME", "STATE", "CHANGED", "STARTED"
    );
    out.line(out.paint(HEADING, heading))?;
    for (((task, changes), age), conflicts) in tasks.iter().zip(&changes).zip(&ages).zip(&conflicts) {
        let state = out.paint(style(task.state), format!("{:<10}", task.state));
        let conflicts = match conflicts.as_str() {
            "-" => out.paint(Style::new(), format!("{:<9}", "-")),
            some => out.paint(YELLOW, format!("{some:<9}")),
        };
        out.line(format_args!(
            "{:<name_width$}  {state}  {changes:<change_width$}  {conflicts}  {age:<age_width$}  {}",
            task.shown,
            what_runs(task)
        ))?;
        if let Some(open) = open_conflicts(task) {
            out.line(out.paint(YELLOW, format!("  {open}")))?;
        }
        if !task.nested.is_empty() {
            let places: Vec<String> = task.nested.iter().map(|path| shown(path, false)).collect();
            out.line(format_args!("  commits in {}", places.join(", ")))?;
        }
        for warning in task.trouble.iter().chain(&task.warnings) {
            out.line(out.paint(YELLOW, format!("  {warning}")))?;
        }
    }
    Ok(())
}

fn conflicts(task: &ListedTaskBody) -> String {
    match task.conflicts.as_ref().map_or(0, |conflicts| conflicts.files) {
        0 => "-".to_owned(),
        files => count(files as u64, "file"),
    }
}

/// A command as far as it fits into a table.
fn shortened(command: &str) -> String {
    match command.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}

/// The command, and its outcome.
fn what_runs(task: &ListedTaskBody) -> String {
    let command = match task.command.as_str() {
        "" => "-".to_owned(),
        command => shortened(command),
    };
    match &task.run_note {
        Some(note) => format!("{command} ({note})"),
        None => command,
    }
}

/// A note about the run of a task: that it continues without a terminal, or did not end well.
pub fn run_note(run: &RunRecord) -> Option<String> {
    let Some(end) = &run.end else {
        return run.is_detached.then(|| {
            format!(
                "detached, started {}",
                Age {
                    then: run.since,
                    now: now()
                }
            )
        });
    };
    match (end.reason, end.status) {
        (EndReason::Exited, Some(0)) => run.is_detached.then(|| "ended".to_owned()),
        (EndReason::Exited, Some(status)) => Some(format!("ended with {status}")),
        (EndReason::Exited, None) | (EndReason::Failed, _) => Some("failed".to_owned()),
        (EndReason::Stopped, _) => Some("stopped".to_owned()),
        (EndReason::TimeLimit, _) => Some("over its time".to_owned()),
        (EndReason::MemoryLimit, _) => Some("out of memory".to_owned()),
        (EndReason::CpuLimit, _) => Some("over its processor time".to_owned()),
        (EndReason::Abnormal, _) => Some("ended abnormally".to_owned()),
    }
}

/// The conflicts that keep a task from being applied.
fn open_conflicts(task: &ListedTaskBody) -> Option<String> {
    let open = count(task.open_conflicts.len() as u64, "open conflict");
    let list = format!(
        "{open}, to be settled first: `avfs conflicts --vault {}`",
        task.vault
    );
    (!task.open_conflicts.is_empty()).then_some(list)
}

/// Changes that would not merge automatically, a line for each other side.
pub fn warnings(directory: &[TreePath], clashes: &[Clash]) -> Vec<String> {
    let of_directory = (!directory.is_empty()).then(|| warning("the directory", directory));
    let of_tasks = clashes
        .iter()
        .map(|clash| warning(clash.with.as_str(), &clash.paths));
    of_directory.into_iter().chain(of_tasks).collect()
}

fn warning(with: &str, paths: &[TreePath]) -> String {
    let named: Vec<String> = paths.iter().take(NAMED).map(|path| shown(path, false)).collect();
    let more = match paths.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("conflicts with {with}: {}{more}", named.join(", "))
}

fn style(state: &str) -> Style {
    match state {
        "running" => CYAN,
        "unmerged" => YELLOW,
        "applied" => GREEN,
        UNREADABLE => RED,
        _ => Style::new(),
    }
}

/// The changes and commits.
fn work(task: &ListedTaskBody) -> String {
    match task.commits {
        0 => changes(task.changed),
        commits => format!("{}, {}", changes(task.changed), count(commits as u64, "commit")),
    }
}

/// As git's short statistics: `+3 ~1 -2`.
pub fn changes(counts: CountsBody) -> String {
    let parts = [('+', counts.added), ('~', counts.modified), ('-', counts.deleted)];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(sign, count)| format!("{sign}{count}"))
        .collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(" ")
    }
}
