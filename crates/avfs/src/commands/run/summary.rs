//! The summary of `avfs run` when the program has ended.

use std::path::PathBuf;

use agentvfs::exec::sandbox::limits::{LimitsBy, ReachedLimit};
use agentvfs::exec::{ChangedFile, ProgramEnd, PublishedBody, RefusalBody};
use agentvfs::git::CommitsMade;
use agentvfs::task_run::EndReason;
use anyhow::Result;
use serde::Serialize;

use super::arguments::{RunArgs, Start};
use super::hidden::HiddenSearch;
use super::local_program;
use crate::commands::apply::AppliedPart;
use crate::commands::rules::HiddenBody;
use crate::commands::tasks::ProjectField;
use crate::ignored::IgnoredBody;
use crate::listing::{Item, Listing, ignored_line, shown};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::unreached::{self, Unreached, quoted, typed};
use crate::versions::count;

/// How many lines about files are printed.
const NAMED: usize = 10;

/// A default limit of this many processes is not a plausible reason for a failure.
const FAR_AWAY: u64 = 8192;

#[derive(Serialize)]
struct RunBody<'a> {
    task: String,
    run: &'a str,
    #[serde(flatten)]
    project: ProjectField,
    profile: &'a str,
    exit_code: i32,
    /// Why it ended.
    ended: &'static str,
    changed_files: Vec<ChangedFile>,
    ignored: IgnoredBody,
    snapshot_before: String,
    snapshot_after: String,
    audit_head: &'a str,
    network_refusals: Vec<RefusalBody>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedBody>,
    dropped_settings: &'a [PathBuf],
    /// Files that were hidden from the program: all that git tracks, and of the others those near the top.
    hidden_files: Vec<HiddenBody>,
    /// Nothing in the task is worth keeping, and it is gone.
    discarded: bool,
    /// If that was wanted and it ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<&'a AppliedPart>,
}

pub(super) fn tell(
    out: &mut Printer,
    args: &RunArgs,
    start: &Start,
    end: &ProgramEnd,
    hidden: HiddenSearch,
    apply: Option<&AppliedPart>,
    is_spent: bool,
) -> Result<()> {
    let waiting = Progress::if_slow(out, "comparing");
    let changes = start.task.changes()?;
    drop(waiting);
    if out.is_json() {
        let body = RunBody {
            task: start.task.name().to_string(),
            run: &end.run,
            project: ProjectField::new(start.task.root().as_os_str().as_encoded_bytes()),
            profile: &start.profile.name,
            exit_code: end.process.status(),
            ended: EndReason::of(end).as_str(),
            changed_files: changes.files.into_iter().map(ChangedFile::from).collect(),
            ignored: (&changes.ignored_places).into(),
            snapshot_before: end.before.to_string(),
            snapshot_after: end.after.to_string(),
            audit_head: &end.audit_head,
            network_refusals: end.refusals(),
            published: start.published(),
            dropped_settings: &end.dropped,
            hidden_files: hidden.bodies(),
            discarded: is_spent,
            apply,
        };
        return Ok(out.object("run", &body)?);
    }
    tell_limits(out, end);
    tell_possible_limits(out, start, end);
    // A task that has been discarded is not named.
    let task = (!is_spent).then(|| start.task.name().to_string());
    let refusals = end.refusals();
    let refusals: Vec<Unreached<'_>> = refusals.iter().map(Unreached::from).collect();
    for line in unreached::lines(&refusals, |net| args.again(task.as_deref(), net)) {
        out.talk(line);
    }
    for file in &end.dropped {
        let shown = crate::escape::printable_os(file.as_os_str());
        out.talk(format_args!("changed for this run only: ~/{shown}"));
    }
    hidden.warn_of_history(out);
    let name = start.task.name();
    // If commits cannot be counted, `avfs diff` reports the reason.
    let commits = start.task.git().unbrought_commits().unwrap_or(0);
    let repositories = start.task.git().unbrought_repositories().unwrap_or_default();
    // Those of earlier runs were reported then.
    tell_commits(
        out,
        &start
            .task
            .git()
            .commits_made(end.before, end.after)
            .unwrap_or_default(),
    );
    let items: Vec<Item> = changes.files.iter().map(Item::from).collect();
    let traces = if is_spent {
        Vec::new()
    } else {
        start.task.work().other_git_work(&changes.files)?
    };
    if !end.process.has_started() {
        tell_of_local_program(out, args, start);
    }
    match items.len() {
        _ if !end.process.has_started() && is_spent => {
            out.talk(format_args!("task {name}: the program did not start, so it is gone"))
        }
        0 if is_spent => out.talk(format_args!("task {name}: nothing changed, so it is gone")),
        0 if commits > 0 => {
            out.talk(format_args!("task {name}: no file differs; `avfs apply {name} --commits` brings what it committed"))
        }
        0 if !repositories.is_empty() => out.talk(format_args!(
            "task {name}: no file differs, but there are commits that you do not have; `avfs run --task {name}` goes on with it"
        )),
        0 if !traces.is_empty() => out.talk(format_args!(
            "task {name}: no file differs, but its repository does: {}; `avfs run --task {name}` goes on with it",
            crate::git::traces(&traces)
        )),
        0 if !changes.ignored_places.is_empty() => out.talk(format_args!(
            "task {name}: only ignored files changed; `avfs apply {name} --ignored` applies them, \
             `avfs discard {name}` throws them away"
        )),
        0 => out.talk(format_args!("task {name}: nothing changed; `avfs discard {name}` throws it away")),
        files => {
            let listing = Listing::folded(&items, &changes.whole_directories);
            let counts = listing.counts();
            let files = count(files as u64, "file");
            // For an existing task, everything is listed, including older changes.
            let by_others = if is_of_earlier_runs(start, end) { ", not by this run" } else { "" };
            out.talk(format_args!("task {name}: {files} changed ({counts}){by_others}"));
            listing.talk_some(out, NAMED);
            if !traces.is_empty() {
                out.talk(format_args!("git: {}", crate::git::traces(&traces)));
            }
        }
    }
    if let Some(line) = ignored_line(&changes.ignored_places) {
        if is_spent {
            out.talk(format_args!("{line} (gone with the task; --name keeps one)"))
        } else {
            out.talk(line)
        }
    }
    if !items.is_empty() {
        out.talk(format_args!("look:  avfs diff {name}"));
        let is_applied_next = args.apply_on_success && end.process.status() == 0;
        if commits > 0 {
            out.talk(format_args!(
                "keep:  avfs apply {name} --commits   (its commits, as a branch)"
            ));
        }
        if !is_applied_next {
            out.talk(format_args!("keep:  avfs apply {name}"));
        }
        out.talk(format_args!("drop:  avfs discard {name}"));
    }
    Ok(())
}

