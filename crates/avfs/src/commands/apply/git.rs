//! `avfs apply` into the user's git repository: the commits of a task, or its files as one commit.

use std::path::Path;

use agentvfs::Task;
use agentvfs::git::{
    Bring, Brought, BroughtAll, CommitFiles, Committed, GitError, GitSummary, HostRepository, RefName,
    WhyLeftOut, default_branch,
};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::git::NameField;
use crate::json::PathField;
use crate::listing::shown;
use crate::printer::Printer;
use crate::unreached::quoted;
use crate::versions::count;

/// How many omitted paths are listed one by one.
const SHOWN: usize = 20;

/// The part that goes into the repository instead of the directory.
#[derive(Debug, Default, clap::Args)]
pub struct GitArgs {
    /// Deliver the commits of the task as a new branch; its files are not applied
    #[arg(long, conflicts_with_all = ["paths", "hunks", "conflicts", "dry_run"])]
    commits: bool,

    /// The branch to create [default with --commits: avfs/TASK]; without --commits, the changed files become one commit on it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["hunks", "conflicts", "dry_run"])]
    branch: Option<String>,

    /// Bring over the commits of this branch or tag of the task, if it has several
    #[arg(long, value_name = "REF", requires = "commits")]
    of: Option<String>,

    /// Move an existing branch forward, if that loses nothing
    #[arg(long, requires = "commits")]
    update: bool,

    /// The commit message [default: the task's name and command]
    #[arg(
        short,
        long,
        value_name = "TEXT",
        requires = "branch",
        conflicts_with = "commits"
    )]
    message: Option<String>,
}

impl GitArgs {
    pub fn is_wanted(&self) -> bool {
        self.commits || self.branch.is_some()
    }
}

#[derive(Serialize)]
struct CommitsBody {
    task: String,
    branch: String,
    /// `None`: commits were made in submodules only.
    commit: Option<String>,
    objects: usize,
    /// Refs with work that stays in the task.
    left: Vec<NameField>,
    submodules: Vec<ApplySubmoduleBody>,
}

#[derive(Serialize)]
struct ApplySubmoduleBody {
    #[serde(flatten)]
    path: PathField,
    commit: String,
    objects: usize,
}

#[derive(Serialize)]
struct BranchBody {
    task: String,
    branch: String,
    commit: String,
    files: usize,
    left_out: Vec<LeftOutBody>,
}

#[derive(Serialize)]
struct LeftOutBody {
    #[serde(flatten)]
    path: PathField,
    reason: String,
}

/// Brings the task into the repository whose working directory is `into`.
pub fn run(
    context: &mut Context<'_>,
    task: &Task,
    into: &Path,
    paths: &[TreePath],
    allowed: &[TreePath],
    args: &GitArgs,
) -> Result<ExitStatus> {
    let branch = branch(task, args)?;
    if args.commits {
        let allowed = allowed.to_vec();
        let bring = Bring {
            branch,
            of: args.of.clone(),
            update: args.update,
            allowed,
        };
        let brought = task.git().bring_all(into, &bring)?;
        tell_commits(context.out, task, into, &bring.branch, &brought)?;
    } else {
        let store = context.store()?;
        let commit = CommitFiles {
            branch,
            message: args.message.clone().unwrap_or_else(|| default_message(task)),
            paths: paths.to_vec(),
            allowed: allowed.to_vec(),
            time: store.now(),
            author: store.actor().name.clone(),
        };
        let committed = task.git().commit_files(into, &commit)?;
        tell_files(context.out, task, &committed)?;
        if committed.is_guarded() {
            return Ok(ExitStatus::No);
        }
    }
    Ok(ExitStatus::Success)
}

fn branch(task: &Task, args: &GitArgs) -> Result<RefName, agentvfs::Error> {
    let named = match &args.branch {
        Some(name) => RefName::branch(name),
        None => default_branch(task),
    };
    let name = args.branch.clone().unwrap_or_else(|| task.name().to_string());
    Ok(named.ok_or(GitError::BadBranch { name })?)
}

fn default_message(task: &Task) -> String {
    match task.command() {
        "" => format!("Task {}", task.name()),
        command => format!("Task {}\n\n{command}", task.name()),
    }
}

