//! `avfs apply` into the user's git repository: the commits of a task, or its files as one commit.

use std::path::Path;

use agentvfs::git::{Bring, Brought, CommitFiles, Committed, GitError, RefName, default_branch};
use agentvfs::{Error, Task};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use crate::context::Context;
use crate::exit::ExitStatus;
use crate::git::NameField;
use crate::json::PathField;
use crate::printer::Printer;
use crate::unreached::quoted;
use crate::versions::count;

/// How many paths that were left out are told one by one.
const SHOWN: usize = 20;

/// What goes into the repository instead of the directory.
#[derive(Debug, Default, clap::Args)]
pub struct GitArgs {
    /// Bring the commits that were made in the task, as a new branch; its files are not applied
    #[arg(long, conflicts_with_all = ["paths", "hunks", "conflicts", "dry_run"])]
    commits: bool,

    /// The branch to make [default with --commits: avfs/TASK]; without --commits, the changed files become one commit on it
    #[arg(long, value_name = "NAME", conflicts_with_all = ["hunks", "conflicts", "dry_run"])]
    branch: Option<String>,

    /// The branch or tag of the task whose commits are wanted, if it has several
    #[arg(long, value_name = "REF", requires = "commits")]
    of: Option<String>,

    /// Move on a branch that is there already, if that loses nothing
    #[arg(long, requires = "commits")]
    update: bool,

    /// The message of the commit [default: the task's name and command]
    #[arg(short, long, value_name = "TEXT", requires = "branch", conflicts_with = "commits")]
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
    submodules: Vec<SubmoduleBody>,
}

#[derive(Serialize)]
struct SubmoduleBody {
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
        let bring = Bring { branch, of: args.of.clone(), update: args.update, allowed };
        let submodules = task.bring_submodules(into, &bring)?;
        let brought = match task.bring_commits(into, &bring) {
            Err(Error::Git(GitError::NoCommits)) if !submodules.is_empty() => None,
            brought => Some(brought?),
        };
        tell_commits(context.out, task, &bring.branch, brought.as_ref(), &submodules)?;
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
        let committed = task.commit_files(into, &commit)?;
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

/// Says which commits are not applied with the files of a task.
pub fn tell_what_stays(out: &mut Printer, task: &Task) -> Result<()> {
    if !out.talks() {
        return Ok(());
    }
    let summary = task.git_summary()?;
    crate::git::tell(out, &summary);
    let mut all = summary.submodules.iter().map(|one| &one.summary).chain([&summary]);
    if all.any(|one| !one.commits.is_empty()) {
        out.talk(format_args!("git: `avfs apply {} --commits` brings them as a branch", task.name()));
    }
    Ok(())
}

fn tell_commits(
    out: &mut Printer,
    task: &Task,
    branch: &RefName,
    brought: Option<&Brought>,
    submodules: &[(TreePath, Brought)],
) -> Result<()> {
    let branch = branch.short();
    if out.is_json() {
        let left = brought.iter().flat_map(|brought| &brought.left);
        let body = CommitsBody {
            task: task.name().to_string(),
            branch: branch.clone(),
            commit: brought.map(|brought| brought.tip.to_string()),
            objects: brought.map_or(0, |brought| brought.objects),
            left: left.map(|name| NameField::new(name.as_bytes())).collect(),
            submodules: submodules.iter().map(SubmoduleBody::from).collect(),
        };
        out.object("apply-commits", &body)?;
    }
    for (path, _) in submodules {
        out.talk(format_args!("made branch '{branch}' in the repository {path}"));
    }
    match brought.map(|brought| brought.objects) {
        Some(0) => out.talk(format_args!("branch '{branch}' has these commits")),
        Some(_) => out.talk(format_args!("made branch '{branch}'; `git log {branch}` shows its commits")),
        None => {}
    }
    for left in brought.iter().flat_map(|brought| &brought.left) {
        let name = left.short();
        let command = quoted(
            &["avfs", "apply", task.name().as_str(), "--commits", "--of", &name, "--branch", &name]
                .map(str::to_owned),
        );
        out.talk(format_args!("left in the task: {name}; `{command}` brings it"));
    }
    Ok(())
}

impl From<&(TreePath, Brought)> for SubmoduleBody {
    fn from((path, brought): &(TreePath, Brought)) -> SubmoduleBody {
        SubmoduleBody { path: path.into(), commit: brought.tip.to_string(), objects: brought.objects }
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
                .map(|left| LeftOutBody { path: (&left.path).into(), reason: left.why.to_string() })
                .collect(),
        };
        out.object("apply-branch", &body)?;
    }
    out.talk(format_args!("made branch '{branch}' with {}", count(committed.files as u64, "changed file")));
    for left in committed.left_out.iter().take(SHOWN) {
        out.talk(format_args!("left out: {} ({})", left.path, left.why));
    }
    if committed.left_out.len() > SHOWN {
        out.talk(format_args!("left out: {} more", committed.left_out.len() - SHOWN));
    }
    Ok(())
}
