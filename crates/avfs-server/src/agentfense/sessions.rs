//! Sessions under the names that AgentFense's clients know them by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::exec::sandbox::classify::Command;
use serde_json::Value;
use tonic::Status;

use super::proto::{ExecResult, Session, SessionStatus};
use super::streams::timed_out;
use super::values::{length, moment, required};
use crate::auth::Caller;
use crate::clock::UnixMillis;
use crate::random;
use crate::service::{self, NewSessionCommand, OutputListener, Sandbox, ServiceError, Tenant, on_a_thread};
use crate::state::ShellRecord;

/// A session that a client has named.
pub(super) struct Found {
    record: ShellRecord,
    pub sandbox: Arc<Sandbox>,
    /// Nothing if it is forgotten: it ended long ago.
    session: Option<Arc<service::Session>>,
}

/// Starts a session.
pub(super) async fn start(
    caller: &Caller,
    sandbox: &Arc<Sandbox>,
    program: String,
    env: BTreeMap<String, String>,
) -> Result<Session, Status> {
    let session = caller.tenant.sessions().start(sandbox, env).await?;
    let bytes = random::bytes::<8>().map_err(|error| Status::internal(error.to_string()))?;
    let record = ShellRecord {
        id: format!("sess_{}", random::hex(&bytes)),
        sandbox: sandbox.id.clone(),
        session: session.id.clone(),
        program,
        created: session.created,
        closed: None,
    };
    let (tenant, kept) = (Arc::clone(&caller.tenant), record.clone());
    on_a_thread(move || Ok(tenant.state().put_shell(&kept)?)).await?;
    Ok(shown(record))
}

/// The session with this name.
pub(super) async fn find(caller: &Caller, id: &str) -> Result<Found, Status> {
    required("session_id", id)?;
    let (tenant, name) = (Arc::clone(&caller.tenant), id.to_owned());
    let record = on_a_thread(move || Ok(tenant.state().shell(&name)?)).await?;
    // Those of a sandbox that is gone are gone.
    let found = record.and_then(|record| Some((caller.tenant.sandbox(&record.sandbox).ok()?, record)));
    let Some((sandbox, record)) = found else {
        let id = avfs_core::printable(id.as_bytes());
        return Err(Status::not_found(format!("there is no session '{id}'")));
    };
    Ok(Found {
        session: sandbox.session(&record.session).ok(),
        record: checked(&caller.tenant, &sandbox, record).await?,
        sandbox,
    })
}

/// All sessions of a sandbox.
pub(super) async fn list(caller: &Caller, sandbox: &Arc<Sandbox>) -> Result<Vec<Session>, Status> {
    let (tenant, id) = (Arc::clone(&caller.tenant), sandbox.id.clone());
    let records = on_a_thread(move || Ok(tenant.state().shells(&id)?)).await?;
    let mut sessions = Vec::new();
    for record in records {
        sessions.push(shown(checked(&caller.tenant, sandbox, record).await?));
    }
    Ok(sessions)
}

/// Notes that a session has ended, when that is seen: by itself, with its sandbox, or with a server that is gone.
async fn checked(
    tenant: &Arc<Tenant>,
    sandbox: &Sandbox,
    mut record: ShellRecord,
) -> Result<ShellRecord, ServiceError> {
    let is_open = sandbox
        .session(&record.session)
        .is_ok_and(|session| session.is_open());
    if !is_open && record.closed.is_none() {
        let (now, tenant, id) = (UnixMillis::now().0, Arc::clone(tenant), record.id.clone());
        on_a_thread(move || Ok(tenant.state().close_shell(&id, now)?)).await?;
        record.closed = Some(now);
    }
    Ok(record)
}

fn shown(record: ShellRecord) -> Session {
    let status = match record.closed {
        None => SessionStatus::Active,
        Some(_) => SessionStatus::Closed,
    };
    Session {
        id: record.id,
        sandbox_id: record.sandbox,
        status: status.into(),
        shell: record.program,
        created_at: Some(moment(record.created)),
        closed_at: record.closed.map(moment),
    }
}

impl Found {
    pub fn show(self) -> Session {
        shown(self.record)
    }

    /// Ends it and everything in it.
    pub async fn end(self, caller: &Caller) -> Result<(), Status> {
        if let Some(session) = &self.session {
            caller.tenant.sessions().end(&self.sandbox, session).await?;
        }
        checked(&caller.tenant, &self.sandbox, self.record).await?;
        Ok(())
    }

    /// Runs a line. Returns what it writes, and how it ends; when the latter is dropped before, the line is stopped.
    pub async fn run(
        &self,
        caller: &Caller,
        line: String,
        timeout: Option<Duration>,
    ) -> Result<
        (
            OutputListener,
            impl Future<Output = Result<ExecResult, Status>> + Send + use<>,
        ),
        Status,
    > {
        let closed = || Status::failed_precondition("session is closed");
        if self.record.closed.is_some() {
            return Err(closed());
        }
        let session = self.session.as_ref().ok_or_else(closed)?;
        let new = NewSessionCommand {
            command: Command::Shell(line),
            stdin: None,
            timeout,
        };
        let (listener, end) = caller.tenant.sessions().exec(&self.sandbox, session, new).await?;
        Ok((listener, async move { result_of(&end.await?) }))
    }
}

/// The end of a command, from its envelope.
fn result_of(envelope: &Value) -> Result<ExecResult, Status> {
    let result = &envelope["result"];
    if result["timed_out"] == true {
        return Err(timed_out());
    }
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| {
        let number = result[name].as_i64();
        number.and_then(|number| i32::try_from(number).ok())
    };
    let by_signal = number("signal").map_or(-1, |signal| 128 + signal);
    let millis = result["duration_ms"].as_u64().unwrap_or_default();
    Ok(ExecResult {
        stdout: text("stdout"),
        stderr: text("stderr"),
        exit_code: number("exit_code").unwrap_or(by_signal),
        duration: Some(length(Duration::from_millis(millis))),
    })
}
