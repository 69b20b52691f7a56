//! Decisions of a review that was left before it was applied.

use avfs_store::RefEdit;
use serde::{Deserialize, Serialize};

use crate::approvals::Raw;
use crate::error::Result;
use crate::record::{self, key};
use crate::task::Task;

/// What was decided so far about a task's changes. Each decision holds for the very change that it was made on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptReview {
    pub decisions: Vec<KeptDecision>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDecision {
    pub path: Raw,
    /// Stands for the change: another one was not decided on.
    pub change: String,
    /// `a`, `r` or `u` for each change of each hunk, with a comma between hunks; one letter for all of the file.
    pub marks: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<KeptChoice>,
}

/// What becomes of a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChoice {
    pub how: String,
    /// Stands for what the directory had then.
    pub here: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Raw>,
}

impl Task {
    /// What was decided in the last review of this task.
    pub fn kept_review(&self) -> Result<KeptReview> {
        let vault = self.vault();
        let found = record::read(vault.store().refs(), &key::review(vault.id()))?;
        Ok(found.map(|(review, _)| review).unwrap_or_default())
    }

    /// Keeps what was decided. Nothing to keep is nothing kept.
    pub fn keep_review(&self, review: &KeptReview) -> Result<()> {
        let vault = self.vault();
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
