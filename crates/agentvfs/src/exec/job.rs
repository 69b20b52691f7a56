//! From a permit to the end of the command: a workspace, a sandbox, and the order of the two.
//!
//! A sandbox takes longer to make than a vault to open, so both are made at the same time: the mount is there first, the
//! sandbox is built around it, and whatever looks into it waits until it is served. The command begins when both are
//! done.

use std::path::Path;

use avfs_core::SnapshotId;
use avfs_exec::launch::{Inside, Run};
use avfs_exec::{Bubblewrap, Capabilities, Landlocked, LaunchError, Launcher, Outcome, Plan};

use super::door::behind_door;
use super::places::{RUNS, RunDirectory};
use super::workspace::{Unserved, Workspace};
use super::{ExecRequest, Failed, HomeView, IsolationChoice, Permit, RunResult, Running, mount_options};
use crate::error::Result;
use crate::vault::Vault;

/// The state before the command with its number in the history, and how the command ended.
type Launched = ((SnapshotId, u64), Result<Outcome, LaunchError>);

/// Below the store: which version of bubblewrap was found last.
const BUBBLEWRAP: &str = "bubblewrap";

/// Bubblewrap as the system has it.
pub(super) fn bubblewrap(vault: &Vault, inside: Inside) -> Bubblewrap {
    let bubblewrap = Bubblewrap::new(inside);
    match vault.store().home() {
        Some(home) => bubblewrap.remembering(home.join(BUBBLEWRAP)),
        None => bubblewrap,
    }
}

/// A command that may run.
pub(super) struct Job<'a> {
    pub(super) vault: &'a Vault,
    pub(super) request: &'a ExecRequest,
    pub(super) permit: &'a Permit,
    pub(super) cwd: &'a Path,
    pub(super) granted: Capabilities,
}

impl Job<'_> {
    /// Runs it to its end. The workspace is still there then, whatever came of it.
    pub(super) fn launch(
        &self,
        running: &mut Running<'_>,
        result: &mut RunResult,
    ) -> Result<(Workspace, Result<Launched, Failed>), Failed> {
        let directory = RunDirectory::make(self.vault.store(), RUNS, &result.run)?;
        // It is gone when this returns: before the directory.
        let home =
            self.vault.home_view(self.request, self.granted.write, directory.place(), &running.report)?;
        let home = home.as_ref();
        let workspace = match self.request.isolation {
            IsolationChoice::Bubblewrap if self.is_settled()? => {
                match self.launch_unserved(directory, home, running, result)? {
                    (workspace, Some(launched)) => return Ok((workspace, launched)),
                    (workspace, None) => workspace,
                }
            }
            IsolationChoice::Bubblewrap => {
                let options = mount_options(self.request, !self.granted.write);
                Workspace::mount(self.vault, directory, &options, &running.report)?
            }
            IsolationChoice::Landlock => Workspace::copy(self.vault, directory, &result.run)?,
        };
        let launched = self.launch_in(&workspace, home, running, result);
        Ok((workspace, launched))
    }

    /// Whether the state before the command is known without opening the vault, and nobody else serves it.
    fn is_settled(&self) -> Result<bool> {
        let whole = self.request.path.is_none();
        Ok(whole && !self.vault.has_journal()? && self.vault.live_owner()?.is_none())
    }

    fn launch_in(
        &self,
        workspace: &Workspace,
        home: Option<&HomeView>,
        running: &mut Running<'_>,
        result: &mut RunResult,
    ) -> Result<Launched, Failed> {
        let before = self.vault.prepare(self.request, self.permit, workspace, result)?;
        let place = workspace.mountpoint();
        let plan = self.vault.plan(self.request, &place, self.cwd, &self.granted, before.0, home)?;
        Ok((before, self.launch_plan(plan, &workspace.door_place(), running, None)))
    }

    /// Makes the sandbox while the vault is being opened. Without an end of the command, everything is as it was but for
    /// the workspace, in which it can be launched.
    fn launch_unserved(
        &self,
        directory: RunDirectory,
        home: Option<&HomeView>,
        running: &mut Running<'_>,
        result: &mut RunResult,
    ) -> Result<(Workspace, Option<Result<Launched, Failed>>), Failed> {
        let head = self.vault.record()?.0.head.snapshot;
        let options = mount_options(self.request, !self.granted.write);
        let unserved = Unserved::connect(self.vault, directory, options)?;
        let (place, door) = (unserved.mountpoint(), unserved.door_place());
        let plan = match self.vault.plan(self.request, &place, self.cwd, &self.granted, head, home) {
            Ok(plan) => plan,
            Err(failed) => {
                unserved.give_up();
                return Err(failed);
            }
        };
        let (mut unserved, mut served, mut before) = (Some(unserved), None, None);
        let report = running.report.clone();
        let mut ready = || {
            let Some(unserved) = unserved.take() else { return false };
            let workspace = served.insert(unserved.serve(&report));
            let Ok((workspace, is_same)) = workspace else { return false };
            // What was planned for another state is planned anew.
            if !*is_same || !matches!(workspace.settle(), Ok(now) if now == head) {
                return false;
            }
            let prepared = self.vault.prepare(self.request, self.permit, workspace, result);
            before.insert(prepared).is_ok()
        };
        let launched = self.launch_plan(plan, &door, running, Some(&mut ready));
        if let Some(unserved) = unserved {
            unserved.give_up();
        }
        match (served, before) {
            (Some(served), Some(before)) => Ok((served?.0, Some(before.map(|before| (before, launched))))),
            (Some(served), None) => Ok((served?.0, None)),
            // It did not come so far.
            (None, _) => Err(launched.err().map_or(Failed::PermitGone, Failed::Launch)),
        }
    }

    fn launch_plan(
        &self,
        plan: Plan,
        door: &Path,
        running: &mut Running<'_>,
        ready: Option<&mut dyn FnMut() -> bool>,
    ) -> Result<Outcome, LaunchError> {
        let is_shown = self.request.isolation == IsolationChoice::Bubblewrap;
        behind_door(running.door.filter(|_| is_shown), door, plan, |plan| {
            let (cancel, events) = (running.cancel, &mut *running.events);
            let ready = ready.map(|ready| -> &mut dyn FnMut() -> bool { ready });
            let run = Run {
                ready,
                outlets: running.outlets,
                ..Run::new(plan, self.request.input(), cancel, events)
            };
            match self.request.isolation {
                IsolationChoice::Bubblewrap => bubblewrap(self.vault, running.inside.clone()).launch(run),
                IsolationChoice::Landlock => Landlocked::new(running.inside.clone()).launch(run),
            }
        })
    }
}
