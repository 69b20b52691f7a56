//! `avfs apply`: a task's changes in the real directory.

mod asking;
mod git;
mod output;
mod part;

pub use self::output::{ConflictBody, FileBody, KeptBody, counts, list};
pub use self::part::Part;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use agentvfs::Task;
use agentvfs::apply::{Application, ApplyOptions, Guarded, HunkNumber, OnConflict, Plan, Selection};
use anyhow::Result;
use avfs_core::{BadName, TreePath};
use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};

use self::git::GitArgs;
use crate::args::vault_path;
use crate::confirm::confirm;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::ignored::IgnoredArgs;
use crate::listing::shown;
use crate::progress::Progress;

/// Bring a task's changes into its directory
#[derive(Debug, clap::Args)]
#[command(after_help = "A file that was changed in the directory since the task began is merged line by
line where that is clean; otherwise it is a conflict, and nothing is applied
unless --conflicts says what to do. Everything is applied or nothing is, and
`avfs undo` takes it back. On a terminal, avfs shows what it would do and asks.
Files that git ignores are not applied, unless they are named or --ignored is
given, and are never in conflict.
Files that programs of this machine run without being asked (hooks, settings of
editors, .envrc) and directories that git would take for a repository are left
out, unless --allow names them or you agree when asked.
Ends with status 1 if there are conflicts (left, marked, or in the way), or if
such files are left out.

Examples:
  avfs apply task-1
  avfs apply task-1 --dry-run
  avfs apply task-1 src --hunks README.md:1,3
  avfs apply task-1 --conflicts mark
  avfs apply task-1 --to ../web-copy
  avfs apply task-1 --allow .vscode/settings.json
  avfs apply task-1 --commits
  avfs apply task-1 --branch fix -m 'Fix the login'")]
pub struct ApplyArgs {
    /// The task [default: the only one of this project]
    #[arg(value_name = "TASK")]
    task: Option<OsString>,

    /// Only these files and directories
    #[arg(value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    /// Only these hunks of a file, counted from 1 as `avfs diff --patch` shows them; 2.1 is the first change in hunk 2
    #[arg(long, value_name = "FILE:N,…", value_parser = hunks())]
    hunks: Vec<Hunks>,

    #[command(flatten)]
    manner: MannerArgs,

    #[command(flatten)]
    git: GitArgs,
}

/// How changes are applied, wherever they come from.
#[derive(Debug, Default, clap::Args)]
pub struct MannerArgs {
    /// Only show what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,

    /// Another directory than the one that the task began with
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    to: Option<PathBuf>,

    /// What to do with files that both sides changed
    #[arg(long, value_name = "WHAT", value_enum)]
    conflicts: Option<ConflictsArg>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Also this file that programs of this machine run, or what is below this directory; without it, it is left out
    #[arg(long, value_name = "PATH", value_parser = vault_path())]
    allow: Vec<TreePath>,

    /// List every file: no line for a directory with many
    #[arg(long, visible_alias = "no-fold")]
    all: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ConflictsArg {
    /// Write both sides with markers between them; what is not text stays as it is
    Mark,
    /// Keep what is in the directory
    Ours,
    /// Take what the task has
    Theirs,
    /// Show both sides of each conflict and ask
    Ask,
}

/// Some hunks of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunks {
    path: TreePath,
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
        let colon = raw.iter().rposition(|byte| *byte == b':').ok_or(BadHunks::Form)?;
        let numbers = std::str::from_utf8(&raw[colon + 1..]).map_err(|_| BadHunks::Form)?;
        let numbers: Option<BTreeSet<HunkNumber>> =
            numbers.split(',').map(|number| number.parse().ok()).collect();
        Ok(Hunks { path: TreePath::parse(&raw[..colon])?, numbers: numbers.ok_or(BadHunks::Form)? })
    }
}

pub fn run(context: &mut Context<'_>, args: &ApplyArgs) -> Result<ExitStatus> {
    let (task, paths) = context.task_and_paths(args.task.as_deref(), &args.paths)?;
    if args.git.is_wanted() {
        let directory = args.manner.to.as_deref().unwrap_or(task.root());
        return git::run(context, &task, directory, &paths, &args.manner.allow, &args.git);
    }
    let mut selection = Selection { paths, ..Selection::default() };
    for Hunks { path, numbers } in &args.hunks {
        selection.hunks.entry(path.clone()).or_default().extend(numbers);
    }
    let status = apply(context, &task, &selection, &args.manner)?;
    git::tell_what_stays(context.out, &task)?;
    Ok(status)
}

