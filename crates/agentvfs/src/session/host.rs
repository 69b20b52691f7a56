//! The process that a session lives in: its socket, its idle time, its end.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use avfs_exec::launch::InnerProgram;
use avfs_exec::{Capabilities, RunEvent};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::frames::{self, SessionFrameKind, ShellRequest};
use super::live::Live;
use super::record::{self, Activity, SessionRecord, SessionState, millis};
use super::{SessionCommand, SessionRequest, SessionStartError};
use crate::approvals::ApprovalId;
use crate::control::place;
use crate::error::Result;
use crate::exec::core::RunCore;
use crate::exec::{AfterRun, Envelope, InnerDoor, PublishedBody, RunError, RunOutcome, RunSpec, run_id};
use crate::mount::Report;
use crate::run_directory::{RunDirectory, SESSIONS};
use crate::session::held::VaultSessions;
use crate::vault::Vault;

/// How many requests are answered concurrently.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send its request.
const SAYING: Duration = Duration::from_secs(30);

/// A session, hosted by this process.
pub struct SessionHost {
    shared: Arc<SessionShared>,
    listener: UnixListener,
    place: PathBuf,
    report: Report,
    /// Readable once the shell has ended.
    over: Arc<OwnedFd>,
}

/// Ends a session from another thread.
#[derive(Clone)]
pub struct SessionStopper(Arc<OwnedFd>);

impl SessionStopper {
    /// Ends the session.
    pub fn stop(&self) {
        // It fails only after 2^64 calls.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// The state that all connections share.
struct SessionShared {
    record: SessionRecord,
    vault: Vault,
    request: RunSpec,
    idle: Duration,
    /// Held by the thread that runs a command. `None`: it is over.
    live: Mutex<Option<Live>>,
    activity: Mutex<SessionActivity>,
    changed: Condvar,
    stop: SessionStopper,
}

/// The information about the session while a command runs.
struct SessionActivity {
    last_used: Instant,
    commands: u64,
    connections: usize,
    /// The client that waits for the running command.
    caller: Option<UnixStream>,
    is_running: bool,
    is_gone: bool,
}

impl SessionHost {
    /// Mounts the vault, through the rules of the handle if it has any, and starts the shell, whose requests
    /// go through `door`. Clients can use it as soon as [`SessionHost::serve`] is called.
    pub fn start(
        vault: &Vault,
        request: SessionRequest,
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<SessionHost, SessionStartError> {
        if let Some(rules) = vault.rules() {
            let rules = Some(rules.list().to_vec());
            let exec = RunSpec {
                rules,
                ..request.exec
            };
            let request = SessionRequest { exec, ..request };
            return SessionHost::start(&vault.unrestricted(), request, inside, door, report);
        }
        let mut request = request;
        request.exec.root_state = vault.image().root_state(&request.exec)?;
        let granted = vault.sessions().granted_for_good(&request)?;
        let SessionRequest { exec, idle } = request;
        let home = vault.store().work().place()?;
        let id = record::new_id(home);
        let record = SessionRecord {
            id: id.clone(),
            vault: vault.name()?.to_string(),
            since: vault.store().now(),
            idle_limit_ms: millis(idle),
            principal: exec.principal.clone(),
            pid: std::process::id(),
            published: exec.published.iter().map(PublishedBody::from).collect(),
        };
        let directory = RunDirectory::make(vault.store(), SESSIONS, &id)?;
        let place = directory.place().to_owned();
        record::write(&place, &record)?;
        let made = place::listen_in(&place).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((
                listener,
                eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            ))
        });
        let (listener, stop) = made.map_err(|source| record::host("making the socket in", &place, source))?;
        let live = Live::start(
            &id,
            vault,
            exec.clone(),
            granted,
            directory,
            (inside, door),
            &report,
        )?;
        let over = Arc::clone(live.shell().over());
        if let Err(error) = vault.update("session-start", &start_detail(&record, &exec, &live), |_, _| {
            Ok(())
        }) {
            live.end()?.wait();
            return Err(error.into());
        }
        let shared = SessionShared {
            record,
            vault: vault.clone(),
            request: exec,
            idle,
            live: Mutex::new(Some(live)),
            activity: Mutex::new(SessionActivity {
                last_used: Instant::now(),
                commands: 0,
                connections: 0,
                caller: None,
                is_running: false,
                is_gone: false,
            }),
            changed: Condvar::new(),
            stop: SessionStopper(Arc::new(stop)),
        };
        Ok(SessionHost {
            shared: Arc::new(shared),
            listener,
            place,
            report,
            over,
        })
    }

    /// What is known of the session.
    pub fn record(&self) -> &SessionRecord {
        &self.shared.record
    }

    /// Ends the session from another thread.
    pub fn stopper(&self) -> SessionStopper {
        self.shared.stop.clone()
    }

    /// Answers clients until the session ends: by its shell, on request, or because it was idle. Returns when
    /// no other process needs this one for the vault.
    pub fn serve(self) -> Result<()> {
        let why = loop {
            if let Some(why) = self.wait() {
                break why;
            }
            self.let_in();
        };
        // New clients find no session.
        if let Err(error) = place::remove_from(&self.place) {
            (self.report)(&format!(
                "removing the socket of {}: {error}",
                self.shared.record.id
            ));
        }
        let ended = self.shared.end(why);
        self.shared.activity().is_gone = true;
        self.shared.changed.notify_all();
        self.shared.await_last();
        // The session is over, also for the client that has ended it; other users of the vault are still
        // served.
        ended?.wait();
        Ok(())
    }

    /// Waits for a client. Returns why it is over, if it is.
    fn wait(&self) -> Option<&'static str> {
        let left = self.shared.time_left();
        if left.is_some_and(|left| left.is_zero()) {
            return Some("idle");
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&*self.over, PollFlags::IN),
            PollFd::new(&*self.shared.stop.0, PollFlags::IN),
        ];
        // An interruption is handled in the next round.
        let _ = poll(&mut fds, timeout.as_ref());
        let [_, over, stop] = fds.map(|fd| !fd.revents().is_empty());
        match (over, stop) {
            (true, _) => Some("exit"),
            (false, true) => Some("stop"),
            (false, false) => None,
        }
    }

    fn let_in(&self) {
        let Ok((stream, _)) = self.listener.accept() else {
            return;
        };
        let is_welcome = place::may_ask(&stream) && self.shared.activity().connections < CONNECTIONS_MAX;
        if !is_welcome {
            return;
        }
        self.shared.activity().connections += 1;
        let (shared, report) = (Arc::clone(&self.shared), Arc::clone(&self.report));
        std::thread::spawn(move || {
            // A client that violates the protocol, or is gone, gets no answer.
            if let Err(error) = shared.answer(&stream) {
                report(&format!("a user of {}: {error}", shared.record.id));
            }
            shared.activity().connections -= 1;
            shared.changed.notify_all();
        });
    }
}

