//! Merges the user's changes in the project's directory into a task.

use std::collections::HashSet;

use avfs_core::{SnapshotId, TreePath};
use avfs_tree::ReadError;

use super::sides::SideChanges;
use super::{MergeOptions, MergeReport, Merging};
use crate::apply::Selection;
use crate::conflicts::DIRECTORY;
use crate::error::Result;
use crate::ignored::Ignored;
use crate::ignored::is_directory;
use crate::open::OpenVault;
use crate::project::Begun;
use crate::task::Task;

impl Task {
    /// Merges the changes in the directory since the task began, or was last synced. The task continues from
    /// there: these are not changes of the task. The cost depends on the files that the task has read, and on
    /// the differences.
    pub fn sync(&mut self, options: &MergeOptions) -> Result<MergeReport> {
        let store = self.vault().store().clone();
        let _pin = store.objects().store().pin()?;
        let rules = self.rules()?.map(|rules| rules.list().to_vec());
        let Begun { head, rules, .. } = store.projects().state_for_task(self.root(), rules.as_deref())?;
        // Applied changes are in the directory, and are not the user's.
        let base = self.work().applied_base(self.root(), &Selection::default())?;
        let theirs = head.snapshot;
        let report = self
            .vault()
            .attempt(|open| self.sync_states(open, base, theirs, options))?;
        if !options.dry_run {
            self.begin_at(theirs)?;
            self.set_rules(rules.as_deref())?;
        }
        Ok(report)
    }

    fn sync_states(
        &self,
        open: &OpenVault,
        base: SnapshotId,
        theirs: SnapshotId,
        options: &MergeOptions,
    ) -> Result<MergeReport> {
        let vault = self.vault();
        let _holding = open.hold_objects()?;
        let present = open.record().head;
        let before = vault.base_of(&present)?;
        let root = |snapshot| {
            Ok::<_, crate::Error>(avfs_tree::BaseTree {
                root: vault.snapshot(snapshot)?.root,
                inodes: None,
            })
        };
        let ignored = Ignored::new(vault.reader_at(base)?, vault.reader_at(present.snapshot)?);
        let (base, given) = (root(base)?, root(theirs)?);
        let mut changed = SideChanges::new(vault, &base, &given)?;
        changed.read_possibly_rewritten(vault.store().objects())?;
        changed.drop_rewritten(vault.store().objects())?;
        let mut merging = Merging::new(vault, options, before.clone()).arriving_at(vault.store().now());
        if !changed.changes.is_empty() {
            let mut ours = SideChanges::new(vault, &base, &before)?;
            ours.drop_rewritten(vault.store().objects())?;
            leave_ignored_to_task(ignored, &ours, &mut changed)
                .map_err(|error| vault.history().read_error(error))?;
            merging.settle_repositories(DIRECTORY, &base, &given, (&mut ours, &mut changed))?;
            merging.three_way(DIRECTORY, &base, &given, (&ours, &changed), true)?;
        }
        let (state, mut report) = merging.report(&before)?;
        if !options.dry_run && !changed.changes.is_empty() {
            crate::vault_limits::check_growth(&before.root.totals, &state.root.totals, open.limits())?;
            report.saved = Some(vault.merges().land_merge(
                open,
                state,
                vec![present.snapshot],
                &report,
                Some(theirs),
            )?);
        }
        Ok(report)
    }
}

/// If the task changed something in an ignored directory, all of it stays as the task has it: two builds
/// cannot be combined.
fn leave_ignored_to_task(
    mut ignored: Ignored,
    ours: &SideChanges,
    theirs: &mut SideChanges,
) -> Result<(), ReadError> {
    let mut own: HashSet<TreePath> = HashSet::new();
    for change in &ours.changes {
        own.extend(ignored.place_of(&change.path, is_directory(change))?);
    }
    if own.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(theirs.changes.len());
    for change in std::mem::take(&mut theirs.changes) {
        let place = ignored.place_of(&change.path, is_directory(&change))?;
        if !place.is_some_and(|place| own.contains(&place)) {
            kept.push(change);
        }
    }
    theirs.changes = kept;
    Ok(())
}