/// Applies what is selected of a task, as `manner` says.
pub fn apply(
    context: &mut Context<'_>,
    task: &Task,
    selection: &Selection,
    manner: &MannerArgs,
) -> Result<ExitStatus> {
    let store = context.task_store()?;
    task.check_settled(selection)?;
    let directory = manner.to.as_deref().unwrap_or(task.root());
    let (base, head) = (task.base()?, task.head()?);
    let mut options = options(context, task, manner)?;
    let waiting = Progress::if_slow(context.out, "comparing");
    let look = |options: &ApplyOptions| Application::plan(&store, base, head, directory, selection, options);
    let mut plan = look(&options).map_err(agentvfs::Error::from)?;
    drop(waiting);
    if manner.conflicts == Some(ConflictsArg::Ask) && !plan.conflicts.is_empty() {
        let Some(answers) = asking::ask_for_each(context, &plan)? else {
            context.out.talk("nothing was applied");
            return Ok(ExitStatus::No);
        };
        answers.put_into(&mut options);
        plan = look(&options).map_err(agentvfs::Error::from)?;
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
        task: Some(task.vault_name().clone()),
        conflicts: manner.on_conflict(),
        rules: task.rules()?,
        allowed: manner.allow.clone(),
        ..ApplyOptions::default()
    })
}

/// Does what a plan says, if the user agrees.
pub fn carry_out(
    context: &mut Context<'_>,
    task: &Task,
    plan: Plan,
    manner: &MannerArgs,
) -> Result<ExitStatus> {
    let plan = ask_for_guarded(context, plan, manner)?;
    let asks = plan.conflicts.is_empty() && asks(context, &plan, manner);
    if asks && !agrees(context, task, &plan, manner)? {
        return Ok(ExitStatus::No);
    }
    let summary = output::Summary::of(task, &plan);
    let working = Progress::if_slow(context.out, "applying");
    let applied = plan.carry_out()?;
    drop(working);
    // What was shown with the question is not shown again.
    let list = if asks { output::List::Shown } else { output::List::of(manner.all) };
    summary.report(context.out, &applied, list)
}

impl MannerArgs {
    /// All of it or nothing, without a question.
    pub fn unasked() -> MannerArgs {
        MannerArgs { yes: true, ..MannerArgs::default() }
    }

    fn on_conflict(&self) -> OnConflict {
        match self.conflicts {
            None | Some(ConflictsArg::Ask) => OnConflict::Refuse,
            Some(ConflictsArg::Mark) => OnConflict::Mark,
            Some(ConflictsArg::Ours) => OnConflict::Ours,
            Some(ConflictsArg::Theirs) => OnConflict::Theirs,
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

/// How many guarded paths are asked for one by one; more are left out, and have to be named.
const ASKED: usize = 20;

/// What the host would run is asked for by its name, before everything else.
fn ask_for_guarded(context: &mut Context<'_>, plan: Plan, manner: &MannerArgs) -> Result<Plan> {
    if !can_ask(context, manner) || !plan.conflicts.is_empty() || plan.guarded.len() > ASKED {
        return Ok(plan);
    }
    let mut allowed = Vec::new();
    for Guarded { path, reason } in plan.guarded.clone() {
        let shown = shown(&path, false);
        if confirm(context.out, format_args!("Apply {shown} too? It is left out: {reason}."), false)? {
            allowed.push(path);
        }
    }
    match allowed.is_empty() {
        true => Ok(plan),
        false => Ok(plan.allowing(allowed).map_err(agentvfs::Error::from)?),
    }
}

/// On a terminal the user sees what would be done before it is.
fn agrees(context: &mut Context<'_>, task: &Task, plan: &Plan, manner: &MannerArgs) -> Result<bool> {
    output::show_before(context.out, plan, manner.all)?;
    let directory = crate::escape::printable_path(plan.directory());
    confirm(context.out, format_args!("Apply task '{}' to {directory}?", task.name()), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_numbers_behind_a_file() {
        let parse = |text: &str| {
            Hunks::parse(text.as_bytes()).ok().map(|hunks| (hunks.path.to_string(), hunks.numbers.len()))
        };
        assert_eq!(parse("src/a.rs:1,3"), Some(("/src/a.rs".into(), 2)));
        assert_eq!(parse("a:b:2"), Some(("/a:b".into(), 1)));
        assert_eq!(parse("a:1,2.1,2.2"), Some(("/a".into(), 3)));
        assert_eq!(parse("a:2.x"), None);
        assert_eq!((parse("a"), parse("a:"), parse("a:x")), (None, None, None));
    }
}
