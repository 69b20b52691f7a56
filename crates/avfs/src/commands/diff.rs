//! `avfs diff`: the differences between two states.

mod compare;
mod output;
mod patch;
mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use agentvfs::error::{HistoryError, TaskError};
use agentvfs::git::is_in_repository;
use agentvfs::{Task, Vault};
use anyhow::Result;
use avfs_core::BadName;

use self::compare::compare_all;
pub use self::compare::{check_paths, compare, first_snapshot};
pub use self::output::{ChangeBody, print_list};

use self::output::DiffOutput;
use crate::args::{PathArg, path_arg};
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::ignored::{IgnoredArgs, tell_ignored};
use crate::progress::Progress;
use crate::revision::{NamedState, RevisionArg};
use crate::rule_args::RuleArgs;
use crate::versions::last_landmark;
use crate::view::View;

/// Show the differences between two states
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "avfs diff [OPTIONS] [FROM] [TO] [PATH]...\n       avfs diff [OPTIONS] [FROM] [TO] -- [PATH]...",
    after_help = "FROM defaults to the last checkpoint, or to where the vault was forked or created; TO
defaults to the current state.
A revision is a checkpoint, the first digits of a snapshot's id, '@' for the current
state, or VAULT:REV for another vault ('web:' is its current state).
A single task is compared with the directory as it was when the task began, without
ignored files; without FROM and TO, so is the only task of this project. A directory in
which many files changed is shown as one line.
Arguments that begin with '/', ':/', './' or '../', or follow '--', are paths. In a
directory of the project, paths are relative to it, as in git; those that begin with
'/' or ':/' start at the root of the project.

Examples:
  avfs diff
  avfs diff task-1 --patch
  avfs diff before-upgrade --stat
  avfs diff before-upgrade @ src
  avfs diff --word-diff
  avfs diff web: web-fix: --patch | git apply
  avfs diff -- src tests"
)]
pub struct DiffArgs {
    /// Up to two revisions, then paths
    #[arg(value_name = "REV|PATH")]
    words: Vec<OsString>,

    /// Limit to these files and directories
    #[arg(last = true, value_name = "PATH", value_parser = path_arg())]
    paths: Vec<PathArg>,

    #[command(flatten)]
    format: FormatArgs,

    /// List every file, even where a directory has many
    #[arg(long, visible_alias = "no-fold")]
    all: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,

    /// Number the hunks of each file even when not on a terminal; the patch still applies
    #[arg(long, requires = "lines")]
    hunk_numbers: bool,

