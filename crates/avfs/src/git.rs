//! What was done with git in a task, as text and JSON.

use agentvfs::git::{CommitLine, GitSummary, MovedRef, ObjectName, SubmoduleSummary};
use serde::Serialize;

use crate::escape::printable;
use crate::json::{PathField, byte_field};
use crate::printer::Printer;
use crate::versions::count;

/// How many commits are told one by one.
const SHOWN: usize = 20;
/// How many digits of a commit's name people are shown.
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
        SubmoduleBody { path: (&submodule.path).into(), git: (&submodule.summary).into() }
    }
}

/// Tells people which branches moved and which commits are new.
pub fn tell(out: &mut Printer, summary: &GitSummary) {
    tell_one(out, "git", summary);
    for submodule in &summary.submodules {
        tell_one(out, &format!("git in {}", submodule.path), &submodule.summary);
    }
}

fn tell_one(out: &mut Printer, place: &str, summary: &GitSummary) {
    for moved in &summary.moved {
        let name = moved.name.as_ref().map_or_else(|| "HEAD".to_owned(), |name| name.short());
        out.talk(format_args!(
            "{place}: {name} moved from {} to {}",
            shown(moved.before.as_ref()),
            shown(moved.after.as_ref())
        ));
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
        out.talk(format_args!("  {id} {subject} ({})", printable(line.author.as_bytes())));
    }
    if summary.commits.len() > SHOWN {
        out.talk(format_args!("  and {} more", summary.commits.len() - SHOWN));
    }
}

fn shown(object: Option<&ObjectName>) -> &str {
    object.map_or("nothing", |object| &object.as_str()[..SHORT])
}
