//! The parts of a store, each with the calls about one side of it.

use std::io::Read;
use std::path::Path;

use avfs_exec::policy::PrefixRule;
use avfs_transfer::{TransferProgress, TransferReport};
use avfs_tree::VaultLimits;

use crate::apply::{Applied, Applies, ApplyId, Recovered};
use crate::approvals::{Allowance, Approval, ApprovalId, Approvals, Preview};
use crate::bundle::{Carried, StoreImports};
use crate::error::Result;
use crate::exec::RunContext;
use crate::fsck::StoreIntegrity;
use crate::gc::{Collected, StoreMaintenance};
use crate::git::GitRevision;
use crate::image::Images;
use crate::mounts::StoreMounts;
use crate::name::VaultName;
use crate::project::{Project, Projects};
use crate::prune::Pruned;
use crate::repair::Repaired;
use crate::retention_policy::RetentionPolicy;
use crate::session::StoreSessions;
use crate::store::{Store, StoreOptions};
use crate::stored_policy::{PolicyInForce, StorePolicy, StoredPolicy};
use crate::task::{Task, Tasks};
use crate::vault::Vault;

impl Store {
    /// The directories of the host from which tasks are made.
    pub fn projects(&self) -> Projects<'_> {
        Projects { store: self }
    }

    /// The tasks of a store.
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { store: self }
    }

    /// The applies of tasks to directories: what they did, and undoing it.
    pub fn applies(&self) -> Applies<'_> {
        Applies { store: self }
    }

    /// The requests that wait for a person's answer, and the answers.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { store: self }
    }

    /// Images of containers, and the vaults that hold them.
    pub fn images(&self) -> Images<'_> {
        Images { store: self }
    }

    /// The mounts of all vaults.
    pub fn mounts(&self) -> StoreMounts<'_> {
        StoreMounts { store: self }
    }

    /// The sessions in all vaults.
    pub fn sessions(&self) -> StoreSessions<'_> {
        StoreSessions { store: self }
    }

    /// The policy for all vaults that have none of their own.
    pub fn policy(&self) -> StorePolicy<'_> {
        StorePolicy { store: self }
    }

    /// Removes what a store no longer needs, and reports its size.
    pub fn maintenance(&self) -> StoreMaintenance<'_> {
        StoreMaintenance { store: self }
    }

    /// Verifies a store, and repairs it.
    pub fn integrity(&self) -> StoreIntegrity<'_> {
        StoreIntegrity { store: self }
    }

    /// Makes vaults from exported vaults and from commits of git.
    pub fn imports(&self) -> StoreImports<'_> {
        StoreImports { store: self }
    }
}

/// Shortcuts for the calls that most programs make.
impl Store {
    /// As [`StoreIntegrity::repair_at`]: for a store that cannot be opened.
    pub fn repair_at(home: &Path, options: &StoreOptions) -> Result<Repaired> {
        StoreIntegrity::repair_at(home, options)
    }

    /// As [`Approvals::get`].
    pub fn approval(&self, id: &ApprovalId) -> Result<Approval> {
        self.approvals().get(id)
    }

    /// As [`Approvals::allow`].
    pub fn allow(&self, id: &ApprovalId, allowance: &Allowance) -> Result<(Approval, Vec<PrefixRule>)> {
        self.approvals().allow(id, allowance)
    }

    /// As [`Approvals::deny`].
    pub fn deny(&self, id: &ApprovalId, reason: Option<&str>) -> Result<Approval> {
        self.approvals().deny(id, reason)
    }

    /// As [`Approvals::preview`].
    pub fn preview(&self, approval: &Approval, context: RunContext<'_>) -> Result<Preview> {
        self.approvals().preview(approval, context)
    }

    /// As [`StoreMaintenance::prune`].
    pub fn prune(&self, policy: &RetentionPolicy, dry_run: bool) -> Result<Pruned> {
        self.maintenance().prune(policy, dry_run)
    }

    /// As [`Applies::undo`].
    pub fn undo_apply(&self, id: ApplyId, force: bool) -> Result<Applied> {
        self.applies().undo(id, force)
    }

    /// As [`StoreMaintenance::clear_away_runs`].
    pub fn clear_away_runs(&self) {
        self.maintenance().clear_away_runs()
    }

    /// As [`StoreMaintenance::collect_garbage`].
    pub fn collect_garbage(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Collected> {
        self.maintenance().collect_garbage(go_on)
    }

    /// As [`Projects::open`].
    pub fn project(&self, directory: &Path) -> Result<Project> {
        self.projects().open(directory)
    }

    /// As [`Projects::known_project`].
    pub fn known_project(&self, directory: &Path) -> Result<Option<Project>> {
        self.projects().known_project(directory)
    }

    /// As [`StoreImports::git`].
    pub fn create_vault_from_git(
        &self,
        name: &VaultName,
        revision: &GitRevision,
        limits: VaultLimits,
        progress: &dyn TransferProgress,
    ) -> Result<(Vault, TransferReport)> {
        self.imports().git(name, revision, limits, progress)
    }

    /// As [`StoreImports::bundle`].
    pub fn import_bundle(
        &self,
        input: &mut dyn Read,
        place: &str,
        name: Option<&VaultName>,
        go_on: &mut dyn FnMut(Carried),
    ) -> Result<(Vault, Carried)> {
        self.imports().bundle(input, place, name, go_on)
    }

    /// As [`StorePolicy::set`].
    pub fn set_policy(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        self.policy().set(new)
    }

    /// As [`StorePolicy::in_force`].
    pub fn policy_in_force(&self) -> Result<PolicyInForce> {
        self.policy().in_force()
    }

    /// As [`Tasks::get`].
    pub fn task(&self, name: &str) -> Result<Task> {
        self.tasks().get(name)
    }

    /// As [`Applies::recover`].
    pub fn recover_applies(&self) -> Result<Vec<Recovered>> {
        self.applies().recover()
    }
}
