//! The steps that every run takes, in this order: decide, prepare, launch, record.
//!
//! Commands are launched in different ways: in a separate sandbox ([`super::job`]), by the shell of a
//! session, or on a person's terminal. The steps before and after are the same, and are here and in
//! [`super::asking`].

use avfs_core::SnapshotId;
use avfs_exec::launch::StopReason;
use avfs_exec::policy::PolicyDecision;

use super::outcome::{RunCheckpoint, RunError, RunOutcome};
use super::request::{CheckpointMode, RunSpec};
use super::workspace::{AfterRun, MountedVault};
use super::{EXEC, Permit, audit_detail, shown};
use crate::approvals::Binding;
use crate::error::{Error, OwnerError, Result};
use crate::exec::VaultRuns;
use crate::name::CheckpointName;
use crate::vault::Vault;

/// A run on its way, with everything that is known of it so far.
pub(crate) struct RunCore<'a> {
    pub(crate) vault: &'a Vault,
    pub(crate) outcome: RunOutcome,
    /// The work that this process must continue after the run.
    pub(crate) after: AfterRun,
}

/// The state before a command, with its number in the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateBefore {
    pub(crate) snapshot: SnapshotId,
    pub(crate) seq: u64,
}

impl<'a> RunCore<'a> {
    pub(crate) fn new(vault: &'a Vault, outcome: RunOutcome) -> RunCore<'a> {
        RunCore {
            vault,
            outcome,
            after: AfterRun::default(),
        }
    }

    /// The steps before the command: the approval that lets it run is used, and the state is recorded, with a
    /// checkpoint if one is taken.
    pub(crate) fn prepare(
        &mut self,
        spec: &RunSpec,
        permit: &Permit,
        workspace: &MountedVault,
    ) -> Result<StateBefore, RunError> {
        let before = workspace.settle()?;
        if let Some((approval, binding)) = &permit.approval {
            let binding = Binding {
                head: before,
                ..binding.clone()
            };
            if !self
                .vault
                .approvals()
                .use_approval(&approval.id, &binding, &self.outcome.run)?
            {
                return Err(RunError::PermitGone);
            }
        }
        self.outcome.before = Some(before);
        self.outcome.checkpoint = match self.why_no_checkpoint(spec, permit, before)? {
            Some(because) => RunCheckpoint::Skipped { because },
            None => {
                let name = CheckpointName::new(&format!("before-{}", self.outcome.run))?;
                let saved = self
                    .vault
                    .history()
                    .save_automatic_checkpoint(&name, Some(&shown(spec)))?;
                let snapshot = saved.snapshot;
                RunCheckpoint::Taken { snapshot, name }
            }
        };
        Ok(StateBefore {
            snapshot: before,
            seq: self.vault.record()?.0.seq,
        })
    }

    fn why_no_checkpoint(
        &self,
        spec: &RunSpec,
        permit: &Permit,
        before: SnapshotId,
    ) -> Result<Option<&'static str>> {
        Ok(match spec.checkpoint {
            CheckpointMode::Never => Some("it was not wanted"),
            CheckpointMode::Always => None,
            CheckpointMode::Auto if !permit.granted.write => Some("the command changes nothing"),
            CheckpointMode::Auto => match self.vault.record()?.0.last_checkpoint {
                Some(last) if last.snapshot == before => Some("nothing changed since the last one"),
                Some(_) | None => None,
            },
        })
    }

    /// The steps after the command: one entry of the audit log, and one step for `undo`.
    pub(crate) fn record(
        &mut self,
        spec: &RunSpec,
        decision: &PolicyDecision,
        before: StateBefore,
    ) -> Result<()> {
        let detail = audit_detail(spec, &self.outcome, decision);
        self.outcome.audit_head = Some(self.vault.runs().note_one_step(EXEC, &detail, before.seq)?);
        Ok(())
    }

    /// Fails if the run was ended because nobody served its files any longer.
    pub(crate) fn check_server(&self) -> Result<(), RunError> {
        match self.outcome.process.as_ref().and_then(|process| process.stopped) {
            Some(StopReason::ServerGone) => Err(RunError::Library(Error::Owner(OwnerError::Died {
                vault: self.outcome.vault.clone(),
            }))),
            Some(StopReason::Timeout | StopReason::Cancelled | StopReason::CpuTime) | None => Ok(()),
        }
    }

    pub(crate) fn record_refusal(&mut self, spec: &RunSpec, decision: &PolicyDecision) {
        self.record_end("exec-refused", spec, decision);
    }

    /// For a run that was allowed and did not end normally: it did not begin, or its outcome is unknown.
    pub(crate) fn record_failure(&mut self, spec: &RunSpec, decision: &PolicyDecision) {
        self.record_end("exec-failed", spec, decision);
    }

    /// If the audit entry cannot be written, the run is still answered, without the hash of an entry.
    fn record_end(&mut self, action: &str, spec: &RunSpec, decision: &PolicyDecision) {
        let detail = audit_detail(spec, &self.outcome, decision);
        let noted = self.vault.update(action, &detail, |_, _| Ok(()));
        let head = noted.and_then(|()| Ok(self.vault.record()?.0.audit.hash));
        self.outcome.audit_head = head.ok();
    }
}

impl VaultRuns<'_> {
    /// Records the changes of a run since entry `seq` of the history: one entry of the audit log and one step
    /// for `undo`. Returns the hash at the end of the audit log.
    pub(crate) fn note_one_step(&self, action: &str, detail: &str, seq: u64) -> Result<String> {
        if self.vault.record()?.0.seq > seq + 1 {
            self.vault.note_together(action, detail, seq)?
        } else {
            self.vault.update(action, detail, |_, _| Ok(()))?
        }
        Ok(self.vault.record()?.0.audit.hash)
    }
}
