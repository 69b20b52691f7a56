//! Merging vaults: the changes of other vaults since their common state, merged into this one.
//!
//! [`avfs_core::merge`] makes the decisions, from the differences. Here the sides are determined, the steps
//! are executed in a tree in memory, and the result becomes the next state: all of it in one commit, or
//! nothing.

mod ancestry;
mod clashes;
mod repositories;
mod resolving;
mod sides;
mod steps;
mod sync;

use std::collections::BTreeMap;

use avfs_core::diff::TreeChange;
use avfs_core::merge::{ConflictPolicy, EntryMerger, MergeStep, SideNames, merge_trees};
use avfs_core::{Entry, Root, SnapshotId, Timestamp, TreePath};
use avfs_tree::{BaseTree, ReadError, TreeReader};

use crate::conflicts::VaultMerges;
use crate::conflicts::{OpenConflict, OpenConflicts, SideLinks};
use crate::error::{Error, MergeError, Result};
use crate::git::is_in_repository;
use crate::logged_action::{LoggedAction, TreeUpdate};
use crate::name::VaultName;
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::vault::Vault;
use crate::vault_limits::check_growth;
pub use clashes::{Clash, ClashDetail, Clashes, TaskMerges};
use repositories::Settling;
pub use repositories::{MergedRepository, RepositoryOutcome};
pub use resolving::Resolution;
use sides::SideChanges;
pub(crate) use sides::Texts;
pub(crate) use steps::Doing;

pub use avfs_core::merge::{MarkerStyle, MergeConflictKind};

/// How vaults are merged.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Look only: nothing is changed.
    pub dry_run: bool,
    /// How conflicts are resolved.
    pub conflicts: ConflictPolicy,
    /// How they are marked in texts.
    pub style: MarkerStyle,
}

/// The result of a merge, or of a dry run.
#[derive(Clone, Debug)]
pub struct MergeReport {
    /// The new snapshot; `None` after a dry run, and if there was nothing to merge.
    pub saved: Option<Saved>,
    /// The vaults that were merged.
    pub sources: Vec<MergedSource>,
    /// The changes of the vault, except for repositories' own files.
    pub changes: Vec<TreeChange>,
    /// The repositories in which something was done.
    pub repositories: Vec<MergedRepository>,
    /// The conflicts that this merge found.
    pub conflicts: Vec<OpenConflict>,
}

/// One of the vaults that were merged.
#[derive(Clone, Debug)]
pub struct MergedSource {
    /// Its name.
    pub vault: VaultName,
    /// The newest state that both had in common.
    pub base: SnapshotId,
    /// The state that was merged.
    pub snapshot: SnapshotId,
    /// How many paths it had changed since the base; 0 if there was nothing new.
    pub changed: u64,
}

