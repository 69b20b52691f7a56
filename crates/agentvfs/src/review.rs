//! Decisions of a review that was left before it was applied.

use avfs_store::RefEdit;
use serde::{Deserialize, Serialize};

use crate::approvals::StoredBytes;
use crate::error::Result;
use crate::record::{self, key};
use crate::task::Task;

/// The decisions so far on a task's changes. Each is valid only for the change on which it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReview {
    /// The decisions, by path.
    pub decisions: Vec<KeptDecision>,
}

/// The decisions on one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDecision {
    /// Its path.
    pub path: StoredBytes,
    /// Stands for the change: another one was not decided on.
    pub change: String,
    /// `a`, `r` or `u` for each change of each hunk, with a comma between hunks; one letter for all of the file.
    pub marks: String,
    /// The decision on a conflict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<KeptChoice>,
}

/// The resolution of a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChoice {
    /// The decision on a change.
    pub how: String,
    /// Identifies the directory's version at that time.
    pub here: String,
    /// The text that the user wrote in place of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<StoredBytes>,
    /// Of a text whose conflicts are decided one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<KeptPlace>,
}

/// One conflict of a text: the lines of the base, and its resolution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPlace {
    /// The first line of the base, from 0 on.
    pub start: usize,
    /// The line of the base after the last one.
    pub end: usize,
    /// The decision.
    pub how: String,
}

/// The decisions of a review that were kept for later.
#[derive(Clone, Copy)]
pub struct TaskReview<'a> {
    pub(crate) task: &'a Task,
}

impl TaskReview<'_> {
    /// The decisions of the last review of this task.
    pub fn kept(&self) -> Result<KeptReview> {
        let vault = self.task.vault();
        let found = record::read(vault.store().refs(), &key::review(vault.id()))?;
        Ok(found.map(|(review, _)| review).unwrap_or_default())
    }

    /// Stores the decisions. An empty review removes the record.
    pub fn keep(&self, review: &KeptReview) -> Result<()> {
        let vault = self.task.vault();
        vault.store().retry(|edits| {
            let key = key::review(vault.id());
            let expect = vault.store().refs().read(&key)?;
            let value = (!review.decisions.is_empty()).then(|| record::encode(review));
            if expect != value {
                edits.push(RefEdit { key, expect, value });
            }
            Ok(())
        })
    }
}
