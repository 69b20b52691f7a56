//! Merging vaults: what others did since they and this vault were one, brought into it.
//!
//! The decisions are made by [`avfs_core::merge`], from what differs. Here the sides are found, the steps are done in a
//! tree in memory, and the outcome becomes the next state: all of it in one commit, or nothing.

mod ancestry;
mod clashes;
mod repositories;
mod sides;
mod steps;
mod sync;

use std::collections::BTreeMap;

use avfs_core::diff::Change;
use avfs_core::merge::{Choice, Merger, Sides, Step, merge_trees};
use avfs_core::{Entry, Root, SnapshotId, Timestamp, TreePath};
use avfs_tree::{Base, ReadError, TreeReader};

use crate::conflicts::{OpenConflict, OpenConflicts, SideLinks};
use crate::deed::{Deed, Landing};
use crate::error::{Error, Result};
use crate::git::is_in_repository;
use crate::name::VaultName;
use crate::open::{OpenVault, Saved};
use crate::record::Head;
use crate::restore::check_growth;
use crate::vault::Vault;
pub use clashes::{Clash, ClashDetail, Clashes};
use repositories::Settling;
pub use repositories::{MergedRepository, RepositoryOutcome};
pub(crate) use sides::moves_between;
use sides::{Changed, Texts};
pub(crate) use steps::Doing;

pub use avfs_core::merge::{ConflictKind, MarkerStyle};

#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Look only: nothing is changed.
    pub dry_run: bool,
    /// What becomes of conflicts.
    pub conflicts: Choice,
    /// How they are marked in texts.
    pub style: MarkerStyle,
}

/// What a merge did, or would do.
#[derive(Clone, Debug)]
pub struct MergeReport {
    /// The new snapshot; `None` after a dry run, and if there was nothing to merge.
    pub saved: Option<Saved>,
    pub sources: Vec<MergedSource>,
    /// What is another than before in the vault, but for the own files of repositories.
    pub changes: Vec<Change>,
    /// The repositories in which something was done.
    pub repositories: Vec<MergedRepository>,
    /// The conflicts that this merge found.
    pub conflicts: Vec<OpenConflict>,
}

/// One of the vaults that were merged.
#[derive(Clone, Debug)]
pub struct MergedSource {
    pub vault: VaultName,
    /// The newest state that both had in common.
    pub base: SnapshotId,
    /// The state that was merged.
    pub snapshot: SnapshotId,
    /// How many paths it had changed since the base; 0 if there was nothing new.
    pub changed: u64,
}

impl Vault {
    /// Brings in what other vaults did since they and this one were one. The present state stays in the history, so
    /// this can be undone. Costs what differs.
    pub fn merge(&self, from: &[&Vault], options: &MergeOptions) -> Result<MergeReport> {
        self.check_unrestricted("merging into it")?;
        for source in from {
            source.check_unrestricted("merging it")?;
            if source.id() == self.id() {
                return Err(Error::MergeWithItself { vault: self.name()?.to_string() });
            }
            source.head()?;
        }
        self.attempt(|open| {
            // Before the heads are read: what they need must stay.
            let _holding = open.hold_objects()?;
            self.merge_states(open, from, options)
        })
    }

    fn merge_states(&self, open: &OpenVault, from: &[&Vault], options: &MergeOptions) -> Result<MergeReport> {
        let present = open.record().head;
        let before = self.base_of(&present)?;
        let mut merging = Merging::new(self, options, before.clone());
        let (mut parents, mut sources) = (vec![present.snapshot], Vec::new());
        for (at, source) in from.iter().enumerate() {
            let record = source.record()?.0;
            let last = at + 1 == from.len();
            let (base, changed) = merging.bring(&parents, source, &record.head, last)?;
            let snapshot = record.head.snapshot;
            if base != snapshot {
                parents.push(snapshot);
            }
            sources.push(MergedSource { vault: record.name, base, snapshot, changed });
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
        state: Base,
        parents: Vec<SnapshotId>,
        report: &MergeReport,
        task_base: Option<SnapshotId>,
    ) -> Result<Saved> {
        let present = open.record().head;
        let new = report.sources.iter().filter(|source| parents.contains(&source.snapshot));
        let detail = new.map(|source| source.vault.to_string()).collect::<Vec<_>>().join(" ");
        let deed = Deed { task_base, ..self.deed("merge", &detail, None) };
        let mut conflicts = OpenConflicts::read(self, present.conflicts)?;
        conflicts.add(report.conflicts.clone());
        let conflicts = conflicts.store(self, &deed)?;
        let snapshot = self.store().put_snapshot(state.root, parents, &deed)?;
        let head = Head { snapshot, inodes: state.inodes, journal: present.journal, conflicts };
        open.advance(head, &deed, Landing::InPlace)
    }
}

/// A state into which one vault after the other is brought.
struct Merging<'a> {
    vault: &'a Vault,
    options: &'a MergeOptions,
    state: Base,
    found: Vec<OpenConflict>,
    repositories: Vec<MergedRepository>,
    /// What would be done to the state, if this is only a look.
    planned: Vec<Change>,
    /// The time that contents get which come in, if it is not their own.
    arrival: Option<Timestamp>,
}

impl<'a> Merging<'a> {
    fn new(vault: &'a Vault, options: &'a MergeOptions, state: Base) -> Merging<'a> {
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