impl VaultMerges<'_> {
    /// Merges the changes of other vaults since their common states with this one. The present state stays in
    /// the history, so this can be undone. The cost depends on the differences.
    pub fn merge(&self, from: &[&Vault], options: &MergeOptions) -> Result<MergeReport> {
        self.vault.check_unrestricted("merging into it")?;
        for source in from {
            source.check_unrestricted("merging it")?;
            if source.id() == self.vault.id() {
                return Err(Error::Merge(MergeError::WithItself {
                    vault: self.vault.name()?.to_string(),
                }));
            }
            source.head()?;
        }
        self.vault.attempt(|open| {
            // Before the heads are read: the objects that they need must stay.
            let _holding = open.hold_objects()?;
            self.merge_states(open, from, options)
        })
    }

    fn merge_states(&self, open: &OpenVault, from: &[&Vault], options: &MergeOptions) -> Result<MergeReport> {
        let present = open.record().head;
        let before = self.vault.base_of(&present)?;
        let mut merging = Merging::new(self.vault, options, before.clone());
        let (mut parents, mut sources) = (vec![present.snapshot], Vec::new());
        for (at, source) in from.iter().enumerate() {
            let record = source.record()?.0;
            let last = at + 1 == from.len();
            let (base, changed) = merging.bring(&parents, source, &record.head, last)?;
            let snapshot = record.head.snapshot;
            if base != snapshot {
                parents.push(snapshot);
            }
            sources.push(MergedSource {
                vault: record.name,
                base,
                snapshot,
                changed,
            });
        }
        let (state, mut report) = merging.report(&before)?;
        report.sources = sources;
        if options.dry_run || parents.len() == 1 {
            return Ok(report);
        }
        check_growth(&before.root.totals, &state.root.totals, open.limits())?;
        report.saved = Some(self.land_merge(open, state, parents, &report, None)?);
        Ok(report)
    }

    fn land_merge(
        &self,
        open: &OpenVault,
        state: BaseTree,
        parents: Vec<SnapshotId>,
        report: &MergeReport,
        task_base: Option<SnapshotId>,
    ) -> Result<Saved> {
        let present = open.record().head;
        let new = report
            .sources
            .iter()
            .filter(|source| parents.contains(&source.snapshot));
        let detail = new
            .map(|source| source.vault.to_string())
            .collect::<Vec<_>>()
            .join(" ");
        let logged = LoggedAction {
            task_base,
            ..self.vault.logged("merge", &detail, None)
        };
        let mut conflicts = OpenConflicts::read(self.vault, present.conflicts)?;
        conflicts.add(report.conflicts.clone());
        let conflicts = conflicts.store(self.vault, &logged)?;
        let snapshot = self.vault.store().put_snapshot(state.root, parents, &logged)?;
        let head = Head {
            snapshot,
            inodes: state.inodes,
            journal: present.journal,
            conflicts,
        };
        open.advance(head, &logged, TreeUpdate::InPlace)
    }
}

/// Whether a directory differs only in its times: its files imply the rest.
fn is_of_times(change: &TreeChange) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return false;
    };
    let mut meta = before.meta.clone();
    meta.mtime = after.meta.mtime;
    before.is_directory() && after.is_directory() && meta == after.meta
}

/// A state into which one vault after the other is brought.
struct Merging<'a> {
    vault: &'a Vault,
    options: &'a MergeOptions,
    state: BaseTree,
    found: Vec<OpenConflict>,
    repositories: Vec<MergedRepository>,
    /// The changes that would be made, in a dry run.
    planned: Vec<TreeChange>,
    /// The time that contents get which come in, if it is not their own.
    arrival: Option<Timestamp>,
}

