//! What `avfs run` says when the program has ended.

use std::path::PathBuf;

use agentvfs::exec::boundary::limits::{Limit, LimitsBy};
use agentvfs::exec::{ChangedFile, ProgramEnd, PublishedBody, RefusalBody};
use agentvfs::task_run::EndReason;
use anyhow::Result;
use serde::Serialize;

use super::arguments::{RunArgs, Start};
use super::hidden::Hidden;
use crate::commands::apply::Part;
use crate::commands::rules::HiddenBody;
use crate::commands::tasks::ProjectField;
use crate::ignored::IgnoredBody;
use crate::listing::{Item, Listing, ignored_line, shown};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::unreached::{self, Unreached};
use crate::versions::count;

/// How many lines about files are told.
const NAMED: usize = 10;

/// A limit of so many processes, which holds where nobody gave one, is not what a program fails of.
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
    network_refusals: &'a [RefusalBody],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedBody>,
    dropped_settings: &'a [PathBuf],
    /// What the program did not see: all that git tracks, and of everything else what lies near the top.
    hidden_files: Vec<HiddenBody>,
    /// Nothing in the task is worth keeping, and it is gone.
    discarded: bool,
    /// If that was wanted and it ended well.
    #[serde(skip_serializing_if = "Option::is_none")]
    apply: Option<&'a Part>,
}

pub(super) fn tell(
    out: &mut Printer,
    args: &RunArgs,
    start: &Start,
    end: &ProgramEnd,
    hidden: Hidden,
    apply: Option<&Part>,
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
            exit_code: end.status,
            ended: EndReason::of(end).as_str(),
            changed_files: changes.files.into_iter().map(ChangedFile::from).collect(),
            ignored: (&changes.ignored_places).into(),
            snapshot_before: end.before.to_string(),
            snapshot_after: end.after.to_string(),
            audit_head: &end.audit_head,
            network_refusals: &end.refusals,
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
    // One that is gone by then is not named.
    let task = (!is_spent).then(|| start.task.name().to_string());
    let refusals: Vec<Unreached<'_>> = end.refusals.iter().map(Unreached::from).collect();
    for line in unreached::lines(&refusals, |net| args.again(task.as_deref(), net)) {
        out.talk(line);
    }
    for file in &end.dropped {
        let shown = crate::escape::printable_os(file.as_os_str());
        out.talk(format_args!("changed for this run only: ~/{shown}"));
    }
    hidden.warn_of_history(out);
    let name = start.task.name();
    // What cannot be counted is told by `avfs diff`.
    let commits = start.task.unbrought_commits().unwrap_or(0);
    tell_commits(out, commits);
    let repositories = start.task.unbrought_repositories().unwrap_or_default();
    let places: Vec<String> = repositories.iter().map(|path| shown(path, false)).collect();
    if !places.is_empty() {
        out.talk(format_args!("commits were made in {}", places.join(", ")));
    }
    let items: Vec<Item> = changes.files.iter().map(Item::from).collect();
    match items.len() {
        _ if !end.started && is_spent => {
            out.talk(format_args!("task {name}: the program did not start, so it is gone"))
        }
        0 if is_spent => out.talk(format_args!("task {name}: nothing changed, so it is gone")),
        0 if commits > 0 => {
            out.talk(format_args!("task {name}: no file differs; `avfs apply {name} --commits` brings what it committed"))
        }
        0 if !places.is_empty() => out.talk(format_args!(
            "task {name}: no file differs, but there are commits that you do not have; `avfs run --task {name}` goes on with it"
        )),
        0 if start.task.has_other_git_work()? => out.talk(format_args!(
            "task {name}: no file differs, but its repository does: a stash, a commit on no branch, or settings; \
             `avfs run --task {name}` goes on with it"
        )),
        0 => out.talk(format_args!("task {name}: nothing changed; `avfs discard {name}` throws it away")),
        files => {
            let listing = Listing::folded(&items, &changes.whole_directories);
            let counts = listing.counts();
            out.talk(format_args!("task {name}: {} changed ({counts})", count(files as u64, "file")));
            listing.talk_some(out, NAMED);
        }
    }
    if let Some(line) = ignored_line(&changes.ignored_places) {
        match is_spent {
            true => out.talk(format_args!("{line} (gone with the task; --name keeps one)")),
            false => out.talk(line),
        }
    }
    if !items.is_empty() {
        out.talk(format_args!("look:  avfs diff {name}"));
        let is_applied_next = args.apply_on_success && end.status == 0;
        if commits > 0 {
            out.talk(format_args!("keep:  avfs apply {name} --commits   (its commits, as a branch)"));
        }
        if !is_applied_next {
            out.talk(format_args!("keep:  avfs apply {name}"));
        }
        out.talk(format_args!("drop:  avfs discard {name}"));
    }
    Ok(())
}

/// What stopped it, or stood in its way, of what it was allowed to use up.
fn tell_limits(out: &mut Printer, end: &ProgramEnd) {
    match EndReason::of(end) {
        EndReason::TimeLimit => out.warn("it was ended because it took longer than --timeout allows"),
        EndReason::CpuLimit => out.warn("it was ended because it used up its processor time"),
        EndReason::MemoryLimit => out.warn("it was killed because it used more memory than --memory allows"),
        _ if end.limits_hit.contains(&Limit::Memory) => {
            out.warn("some of its processes were killed because they used more memory than --memory allows");
        }
        _ => {}
    }
    if end.limits_hit.contains(&Limit::Pids) {
        out.warn("some of its processes could not be started because --pids allows no more");
    }
}

/// Limits of each process alone tell nobody that they were met. A program that failed may have.
fn tell_possible_limits(out: &mut Printer, start: &Start, end: &ProgramEnd) {
    let ended_by_itself = end.stopped.is_none() && end.limits_hit.is_empty();
    if end.limits_by != LimitsBy::Rlimits || !ended_by_itself || end.status == 0 || !end.started {
        return;
    }
    let limits = &start.program.limits;
    let set =
        [("--memory", limits.memory.is_some()), ("--pids", limits.pids.is_some_and(|pids| pids < FAR_AWAY))];
    let names: Vec<&str> = set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
    if !names.is_empty() {
        out.talk(format_args!(
            "it may have met {}: limits of each process alone do not tell",
            names.join(" or ")
        ));
    }
}

fn tell_commits(out: &mut Printer, commits: usize) {
    match commits {
        0 => {}
        1 => out.talk("1 commit was made"),
        count => out.talk(format_args!("{count} commits were made")),
    }
}
