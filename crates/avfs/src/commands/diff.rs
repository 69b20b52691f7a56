//! `avfs diff`: what differs between two states.

mod compare;
mod output;
mod patch;
mod words;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use agentvfs::git::is_in_repository;
use agentvfs::{Task, Vault};
use anyhow::Result;
use avfs_core::{BadName, TreePath};

use self::compare::compare_all;
pub use self::compare::{check_paths, compare, first_snapshot};
pub use self::output::{ChangeBody, print_list};

use self::output::Output;
use crate::args::vault_path;
use crate::context::Context;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::Reason;
use crate::ignored::{IgnoredArgs, tell_ignored};
use crate::progress::Progress;
use crate::revision::{Revision, State};
use crate::rule_args::RuleArgs;
use crate::versions::last_landmark;
use crate::view::View;

/// Show what differs between two states
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "avfs diff [OPTIONS] [FROM] [TO] [PATH]...\n       avfs diff [OPTIONS] [FROM] [TO] -- [PATH]...",
    after_help = "FROM is the last checkpoint if not given, or where the vault was forked or
began; TO is the present state.
A revision is a checkpoint, the beginning of a snapshot's id, '@' for the
present state, or VAULT:REV for another vault ('web:' is its present state).
A task alone is compared with the directory that it began with, without what
git ignores there; without FROM and TO, so is the only task of this project.
A directory in which many files changed is one line.
What begins with '/' or stands behind '--' is a path.

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

    /// Only these files and directories
    #[arg(last = true, value_name = "PATH", value_parser = vault_path())]
    paths: Vec<TreePath>,

    #[command(flatten)]
    format: FormatArgs,

    /// List every file: no line for a directory with many
    #[arg(long, visible_alias = "no-fold")]
    all: bool,

    #[command(flatten)]
    ignored: IgnoredArgs,

    /// Number the hunks of each file, as on a terminal; the patch still applies
    #[arg(long, requires = "lines")]
    hunk_numbers: bool,

    /// End with status 1 if there are differences
    #[arg(long)]
    exit_code: bool,

    #[command(flatten)]
    pub rules: RuleArgs,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
pub struct FormatArgs {
    /// Changed lines per file, and totals
    #[arg(long)]
    stat: bool,

    /// Only the paths
    #[arg(long)]
    name_only: bool,

    /// Unified, as `git apply` and `patch` take it
    #[arg(short, long, group = "lines")]
    patch: bool,

