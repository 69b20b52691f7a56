//! The parts of a vault, each with the calls about one side of it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avfs_core::TreePath;
use avfs_exec::launch::InnerProgram;

use crate::approvals::VaultApprovals;
use crate::bundle::Carried;
use crate::conflicts::{OpenConflict, VaultMerges};
use crate::error::Result;
use crate::exec::{FinishedRun, InnerDoor, RunContext, RunSpec, VaultRuns};
use crate::history::{Checkpoint, HistoryEntry, VaultHistory};
use crate::image::VaultImage;
use crate::merge::{MergeOptions, MergeReport, Resolution};
use crate::mount::{MountOptions, Report, VaultMount};
use crate::mounts::VaultMounts;
use crate::name::CheckpointName;
use crate::open::Saved;
use crate::open_sandbox::OpenSandbox;
use crate::owner::VaultOwnership;
use crate::restore::Restored;
use crate::revision::{Revision, VaultRevisions};
use crate::session::{HeldSession, SessionRequest, SessionStartError, VaultSessions};
use crate::stored_policy::{PolicyInForce, StoredPolicy, VaultPolicy};
use crate::unstored::UnstoredWork;
use crate::vault::Vault;

impl Vault {
    /// The history of a vault: every state that it had, the ones with names, and the way back to them.
    pub fn history(&self) -> VaultHistory<'_> {
        VaultHistory { vault: self }
    }

    /// Finds the state that a user names.
    pub(crate) fn revisions(&self) -> VaultRevisions<'_> {
        VaultRevisions { vault: self }
    }

    /// Merges other vaults into a vault, and resolves the conflicts.
    pub fn merges(&self) -> VaultMerges<'_> {
        VaultMerges { vault: self }
    }

    /// The mounts of a vault, whichever process serves them.
    pub fn mounts(&self) -> VaultMounts<'_> {
        VaultMounts { vault: self }
    }

    /// Runs commands in sandboxes that show a vault.
    pub fn runs(&self) -> VaultRuns<'_> {
        VaultRuns { vault: self }
    }

    /// Shells in a vault that persist between commands.
    pub fn sessions(&self) -> VaultSessions<'_> {
        VaultSessions { vault: self }
    }

    /// The approvals that commands in a vault need, and the rules that were saved from answers.
    pub fn approvals(&self) -> VaultApprovals<'_> {
        VaultApprovals { vault: self }
    }

    /// The policy that is stored with a vault.
    pub fn policy(&self) -> VaultPolicy<'_> {
        VaultPolicy { vault: self }
    }

    /// A vault as an image of containers, and the root directories that its sandboxes get from images.
    pub fn image(&self) -> VaultImage<'_> {
        VaultImage { vault: self }
    }

    /// The work of a vault that is in its journal only.
    pub(crate) fn unstored(&self) -> UnstoredWork<'_> {
        UnstoredWork { vault: self }
    }

    /// Which process may change a vault.
    pub(crate) fn ownership(&self) -> VaultOwnership<'_> {
        VaultOwnership { vault: self }
    }
}

/// Shortcuts for the calls that most programs make.
impl Vault {
    /// As [`VaultRuns::exec`].
    pub fn exec(&self, spec: &RunSpec, context: RunContext<'_>) -> FinishedRun {
        self.runs().exec(spec, context)
    }

    /// As [`VaultRuns::open_sandbox`].
    pub fn open_sandbox(
        &self,
        spec: &RunSpec,
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<OpenSandbox, SessionStartError> {
        self.runs().open_sandbox(spec, inside, door, report)
    }

    /// As [`VaultSessions::hold`].
    pub fn hold_session(
        &self,
        request: SessionRequest,
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<HeldSession, SessionStartError> {
        self.sessions().hold(request, inside, door, report)
    }

    /// As [`VaultMounts::mount`].
    pub fn mount(&self, dir: &Path, options: &MountOptions, report: Report) -> Result<VaultMount> {
        self.mounts().mount(dir, options, report)
    }

    /// As [`VaultHistory::checkpoints`].
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.history().checkpoints()
    }

    /// As [`VaultHistory::checkpoint`].
    pub fn checkpoint(&self, name: &str) -> Result<Checkpoint> {
        self.history().checkpoint(name)
    }

    /// As [`VaultHistory::save_checkpoint`].
    pub fn save_checkpoint(&self, name: &CheckpointName, message: Option<&str>) -> Result<Checkpoint> {
        self.history().save_checkpoint(name, message)
    }

    /// As [`VaultHistory::delete_checkpoint`].
    pub fn delete_checkpoint(&self, name: &str) -> Result<()> {
        self.history().delete_checkpoint(name)
    }

    /// As [`VaultHistory::restore`].
    pub fn restore(&self, to: &Revision, detail: &str) -> Result<Restored> {
        self.history().restore(to, detail)
    }

    /// As [`VaultHistory::restore_paths`].
    pub fn restore_paths(
        &self,
        from: &Revision,
        paths: &[TreePath],
        action: &str,
        detail: &str,
    ) -> Result<Restored> {
        self.history().restore_paths(from, paths, action, detail)
    }

    /// As [`VaultHistory::for_each_entry`].
    pub fn for_each_entry(&self, visit: impl FnMut(HistoryEntry) -> Result<bool>) -> Result<()> {
        self.history().for_each_entry(visit)
    }

    /// As [`VaultRuns::own_path`].
    pub fn own_path(&self) -> Result<Option<PathBuf>> {
        self.runs().own_path()
    }

    /// As [`VaultHistory::undo`].
    pub fn undo(&self) -> Result<(HistoryEntry, Restored)> {
        self.history().undo()
    }

    /// As [`VaultHistory::redo`].
    pub fn redo(&self) -> Result<(HistoryEntry, Restored)> {
        self.history().redo()
    }

    /// As [`VaultMerges::merge`].
    pub fn merge(&self, from: &[&Vault], options: &MergeOptions) -> Result<MergeReport> {
        self.merges().merge(from, options)
    }

    /// As [`VaultMerges::conflicts`].
    pub fn conflicts(&self) -> Result<Vec<OpenConflict>> {
        self.merges().conflicts()
    }

    /// As [`VaultMerges::resolve`].
    pub fn resolve(&self, path: &TreePath, resolution: &Resolution) -> Result<Saved> {
        self.merges().resolve(path, resolution)
    }

    /// As [`VaultHistory::export`].
    pub fn export_bundle(
        &self,
        out: &mut dyn Write,
        place: &str,
        go_on: &mut dyn FnMut(Carried),
    ) -> Result<Carried> {
        self.history().export(out, place, go_on)
    }

    /// As [`VaultPolicy::set`].
    pub fn set_policy(&self, new: Option<(&str, &str)>) -> Result<Option<StoredPolicy>> {
        self.policy().set(new)
    }

    /// As [`VaultPolicy::in_force`].
    pub fn policy_in_force(&self) -> Result<PolicyInForce> {
        self.policy().in_force()
    }
}
