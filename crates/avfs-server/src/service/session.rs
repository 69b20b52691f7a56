//! Shells that stay, in a sandbox: each keeps its directory, its variables and its `/tmp` between commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::{Cancel, RunEvent};
use agentvfs::exec::{RunSpec, SessionRequest};
use agentvfs::session::{HeldSession, IDLE, SessionCommand};
use agentvfs::{Error, ErrorCode, ErrorKind};
use serde_json::Value;
use tokio::sync::oneshot;

use super::error::{ServiceError, ServiceResult};
use super::output::{OutputListener, OutputLog, OutputPiece};
use super::queue::Turn;
use super::run::check_words;
use super::sandbox::Sandbox;
use super::tenant::Tenant;
use super::threads::on_a_thread;
use crate::clock::UnixMillis;
use crate::state::SessionRecord;

/// How many sessions of a sandbox may be open at the same time. Each of them is a shell.
const OPEN_MAX: usize = 64;
/// How many sessions of a sandbox are remembered that have ended.
const ENDED_MAX: usize = 256;

/// A session. After a restart of the server, it is one that has ended.
pub struct Session {
    /// Its name, in the audit log as well.
    pub id: String,
    /// When it was started, in milliseconds since 1970.
    pub created: i64,
    /// Nothing once it is over.
    held: Mutex<Option<Arc<HeldSession>>>,
}

/// A command for a session.
#[derive(Clone, Debug)]
pub struct NewSessionCommand {
    /// A line for the shell, or a program and its arguments.
    pub command: Command,
    /// Its input; nothing means that it is empty.
    pub stdin: Option<Vec<u8>>,
    /// After this time, it is ended.
    pub timeout: Option<Duration>,
}

/// A command that is stopped if nobody waits for it any more.
struct CancelWhenDropped(Cancel);

impl Drop for CancelWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A session of which nobody was told. If whoever asked for it is gone, it is ended.
struct Unclaimed(Option<(Arc<Sandbox>, Arc<Session>)>);

impl Unclaimed {
    fn claim(mut self) -> ServiceResult<Arc<Session>> {
        let (_, session) = self.0.take().ok_or_else(ServiceError::ending)?;
        Ok(session)
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let Some((sandbox, session)) = self.0.take() else {
            return;
        };
        // This may be a thread that must not wait. Without another one, the session ends when it has been idle.
        let thread = std::thread::Builder::new().name("ending".into());
        drop(thread.spawn(move || session.end(&sandbox)));
    }
}

impl Session {
    pub(super) fn ended(record: SessionRecord) -> Session {
        Session {
            id: record.id,
            created: record.created,
            held: Mutex::new(None),
        }
    }

    /// Whether it takes commands.
    pub fn is_open(&self) -> bool {
        self.place().is_some()
    }

    fn place(&self) -> MutexGuard<'_, Option<Arc<HeldSession>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> ServiceResult<Arc<HeldSession>> {
        self.place().clone().ok_or_else(|| closed(&self.id))
    }

    /// Ends the shell and everything in it. Its changes are stored when this returns.
    fn end(&self, sandbox: &Sandbox) -> ServiceResult<()> {
        let Some(held) = self.place().take() else {
            return Ok(());
        };
        // A command that runs holds it as well, and is stopped by this.
        if let Ok(client) = sandbox.vault().store().sessions().get(&self.id) {
            client.stop()?;
        }
        drop(held);
        Ok(())
    }
}

fn closed(id: &str) -> ServiceError {
    let id = avfs_core::printable(id.as_bytes());
    let text = format!("the session '{id}' has ended");
    ServiceError::new("session-closed", ErrorKind::Conflict, text)
}

impl Sandbox {
    /// Its sessions, in the order in which they were started.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.session_table().clone()
    }

    /// The session with this id.
    pub fn session(&self, id: &str) -> ServiceResult<Arc<Session>> {
        let found = self
            .session_table()
            .iter()
            .find(|session| session.id == id)
            .cloned();
        found.ok_or_else(|| {
            let id = avfs_core::printable(id.as_bytes());
            let text = format!("there is no session '{id}' in sandbox '{}'", self.id);
            ServiceError::new("unknown-session", ErrorKind::NotFound, text)
        })
    }

    /// Ends all sessions.
    pub(super) fn end_sessions(&self) -> ServiceResult<()> {
        let all = self.sessions();
        let ended: Vec<ServiceResult<()>> = all.iter().map(|session| session.end(self)).collect();
        ended.into_iter().collect()
    }

    fn start_session(&self, tenant: &Tenant, env: &BTreeMap<String, String>) -> ServiceResult<Arc<Session>> {
        let open = self
            .session_table()
            .iter()
            .filter(|session| session.is_open())
            .count();
        if open >= OPEN_MAX {
            let text = format!("the sandbox has {OPEN_MAX} sessions, which is the limit; end some");
            return Err(ServiceError::new("too-many-sessions", ErrorKind::Full, text));
        }
        // The sandbox comes first, and goes last: whoever opens a vault serves it to those that come later, so a session that
        // came first could not end before them.
        let _open = self.opened(tenant)?;
        let spec = self.run_spec(tenant)?;
        let added = env.iter().map(|(name, value)| (name.into(), value.into()));
        let exec = RunSpec {
            env: spec.env.iter().cloned().chain(added).collect(),
            ..spec
        };
        let request = SessionRequest {
            exec,
            idle: self.spec.idle_seconds.map_or(IDLE, Duration::from_secs),
        };
        let inside = tenant.options().inside.clone();
        let held = self
            .vault()
            .hold_session(request, inside, None, tenant.report())?;
        let session = Arc::new(Session {
            id: held.id().to_owned(),
            created: UnixMillis::now().0,
            held: Mutex::new(Some(Arc::new(held))),
        });
        let record = SessionRecord {
            id: session.id.clone(),
            sandbox: self.id.clone(),
            created: session.created,
        };
        tenant.state().sessions().put(&record)?;
        let mut table = self.session_table();
        // A sandbox that is being deleted has ended its sessions already.
        if self.is_gone() {
            drop(table);
            session.end(self)?;
            return Err(ServiceError::unknown_sandbox(&self.id));
        }
        table.push(Arc::clone(&session));
        if table.len() > ENDED_MAX
            && let Some(oldest) = table.iter().position(|session| !session.is_open())
        {
            let oldest = table.remove(oldest);
            tenant.state().sessions().remove(&oldest.id)?;
        }
        Ok(session)
    }
}

