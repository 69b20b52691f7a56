//! A review in JSON: every change with its hunks and the decisions.

use std::collections::HashMap;

use agentvfs::apply::Conflict;
use agentvfs::patch::{FileDiff, Hunk, HunkLineKind, PatchBody, PatchStat};
use anyhow::Result;
use avfs_core::TreePath;
use serde::Serialize;

use super::accepted::Accepted;
use super::changes::Changes;
use super::decision::{Decision, HunkPart};
use super::file::shape;
use crate::commands::diff::ChangeBody;
use crate::json::{PathField, byte_field};

byte_field!(LineField, text, text_bytes_hex);

#[derive(Serialize)]
pub struct ReviewBody {
    task: String,
    from: String,
    to: String,
    changes: Vec<ReviewedBody>,
    accepted: AcceptedBody,
}

#[derive(Serialize)]
struct ReviewedBody {
    #[serde(flatten)]
    change: ChangeBody,
    decision: &'static str,
    /// Whether the directory has changed the same part, so that applying it requires a choice.
    conflict: Option<&'static str>,
    /// Whether git ignores it.
    ignored: bool,
    /// Whether its hunks can be decided separately.
    by_hunk: bool,
    hunks: Vec<HunkBody>,
}

#[derive(Serialize)]
struct HunkBody {
    number: usize,
    decision: &'static str,
    /// The decision on each change in it, which `NUMBER.1` and so on name.
    changes: Vec<&'static str>,
    old: RangeBody,
    new: RangeBody,
    lines: Vec<ReviewLineBody>,
}

/// Lines of one side; `first` counts from 1.
#[derive(Serialize)]
struct RangeBody {
    first: u32,
    count: u32,
}

#[derive(Serialize)]
struct ReviewLineBody {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    text: LineField,
}

#[derive(Serialize)]
struct AcceptedBody {
    paths: Vec<PathField>,
    hunks: Vec<AcceptedHunksBody>,
}

#[derive(Serialize)]
struct AcceptedHunksBody {
    #[serde(flatten)]
    path: PathField,
    /// Of hunks that are accepted as a whole.
    numbers: Vec<usize>,
    /// Of single changes in others: `2.1`.
    changes: Vec<String>,
}

impl ReviewBody {
    pub fn new(
        task: &str,
        changes: &Changes,
        decisions: &[Decision],
        conflicts: &[Conflict],
    ) -> Result<ReviewBody> {
        let bodies = decisions.iter().enumerate();
        let kinds: HashMap<&TreePath, &'static str> = conflicts
            .iter()
            .map(|conflict| (&conflict.path, conflict.kind.as_str()))
            .collect();
        Ok(ReviewBody {
            task: task.to_owned(),
            from: changes.from.snapshot.to_string(),
            to: changes.to.snapshot.to_string(),
            changes: bodies
                .map(|(file, decision)| {
                    let conflict = kinds.get(changes.files[file].path()).copied();
                    let body = reviewed(&changes.diff(file)?, decision);
                    Ok(ReviewedBody {
                        conflict,
                        ignored: changes.is_ignored(file),
                        ..body
                    })
                })
                .collect::<Result<_>>()?,
            accepted: Accepted::of(&changes.files, decisions, &HashMap::new()).into(),
        })
    }
}

fn reviewed(diff: &FileDiff, decision: &Decision) -> ReviewedBody {
    let (stat, hunks) = match &diff.body {
        PatchBody::Same => (
            PatchStat::Lines {
                insertions: 0,
                deletions: 0,
            },
            &[][..],
        ),
        PatchBody::Text(lines) => (
            PatchStat::Lines {
                insertions: lines.insertions,
                deletions: lines.deletions,
            },
            &lines.hunks[..],
        ),
        PatchBody::Binary { old, new } => (PatchStat::Binary { old: *old, new: *new }, &[][..]),
    };
    ReviewedBody {
        change: ChangeBody::new(&diff.change).with_stat(stat),
        decision: decision.name(),
        conflict: None,
        ignored: false,
        by_hunk: !shape(diff).is_empty(),
        hunks: hunks
            .iter()
            .enumerate()
            .map(|(index, hunk)| hunk_body(index, hunk, decision))
            .collect(),
    }
}

fn hunk_body(index: usize, hunk: &Hunk, decision: &Decision) -> HunkBody {
    let range = |range: &std::ops::Range<u32>| RangeBody {
        first: range.start + 1,
        count: range.end - range.start,
    };
    let lines = hunk.lines.iter().map(|line| ReviewLineBody {
        kind: match line.kind {
            HunkLineKind::Context => "context",
            HunkLineKind::Removed => "removed",
            HunkLineKind::Added => "added",
        },
        text: LineField::new(&line.text),
    });
    HunkBody {
        number: index + 1,
        decision: decision
            .part(HunkPart {
                hunk: index,
                change: None,
            })
            .name(),
        changes: (0..hunk.changes().len())
            .map(|change| {
                decision
                    .part(HunkPart {
                        hunk: index,
                        change: Some(change),
                    })
                    .name()
            })
            .collect(),
        old: range(&hunk.old),
        new: range(&hunk.new),
        lines: lines.collect(),
    }
}

impl From<Accepted> for AcceptedBody {
    fn from(accepted: Accepted) -> AcceptedBody {
        let hunks = accepted.hunks.iter().map(|(path, numbers)| AcceptedHunksBody {
            path: path.into(),
            numbers: numbers
                .iter()
                .filter(|number| number.change.is_none())
                .map(|number| number.hunk)
                .collect(),
            changes: numbers
                .iter()
                .filter(|number| number.change.is_some())
                .map(ToString::to_string)
                .collect(),
        });
        AcceptedBody {
            paths: accepted.paths.iter().map(PathField::from).collect(),
            hunks: hunks.collect(),
        }
    }
}