/// Says which work in the repository of a task is not applied with its files.
pub fn tell_what_stays(out: &mut Printer, task: &Task, name: &str) -> Result<()> {
    if !out.talks() {
        return Ok(());
    }
    let summary = task.git().summary()?;
    let all: Vec<&GitSummary> = summary
        .submodules
        .iter()
        .map(|one| &one.summary)
        .chain([&summary])
        .collect();
    let has_commits = all.iter().any(|one| !one.commits.is_empty());
    // A branch whose commits the user already has needs no message.
    if has_commits || all.iter().any(|one| one.trouble.is_some()) {
        crate::git::tell(out, &summary);
    }
    if has_commits {
        out.talk(format_args!(
            "git: `avfs apply {name} --commits` delivers them as a branch"
        ));
    }
    crate::git::tell_traces(out, task, name, &task.changes()?.files)
}

fn tell_commits(
    out: &mut Printer,
    task: &Task,
    into: &Path,
    branch: &RefName,
    BroughtAll {
        own: brought,
        submodules,
    }: &BroughtAll,
) -> Result<()> {
    let branch = branch.short();
    let brought = brought.as_ref();
    if out.is_json() {
        let left = brought.iter().flat_map(|brought| &brought.left);
        let body = CommitsBody {
            task: task.name().to_string(),
            branch: branch.clone(),
            commit: brought.map(|brought| brought.tip.to_string()),
            objects: brought.map_or(0, |brought| brought.objects),
            left: left.map(|name| NameField::new(name.as_bytes())).collect(),
            submodules: submodules.iter().map(ApplySubmoduleBody::from).collect(),
        };
        out.object("apply-commits", &body)?;
    }
    for (path, _) in submodules {
        out.talk(format_args!("created branch '{branch}' in the repository {path}"));
    }
    match brought.map(|brought| brought.objects) {
        Some(0) => out.talk(format_args!("branch '{branch}' has these commits")),
        Some(_) => out.talk(format_args!(
            "created branch '{branch}'; `git log {branch}` shows its commits"
        )),
        None => {}
    }
    for left in brought.iter().flat_map(|brought| &brought.left) {
        let name = left.short();
        let is_taken = HostRepository::open(into).is_ok_and(|host| !matches!(host.branch(left), Ok(None)));
        let new_name = if is_taken {
            format!("{branch}-{name}")
        } else {
            name.clone()
        };
        let command = quoted(
            &[
                "avfs",
                "apply",
                task.name().as_str(),
                "--commits",
                "--of",
                &name,
                "--branch",
                &new_name,
            ]
            .map(str::to_owned),
        );
        out.talk(format_args!("left in the task: {name}; `{command}` delivers it"));
    }
    Ok(())
}

impl From<&(TreePath, Brought)> for ApplySubmoduleBody {
    fn from((path, brought): &(TreePath, Brought)) -> ApplySubmoduleBody {
        ApplySubmoduleBody {
            path: path.into(),
            commit: brought.tip.to_string(),
            objects: brought.objects,
        }
    }
}

fn tell_files(out: &mut Printer, task: &Task, committed: &Committed) -> Result<()> {
    let branch = committed.branch.short();
    if out.is_json() {
        let left_out = committed.left_out.iter();
        let body = BranchBody {
            task: task.name().to_string(),
            branch: branch.clone(),
            commit: committed.commit.to_string(),
            files: committed.files,
            left_out: left_out
                .map(|left| LeftOutBody {
                    path: (&left.path).into(),
                    reason: reason(&left.why),
                })
                .collect(),
        };
        out.object("apply-branch", &body)?;
    }
    let files = count(committed.files as u64, "changed file");
    if committed.was_there {
        out.talk(format_args!(
            "branch '{branch}' is already there with {files}: nothing to do"
        ));
    } else {
        out.talk(format_args!("created branch '{branch}' with {files}"));
    }
    for left in committed.left_out.iter().take(SHOWN) {
        out.talk(format_args!(
            "left out: {} ({})",
            shown(&left.path, false),
            reason(&left.why)
        ));
    }
    if committed.left_out.len() > SHOWN {
        out.talk(format_args!(
            "left out: {} more",
            committed.left_out.len() - SHOWN
        ));
    }
    Ok(())
}

/// Why something is in no commit, and how to bring it.
fn reason(why: &WhyLeftOut) -> String {
    match why {
        WhyLeftOut::Guarded(_) => format!("{why}; --allow includes it"),
        WhyLeftOut::Ignored | WhyLeftOut::InRepository | WhyLeftOut::NotAFile => why.to_string(),
    }
}