impl<'a> Merging<'a> {
    fn new(vault: &'a Vault, options: &'a MergeOptions, state: BaseTree) -> Merging<'a> {
        Merging {
            vault,
            options,
            state,
            found: Vec::new(),
            repositories: Vec::new(),
            planned: Vec::new(),
            arrival: None,
        }
    }

    /// Build results in the vault must be older than merged contents, whenever those were written.
    fn arriving_at(self, arrival: Timestamp) -> Merging<'a> {
        Merging {
            arrival: Some(arrival),
            ..self
        }
    }

    /// The merged state, and the report.
    fn report(self, before: &BaseTree) -> Result<(BaseTree, MergeReport)> {
        let mut changes = self
            .vault
            .history()
            .changed_paths(&before.root, &self.state.root)?;
        changes.extend(self.planned);
        changes.retain(|change| !is_in_repository(&change.path) && !is_of_times(change));
        let report = MergeReport {
            saved: None,
            sources: Vec::new(),
            changes,
            repositories: self.repositories,
            conflicts: self.found,
        };
        Ok((self.state, report))
    }

    /// Merges one vault; returns the common state and how many paths changed since. `ours` are the states
    /// from which this one was made. A dry run needs no tree after the last one.
    fn bring(
        &mut self,
        ours: &[SnapshotId],
        source: &Vault,
        theirs: &Head,
        last: bool,
    ) -> Result<(SnapshotId, u64)> {
        let (common, base, given) = match self.vault.merges().common_state(ours, source, theirs.snapshot) {
            Ok(common) if common.snapshot == theirs.snapshot => return Ok((common.snapshot, 0)),
            Ok(common) => (
                common.snapshot,
                self.vault.base_of(&common)?,
                source.base_of(theirs)?,
            ),
            Err(error @ Error::Merge(MergeError::NotRelated { .. })) => self
                .vault
                .merges()
                .began_with(source, theirs.snapshot)?
                .ok_or(error)?,
            Err(error) => return Err(error),
        };
        let mut changed = SideChanges::new(self.vault, &base, &given)?;
        let count = changed.changes.len() as u64;
        if base.root == self.state.root {
            self.state = self.touched(given)?;
        } else if count > 0 {
            let name = source.name()?;
            let mut ours = SideChanges::new(self.vault, &base, &self.state)?;
            self.settle_repositories(name.last_part(), &base, &given, (&mut ours, &mut changed))?;
            self.three_way(name.as_str(), &base, &given, (&ours, &changed), last)?;
        }
        Ok((common, count))
    }

    /// Nothing was done here since: their state is the merged one.
    fn touched(&self, given: BaseTree) -> Result<BaseTree> {
        let changes = self
            .vault
            .history()
            .changed_paths(&self.state.root, &given.root)?;
        let inodes = self.vault.history().touch(given.clone(), &changes)?;
        Ok(BaseTree { inodes, ..given })
    }

    /// Keeps one side's version of each repository.
    fn settle_repositories(
        &mut self,
        from: &str,
        base: &BaseTree,
        given: &BaseTree,
        (ours, theirs): (&mut SideChanges, &mut SideChanges),
    ) -> Result<()> {
        let states = (base, &self.state, given);
        let settling = Settling::new(self.vault, from, !self.options.dry_run, states);
        self.repositories.extend(settling.settle(ours, theirs)?);
        Ok(())
    }

    fn three_way(
        &mut self,
        name: &str,
        base: &BaseTree,
        given: &BaseTree,
        (ours, theirs): (&SideChanges, &SideChanges),
        last: bool,
    ) -> Result<()> {
        let looks_only = self.options.dry_run && last;
        let names = SideNames {
            ours: self.vault.name()?.to_string(),
            theirs: name.to_owned(),
            base: "base".into(),
            style: self.options.style,
        };
        let mut texts = Texts::new(self.vault.store().objects(), !looks_only);
        let mut merger = EntryMerger {
            contents: &mut texts,
            names: &names,
            choice: self.options.conflicts,
        };
        let merged = merge_trees(ours.side(), theirs.side(), &mut merger)?;
        texts.flush()?;
        let links = SideLinks {
            base: base.root.links,
            ours: self.state.root.links,
            theirs: given.root.links,
        };
        let open = |conflict| OpenConflict {
            conflict,
            from: name.to_owned(),
            links,
        };
        self.found.extend(merged.conflicts.into_iter().map(open));
        if looks_only {
            self.planned = self.changes_by(&merged.steps)?
        } else {
            self.state = self.done(&given.root, &merged.steps)?
        }
        Ok(())
    }

    /// The changes that `steps` would make.
    fn changes_by(&self, steps: &[MergeStep]) -> Result<Vec<TreeChange>> {
        let reader = TreeReader::new(self.vault.store().objects().clone(), self.state.root.clone());
        let mut after: BTreeMap<&TreePath, Option<&Entry>> = BTreeMap::new();
        for step in steps {
            match step {
                MergeStep::Move(moved) => drop(after.insert(&moved.from, None)),
                MergeStep::Remove(path) => drop(after.insert(path, None)),
                MergeStep::Put { path, entry } => drop(after.insert(path, Some(entry))),
            }
        }
        let change = |(path, after): (&TreePath, Option<&Entry>)| match reader.find(path) {
            Ok(found) => Ok(TreeChange {
                path: path.clone(),
                before: Some(found.entry),
                after: after.cloned(),
            }),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => Ok(TreeChange {
                path: path.clone(),
                before: None,
                after: after.cloned(),
            }),
            Err(error) => Err(self.vault.history().read_error(error)),
        };
        after.into_iter().map(change).collect()
    }

    /// The state after `steps`.
    fn done(&self, given: &Root, steps: &[MergeStep]) -> Result<BaseTree> {
        if steps.is_empty() {
            return Ok(self.state.clone());
        }
        let tree = OpenVault::scratch_at(self.vault.clone(), self.vault.record()?.0, self.state.clone())?;
        Doing::new(&tree, &self.state.root, given)?
            .arriving_at(self.arrival)
            .run(steps)?;
        Ok(tree.tree().freeze()?.base().clone())
    }
}
