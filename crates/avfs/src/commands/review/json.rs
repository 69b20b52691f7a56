//! A review in JSON: every change with its hunks and what was decided.

use agentvfs::patch::{Body, FileDiff, Hunk, HunkLineKind, Stat};
use anyhow::Result;
use serde::Serialize;

use super::accepted::Accepted;
use super::changes::Changes;
use super::decision::Decision;
use super::file::hunk_choices;
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
    /// Whether its hunks can be decided one by one.
    by_hunk: bool,
    hunks: Vec<HunkBody>,
}

#[derive(Serialize)]
struct HunkBody {
    number: usize,
    decision: &'static str,
    old: RangeBody,
    new: RangeBody,
    lines: Vec<LineBody>,
}

/// Lines of one side; `first` counts from 1.
#[derive(Serialize)]
struct RangeBody {
    first: u32,
    count: u32,
}

#[derive(Serialize)]
struct LineBody {
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
    numbers: Vec<usize>,
}

impl ReviewBody {
    pub fn new(task: &str, changes: &Changes, decisions: &[Decision]) -> Result<ReviewBody> {
        let bodies = decisions.iter().enumerate();
        Ok(ReviewBody {
            task: task.to_owned(),
            from: changes.from.snapshot.to_string(),
            to: changes.to.snapshot.to_string(),
            changes: bodies
                .map(|(file, decision)| Ok(reviewed(&changes.diff(file)?, decision)))
                .collect::<Result<_>>()?,
            accepted: Accepted::of(&changes.files, decisions).into(),
        })
    }
}

fn reviewed(diff: &FileDiff, decision: &Decision) -> ReviewedBody {
    let (stat, hunks) = match &diff.body {
        Body::Same => (Stat::Lines { insertions: 0, deletions: 0 }, &[][..]),
        Body::Text(lines) => {
            (Stat::Lines { insertions: lines.insertions, deletions: lines.deletions }, &lines.hunks[..])
        }
        Body::Binary { old, new } => (Stat::Binary { old: *old, new: *new }, &[][..]),
    };
    ReviewedBody {
        change: ChangeBody::new(&diff.change).with_stat(stat),
        decision: decision.name(),
        by_hunk: hunk_choices(diff) > 0,
        hunks: hunks.iter().enumerate().map(|(index, hunk)| hunk_body(index, hunk, decision)).collect(),
    }
}

fn hunk_body(index: usize, hunk: &Hunk, decision: &Decision) -> HunkBody {
    let range =
        |range: &std::ops::Range<u32>| RangeBody { first: range.start + 1, count: range.end - range.start };
    let lines = hunk.lines.iter().map(|line| LineBody {
        kind: match line.kind {
            HunkLineKind::Context => "context",
            HunkLineKind::Removed => "removed",
            HunkLineKind::Added => "added",
        },
        text: LineField::new(&line.text),
    });
    HunkBody {
        number: index + 1,
        decision: decision.hunk(index).name(),
        old: range(&hunk.old),
        new: range(&hunk.new),
        lines: lines.collect(),
    }
}

impl From<Accepted> for AcceptedBody {
    fn from(accepted: Accepted) -> AcceptedBody {
        let hunks = accepted
            .hunks
            .iter()
            .map(|(path, numbers)| AcceptedHunksBody { path: path.into(), numbers: numbers.clone() });
        AcceptedBody { paths: accepted.paths.iter().map(PathField::from).collect(), hunks: hunks.collect() }
    }
}
