//! `avfs tasks`: the work on a project that was not thrown away, and how far it is.

mod table;

pub use table::changes;

use std::collections::BTreeSet;

use agentvfs::error::VaultError;
use agentvfs::exec::{ChangeKind, ChangedFile};
use agentvfs::task_run::TaskRun;
use agentvfs::{Clash, ClashDetail, Clashes, Error, Task, Timestamp, TreePath};
use anyhow::Result;
use serde::Serialize;

use super::task::RunStateBody;
use crate::context::Context;
use crate::escape::printable_path;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::here::working_directory;
use crate::ignored::IgnoredBody;
use crate::json::{PathField, byte_field};
use crate::progress::Progress;
use crate::time::show_rfc3339;

byte_field!(ProjectField, project, project_bytes_hex);

/// List the tasks of this project
#[derive(Debug, clap::Args)]
#[command(
    after_help = "In a directory that belongs to no project, or with --all, all tasks are listed.

A task is 'running' while something uses it, 'unchanged' while it is as the
directory was, 'unmerged' when it holds work that is nowhere else, and
'applied' when its work is in the directory. Files that git ignores do not count.

CONFLICTS counts the files of a task that would not merge cleanly with the
directory as it is now, or with another task.

Examples:
  avfs tasks
  avfs tasks --all
  avfs tasks --conflicts
  avfs tasks --json | jq -r '.tasks[] | select(.state == \"unmerged\").name'"
)]
pub struct TasksArgs {
    /// Also list the tasks of other projects
    #[arg(short, long)]
    all: bool,

    /// List the files in conflict, and what they conflict with
    #[arg(short = 'v', long, visible_alias = "verbose")]
    conflicts: bool,
}

#[derive(Serialize)]
struct TasksBody {
    tasks: Vec<ListedTaskBody>,
}

/// Information about one task.
#[derive(Serialize)]
pub struct ListedTaskBody {
    pub name: String,
    /// Its name everywhere.
    pub vault: String,
    pub state: &'static str,
    #[serde(flatten)]
    pub project: ProjectField,
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    #[serde(skip)]
    pub since: Timestamp,
    pub created: String,
    pub base: String,
    pub head: String,
    pub changed: CountsBody,
    /// Files that are not counted there.
    pub ignored: IgnoredBody,
    /// Those of git that were not brought over.
    pub commits: usize,
    /// Where commits are that are not in the project's own repository.
    pub repositories: Vec<PathField>,
    #[serde(skip)]
    pub nested: Vec<TreePath>,
    /// The run that `task output`, `wait`, `attach` and `stop` are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStateBody>,
    /// All that are kept, the newest first.
    pub runs: Vec<RunStateBody>,
    #[serde(skip)]
    pub run_note: Option<String>,
    /// Those that a merge or a sync left open in it.
    pub open_conflicts: Vec<PathField>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflicts: Option<TasksConflictsBody>,
    /// Its name in the current directory.
    #[serde(skip)]
    pub shown: String,
    /// Why it, or its directory, cannot be examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Conflicts, for people.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// Whether the directory of its project is missing.
    #[serde(skip)]
    pub is_missing: bool,
}

/// Early warning: changes that would not merge automatically.
#[derive(Serialize)]
pub struct TasksConflictsBody {
    /// The number of files.
    pub files: usize,
    /// With `--conflicts`: files that the user has changed in the directory meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<Vec<PathField>>,
    /// With `--conflicts`: files that other tasks have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Vec<ClashBody>>,
}

#[derive(Serialize)]
pub struct ClashBody {
    pub task: String,
    pub paths: Vec<PathField>,
}

impl TasksConflictsBody {
    fn new(directory: &[TreePath], clashes: &Clashes, detailed: bool) -> TasksConflictsBody {
        let clash = |clash: &Clash| ClashBody {
            task: clash.with.to_string(),
            paths: clash.paths.iter().map(PathField::from).collect(),
        };
        let files: BTreeSet<&TreePath> = directory.iter().chain(&clashes.paths).collect();
        TasksConflictsBody {
            files: files.len(),
            directory: detailed.then(|| directory.iter().map(PathField::from).collect()),
            tasks: detailed.then(|| clashes.tasks.iter().map(clash).collect()),
        }
    }
}

/// The numbers of files by kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CountsBody {
    pub added: usize,
    pub modified: usize,
    pub deleted: usize,
}

impl CountsBody {
    pub fn of(changed: &[ChangedFile]) -> CountsBody {
        let mut counts = CountsBody::default();
        for file in changed {
            match file.kind {
                ChangeKind::Added => counts.added += 1,
                ChangeKind::Deleted => counts.deleted += 1,
                ChangeKind::Modified | ChangeKind::Renamed | ChangeKind::Metadata => counts.modified += 1,
            }
        }
        counts
    }
}

