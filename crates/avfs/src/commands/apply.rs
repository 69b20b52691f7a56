//! `avfs apply`: a task's changes in the real directory.

mod asking;
mod git;
mod output;
mod part;
mod rescue;

pub use self::output::{ApplyConflictBody, ApplyFileBody, KeptBody, counts, list};
pub use self::part::AppliedPart;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use agentvfs::Task;
use agentvfs::apply::{ApplyOptions, Guarded, HunkNumber, OnConflict, Plan, Selection};
use anyhow::Result;
use avfs_core::{BadName, TreePath};
use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};

use self::git::GitArgs;
use self::rescue::Rescue;
use crate::args::{PathArg, path_arg};
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::here::{below, meant_from};
use crate::ignored::IgnoredArgs;
use crate::listing::shown;
use crate::progress::Progress;

/// Apply a task's changes to its directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A file that was changed in the directory since the task began is merged line by
line where that is clean; otherwise it is a conflict, and nothing is applied
unless --conflicts says what to do ('ours' is the directory, 'theirs' is the task;
'directory' and 'task' mean the same). Everything is applied or nothing is, and
`avfs undo` undoes it. On a terminal, avfs shows what it would do and asks.
Files that git ignores are not applied, unless they are named or --ignored is
given, and are never in conflict.
Files that programs on this machine run on their own (hooks, editor settings, .envrc)
and directories that git would treat as a repository are left out unless --allow
names them or you agree when asked.
If the project's directory was deleted, --to creates a new directory with the files
that the task changed.
Exits with status 1 if there are conflicts (left, marked, or in the way), or if
such files are left out.

Examples:
  avfs apply task-1
  avfs apply task-1 --dry-run
  avfs apply task-1 src --hunks README.md:1,3
  avfs apply task-1 --conflicts mark
  avfs apply task-1 --conflicts task
  avfs apply task-1 --to ../web-copy
  avfs apply task-1 --allow .vscode/settings.json
  avfs apply task-1 --commits
  avfs apply task-1 --branch fix -m 'Fix the login'"
)]
pub struct ApplyArgs {
    /// The task [default: the one that commands work on here]
    #[arg(value_name = "TASK")]
    task: Option<OsString>,

    /// Limit to these files and directories
    #[arg(value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    /// Apply only these hunks of a file, counted from 1 as `avfs diff --patch` shows them; 2.1 is the first change in hunk 2
    #[arg(long, value_name = "FILE:N,…", value_parser = hunks())]
    hunks: Vec<Hunks>,

    #[command(flatten)]
    manner: MannerArgs,

    #[command(flatten)]
    git: GitArgs,
}

/// How changes are applied, whatever their source.
#[derive(Debug, Default, clap::Args)]
pub struct MannerArgs {
    /// Show what would happen, and change nothing
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Apply to this directory instead of the one from which the task was made
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    to: Option<PathBuf>,

    /// How to handle files that both sides changed
    #[arg(long, value_name = "WHAT", value_enum)]
    conflicts: Option<ApplyConflictsArg>,

    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,

    /// Also apply this file that programs on this machine run, or everything below this directory; can be repeated
    #[arg(long, value_name = "PATH", value_parser = path_arg())]
    allow: Vec<PathArg>,

    /// List every file, even where a directory has many
    #[arg(long, visible_alias = "no-fold")]
    all: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,

    /// The user has reviewed each file and accepted it.
    #[arg(skip)]
    is_reviewed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApplyConflictsArg {
    /// Write both sides with markers between them; what is not text stays as it is
    Mark,
    /// Keep the lines of the directory where both changed the same lines; also 'directory'
    #[value(alias = "directory")]
    Ours,
    /// Take the task's lines where both changed the same lines; also 'task'
    #[value(alias = "task")]
    Theirs,
    /// Show both sides of each conflict and ask
    Ask,
}

/// Some hunks of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunks {
    path: PathArg,
    numbers: BTreeSet<HunkNumber>,
}

