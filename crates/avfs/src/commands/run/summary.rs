//! What `avfs run` says when the program has ended.

use std::path::PathBuf;
use std::thread::JoinHandle;

use agentvfs::TreePath;
use agentvfs::exec::{ChangeKind, ChangedFile, ProgramEnd, RefusalBody};
use agentvfs::git::hidden_in_history;
use agentvfs::rules::Rules;
use anyhow::Result;
use serde::Serialize;

use super::arguments::Start;
use crate::commands::apply::Part;
use crate::commands::tasks::ProjectField;
use crate::printer::Printer;

/// How many hidden paths are named.
const HIDDEN_NAMED: usize = 3;
/// How many files are named.
const NAMED: usize = 10;

#[derive(Serialize)]
struct RunBody<'a> {
    task: String,
    run: &'a str,
    #[serde(flatten)]
    project: ProjectField,
    profile: &'a str,
    exit_code: i32,
    changed_files: Vec<ChangedFile>,
    snapshot_before: String,
    snapshot_after: String,
    audit_head: &'a str,
    network_refusals: &'a [RefusalBody],
    dropped_settings: &'a [PathBuf],
    /// If that was wanted and it ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<&'a Part>,
}

pub(super) fn tell(
    out: &mut Printer,
    start: &Start,
    end: &ProgramEnd,
    hidden: Hidden,
    apply: Option<&Part>,
) -> Result<()> {
    let changed = start.task.changed_files()?;
    if out.is_json() {
        let body = RunBody {
            task: start.task.name().to_string(),
            run: &end.run,
            project: ProjectField::new(start.task.root().as_os_str().as_encoded_bytes()),
            profile: &start.profile.name,
            exit_code: end.status,
            changed_files: changed,
            snapshot_before: end.before.to_string(),
            snapshot_after: end.after.to_string(),
            audit_head: &end.audit_head,
            network_refusals: &end.refusals,
            dropped_settings: &end.dropped,
            apply,
        };
        return Ok(out.object("run", &body)?);
    }
    for refusal in &end.refusals {
        out.talk(format_args!("not reached: {} ({})", refusal.target, refusal.reason));
    }
    for file in &end.dropped {
        let shown = crate::escape::printable_os(file.as_os_str());
        out.talk(format_args!("changed for this run only: ~/{shown}"));
    }
    hidden.warn(out);
    let name = start.task.name();
    tell_commits(out, start);
    match changed.len() {
        0 => out.talk(format_args!("task {name}: nothing changed; `avfs discard {name}` throws it away")),
        count => {
            out.talk(format_args!(
                "task {name}: {count} {} changed",
                if count == 1 { "file" } else { "files" }
            ));
            changed.iter().take(NAMED).for_each(|file| out.talk(line(file)));
            if count > NAMED {
                out.talk(format_args!("  and {} more", count - NAMED));
            }
            out.talk(format_args!("look:  avfs diff {name}"));
            out.talk(format_args!("keep:  avfs apply {name}"));
            out.talk(format_args!("drop:  avfs discard {name}"));
        }
    }
    Ok(())
}

fn tell_commits(out: &mut Printer, start: &Start) {
    // What cannot be counted is told by `avfs diff`.
    match start.task.unbrought_commits().unwrap_or(0) {
        0 => {}
        1 => out.talk("1 commit was made"),
        count => out.talk(format_args!("{count} commits were made")),
    }
}

/// Paths that rules hide and git's history shows, looked for while the program runs.
pub(super) struct Hidden(Option<JoinHandle<Vec<TreePath>>>);

impl Hidden {
    pub(super) fn look(start: &Start) -> Hidden {
        let Some(rules) = start.program.rules.clone() else { return Hidden(None) };
        let root = start.task.root().to_owned();
        Hidden(Some(std::thread::spawn(move || {
            let found = Rules::new(rules).ok().map(|rules| hidden_in_history(&root, &rules, HIDDEN_NAMED));
            found.and_then(Result::ok).unwrap_or_default()
        })))
    }

    fn warn(self, out: &mut Printer) {
        let found = self.0.and_then(|thread| thread.join().ok()).unwrap_or_default();
        if !found.is_empty() {
            let paths: Vec<String> = found.iter().map(ToString::to_string).collect();
            out.warn(format_args!("hidden from the program, but not in git's history: {}", paths.join(", ")));
        }
    }
}

fn line(file: &ChangedFile) -> String {
    let letter = match file.kind {
        ChangeKind::Added => 'A',
        ChangeKind::Modified => 'M',
        ChangeKind::Deleted => 'D',
        ChangeKind::Renamed => 'R',
        ChangeKind::Metadata => 'm',
    };
    let path = file.path.path.trim_start_matches('/');
    format!("  {letter} {}", crate::escape::printable_line(path.as_bytes()))
}
