//! Bringing what the user did in the project's directory into a task, by the same merge.

use avfs_core::SnapshotId;

use super::sides::Changed;
use super::{MergeOptions, MergeReport, Merging};
use crate::error::Result;
use crate::open::OpenVault;
use crate::task::Task;

/// What the directory is called where both sides are named.
const DIRECTORY: &str = "directory";

impl Task {
    /// Brings in what changed in the directory since the task began, or was synced last. The task goes on from there:
    /// what came in is no change of it. Costs what the task has looked at, and what differs.
    pub fn sync(&mut self, options: &MergeOptions) -> Result<MergeReport> {
        let store = self.vault().store().clone();
        let _pin = store.objects().store().pin()?;
        let rules = self.rules()?.map(|rules| rules.list().to_vec());
        let (theirs, rules) = store.state_for_task(self.root(), rules.as_deref())?;
        let (base, theirs) = (self.base()?, theirs.snapshot);
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
        let (base, given) = (root(base)?, root(theirs)?);
        let changed = Changed::new(vault, &base, &given)?;
        let mut merging =
            Merging { vault, options, state: before.clone(), found: Vec::new(), planned: Vec::new() };
        if !changed.changes.is_empty() {
            merging.three_way(DIRECTORY, &base, &given, &changed, true)?;
        }
        let Merging { state, found, planned, .. } = merging;
        let mut changes = vault.changed_paths(&before.root, &state.root)?;
        changes.extend(planned);
        let mut report = MergeReport { saved: None, sources: Vec::new(), changes, conflicts: found };
        if !options.dry_run && !changed.changes.is_empty() {
            crate::restore::check_growth(&before.root.totals, &state.root.totals, open.limits())?;
            report.saved = Some(vault.land_merge(open, state, vec![present.snapshot], &report)?);
        }
        Ok(report)
    }
}