#[derive(Debug, thiserror::Error)]
enum BadHunks {
    #[error("write the numbers of the hunks behind the file: FILE:1,3")]
    Form,
    #[error(transparent)]
    Name(#[from] BadName),
}

fn hunks() -> impl TypedValueParser<Value = Hunks> {
    OsStringValueParser::new().try_map(|raw: OsString| Hunks::parse(raw.as_bytes()))
}

impl Hunks {
    fn parse(raw: &[u8]) -> Result<Hunks, BadHunks> {
        // The last colon: a path may contain others, the numbers cannot.
        let colon = raw.iter().rposition(|byte| *byte == b':').ok_or(BadHunks::Form)?;
        let numbers = std::str::from_utf8(&raw[colon + 1..]).map_err(|_| BadHunks::Form)?;
        let numbers: Option<BTreeSet<HunkNumber>> =
            numbers.split(',').map(|number| number.parse().ok()).collect();
        Ok(Hunks {
            path: PathArg::parse(&raw[..colon])?,
            numbers: numbers.ok_or(BadHunks::Form)?,
        })
    }
}

pub fn run(context: &mut Context<'_>, args: &ApplyArgs) -> Result<ExitStatus> {
    let (task, paths) = context.task_and_paths(args.task.as_deref(), &args.paths)?;
    if args.git.is_wanted() {
        let directory = args.manner.to.as_deref().unwrap_or(task.root());
        let allowed = args.manner.allowed(&task)?;
        let name = context.here()?.name_of(&task);
        let status = git::run(context, &task, directory, &paths, &allowed, &args.git)?;
        crate::git::tell_traces(context.out, &task, &name, &task.changes()?.files)?;
        return Ok(status);
    }
    let mut selection = Selection {
        paths,
        ..Selection::default()
    };
    for Hunks { path, numbers } in &args.hunks {
        let path = meant_from(&below(task.root()), std::slice::from_ref(path))?.remove(0);
        // The flag can be repeated for the same file.
        selection.hunks.entry(path).or_default().extend(numbers);
    }
    let status = apply(context, &task, &selection, &args.manner)?;
    let name = context.here()?.name_of(&task);
    git::tell_what_stays(context.out, &task, &name)?;
    Ok(status)
}

/// Applies the selected changes of a task, as `manner` says.
pub fn apply(
    context: &mut Context<'_>,
    task: &Task,
    selection: &Selection,
    manner: &MannerArgs,
) -> Result<ExitStatus> {
    context.task_store()?;
    let directory = manner.to.as_deref().unwrap_or(task.root());
    let rescue = match &manner.to {
        Some(directory) => Rescue::into(task, directory)?,
        None => None,
    };
    let mut options = options(context, task, manner)?;
    if rescue.is_some() && manner.conflicts.is_none() {
        // Every file that the task has not made is missing there: nothing is at stake.
        options.conflicts = OnConflict::Theirs;
    }
    let waiting = Progress::if_slow(context.out, "comparing");
    let look = |options: &ApplyOptions| task.plan_apply_to(directory, selection, options);
    let mut plan = look(&options)?;
    drop(waiting);
    if rescue.is_some() {
        plan.settled.clear();
    }
    if manner.conflicts == Some(ApplyConflictsArg::Ask) && !plan.conflicts.is_empty() {
        let Some(answers) = asking::ask_for_each(context, &plan)? else {
            context.out.talk("nothing was applied");
            return Ok(ExitStatus::No);
        };
        answers.put_into(&mut options);
        plan = look(&options)?;
        answers.check(&plan)?;
    }
    if manner.dry_run {
        return output::show_dry_run(context.out, task, &plan, manner.all);
    }
    carry_out(context, task, plan, manner)
}

fn options(context: &Context<'_>, task: &Task, manner: &MannerArgs) -> Result<ApplyOptions> {
    Ok(ApplyOptions {
        with_ignored: manner.ignored.are_wanted(context),
        conflicts: manner.on_conflict(),
        allowed: manner.allowed(task)?,
        ..ApplyOptions::default()
    })
}

/// Executes a plan, if the user agrees.
pub fn carry_out(
    context: &mut Context<'_>,
    task: &Task,
    plan: Plan,
    manner: &MannerArgs,
) -> Result<ExitStatus> {
    // In a review, the user has accepted each guarded file and seen the rest already.
    let is_looked_at = manner.is_reviewed && plan.pointed.is_empty();
    let plan = ask_for_guarded(context, plan, manner)?;
    let asks = plan.conflicts.is_empty() && !is_looked_at && asks(context, &plan, manner);
    if asks && !agrees(context, task, &plan, manner)? {
        return Ok(ExitStatus::No);
    }
    let summary = output::Summary::of(task, &plan);
    let working = Progress::if_slow(context.out, "applying");
    let applied = plan.carry_out()?;
    drop(working);
    // Changes that were shown with the question are not shown again.
    let list = if asks {
        output::List::Shown
    } else {
        output::List::of(manner.all)
    };
    summary.report(context.out, &applied, list)
}

impl MannerArgs {
    /// The guarded paths that the user has named.
    fn allowed(&self, task: &Task) -> Result<Vec<TreePath>> {
        meant_from(&below(task.root()), &self.allow)
    }

