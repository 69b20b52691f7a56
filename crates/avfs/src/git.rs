//! Git work in a task, as text and JSON.

use agentvfs::Task;
use agentvfs::git::{CommitLine, GitSummary, GitTrace, MovedRef, ObjectName, SubmoduleSummary};
use agentvfs::patch::FileChange;
use anyhow::Result;
use serde::Serialize;

use crate::escape::printable;
use crate::json::{PathField, byte_field};
use crate::printer::Printer;
use crate::versions::count;

/// How many commits are listed one by one.
const SHOWN: usize = 20;
/// How many digits of a commit's id are shown to people.
const SHORT: usize = 9;

byte_field!(NameField, name, name_bytes_hex);

#[derive(Serialize)]
pub struct GitBody {
    moved: Vec<MovedBody>,
    commits: Vec<CommitBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    submodules: Vec<SubmoduleBody>,
}

#[derive(Serialize)]
struct SubmoduleBody {
    #[serde(flatten)]
    path: PathField,
    #[serde(flatten)]
    git: GitBody,
}

#[derive(Serialize)]
struct MovedBody {
    #[serde(flatten)]
    name: NameField,
    before: Option<String>,
    after: Option<String>,
}

#[derive(Serialize)]
struct CommitBody {
    id: String,
    author: String,
    subject: String,
    files: usize,
}

impl From<&GitSummary> for GitBody {
    fn from(summary: &GitSummary) -> GitBody {
        let moved = |moved: &MovedRef| MovedBody {
            name: NameField::new(moved.name.as_ref().map_or(b"HEAD", |name| name.as_bytes())),
            before: moved.before.as_ref().map(ToString::to_string),
            after: moved.after.as_ref().map(ToString::to_string),
        };
        let commit = |line: &CommitLine| CommitBody {
            id: line.id.to_string(),
            author: line.author.clone(),
            subject: line.subject.clone(),
            files: line.files,
        };
        GitBody {
            moved: summary.moved.iter().map(moved).collect(),
            commits: summary.commits.iter().map(commit).collect(),
            trouble: summary.trouble.clone(),
            submodules: summary.submodules.iter().map(SubmoduleBody::from).collect(),
        }
    }
}

impl From<&SubmoduleSummary> for SubmoduleBody {
    fn from(submodule: &SubmoduleSummary) -> SubmoduleBody {
        SubmoduleBody {
            path: (&submodule.path).into(),
            git: (&submodule.summary).into(),
        }
    }
}

/// Tells people which branches moved and which commits are new.
pub fn tell(out: &mut Printer, summary: &GitSummary) {
    tell_one(out, "git", summary);
    for submodule in &summary.submodules {
        tell_one(out, &format!("git in {}", submodule.path), &submodule.summary);
    }
}

/// How many of them are named.
const TRACES: usize = 3;

/// The git actions in a repository other than commits, in a few words.
pub fn traces(traces: &[GitTrace]) -> String {
    let mut words: Vec<String> = traces.iter().take(TRACES).map(ToString::to_string).collect();
    if traces.len() > TRACES {
        words.push(format!("and {} more", traces.len() - TRACES));
    }
    words.join(", ")
}

/// Tells people which work in the repository is neither in the changed `files` nor in commits.
pub fn tell_traces(out: &mut Printer, task: &Task, name: &str, files: &[FileChange]) -> Result<()> {
    if !out.talks() {
        return Ok(());
    }
    let found = task.work().other_git_work(files)?;
    if !found.is_empty() {
        let found = traces(&found);
        out.talk(format_args!(
            "git: {found} (`avfs diff {name} /.git` shows the files)"
        ));
    }
    Ok(())
}

fn tell_one(out: &mut Printer, place: &str, summary: &GitSummary) {
    for moved in &summary.moved {
        let name = moved
            .name
            .as_ref()
            .map_or_else(|| "HEAD".to_owned(), |name| name.short());
        match (&moved.before, &moved.after) {
            (None, Some(after)) => out.talk(format_args!("{place}: {name} is new, at {}", short(after))),
            (Some(before), None) => {
                out.talk(format_args!(
                    "{place}: {name} was deleted; it was at {}",
                    short(before)
                ));
            }
            (Some(before), Some(after)) => {
                let (before, after) = (short(before), short(after));
                out.talk(format_args!("{place}: {name} moved from {before} to {after}"));
            }
            (None, None) => {}
        }
    }
    if let Some(trouble) = &summary.trouble {
        out.warn(format_args!("{place}: the commits cannot be read: {trouble}"));
    }
    if summary.commits.is_empty() {
        return;
    }
    out.talk(format_args!(
        "{place}: {} that your repository does not have",
        count(summary.commits.len() as u64, "commit")
    ));
    for line in summary.commits.iter().take(SHOWN) {
        let (id, subject) = (&line.id.as_str()[..SHORT], printable(line.subject.as_bytes()));
        out.talk(format_args!(
            "  {id} {subject} ({})",
            printable(line.author.as_bytes())
        ));
    }
    if summary.commits.len() > SHOWN {
        out.talk(format_args!("  and {} more", summary.commits.len() - SHOWN));
    }
}

fn short(object: &ObjectName) -> &str {
    &object.as_str()[..SHORT]
}