    /// What was built in the vault must be older than what comes in, whenever that was written.
    fn arriving_at(self, arrival: Timestamp) -> Merging<'a> {
        Merging { arrival: Some(arrival), ..self }
    }

    /// The merged state, and what is to be said of it.
    fn report(self, before: &Base) -> Result<(Base, MergeReport)> {
        let mut changes = self.vault.changed_paths(&before.root, &self.state.root)?;
        changes.extend(self.planned);
        changes.retain(|change| !is_in_repository(&change.path));
        let report = MergeReport {
            saved: None,
            sources: Vec::new(),
            changes,
            repositories: self.repositories,
            conflicts: self.found,
        };
        Ok((self.state, report))
    }

    /// Brings in one vault; returns the state that was common and how many paths changed since. `ours` are the states
    /// that this one was made of. What is only looked at needs no tree after the last one.
    fn bring(
        &mut self,
        ours: &[SnapshotId],
        source: &Vault,
        theirs: &Head,
        last: bool,
    ) -> Result<(SnapshotId, u64)> {
        let (common, base, given) = match self.vault.common_state(ours, source, theirs.snapshot) {
            Ok(common) if common.snapshot == theirs.snapshot => return Ok((common.snapshot, 0)),
            Ok(common) => (common.snapshot, self.vault.base_of(&common)?, source.base_of(theirs)?),
            Err(error @ Error::NotRelated { .. }) => {
                self.vault.began_with(source, theirs.snapshot)?.ok_or(error)?
            }
            Err(error) => return Err(error),
        };
        let mut changed = Changed::new(self.vault, &base, &given)?;
        let count = changed.changes.len() as u64;
        if base.root == self.state.root {
            self.state = self.touched(given)?;
        } else if count > 0 {
            let name = source.name()?;
            let mut ours = Changed::new(self.vault, &base, &self.state)?;
            self.settle_repositories(name.last_part(), &base, &given, (&mut ours, &mut changed))?;
            self.three_way(name.as_str(), &base, &given, (&ours, &changed), last)?;
        }
        Ok((common, count))
    }

    /// Nothing was done here since: their state is the merged one.
    fn touched(&self, given: Base) -> Result<Base> {
        let changes = self.vault.changed_paths(&self.state.root, &given.root)?;
        let inodes = self.vault.touch(given.clone(), &changes)?;
        Ok(Base { inodes, ..given })
    }

    /// Leaves of each repository what one side did.
    fn settle_repositories(
        &mut self,
        from: &str,
        base: &Base,
        given: &Base,
        (ours, theirs): (&mut Changed, &mut Changed),
    ) -> Result<()> {
        let states = (base, &self.state, given);
        let settling = Settling::new(self.vault, from, !self.options.dry_run, states);
        self.repositories.extend(settling.settle(ours, theirs)?);
        Ok(())
    }

    fn three_way(
        &mut self,
        name: &str,
        base: &Base,
        given: &Base,
        (ours, theirs): (&Changed, &Changed),
        last: bool,
    ) -> Result<()> {
        let looks_only = self.options.dry_run && last;
        let names = Sides {
            ours: self.vault.name()?.to_string(),
            theirs: name.to_owned(),
            base: "base".into(),
            style: self.options.style,
        };
        let mut texts = Texts::new(self.vault.store().objects(), !looks_only);
        let mut merger = Merger { contents: &mut texts, names: &names, choice: self.options.conflicts };
        let merged = merge_trees(ours.side(), theirs.side(), &mut merger)?;
        texts.flush()?;
        let links =
            SideLinks { base: base.root.links, ours: self.state.root.links, theirs: given.root.links };
        let open = |conflict| OpenConflict { conflict, from: name.to_owned(), links };
        self.found.extend(merged.conflicts.into_iter().map(open));
        match looks_only {
            true => self.planned = self.changes_by(&merged.steps)?,
            false => self.state = self.done(&given.root, &merged.steps)?,
        }
        Ok(())
    }

    /// What `steps` would change.
    fn changes_by(&self, steps: &[Step]) -> Result<Vec<Change>> {
        let reader = TreeReader::new(self.vault.store().objects().clone(), self.state.root.clone());
        let mut after: BTreeMap<&TreePath, Option<&Entry>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Move(moved) => drop(after.insert(&moved.from, None)),
                Step::Remove(path) => drop(after.insert(path, None)),
                Step::Put { path, entry } => drop(after.insert(path, Some(entry))),
            }
        }
        let change = |(path, after): (&TreePath, Option<&Entry>)| match reader.find(path) {
            Ok(found) => Ok(Change { path: path.clone(), before: Some(found.entry), after: after.cloned() }),
            Err(ReadError::NotFound { .. } | ReadError::NotADirectory { .. }) => {
                Ok(Change { path: path.clone(), before: None, after: after.cloned() })
            }
            Err(error) => Err(self.vault.read_error(error)),
        };
        after.into_iter().map(change).collect()
    }

    /// The state after `steps`.
    fn done(&self, given: &Root, steps: &[Step]) -> Result<Base> {
        if steps.is_empty() {
            return Ok(self.state.clone());
        }
        let tree = OpenVault::scratch_at(self.vault.clone(), self.vault.record()?.0, self.state.clone())?;
        Doing::new(&tree, &self.state.root, given)?.arriving_at(self.arrival).run(steps)?;
        Ok(tree.tree().freeze()?.base().clone())
    }
}
