//! A task in which nothing was done yet begins when a program is first run in it.
//!
//! Files are read on demand, so the user may have made changes between making a task and using it: a commit
//! of the user's would be in the repository and not in the files, or the other way round, and git inside
//! would show work that the task did not do.

use avfs_store::RefEdit;

use super::Task;
use crate::error::Result;
use crate::project::Begun;
use crate::record::{self, Head, HistoryRecord, VaultRecord, key};
use crate::rule_record::RuleRecord;

/// The number of the entry in the history that a vault is born with.
const BIRTH: u64 = 1;

/// The task as a program should find it: if nothing was done in it, it begins with the directory as that is now.
pub(super) fn beginning_now(task: Task) -> Result<Task> {
    if !is_untouched(&task.vault().record()?.0) || task.vault().live_owner()?.is_some() {
        return Ok(task);
    }
    let vault = task.vault().clone();
    let _ownership = vault.ownership().take()?;
    let store = vault.store().clone();
    let _pin = store.objects().store().pin()?;
    let rules = task.rules()?.map(|rules| rules.list().to_vec());
    let Begun { head, rules, hidden } = store.projects().state_for_task(task.root(), rules.as_deref())?;
    let has_begun = store.retry(|edits| {
        let (mut record, bytes) = vault.record()?;
        if !is_untouched(&record) || vault.has_journal()? {
            return Ok(false);
        }
        let birth = key::history(vault.id(), BIRTH);
        let Some(born) = store.refs().read(&birth)? else {
            return Ok(false);
        };
        let entry: HistoryRecord = record::decode(&birth, &born)?;
        let entry = HistoryRecord {
            snapshot: head.snapshot,
            inodes: head.inodes,
            conflicts: head.conflicts,
            task_base: Some(head.snapshot),
            ..entry
        };
        begin_at(&mut record, head, rules.as_deref().map(RuleRecord::list));
        edits.push(RefEdit::replace(birth, born, record::encode(&entry)));
        edits.push(RefEdit::replace(
            key::vault(vault.id()),
            bytes,
            record::encode(&record),
        ));
        Ok(true)
    })?;
    if has_begun {
        Ok(Task::of(vault)?.knowing_hidden(hidden))
    } else {
        Ok(task)
    }
}

/// Whether a task is unchanged since it was made.
fn is_untouched(record: &VaultRecord) -> bool {
    let is_at_base = record
        .task
        .as_ref()
        .is_some_and(|task| task.base == record.head.snapshot);
    is_at_base && record.seq == BIRTH && record.last_checkpoint.is_none()
}

fn begin_at(record: &mut VaultRecord, head: Head, rules: Option<Vec<RuleRecord>>) {
    let before = record.head.snapshot;
    record.head = Head {
        journal: record.head.journal,
        ..head
    };
    if let Some(parent) = record.parent.as_mut().filter(|parent| parent.snapshot == before) {
        parent.snapshot = head.snapshot;
    }
    if let Some(task) = &mut record.task {
        task.base = head.snapshot;
        task.rules = rules;
    }
}