/// Shells in the sandboxes of a tenant that stay between commands.
#[derive(Clone, Copy)]
pub struct TenantSessions<'a> {
    pub(super) tenant: &'a Arc<Tenant>,
}

impl TenantSessions<'_> {
    /// Starts a session in a sandbox, with variables in addition to those of the sandbox.
    pub async fn start(
        &self,
        sandbox: &Arc<Sandbox>,
        env: BTreeMap<String, String>,
    ) -> ServiceResult<Arc<Session>> {
        check_words(&Command::Shell("sh".to_owned()), &env)?;
        self.tenant.check_open()?;
        let (tenant, sandbox) = (Arc::clone(self.tenant), Arc::clone(sandbox));
        let started = on_a_thread(move || {
            sandbox.touch();
            let session = sandbox.start_session(&tenant, &env)?;
            Ok(Unclaimed(Some((sandbox, session))))
        });
        started.await?.claim()
    }

    /// Ends a session. It stays known as one that has ended.
    pub async fn end(&self, sandbox: &Arc<Sandbox>, session: &Arc<Session>) -> ServiceResult<()> {
        let (sandbox, session) = (Arc::clone(sandbox), Arc::clone(session));
        on_a_thread(move || session.end(&sandbox)).await
    }

    /// Runs a command in a session, and returns what it writes and the envelope that it ends with. When the latter is dropped
    /// before, the command is stopped.
    pub async fn exec(
        &self,
        sandbox: &Arc<Sandbox>,
        session: &Arc<Session>,
        new: NewSessionCommand,
    ) -> ServiceResult<(
        OutputListener,
        impl Future<Output = ServiceResult<Value>> + Send + use<>,
    )> {
        check_words(&new.command, &BTreeMap::new())?;
        self.tenant.check_open()?;
        self.tenant.check_disk()?;
        let held = session.open()?;
        let attended = sandbox.attend();
        let turn = self.tenant.queue().turn().await?;
        let cancel = Cancel::new().map_err(|error| ServiceError::host("preparing a command", &error))?;
        let stopping = CancelWhenDropped(cancel.clone());
        let output = Arc::new(OutputLog::default());
        let (told, heard) = oneshot::channel();
        let (session, written) = (Arc::clone(session), Arc::clone(&output));
        let thread = std::thread::Builder::new().name("session".into());
        let spawned = thread.spawn(move || {
            let turn: Turn = turn;
            let ended = session.run(&held, new, &cancel, &written);
            drop(held);
            written.end();
            drop(turn);
            // Whoever waited may be gone.
            let _ = told.send(ended);
        });
        spawned.map_err(|error| ServiceError::host("starting a thread", &error))?;
        let end = async move {
            let _attended = attended;
            let _stopping = stopping;
            heard.await.unwrap_or_else(|_| Err(ServiceError::ending()))
        };
        Ok((OutputListener::new(output, 0), end))
    }
}

impl Session {
    fn run(
        &self,
        held: &HeldSession,
        new: NewSessionCommand,
        cancel: &Cancel,
        output: &OutputLog,
    ) -> ServiceResult<Value> {
        let command = SessionCommand {
            timeout: new.timeout,
            stdin: new.stdin,
            wait: true,
            ..SessionCommand::new(new.command)
        };
        let answered = held.exec_until(&command, cancel, &mut |event| match event {
            RunEvent::Stdout(bytes) => output.add(OutputPiece::Stdout(bytes.into())),
            RunEvent::Stderr(bytes) => output.add(OutputPiece::Stderr(bytes.into())),
            _ => {}
        });
        let envelope = match answered {
            Ok(answer) => answer.envelope,
            Err(error) => {
                // Its shell has ended, or it was idle for too long.
                if matches!(&error, Error::Session(_)) && error.code() == ErrorCode::UnknownSession {
                    *self.place() = None;
                    return Err(closed(&self.id));
                }
                return Err(error.into());
            }
        };
        if envelope["result"]["session_ended"] == true {
            *self.place() = None;
        }
        match failure_of(&envelope) {
            Some(error) => Err(error),
            None => Ok(envelope),
        }
    }
}

/// Why a command of a session has no ordinary end, if it has none.
fn failure_of(envelope: &Value) -> Option<ServiceError> {
    let error = envelope.get("error")?;
    let code = error["code"].as_str()?;
    let kind = ErrorCode::named(code).map_or(ErrorKind::Denied, ErrorCode::kind);
    Some(ServiceError {
        approval: envelope["result"]["approval"].as_str().map(str::to_owned),
        ..ServiceError::new(code, kind, error["message"].as_str().unwrap_or_default())
    })
}
