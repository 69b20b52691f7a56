//! Commands of a session that take an approval: they run apart from its shell, from values that a person saw.

use std::os::unix::net::UnixStream;
use std::path::Path;

use avfs_exec::launch::Run;
use avfs_exec::session::{Turn, TurnEnd};
use avfs_exec::{Bubblewrap, Cancel, Capabilities, Event, LaunchError, Launcher};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::{Live, READING};
use crate::exec::places::{RUNS, RunDirectory};
use crate::exec::{ExecRequest, Failed, Permit, RunResult, show_door};
use crate::session::values::{self, Values};

/// More of what the shell holds than this is not looked at.
const VALUES_BYTES: usize = 1 << 20;

impl Live {
    /// Takes the values that the shell tells into a request, which then needs the shell no more. If they cannot be had,
    /// the command has the environment of the start.
    pub(super) fn fix_values(&mut self, request: &mut ExecRequest) {
        let text = values::question(&request.command);
        let turn = Turn {
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

    /// Runs a command that takes an approval: in a sandbox and a shell of its own, which nothing in the shell of the
    /// session reaches, from the values and the directory that the person saw. What it does to its shell ends with it.
    pub(super) fn run_apart(
        &mut self,
        request: &ExecRequest,
        permit: &Permit,
        cwd: &Path,
        caller: &UnixStream,
        events: &mut dyn FnMut(Event<'_>),
        result: &mut RunResult,
    ) -> Result<(), Failed> {
        let (before, seq) = self.begin(request, permit, result)?;
        // The ports of the session lead to its shell.
        let granted = Capabilities { published: Vec::new(), ..self.granted.clone() };
        // In the home of the session, the agent may have left settings of the programs that are run.
        let directory = RunDirectory::make(self.vault.store(), RUNS, &result.run)?;
        let home = self.vault.home_view(request, granted.write, directory.place(), &self.report)?;
        let place = self.workspace.mountpoint();
        let mut plan = self.vault.plan(request, &place, cwd, &granted, before, home.as_ref())?;
        if self.door.is_some() {
            show_door(&mut plan, &self.workspace.door_place());
        }
        let launched = launch_for(caller, |cancel| {
            let bubblewrap = Bubblewrap::new(self.inside.clone());
            bubblewrap.launch(Run::new(&plan, request.input(), cancel, events))
        });
        drop(home);
        drop(directory);
        let outcome = launched.map_err(|error| {
            result.audit_head = self.vault.note_failure(request, result, &permit.decision).ok();
            Failed::Launch(error)
        })?;
        result.take(&outcome);
        self.finish(request, permit, (before, seq), result)
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
            let mut fds = [PollFd::new(caller, PollFlags::RDHUP), PollFd::new(&ended, PollFlags::RDHUP)];
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
