//! From a permit to the end of the command: a workspace, a sandbox, and the order of the two.
//!
//! A sandbox takes longer to create than a vault to open, so both are done in parallel: the mount exists
//! first, the sandbox is built around it, and processes that access it wait until it is served. The command
//! begins when both are ready.

use std::path::Path;

use avfs_core::SnapshotId;
use avfs_exec::launch::LaunchRequest;
use avfs_exec::{Capabilities, Landlocked, LaunchError, LaunchOutcome, Launcher, RunEvent, SandboxPlan};

use super::builder::sandbox_builder;
use super::core::{RunCore, StateBefore};
use super::door::{DoorScope, behind_door};
use super::outcome::RunError;
use super::workspace::{MountedVault, PreparedMount};
use super::{HomeView, ImageRoot, IsolationChoice, Permit, RunContext, RunSpec, mount_options};
use crate::error::Result;
use crate::run_directory::{RUNS, RunDirectory};
use crate::vault::Vault;

/// The state before the command, and how the command ended.
type Launched = (StateBefore, Result<LaunchOutcome, LaunchError>);

/// A command that may run.
pub(super) struct Job<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) permit: &'a Permit,
    pub(super) cwd: &'a Path,
    pub(super) granted: Capabilities,
    /// The root directory, if it is not the one of this machine.
    pub(super) root: Option<&'a ImageRoot>,
}

impl Job<'_> {
    /// Runs it to its end. The workspace is still there then, whatever came of it.
    pub(super) fn launch(
        &self,
        core: &mut RunCore<'_>,
        context: &mut RunContext<'_>,
    ) -> Result<(MountedVault, Result<Launched, RunError>), RunError> {
        let (vault, spec) = (core.vault, self.spec);
        let directory = RunDirectory::make(vault.store(), RUNS, &core.outcome.run)?;
        // It is gone when this returns: before the directory.
        let home = vault
            .runs()
            .home_view(spec, self.granted.write, directory.place(), &context.report)?;
        let home = home.as_ref();
        let workspace = match spec.isolation {
            IsolationChoice::Bubblewrap if self.is_settled(vault)? => {
                match self.launch_unserved(core, directory, home, context)? {
                    (workspace, Some(launched)) => return Ok((workspace, launched)),
                    (workspace, None) => workspace,
                }
            }
            IsolationChoice::Bubblewrap | IsolationChoice::Oci | IsolationChoice::Docker => {
                let options = mount_options(spec, !self.granted.write);
                MountedVault::mount(vault, directory, &options, &context.report)?
            }
            IsolationChoice::Landlock => MountedVault::copy(vault, directory, &core.outcome.run)?,
        };
        let launched = self.launch_in(core, &workspace, home, context);
        Ok((workspace, launched))
    }

    /// Whether the state before the command is known without opening the vault, and no other process serves
    /// it.
    fn is_settled(&self, vault: &Vault) -> Result<bool> {
        let whole = self.spec.path.is_none();
        Ok(whole && !vault.has_journal()? && vault.live_owner()?.is_none())
    }

    fn launch_in(
        &self,
        core: &mut RunCore<'_>,
        workspace: &MountedVault,
        home: Option<&HomeView>,
        context: &mut RunContext<'_>,
    ) -> Result<Launched, RunError> {
        let before = core.prepare(self.spec, self.permit, workspace)?;
        let plan = self.plan(core.vault, &workspace.mountpoint(), before.snapshot, home)?;
        let door = workspace.door_place();
        let launched = self.launch_plan(core.vault, plan, (Some(workspace), &door), context, None);
        Ok((before, launched))
    }

    /// Builds the sandbox while the vault is being opened. If the result contains no launch, the command has
    /// not begun, and can be launched in the returned workspace.
    fn launch_unserved(
        &self,
        core: &mut RunCore<'_>,
        directory: RunDirectory,
        home: Option<&HomeView>,
        context: &mut RunContext<'_>,
    ) -> Result<(MountedVault, Option<Result<Launched, RunError>>), RunError> {
        let vault = core.vault;
        let head = vault.record()?.0.head.snapshot;
        let options = mount_options(self.spec, !self.granted.write);
        let unserved = PreparedMount::connect(vault, directory, options)?;
        let (place, door) = (unserved.mountpoint(), unserved.door_place());
        let plan = match self.plan(vault, &place, head, home) {
            Ok(plan) => plan,
            Err(failed) => {
                unserved.give_up();
                return Err(failed);
            }
        };
        let (mut unserved, mut served, mut before) = (Some(unserved), None, None);
        let report = context.report.clone();
        let mut ready = || {
            let Some(unserved) = unserved.take() else {
                return false;
            };
            let workspace = served.insert(unserved.serve(&report));
            let Ok((workspace, is_same)) = workspace else {
                return false;
            };
            // A plan for another state is made again.
            if !*is_same || !matches!(workspace.settle(), Ok(now) if now == head) {
                return false;
            }
            let prepared = core.prepare(self.spec, self.permit, workspace);
            before.insert(prepared).is_ok()
        };
        let launched = self.launch_plan(vault, plan, (None, &door), context, Some(&mut ready));
        if let Some(unserved) = unserved {
            unserved.give_up();
        }
        match (served, before) {
            (Some(served), Some(before)) => Ok((served?.0, Some(before.map(|before| (before, launched))))),
            (Some(served), None) => Ok((served?.0, None)),
            // It did not come so far.
            (None, _) => Err(launched.err().map_or(RunError::PermitGone, RunError::Launch)),
        }
    }

    fn plan(
        &self,
        vault: &Vault,
        place: &Path,
        before: SnapshotId,
        home: Option<&HomeView>,
    ) -> Result<SandboxPlan, RunError> {
        vault.runs().plan(
            self.spec,
            place,
            self.cwd,
            &self.granted,
            before,
            (home, self.root),
        )
    }

    fn launch_plan(
        &self,
        vault: &Vault,
        plan: SandboxPlan,
        (workspace, door): (Option<&MountedVault>, &Path),
        context: &mut RunContext<'_>,
        ready: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<LaunchOutcome, LaunchError> {
        let is_shown = self.spec.isolation != IsolationChoice::Landlock;
        // If the permissions of the door are unknown, there is none.
        let answering = context.door.filter(|_| is_shown);
        let answering = answering.zip(DoorScope::of(self.spec, &self.granted).ok());
        behind_door(answering, door, plan, |plan| {
            let watch = &mut *context.watch;
            let mut events = |event: RunEvent<'_>| watch.event(event);
            let ready = ready.map(|ready| -> &mut dyn FnMut() -> bool { ready });
            let run = LaunchRequest {
                ready,
                outlets: context.outlets,
                ..LaunchRequest::new(plan, self.spec.input(), context.cancel, &mut events)
            };
            match self.spec.isolation {
                IsolationChoice::Bubblewrap | IsolationChoice::Oci | IsolationChoice::Docker => {
                    let inside = context.inside.clone();
                    sandbox_builder(vault, self.spec, inside, (workspace, self.root))?.launch(run)
                }
                IsolationChoice::Landlock => Landlocked::new(context.inside.clone()).launch(run),
            }
        })
    }
}