impl ListedTaskBody {
    pub fn of(task: &Task) -> Result<ListedTaskBody> {
        let look = task.look()?;
        let run = task.runs().last()?;
        let run = run.as_ref().map(TaskRun::record);
        Ok(ListedTaskBody {
            name: task.name().to_string(),
            vault: task.vault_name().to_string(),
            state: look.state.as_str(),
            project: ProjectField::new(task.root().as_os_str().as_encoded_bytes()),
            // A task may have been made for another program than the last one, or for none.
            command: run.map_or(task.command(), |run| &run.command).to_owned(),
            profile: task.profile().map(str::to_owned),
            since: task.created(),
            created: show_rfc3339(task.created()),
            base: task.base()?.to_string(),
            head: look.head.to_string(),
            changed: CountsBody::of(&look.changed),
            ignored: (&look.ignored).into(),
            commits: look.commits,
            repositories: look.repositories.iter().map(PathField::from).collect(),
            nested: look.repositories,
            run: run.map(RunStateBody::from),
            runs: task
                .runs()
                .list()?
                .iter()
                .map(|run| RunStateBody::from(run.record()))
                .collect(),
            run_note: run.and_then(table::run_note),
            open_conflicts: task.open_conflicts()?.iter().map(PathField::from).collect(),
            conflicts: None,
            shown: task.name().to_string(),
            trouble: None,
            warnings: Vec::new(),
            is_missing: false,
        })
    }

    /// A task that cannot be examined. The others are listed nevertheless.
    fn unreadable(task: &Task, error: &anyhow::Error) -> ListedTaskBody {
        ListedTaskBody {
            name: task.name().to_string(),
            vault: task.vault_name().to_string(),
            state: UNREADABLE,
            project: ProjectField::new(task.root().as_os_str().as_encoded_bytes()),
            command: task.command().to_owned(),
            profile: task.profile().map(str::to_owned),
            since: task.created(),
            created: show_rfc3339(task.created()),
            base: String::new(),
            head: String::new(),
            changed: CountsBody::default(),
            ignored: IgnoredBody::default(),
            commits: 0,
            repositories: Vec::new(),
            nested: Vec::new(),
            run: None,
            runs: Vec::new(),
            run_note: None,
            open_conflicts: Vec::new(),
            conflicts: None,
            shown: task.name().to_string(),
            trouble: Some(Failure::of(error).message),
            warnings: Vec::new(),
            is_missing: !task.root().is_dir(),
        }
    }

    /// Records changes that would not merge automatically.
    fn take_conflicts(&mut self, task: &Task, clashes: &Clashes, detailed: bool) {
        let directory = match task.merges().clashes_with_directory() {
            Ok(directory) => directory,
            Err(_) if !task.root().is_dir() => {
                self.is_missing = true;
                self.trouble = Some(format!(
                    "its directory {} is missing",
                    printable_path(task.root())
                ));
                Vec::new()
            }
            Err(error) => {
                self.trouble = Some(Failure::of(&error.into()).message);
                Vec::new()
            }
        };
        self.conflicts = Some(TasksConflictsBody::new(&directory, clashes, detailed));
        if detailed {
            self.warnings = table::warnings(&directory, &clashes.tasks);
        }
    }
}

/// The state of a task that cannot be examined.
pub const UNREADABLE: &str = "unreadable";

pub fn run(context: &mut Context<'_>, args: &TasksArgs) -> Result<ExitStatus> {
    let here = context.here()?;
    let store = context.store()?;
    let tasks = match here.project() {
        Some(project) if !args.all => project.tasks()?,
        Some(_) | None => store.tasks().list()?,
    };
    let waiting = Progress::if_slow(context.out, "comparing tasks");
    let mut tasks = tasks;
    let mut looked_at: Vec<Result<ListedTaskBody>> = Vec::with_capacity(tasks.len());
    tasks.retain(|task| {
        let look = ListedTaskBody::of(task);
        let is_there = !look.as_ref().is_err_and(has_vanished);
        looked_at.extend(is_there.then_some(look));
        is_there
    });
    let readable: Vec<Task> = tasks
        .iter()
        .zip(&looked_at)
        .filter(|(_, look)| look.is_ok())
        .map(|(task, _)| task.clone())
        .collect();
    let detail = if args.conflicts {
        ClashDetail::Pairs
    } else {
        ClashDetail::Paths
    };
    let mut clashes = store.tasks().clashes(&readable, detail)?.into_iter();
    let mut bodies = Vec::with_capacity(tasks.len());
    for (task, look) in tasks.iter().zip(looked_at) {
        let mut body = match look {
            Ok(mut body) => {
                let clashes = clashes.next().unwrap_or_default();
                body.take_conflicts(task, &clashes, args.conflicts);
                body
            }
            Err(error) => ListedTaskBody::unreadable(task, &error),
        };
        body.shown = here.name_of(task);
        bodies.push(body);
    }
    drop(waiting);
    if context.out.is_json() {
        context.out.object("tasks", &TasksBody { tasks: bodies })?;
    } else if bodies.is_empty() {
        match store.projects().why_no_project(&working_directory()) {
            Some(why) => {
                let why = super::status::no_project_here(why);
                context.out.talk(format_args!("there is no task; project {why}"))
            }
            None => context
                .out
                .talk("there is no task; start one with `avfs run -- COMMAND`"),
        }
    } else {
        context.out.paged(|out| Ok(table::print(out, &bodies)?))?;
        let is_in_conflict =
            |body: &ListedTaskBody| body.conflicts.as_ref().is_some_and(|found| found.files > 0);
        if !args.conflicts && bodies.iter().any(is_in_conflict) {
            context
                .out
                .talk("`avfs tasks --conflicts` names the files in conflict");
        }
        if bodies.iter().any(|body| body.is_missing) {
            context.out.talk(
                "after renaming or moving a directory: `avfs project move OLD NEW`; after deleting it: \
                     `avfs apply TASK --to NEWDIR` puts what a task changed into a new one",
            );
        }
    }
    Ok(ExitStatus::Success)
}

/// Whether a task disappeared while it was examined.
pub fn has_vanished(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(Error::Vault(VaultError::Unknown { .. }))
    )
}