    /// Exit with status 1 if there are differences
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct FormatArgs {
    /// Show changed lines per file, and totals
    #[arg(long)]
    stat: bool,

    /// Show only the paths
    #[arg(long)]
    name_only: bool,

    /// Show a unified diff that `git apply` and `patch` accept
    #[arg(short, long, group = "lines")]
    patch: bool,

    /// Show a unified diff with the changed words of each line marked
    #[arg(long, group = "lines")]
    word_diff: bool,
}

pub fn run(context: &mut Context<'_>, args: &DiffArgs) -> Result<ExitStatus> {
    let mut comparison = args.comparison()?;
    let task = task(context, &mut comparison)?;
    let Comparison { from, to, paths } = comparison;
    let first = from.clone();
    let (from, to) = match &task {
        Some(task) => of_task(context, task)?,
        None => {
            let found = context.vault().and_then(|vault| of_revisions(&vault, from, to));
            found.map_err(|error| unknown_task(context, first.as_ref(), error))?
        }
    };
    let paths = match &task {
        Some(task) => context.paths_in(Some(task.vault()), &paths)?,
        None if paths.is_empty() => Vec::new(),
        None => context.paths(&paths)?,
    };
    check_paths(&from, &to, &paths)?;
    let waiting = Progress::if_slow(context.out, "comparing");
    let own = match first {
        None if context.is_alone() => own_task(context)?,
        _ => None,
    };
    let work_of = task.as_ref().or(own.as_ref());
    let changes = match work_of {
        Some(task) => task.work().changes_seen(&from.reader, &to.reader, &paths)?,
        None => compare_all(&from.reader, &to.reader, &paths)?,
    };
    // In a task, git's changes are shown as commits, unless its files themselves are requested.
    let git = match &task {
        Some(task) if !paths.iter().any(is_in_repository) => Some(task.git().summary()?),
        _ => None,
    };
    let with_ignored = args.ignored.are_wanted(context);
    let output = DiffOutput {
        from: &from,
        to: &to,
        changes: &changes.files,
        ignored: if with_ignored { &changes.ignored } else { &[] },
        ignored_places: work_of.map(|_| &changes.ignored_places),
        whole_directories: &changes.whole_directories,
        git: git.as_ref(),
    };
    drop(waiting);
    context.out.paged(|out| output.print(out, args))?;
    if !with_ignored {
        tell_ignored(context.out, &changes.ignored_places);
    }
    if let Some(summary) = &git {
        crate::git::tell(context.out, summary);
    }
    if let Some(task) = task.as_ref().filter(|_| git.is_some() && paths.is_empty()) {
        let name = context.here()?.name_of(task);
        crate::git::tell_traces(context.out, task, &name, &changes.files)?;
    }
    let differs = !changes.files.is_empty() || with_ignored && !changes.ignored.is_empty();
    if args.exit_code && differs {
        Ok(ExitStatus::No)
    } else {
        Ok(ExitStatus::Success)
    }
}

/// The task that is named first, if no other state is named after it: then the changes of the task are
/// wanted, and the second word is a path too.
fn task(context: &mut Context<'_>, comparison: &mut Comparison) -> Result<Option<Task>> {
    if context.is_alone() {
        return Ok(None);
    }
    let Some(from) = &comparison.from else {
        return task_in_force(context);
    };
    let RevisionArg {
        vault: None,
        state: NamedState::Named(name),
    } = from
    else {
        return Ok(None);
    };
    let here = context.here()?;
    let Ok(task) = here.task(name) else {
        return path_of_task(context, comparison);
    };
    // If `--vault` names another vault, that vault is compared with this state.
    if context.refuse_other_vault(&here, name, &task).is_err() {
        return Ok(None);
    }
    match &comparison.to {
        None => {}
        Some(RevisionArg {
            vault: None,
            state: NamedState::Named(word),
        }) if here.vault(word).is_err() => {
            comparison.paths.insert(0, PathArg::parse(word.as_bytes())?);
        }
        Some(_) => return Ok(None),
    }
    Ok(Some(task))
}

/// A first word that names nothing else is a path, if the task that is meant here has it; so are all that follow.
fn path_of_task(context: &mut Context<'_>, comparison: &mut Comparison) -> Result<Option<Task>> {
    let words: Vec<String> = [&comparison.from, &comparison.to]
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let Some(first) = words.first() else {
        return Ok(None);
    };
    let Some((task, _)) = context.task_with(first.as_bytes())? else {
        return Ok(None);
    };
    let names_revision = |word: &String| context.vault().is_ok_and(|vault| vault.revision(word).is_ok());
    if words.iter().any(names_revision) {
        return Ok(None);
    }
    let words = words
        .iter()
        .map(|word| PathArg::parse(word.as_bytes()))
        .collect::<Result<Vec<_>, BadName>>()?;
    comparison.paths.splice(0..0, words);
    (comparison.from, comparison.to) = (None, None);
    Ok(Some(task))
}

/// If there are tasks, a word that names nothing is treated as the name of a task, as in other commands.
fn unknown_task(
    context: &mut Context<'_>,
    first: Option<&RevisionArg>,
    error: anyhow::Error,
) -> anyhow::Error {
    let Some(RevisionArg {
        vault: None,
        state: NamedState::Named(name),
    }) = first
    else {
        return error;
    };
    let names_nothing = match error.downcast_ref::<agentvfs::Error>() {
        Some(agentvfs::Error::History(HistoryError::UnknownRevision { similar, .. })) => similar.is_none(),
        _ => matches!(Failure::of(&error).code, "no-vault" | "several-tasks"),
    };
    if !names_nothing || context.is_alone() {
        return error;
    }
    let has_project = |here: &agentvfs::Here| here.project().is_some();
    match context
        .here()
        .ok()
        .filter(has_project)
        .map(|here| here.task(name))
    {
        Some(Err(unknown @ agentvfs::Error::Task(TaskError::Unknown { .. }))) => unknown.into(),
        _ => error,
    }
}

/// If no state is named: the task that commands work on, if it is one.
fn task_in_force(context: &mut Context<'_>) -> Result<Option<Task>> {
    context.task_store()?;
    match Task::of(context.decided()?.vault) {
        Err(agentvfs::Error::Task(TaskError::NotATask { .. })) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// The task of the run that asks from inside. It is compared as any vault is, but what git ignores and what git keeps
/// for itself are no work there either. Nothing is said of the user's repository.
fn own_task(context: &Context<'_>) -> Result<Option<Task>> {
    match Task::of(context.vault()?) {
        Err(agentvfs::Error::Task(TaskError::NotATask { .. })) => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn of_task(context: &Context<'_>, task: &Task) -> Result<(View, View)> {
    let vault = context.seen(task.vault().clone())?;
    Ok((
        View::new(vault.clone(), task.base()?)?,
        View::new(vault, task.head()?)?,
    ))
}

fn of_revisions(vault: &Vault, from: Option<RevisionArg>, to: Option<RevisionArg>) -> Result<(View, View)> {
    let from = match from {
        Some(revision) => vault.revision(&revision.to_string())?,
        None => vault.revision(&default_from(vault)?)?,
    };
    let to = to.map_or_else(|| "@".to_owned(), |revision| revision.to_string());
    Ok((View::of(from)?, View::of(vault.revision(&to)?)?))
}

/// The default state with which a vault is compared.
fn default_from(vault: &Vault) -> Result<String> {
    match last_landmark(vault)? {
        Some(landmark) => Ok(landmark.revision()),
        None => Ok(first_snapshot(vault)?.to_string()),
    }
}

/// Whether a word can only be a path: no revision begins like this.
fn is_path(word: &[u8]) -> bool {
    let begins: [&[u8]; 4] = [b"/", b":/", b"./", b"../"];
    word == b"." || word == b".." || begins.iter().any(|begin| word.starts_with(begin))
}

/// What to compare.
#[derive(Debug, PartialEq, Eq)]
struct Comparison {
    from: Option<RevisionArg>,
    to: Option<RevisionArg>,
    paths: Vec<PathArg>,
}

impl DiffArgs {
    fn comparison(&self) -> Result<Comparison, anyhow::Error> {
        let is_revision = |word: &&OsString| !is_path(word.as_bytes());
        let revisions = self.words.iter().take(2).take_while(is_revision).count();
        let (revisions, paths) = self.words.split_at(revisions);
        let mut revisions = revisions.iter().map(revision);
        let (from, to) = (revisions.next().transpose()?, revisions.next().transpose()?);
        let mut paths = paths
            .iter()
            .map(|word| PathArg::parse(word.as_bytes()))
            .collect::<Result<Vec<_>, BadName>>()?;
        paths.extend_from_slice(&self.paths);
        Ok(Comparison { from, to, paths })
    }
}

fn revision(word: &OsString) -> Result<RevisionArg, Failure> {
    let bad = |reason: String| Failure::new("bad-revision", ExitStatus::BadInput, reason);
    let text = word.to_str().ok_or_else(|| {
        bad(format!(
            "'{}' is not a revision",
            crate::escape::printable_os(word)
        ))
    })?;
    RevisionArg::parse(text).map_err(|error| bad(error.to_string()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        diff: DiffArgs,
    }

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let words = ["diff"]
            .into_iter()
            .chain(line.split(' ').filter(|word| !word.is_empty()));
        let Comparison { from, to, paths } = Line::parse_from(words).diff.comparison().unwrap();
        let show =
            |revision: Option<RevisionArg>| revision.map_or("-".to_owned(), |revision| revision.to_string());
        let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
        assert_eq!(
            format!("{} {} [{}]", show(from), show(to), paths.join(", ")),
            expected
        );
    }

    #[test]
    fn revisions_come_first_and_paths_are_told_by_their_place_or_their_slash() {
        check("", "- - []");
        check("v1", "v1 - []");
        check("v1 @", "v1 @ []");
        check("v1 @ src tests", "v1 @ [src, tests]");
        check("/src", "- - [/src]");
        check("v1 /src lib", "v1 - [/src, lib]");
        check("-- src", "- - [src]");
        check(". ../lib", "- - [, ../lib]");
        check("v1 ..", "v1 - [..]");
        check("web: fix: --patch -- src", "web: fix: [src]");
    }
}
