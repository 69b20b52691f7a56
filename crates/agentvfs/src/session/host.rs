//! The process that a session lives in: its socket, its idle time, its end.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use avfs_exec::launch::Inside;
use avfs_exec::{Capabilities, Event};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::frames::{self, Kind, Request};
use super::live::Live;
use super::record::{self, Activity, SessionRecord, SessionState, millis};
use super::{SessionCommand, SessionError, SessionRequest};
use crate::approvals::ApprovalId;
use crate::control::place;
use crate::error::{Error, Result};
use crate::exec::places::{RunDirectory, SESSIONS};
use crate::exec::{Envelope, ExecRequest, Failed, InnerDoor, Lingering, PublishedBody, RunResult, run_id};
use crate::mount::Report;
use crate::vault::Vault;

/// How many are answered at once.
const CONNECTIONS_MAX: usize = 64;

/// How long somebody may take to say what he wants.
const SAYING: Duration = Duration::from_secs(30);

/// A session, hosted by this process.
pub struct SessionHost {
    house: Arc<House>,
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
    pub fn stop(&self) {
        // It fails only when it was called 2^64 times.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// What all connections share.
struct House {
    record: SessionRecord,
    vault: Vault,
    request: ExecRequest,
    idle: Duration,
    /// Held by whoever runs a command. Nothing: it is over.
    live: Mutex<Option<Live>>,
    desk: Mutex<Desk>,
    changed: Condvar,
    stop: SessionStopper,
}

/// What is told about the session while a command runs.
struct Desk {
    last_used: Instant,
    commands: u64,
    connections: usize,
    /// Who waits for the command that runs.
    caller: Option<UnixStream>,
    is_running: bool,
    is_gone: bool,
}

impl SessionHost {
    /// Mounts the vault and starts the shell, which asks through `door`. Others can use it as soon as [`SessionHost::serve`] is called.
    pub fn start(
        vault: &Vault,
        request: SessionRequest,
        inside: Inside,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<SessionHost, SessionError> {
        let granted = granted(vault, &request)?;
        let SessionRequest { exec, idle } = request;
        let home = vault.store().home().ok_or(Error::NoPlaceForRuns)?;
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
            Ok((listener, eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        });
        let (listener, stop) = made.map_err(|source| record::host("making the socket in", &place, source))?;
        let live = Live::start(&id, vault, exec.clone(), granted, directory, (inside, door), &report)?;
        let over = Arc::clone(live.shell().over());
        if let Err(error) = vault.update("session-start", &start_detail(&record, &exec, &live), |_, _| Ok(()))
        {
            live.end()?.wait();
            return Err(error.into());
        }
        let house = House {
            record,
            vault: vault.clone(),
            request: exec,
            idle,
            live: Mutex::new(Some(live)),
            desk: Mutex::new(Desk {
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
        Ok(SessionHost { house: Arc::new(house), listener, place, report, over })
    }

    pub fn record(&self) -> &SessionRecord {
        &self.house.record
    }

    pub fn stopper(&self) -> SessionStopper {
        self.house.stop.clone()
    }

    /// Answers others until the session ends: by its shell, by being asked to, or because nobody used it. Returns when
    /// nobody else needs this process for the vault.
    pub fn serve(self) -> Result<()> {
        let why = loop {
            if let Some(why) = self.wait() {
                break why;
            }
            self.let_in();
        };
        // Whoever comes now finds nobody.
        if let Err(error) = place::remove_from(&self.place) {
            (self.report)(&format!("removing the socket of {}: {error}", self.house.record.id));
        }
        let ended = self.house.end(why);
        self.house.desk().is_gone = true;
        self.house.changed.notify_all();
        self.house.await_last();
        // The session is over, also for whoever has ended it; those who came meanwhile are served on.
        ended?.wait();
        Ok(())
    }

    /// Waits for somebody to come. Answers why it is over, if it is.
    fn wait(&self) -> Option<&'static str> {
        let left = self.house.time_left();
        if left.is_some_and(|left| left.is_zero()) {
            return Some("idle");
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&*self.over, PollFlags::IN),
            PollFd::new(&*self.house.stop.0, PollFlags::IN),
        ];
        // What interrupts it is looked at in the next round.
        let _ = poll(&mut fds, timeout.as_ref());
        let [_, over, stop] = fds.map(|fd| !fd.revents().is_empty());
        match (over, stop) {
            (true, _) => Some("exit"),
            (false, true) => Some("stop"),
            (false, false) => None,
        }
    }

    fn let_in(&self) {
        let Ok((stream, _)) = self.listener.accept() else { return };
        let is_welcome = place::may_ask(&stream) && self.house.desk().connections < CONNECTIONS_MAX;
        if !is_welcome {
            return;
        }
        self.house.desk().connections += 1;
        let (house, report) = (Arc::clone(&self.house), Arc::clone(&self.report));
        std::thread::spawn(move || {
            // Who does not talk as agreed, or is gone, gets no answer.
            if let Err(error) = house.answer(&stream) {
                report(&format!("a user of {}: {error}", house.record.id));
            }
            house.desk().connections -= 1;
            house.changed.notify_all();
        });
    }
}

impl House {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it has been idle for too long. While a command runs, there is no end.
    fn time_left(&self) -> Option<Duration> {
        let desk = self.desk();
        match desk.is_running || desk.connections > 0 {
            // Looked at again: nobody tells when it has ended.
            true => Some(self.idle.clamp(Duration::from_millis(50), Duration::from_secs(1))),
            false => Some(self.idle.saturating_sub(desk.last_used.elapsed())),
        }
    }

    fn answer(&self, stream: &UnixStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SAYING))?;
        stream.set_write_timeout(Some(SAYING))?;
        let Some((Kind::Request, bytes)) = frames::receive(stream)? else { return Ok(()) };
        match serde_json::from_slice(&bytes)? {
            Request::Exec { command, timeout_ms, has_input, wait } => {
                let stdin = match has_input {
                    true => frames::receive(stream)?.map(|(_, bytes)| bytes),
                    false => None,
                };
                let Some(command) = command.command() else { return Ok(()) };
                let timeout = timeout_ms.map(Duration::from_millis);
                self.exec(SessionCommand { command, timeout, stdin, wait }, stream)
            }
            Request::Status => frames::send(stream, Kind::Answer, &serde_json::to_vec(&self.state())?),
            Request::Stop => {
                self.stop.stop();
                let gone = self.changed.wait_while(self.desk(), |desk| !desk.is_gone);
                drop(gone.unwrap_or_else(PoisonError::into_inner));
                Ok(())
            }
        }
    }

    fn exec(&self, command: SessionCommand, stream: &UnixStream) -> std::io::Result<()> {
        let mut live = match (self.live.try_lock(), command.wait) {
            (Ok(live), _) => live,
            (Err(TryLockError::Poisoned(live)), _) => live.into_inner(),
            (Err(TryLockError::WouldBlock), true) => self.live.lock().unwrap_or_else(PoisonError::into_inner),
            (Err(TryLockError::WouldBlock), false) => {
                return tell(stream, &Live::busy(&self.record.id, &self.request, command, &self.vault));
            }
        };
        // Nobody answers for a session that is over.
        let Some(running) = live.as_mut() else { return Ok(()) };
        self.begin(stream.try_clone().ok());
        // A caller who has not listened for so long hears no more: a command is not held up by him.
        let mut listens = true;
        let mut events = |event: Event<'_>| {
            let (kind, bytes) = match event {
                Event::Stdout(bytes) => (Kind::Stdout, bytes),
                Event::Stderr(bytes) => (Kind::Stderr, bytes),
                Event::Started | Event::Stopping(_) | Event::Refused(_) => return,
            };
            listens = listens && frames::send(stream, kind, bytes).is_ok();
        };
        let envelope = running.exec(command, stream, &mut events);
        // Before the answer: whoever has it finds the session free.
        drop(live);
        self.finish();
        tell(stream, &envelope)
    }

    fn begin(&self, caller: Option<UnixStream>) {
        let mut desk = self.desk();
        (desk.is_running, desk.caller) = (true, caller);
        desk.commands += 1;
    }

    fn finish(&self) {
        let mut desk = self.desk();
        (desk.is_running, desk.caller, desk.last_used) = (false, None, Instant::now());
    }

    fn state(&self) -> SessionState {
        let desk = self.desk();
        let activity = if desk.is_running { Activity::Running } else { Activity::Idle };
        let idle = if desk.is_running { Duration::ZERO } else { desk.last_used.elapsed() };
        SessionState { record: self.record.clone(), activity, idle_ms: millis(idle), commands: desk.commands }
    }

    /// Waits for those who are being answered.
    fn await_last(&self) {
        let waited = self.changed.wait_timeout_while(self.desk(), SAYING, |desk| desk.connections > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Stops the command that runs, if one does, and ends the rest.
    fn end(&self, why: &str) -> Result<Lingering> {
        if why != "exit"
            && let Some(caller) = &self.desk().caller
        {
            // He is gone then, as far as the command is concerned.
            let _ = caller.shutdown(Shutdown::Both);
        }
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = live.map_or(Ok(Lingering::default()), Live::end);
        let (id, commands) = (&self.record.id, self.desk().commands);
        self.vault.update("session-stop", &format!("{id} {why}, {commands} commands"), |_, _| Ok(()))?;
        ended
    }
}

fn tell(stream: &UnixStream, envelope: &Envelope) -> std::io::Result<()> {
    frames::send(stream, Kind::Answer, &serde_json::to_vec(envelope)?)
}

fn start_detail(record: &SessionRecord, request: &ExecRequest, live: &Live) -> String {
    let who = request.principal.as_deref().map(|who| format!(" by {who}")).unwrap_or_default();
    let given = live.noted(request.rules.as_deref());
    format!("{}{who} [{given}], idle {} s", record.id, record.idle_limit_ms / 1000)
}

/// What a session may have of what it asks for: all of it, or it does not start.
fn granted(vault: &Vault, request: &SessionRequest) -> Result<Capabilities, SessionError> {
    let request = SessionRequest { exec: request.exec.placed(vault.own_path()?), ..*request };
    let mut result = RunResult { run: run_id(), vault: vault.name()?.to_string(), ..RunResult::default() };
    let permit = vault.permit_session(&request, &mut result);
    permit.map(|permit| permit.granted).map_err(|failed| match failed {
        Failed::Library(error) => SessionError::Library(error),
        Failed::Launch(error) => SessionError::Launch(error),
        Failed::Refused(_) | Failed::PermitGone => SessionError::Refused(failed.body()),
    })
}

impl Vault {
    /// The question that has to be answered before a session can start, if there is one that waits for an answer.
    pub fn question_of_session(&self, request: &SessionRequest) -> Result<Option<ApprovalId>> {
        let request = SessionRequest { exec: request.exec.placed(self.own_path()?), ..*request };
        let mut result = RunResult { run: run_id(), ..RunResult::default() };
        let waits = match self.seek_session(&request, &mut result) {
            Err(Failed::Refused(refusal)) => refusal.code == "approval_required",
            Err(Failed::Library(error)) => return Err(error),
            Err(Failed::Launch(_) | Failed::PermitGone) | Ok(_) => false,
        };
        result.approval.filter(|_| waits).map(|id| ApprovalId::parse(&id)).transpose()
    }
}