    /// Unified, with the changed words of a line marked in it
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
    check_paths(&from, &to, &paths)?;
    let waiting = Progress::if_slow(context.out, "comparing");
    let changes = match &task {
        Some(task) => task.changes_seen(&from.reader, &to.reader, &paths)?,
        None => compare_all(&from.reader, &to.reader, &paths)?,
    };
    // Of a task, what was done with git is told by commits, unless its very files are asked for.
    let git = match &task {
        Some(task) if !paths.iter().any(is_in_repository) => Some(task.git_summary()?),
        _ => None,
    };
    let with_ignored = args.ignored.are_wanted(context);
    let output = Output {
        from: &from,
        to: &to,
        changes: &changes.files,
        ignored: if with_ignored { &changes.ignored } else { &[] },
        ignored_places: task.as_ref().map(|_| &changes.ignored_places),
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
    let differs = !changes.files.is_empty() || with_ignored && !changes.ignored.is_empty();
    match args.exit_code && differs {
        true => Ok(ExitStatus::No),
        false => Ok(ExitStatus::Success),
    }
}

/// The task that stands first, if no other state is named behind it: then what is wanted is what the task changed, and
/// the second word is a path too.
fn task(context: &mut Context<'_>, comparison: &mut Comparison) -> Result<Option<Task>> {
    if context.is_alone() {
        return Ok(None);
    }
    let Some(from) = &comparison.from else { return task_of_project(context) };
    let Revision { vault: None, state: State::Named(name) } = from else { return Ok(None) };
    let here = context.here()?;
    let Ok(task) = here.task(name) else { return Ok(None) };
    match &comparison.to {
        None => {}
        Some(Revision { vault: None, state: State::Named(word) }) if here.vault(word).is_err() => {
            comparison.paths.insert(0, TreePath::parse(word.as_bytes())?);
        }
        Some(_) => return Ok(None),
    }
    Ok(Some(task))
}

/// Where tasks are, a word that names nothing at all is taken for the name of a task, as other commands take it.
fn unknown_task(context: &mut Context<'_>, first: Option<&Revision>, error: anyhow::Error) -> anyhow::Error {
    let Some(Revision { vault: None, state: State::Named(name) }) = first else { return error };
    let names_nothing = match error.downcast_ref::<agentvfs::Error>() {
        Some(agentvfs::Error::UnknownRevision { similar, .. }) => similar.is_none(),
        _ => matches!(Failure::of(&error).code, "no-vault" | "several-tasks"),
    };
    if !names_nothing || context.is_alone() {
        return error;
    }
    let has_project = |here: &agentvfs::Here| here.project().is_some();
    match context.here().ok().filter(has_project).map(|here| here.task(name)) {
        Some(Err(unknown @ agentvfs::Error::UnknownTask { .. })) => unknown.into(),
        _ => error,
    }
}

/// Where nothing is named: the task of this project, if that is what commands work on.
fn task_of_project(context: &mut Context<'_>) -> Result<Option<Task>> {
    context.task_store()?;
    let decided = context.decided()?;
    match decided.reason {
        Reason::OnlyTask(_) | Reason::ChosenTask(_) => {
            Ok(Some(decided.vault.store().task(decided.vault.name()?.as_str())?))
        }
        _ => Ok(None),
    }
}

fn of_task(context: &Context<'_>, task: &Task) -> Result<(View, View)> {
    let vault = context.seen(task.vault().clone())?;
    Ok((View::new(vault.clone(), task.base()?)?, View::new(vault, task.head()?)?))
}

fn of_revisions(vault: &Vault, from: Option<Revision>, to: Option<Revision>) -> Result<(View, View)> {
    let from = match from {
        Some(revision) => vault.revision(&revision.to_string())?,
        None => vault.revision(&default_from(vault)?)?,
    };
    let to = to.map_or_else(|| "@".to_owned(), |revision| revision.to_string());
    Ok((View::of(from)?, View::of(vault.revision(&to)?)?))
}

/// What a vault is compared with if nothing is named.
fn default_from(vault: &Vault) -> Result<String> {
    match last_landmark(vault)? {
        Some(landmark) => Ok(landmark.revision()),
        None => Ok(first_snapshot(vault)?.to_string()),
    }
}

/// What to compare.
#[derive(Debug, PartialEq, Eq)]
struct Comparison {
    from: Option<Revision>,
    to: Option<Revision>,
    paths: Vec<TreePath>,
}

impl DiffArgs {
    fn comparison(&self) -> Result<Comparison, anyhow::Error> {
        let is_revision = |word: &&OsString| !word.as_bytes().starts_with(b"/");
        let revisions = self.words.iter().take(2).take_while(is_revision).count();
        let (revisions, paths) = self.words.split_at(revisions);
        let mut revisions = revisions.iter().map(revision);
        let (from, to) = (revisions.next().transpose()?, revisions.next().transpose()?);
        let mut paths =
            paths.iter().map(|word| TreePath::parse(word.as_bytes())).collect::<Result<Vec<_>, BadName>>()?;
        paths.extend_from_slice(&self.paths);
        Ok(Comparison { from, to, paths })
    }
}

fn revision(word: &OsString) -> Result<Revision, Failure> {
    let bad = |reason: String| Failure::new("bad-revision", ExitStatus::BadInput, reason);
    let text = word
        .to_str()
        .ok_or_else(|| bad(format!("'{}' is not a revision", crate::escape::printable_os(word))))?;
    Revision::parse(text).map_err(|error| bad(error.to_string()))
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
        let words = ["diff"].into_iter().chain(line.split(' ').filter(|word| !word.is_empty()));
        let Comparison { from, to, paths } = Line::parse_from(words).diff.comparison().unwrap();
        let show =
            |revision: Option<Revision>| revision.map_or("-".to_owned(), |revision| revision.to_string());
        assert_eq!(format!("{} {} {paths:?}", show(from), show(to)), expected);
    }

    #[test]
    fn revisions_come_first_and_paths_are_told_by_their_place_or_their_slash() {
        check("", "- - []");
        check("v1", "v1 - []");
        check("v1 @", "v1 @ []");
        check("v1 @ src tests", "v1 @ [/src, /tests]");
        check("/src", "- - [/src]");
        check("v1 /src lib", "v1 - [/src, /lib]");
        check("-- src", "- - [/src]");
        check("web: fix: --patch -- src", "web: fix: [/src]");
    }
}