impl SessionShared {
    fn activity(&self) -> MutexGuard<'_, SessionActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until it has been idle for too long. While a command runs, it is unlimited.
    fn time_left(&self) -> Option<Duration> {
        let activity = self.activity();
        if activity.is_running || activity.connections > 0 {
            // Checked again: the end of the command is not signalled.
            Some(self.idle.clamp(Duration::from_millis(50), Duration::from_secs(1)))
        } else {
            Some(self.idle.saturating_sub(activity.last_used.elapsed()))
        }
    }

    fn answer(&self, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SAYING))?;
        stream.set_write_timeout(Some(SAYING))?;
        let Some((SessionFrameKind::Request, bytes)) = frames::receive(stream)? else {
            return Ok(());
        };
        match serde_json::from_slice(&bytes)? {
            ShellRequest::Exec {
                command,
                timeout_ms,
                has_input,
                wait,
            } => {
                let stdin = if has_input {
                    frames::receive(stream)?.map(|(_, bytes)| bytes)
                } else {
                    None
                };
                let Some(command) = command.command() else {
                    return Ok(());
                };
                let timeout = timeout_ms.map(Duration::from_millis);
                self.exec(
                    SessionCommand {
                        command,
                        timeout,
                        stdin,
                        wait,
                    },
                    stream,
                )
            }
            ShellRequest::Status => frames::send(
                stream,
                SessionFrameKind::Answer,
                &serde_json::to_vec(&self.state())?,
            ),
            ShellRequest::Stop => {
                self.stop.stop();
                let gone = self
                    .changed
                    .wait_while(self.activity(), |activity| !activity.is_gone);
                drop(gone.unwrap_or_else(PoisonError::into_inner));
                Ok(())
            }
        }
    }

    fn exec(&self, command: SessionCommand, stream: &UnixStream) -> std::io::Result<()> {
        let mut live = match (self.live.try_lock(), command.wait) {
            (Ok(live), _) => live,
            // A poisoned lock is a command that panicked; the shell behind it is as it was.
            (Err(TryLockError::Poisoned(live)), _) => live.into_inner(),
            (Err(TryLockError::WouldBlock), true) => self.live.lock().unwrap_or_else(PoisonError::into_inner),
            (Err(TryLockError::WouldBlock), false) => {
                let busy = Live::busy(&self.record.id, &self.request, command, &self.vault);
                return tell(stream, &busy.envelope());
            }
        };
        // A session that is over gives no answer.
        let Some(running) = live.as_mut() else {
            return Ok(());
        };
        self.begin(stream.try_clone().ok());
        // A client that has not read for too long gets no more output: it must not delay a command.
        let mut listens = true;
        let mut events = |event: RunEvent<'_>| {
            let (kind, bytes) = match event {
                RunEvent::Stdout(bytes) => (SessionFrameKind::Stdout, bytes),
                RunEvent::Stderr(bytes) => (SessionFrameKind::Stderr, bytes),
                RunEvent::Started | RunEvent::Stopping(_) | RunEvent::Refused(_) => return,
            };
            listens = listens && frames::send(stream, kind, bytes).is_ok();
        };
        let run = running.exec(command, stream, &mut events);
        // Before the answer: a client that has it finds the session free.
        drop(live);
        self.finish();
        tell(stream, &run.envelope())
    }

    fn begin(&self, caller: Option<UnixStream>) {
        let mut activity = self.activity();
        (activity.is_running, activity.caller) = (true, caller);
        activity.commands += 1;
    }

    fn finish(&self) {
        let mut activity = self.activity();
        (activity.is_running, activity.caller, activity.last_used) = (false, None, Instant::now());
    }

    fn state(&self) -> SessionState {
        let now = self.activity();
        let activity = if now.is_running {
            Activity::Running
        } else {
            Activity::Idle
        };
        let idle = if now.is_running {
            Duration::ZERO
        } else {
            now.last_used.elapsed()
        };
        SessionState {
            record: self.record.clone(),
            activity,
            idle_ms: millis(idle),
            commands: now.commands,
        }
    }

    /// Waits for the answers in progress.
    fn await_last(&self) {
        // A caller that reads nothing must not keep the session alive.
        let waited = self
            .changed
            .wait_timeout_while(self.activity(), SAYING, |activity| activity.connections > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Stops the command that runs, if one does, and ends the rest.
    fn end(&self, why: &str) -> Result<AfterRun> {
        if why != "exit"
            && let Some(caller) = &self.activity().caller
        {
            // To the command, this looks like a caller that has gone.
            let _ = caller.shutdown(Shutdown::Both);
        }
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = live.map_or(Ok(AfterRun::default()), Live::end);
        let (id, commands) = (&self.record.id, self.activity().commands);
        self.vault.update(
            "session-stop",
            &format!("{id} {why}, {commands} commands"),
            |_, _| Ok(()),
        )?;
        ended
    }
}

fn tell(stream: &UnixStream, envelope: &Envelope) -> std::io::Result<()> {
    frames::send(stream, SessionFrameKind::Answer, &serde_json::to_vec(envelope)?)
}

fn start_detail(record: &SessionRecord, request: &RunSpec, live: &Live) -> String {
    let who = request
        .principal
        .as_deref()
        .map(|who| format!(" by {who}"))
        .unwrap_or_default();
    let given = live.noted(request.rules.as_deref());
    format!(
        "{}{who} [{given}], idle {} s",
        record.id,
        record.idle_limit_ms / 1000
    )
}

impl VaultSessions<'_> {
    /// The grants for the whole time of a session or a sandbox: everything that is requested, or it does not
    /// start.
    pub(crate) fn granted_for_good(
        &self,
        request: &SessionRequest,
    ) -> Result<Capabilities, SessionStartError> {
        let request = SessionRequest {
            exec: request.exec.placed(self.vault.own_path()?),
            ..*request
        };
        let mut core = RunCore::new(
            self.vault,
            RunOutcome::new(run_id(), self.vault.name()?.to_string()),
        );
        Ok(core.permit_session(&request)?.granted)
    }

    /// The question that has to be answered before a session can start, if there is one that waits for an answer.
    pub fn question(&self, request: &SessionRequest) -> Result<Option<ApprovalId>> {
        let request = SessionRequest {
            exec: request.exec.placed(self.vault.own_path()?),
            ..*request
        };
        let mut core = RunCore::new(
            self.vault,
            RunOutcome::new(run_id(), self.vault.name()?.to_string()),
        );
        let waits = match core.seek_session(&request) {
            Err(RunError::Refused(refused)) => refused.code == "approval_required",
            Err(RunError::Library(error)) => return Err(error),
            Err(RunError::Launch(_) | RunError::PermitGone) | Ok(_) => false,
        };
        Ok(core.outcome.approval.filter(|_| waits))
    }
}