    /// All of it or nothing, without a question.
    pub fn unasked() -> MannerArgs {
        MannerArgs {
            yes: true,
            ..MannerArgs::default()
        }
    }

    /// The user has accepted every file; only files that this machine would run still need a confirmation.
    #[cfg(feature = "review")]
    pub fn reviewed() -> MannerArgs {
        MannerArgs {
            is_reviewed: true,
            ..MannerArgs::default()
        }
    }

    fn on_conflict(&self) -> OnConflict {
        match self.conflicts {
            None | Some(ApplyConflictsArg::Ask) => OnConflict::Refuse,
            Some(ApplyConflictsArg::Mark) => OnConflict::Mark,
            Some(ApplyConflictsArg::Ours) => OnConflict::Ours,
            Some(ApplyConflictsArg::Theirs) => OnConflict::Theirs,
        }
    }
}

fn asks(context: &Context<'_>, plan: &Plan, manner: &MannerArgs) -> bool {
    can_ask(context, manner) && !plan.is_empty()
}

fn can_ask(context: &Context<'_>, manner: &MannerArgs) -> bool {
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    is_terminal && !context.out.is_json() && !manner.yes
}

/// How many guarded paths are confirmed one by one; further ones are omitted, and must be named.
const ASKED: usize = 20;

/// Files that the host would run are confirmed by name, before everything else.
fn ask_for_guarded(context: &mut Context<'_>, plan: Plan, manner: &MannerArgs) -> Result<Plan> {
    if !can_ask(context, manner) || !plan.conflicts.is_empty() || plan.guarded.len() > ASKED {
        return Ok(plan);
    }
    let mut allowed = Vec::new();
    for Guarded { path, reason } in plan.guarded.clone() {
        let shown = shown(&path, false);
        if confirm(
            context.out,
            format_args!("Apply {shown} too? It is left out: {reason}."),
            false,
        )? {
            allowed.push(path);
        }
    }
    if allowed.is_empty() {
        Ok(plan)
    } else {
        Ok(plan.allowing(allowed).map_err(agentvfs::Error::from)?)
    }
}

/// On a terminal, the user sees the plan before it is executed.
fn agrees(context: &mut Context<'_>, task: &Task, plan: &Plan, manner: &MannerArgs) -> Result<bool> {
    output::show_before(context.out, plan, manner.all)?;
    let directory = crate::escape::printable_path(plan.directory());
    confirm(
        context.out,
        format_args!("Apply task '{}' to {directory}?", task.name()),
        false,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_numbers_behind_a_file() {
        let parse = |text: &str| {
            Hunks::parse(text.as_bytes())
                .ok()
                .map(|hunks| (hunks.path.to_string(), hunks.numbers.len()))
        };
        assert_eq!(parse("src/a.rs:1,3"), Some(("src/a.rs".into(), 2)));
        assert_eq!(parse("a:b:2"), Some(("a:b".into(), 1)));
        assert_eq!(parse("a:1,2.1,2.2"), Some(("a".into(), 3)));
        assert_eq!(parse("a:2.x"), None);
        assert_eq!((parse("a"), parse("a:"), parse("a:x")), (None, None, None));
    }
}
