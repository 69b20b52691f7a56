//! Bringing what the user did in the project's directory into a task, by the same merge.

use std::collections::HashSet;

use avfs_core::{SnapshotId, TreePath};
use avfs_tree::ReadError;

use super::sides::Changed;
use super::{MergeOptions, MergeReport, Merging};
use crate::error::Result;
use crate::ignored::Ignored;
use crate::open::OpenVault;
use crate::project::Begun;
use crate::task::{Task, is_directory};

/// What the directory is called where both sides are named.
const DIRECTORY: &str = "directory";

impl Task {
    /// Brings in what changed in the directory since the task began, or was synced last. The task goes on from there:
    /// what came in is no change of it. Costs what the task has looked at, and what differs.
    pub fn sync(&mut self, options: &MergeOptions) -> Result<MergeReport> {
        let store = self.vault().store().clone();
        let _pin = store.objects().store().pin()?;
        let rules = self.rules()?.map(|rules| rules.list().to_vec());
        let Begun { head, rules, .. } = store.state_for_task(self.root(), rules.as_deref())?;
        let (base, theirs) = (self.base()?, head.snapshot);
        let report = self.vault().attempt(|open| self.sync_states(open, base, theirs, options))?;
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
            Ok::<_, crate::Error>(avfs_tree::Base { root: vault.snapshot(snapshot)?.root, inodes: None })
        };
        let ignored = Ignored::new(vault.reader_at(base)?, vault.reader_at(present.snapshot)?);
        let (base, given) = (root(base)?, root(theirs)?);
        let mut changed = Changed::new(vault, &base, &given)?;
        changed.drop_rewritten(vault.store().objects())?;
        let mut merging = Merging::new(vault, options, before.clone()).arriving_at(vault.store().now());
        if !changed.changes.is_empty() {
            let mut ours = Changed::new(vault, &base, &before)?;
            ours.drop_rewritten(vault.store().objects())?;
            leave_ignored_to_task(ignored, &ours, &mut changed).map_err(|error| vault.read_error(error))?;
            merging.settle_repositories(DIRECTORY, &base, &given, (&mut ours, &mut changed))?;
            merging.three_way(DIRECTORY, &base, &given, (&ours, &changed), true)?;
        }
        let (state, mut report) = merging.report(&before)?;
        if !options.dry_run && !changed.changes.is_empty() {
            crate::restore::check_growth(&before.root.totals, &state.root.totals, open.limits())?;
            report.saved =
                Some(vault.land_merge(open, state, vec![present.snapshot], &report, Some(theirs))?);
        }
        Ok(report)
    }
}

/// Where the task changed something of an ignored directory, all of it stays as the task has it: two builds that are put
/// together are none.
fn leave_ignored_to_task(
    mut ignored: Ignored,
    ours: &Changed,
    theirs: &mut Changed,
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
