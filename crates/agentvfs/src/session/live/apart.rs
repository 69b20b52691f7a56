//! Commands of a session that need an approval: they run outside of its shell, with the values that a person
//! saw.

use std::os::unix::net::UnixStream;
use std::path::Path;

use avfs_exec::launch::LaunchRequest;
use avfs_exec::session::{ShellTurn, TurnEnd};
use avfs_exec::{Cancel, Capabilities, LaunchError, Launcher, RunEvent};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{Live, READING};
use crate::exec::core::RunCore;
use crate::exec::{Permit, RunError, RunSpec, sandbox_builder, show_door};
use crate::run_directory::{RUNS, RunDirectory};
use crate::session::values::{self, Values};

/// A longer listing of the shell's values is ignored.
const VALUES_BYTES: usize = 1 << 20;

impl Live {
    /// Copies the values that the shell reports into a request, which then no longer needs the shell. If they
    /// are unavailable, the command has the environment of the start.
    pub(super) fn fix_values(&mut self, request: &mut RunSpec) {
        let text = values::question(&request.command);
        let turn = ShellTurn {
            text: &text,
            stdin: None,
            timeout: Some(READING),
            output_bytes: VALUES_BYTES,
            caller: None,
        };
        let answer = self.shell.aside(turn, &mut |_| ()).ok();
        let told = answer.filter(|answer| {
            matches!(answer.end, TurnEnd::Status(_)) && answer.stopped.is_none() && !answer.stdout.truncated()
        });
        let values =
            told.and_then(|answer| Values::read(&answer.stdout.bytes(), &self.start, &request.command));
        let Values { carried, left_out } = values.unwrap_or_else(Values::unknown);
        request.env.extend(carried);
        request.left_out = left_out;
    }

    /// Runs a command that needs an approval: in a separate sandbox and shell, which the shell of the session
    /// cannot affect, with the values and the directory that the person saw. Its changes to its shell end
    /// with it.
    pub(super) fn run_apart(
        &mut self,
        core: &mut RunCore<'_>,
        request: &RunSpec,
        permit: &Permit,
        cwd: &Path,
        caller: &UnixStream,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), RunError> {
        let before = self.begin(core, request, permit)?;
        // The ports of the session lead to its shell.
        let granted = Capabilities {
            published: Vec::new(),
            ..self.granted.clone()
        };
        // In the home of the session, the agent may have left settings of the programs that are run.
        let directory = RunDirectory::make(self.vault.store(), RUNS, &core.outcome.run)?;
        let home = self
            .vault
            .runs()
            .home_view(request, granted.write, directory.place(), &self.report)?;
        let place = self.workspace.mountpoint();
        let shown = (home.as_ref(), self.root.as_ref());
        let mut plan = self
            .vault
            .runs()
            .plan(request, &place, cwd, &granted, before.snapshot, shown)?;
        if self.door.is_some() {
            show_door(&mut plan, &self.workspace.door_place());
        }
        let launched = launch_for(caller, |cancel| {
            let place = (Some(&self.workspace), self.root.as_ref());
            let builder = sandbox_builder(&self.vault, request, self.inside.clone(), place)?;
            builder.launch(LaunchRequest::new(&plan, request.input(), cancel, events))
        });
        drop(home);
        drop(directory);
        let outcome = launched.inspect_err(|_| core.record_failure(request, &permit.decision))?;
        core.outcome.isolation = Some(outcome.isolation.to_string());
        core.outcome.process = Some(outcome.into());
        self.finish(core, request, permit, before)
    }
}

/// Launches something that ends when its caller is gone.
fn launch_for<T>(
    caller: &UnixStream,
    launch: impl FnOnce(&Cancel) -> Result<T, LaunchError>,
) -> Result<T, LaunchError> {
    let system = LaunchError::system;
    let cancel = Cancel::new().map_err(system("making an event"))?;
    let (done, ended) = UnixStream::pair().map_err(system("making a socket"))?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut fds = [
                PollFd::new(caller, PollFlags::RDHUP),
                PollFd::new(&ended, PollFlags::RDHUP),
            ];
            while let Err(Errno::INTR) = poll(&mut fds, None) {}
            if !fds[0].revents().is_empty() {
                cancel.cancel();
            }
        });
        let launched = launch(&cancel);
        drop(done);
        launched
    })
}