/// Whether a run of an existing task changed no file.
fn is_of_earlier_runs(start: &Start, end: &ProgramEnd) -> bool {
    let changed = || start.task.work().changed_between(end.before, end.after);
    start.made.is_none() && changed().is_ok_and(|changes| changes.files.is_empty())
}

/// The limits that stopped or hindered it.
fn tell_limits(out: &mut Printer, end: &ProgramEnd) {
    match EndReason::of(end) {
        EndReason::TimeLimit => out.warn("it was ended because it took longer than --timeout allows"),
        EndReason::CpuLimit => out.warn("it was ended because it used up its processor time"),
        EndReason::MemoryLimit => out.warn("it was killed because it used more memory than --memory allows"),
        _ if end.process.limits_hit.contains(&ReachedLimit::Memory) => {
            out.warn("some of its processes were killed because they used more memory than --memory allows");
        }
        _ => {}
    }
    if end.process.limits_hit.contains(&ReachedLimit::Pids) {
        out.warn("some of its processes could not be started because --pids allows no more");
    }
}

/// The kernel reports a limit per process only to the process. A program that failed may have reached one.
fn tell_possible_limits(out: &mut Printer, start: &Start, end: &ProgramEnd) {
    let process = &end.process;
    let ended_by_itself = process.stopped.is_none() && process.limits_hit.is_empty();
    let has_failed = process.has_started() && process.status() != 0;
    if process.limits_by != LimitsBy::Rlimits || !ended_by_itself || !has_failed {
        return;
    }
    let limits = &start.program.limits;
    let set = [
        ("--memory", limits.memory.is_some()),
        ("--pids", limits.pids.is_some_and(|pids| pids < FAR_AWAY)),
    ];
    let names: Vec<&str> = set
        .iter()
        .filter(|(_, is_set)| *is_set)
        .map(|(name, _)| *name)
        .collect();
    if !names.is_empty() {
        out.talk(format_args!(
            "it may have reached {}: a limit per process is not reported",
            names.join(" or ")
        ));
    }
}

fn tell_commits(out: &mut Printer, made: &CommitsMade) {
    match made.commits {
        0 => {}
        1 => out.talk("1 commit was made"),
        count => out.talk(format_args!("{count} commits were made")),
    }
    if !made.repositories.is_empty() {
        let places: Vec<String> = made.repositories.iter().map(|path| shown(path, false)).collect();
        out.talk(format_args!("commits were made in {}", places.join(", ")));
    }
}

/// Says where the project itself has a program that `PATH` does not find.
fn tell_of_local_program(out: &mut Printer, args: &RunArgs, start: &Start) {
    let Some((name, rest)) = args.command.split_first() else {
        return;
    };
    let Some(found) = local_program::find(start.task.root(), name) else {
        return;
    };
    let mut again: Vec<String> = ["avfs", "run", "--"].map(str::to_owned).into();
    again.push(typed(found.as_os_str()));
    again.extend(rest.iter().map(|word| typed(word)));
    out.talk(format_args!(
        "the project has this program in a directory that PATH does not name: {}",
        quoted(&again)
    ));
}
