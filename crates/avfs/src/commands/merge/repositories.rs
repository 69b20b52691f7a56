//! The effects of a merge on git repositories, as text and JSON.

use agentvfs::git::RefName;
use agentvfs::{MergedRepository, RepositoryOutcome, TreePath};
use serde::Serialize;

use crate::git::NameField;
use crate::json::PathField;

#[derive(Serialize)]
pub struct RepositoryBody {
    #[serde(flatten)]
    path: PathField,
    /// Whose it is now, apart from objects and from `refs`.
    side: &'static str,
    /// Where the branches are that the other side moved.
    refs: Vec<NameField>,
}

impl From<&MergedRepository> for RepositoryBody {
    fn from(merged: &MergedRepository) -> RepositoryBody {
        let (side, refs) = match &merged.outcome {
            RepositoryOutcome::Theirs => ("theirs", &[][..]),
            RepositoryOutcome::Ours { refs } => ("ours", &refs[..]),
        };
        let refs = refs.iter().map(|name| NameField::new(name.as_bytes())).collect();
        RepositoryBody {
            path: (&merged.place).into(),
            side,
            refs,
        }
    }
}

/// Whom a merge is between, in words.
#[derive(Clone, Copy)]
pub struct Parties<'a> {
    /// `None`: the directory.
    pub from: Option<&'a str>,
    /// `None`: the task.
    pub into: Option<&'a str>,
}

/// One line for people.
pub fn line(merged: &MergedRepository, parties: Parties<'_>, dry_run: bool) -> String {
    let from = parties.from.unwrap_or("the directory");
    let into = parties.into.unwrap_or("the task");
    let (are, is) = if dry_run {
        ("would be", "would be")
    } else {
        ("are", "is")
    };
    let place = shown(&merged.place)
        .map(|place| format!(" of {place}"))
        .unwrap_or_default();
    match &merged.outcome {
        RepositoryOutcome::Theirs => format!("git{place} {is} as in {from}"),
        RepositoryOutcome::Ours { refs } if refs.is_empty() => {
            format!("git{place} was used in both, and {is} as in {into}")
        }
        RepositoryOutcome::Ours { refs } => {
            let names: Vec<String> = refs.iter().map(RefName::short).collect();
            format!("{from}'s commits{place} {are} at {} in {into}", names.join(", "))
        }
    }
}

/// Where a repository is, if it is not that of the project itself.
fn shown(place: &TreePath) -> Option<String> {
    let text = place.to_string();
    let files = text
        .strip_suffix("/.git")
        .unwrap_or(&text)
        .trim_start_matches('/');
    (!files.is_empty()).then(|| files.to_owned())
}
