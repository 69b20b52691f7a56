//! Sandboxes on codebases, their commands and their sessions.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agentvfs::exec::FinishedRun;
use agentvfs::exec::sandbox::classify::Command;
use tonic::{Request, Response, Status};

use super::note::{Note, Stage};
use super::permissions::rules_of;
use super::proto::sandbox_service_server::SandboxService;
use super::proto::{
    CreateSandboxRequest, CreateSessionRequest, DestroySandboxRequest, DestroySessionRequest, Empty,
    ExecOutput, ExecRequest, ExecResult, GetSandboxRequest, GetSessionRequest, ListSandboxesRequest,
    ListSandboxesResponse, ListSessionsRequest, ListSessionsResponse, RuntimeType, Session,
    SessionExecRequest, StartSandboxRequest, StopSandboxRequest,
};
use super::streams::{Sent, output, timed_out};
use super::values::{caller, duration, given, length, page_size, required};
use super::{AgentfenseOptions, proto, sessions};
use crate::auth::{Caller, Scope};
use crate::clock::UnixMillis;
use crate::server::Server;
use crate::service::{
    NewProcess, NewSandbox, OutputListener, ProcessStreams, Sandbox, SandboxSource, SandboxSpec,
    ServiceError, on_a_thread,
};

/// Sandboxes of this interface have ids that begin like this.
const ID: &str = "sb_";
/// What builds the sandboxes that AgentFense has Docker build.
const CONTAINER: &str = "oci";
/// The shell of a session whose client names none.
const SHELL: &str = "/bin/bash";

/// The calls about sandboxes.
pub(super) struct Sandboxes(pub Arc<Server>);

impl Sandboxes {
    fn options(&self) -> &AgentfenseOptions {
        &self.0.options.agentfense
    }

    /// How long a command may take.
    fn timeout(&self, asked: Option<prost_types::Duration>) -> Result<Option<Duration>, Status> {
        let (usual, most) = (self.options().usual_timeout, self.options().most_timeout);
        let timeout = duration("timeout", asked)?.or(usual);
        Ok(match (timeout, most) {
            (Some(timeout), Some(most)) => Some(timeout.min(most)),
            (timeout, most) => timeout.or(most),
        })
    }

    /// Changes the note of a sandbox, one change after the other.
    async fn change(
        &self,
        caller: &Caller,
        sandbox: &Sandbox,
        change: impl FnOnce(&mut Note) -> Result<(), Status>,
    ) -> Result<Note, Status> {
        let _changing = self.0.agentfense.changing.lock().await;
        let mut note = Note::read(&caller.tenant, sandbox).await?;
        change(&mut note)?;
        note.write(&caller.tenant, sandbox).await?;
        Ok(note)
    }

    async fn check_owner(&self, caller: &Caller, codebase: &str) -> Result<(), Status> {
        let Some(most) = self.options().most_per_owner else {
            return Ok(());
        };
        let owner = caller.tenant.codebases().get(codebase).await?.owner;
        let tenant = Arc::clone(&caller.tenant);
        let of_owner = owner.clone();
        let count = on_a_thread(move || {
            let mut owners: HashMap<String, bool> = HashMap::new();
            let mut count = 0;
            for sandbox in tenant.all_sandboxes().iter().filter(|sandbox| is_ours(sandbox)) {
                let Some(parent) = &sandbox.parent else { continue };
                let is_owned = match owners.get(parent) {
                    Some(known) => *known,
                    None => {
                        let record = tenant.state().codebase(parent)?;
                        let is_owned = record.is_some_and(|record| record.owner == of_owner);
                        owners.insert(parent.clone(), is_owned);
                        is_owned
                    }
                };
                count += usize::from(is_owned);
            }
            Ok(count)
        });
        if count.await? < most {
            return Ok(());
        }
        let text = format!("owner '{owner}' has {most} sandboxes, which is the limit; destroy some");
        Err(Status::resource_exhausted(text))
    }

    /// What a sandbox is asked to be.
    fn spec(&self, caller: &Caller, asked: &CreateSandboxRequest) -> Result<SandboxSpec, Status> {
        let limits = asked.resources.unwrap_or_default();
        let is_container = match asked.runtime() {
            RuntimeType::Docker => true,
            RuntimeType::Unspecified => self.options().always_on_image,
            RuntimeType::Bwrap => false,
        };
        let image = match given(&asked.image) {
            Some(image) => Some(image),
            None if is_container || self.options().always_on_image => {
                let image = self.options().image.clone();
                let text = "image is required for the docker runtime";
                Some(image.ok_or_else(|| Status::invalid_argument(text))?)
            }
            None => None,
        };
        Ok(SandboxSpec {
            network: self.options().network.clone(),
            memory: limit("memory_bytes", limits.memory_bytes)?,
            pids: limit("pids_limit", limits.pids_limit)?,
            cpu_quota: limit("cpu_quota", limits.cpu_quota)?,
            cpu_shares: limit("cpu_shares", limits.cpu_shares)?,
            metadata: asked.labels.clone().into_iter().collect(),
            principal: caller.principal.clone(),
            unattended: true,
            gives_back: Some(self.options().gives_back),
            image,
            isolation: is_container.then(|| CONTAINER.to_owned()),
            ..SandboxSpec::default()
        })
    }
}

/// A limit; 0 means none of its own.
fn limit(name: &str, asked: i64) -> Result<Option<u64>, Status> {
    match u64::try_from(asked) {
        Ok(0) => Ok(None),
        Ok(asked) => Ok(Some(asked)),
        Err(_) => Err(Status::invalid_argument(format!("{name} is a number from 0 on"))),
    }
}

fn is_ours(sandbox: &Sandbox) -> bool {
    sandbox.id.starts_with(ID)
}

/// A sandbox of this interface.
fn sandbox_of(caller: &Caller, id: &str) -> Result<Arc<Sandbox>, Status> {
    required("sandbox_id", id)?;
    let found = caller.tenant.sandbox(id)?;
    if !is_ours(&found) {
        return Err(ServiceError::unknown_sandbox(id).into());
    }
    found.touch();
    Ok(found)
}

/// A sandbox that was started and not stopped.
async fn running(caller: &Caller, id: &str) -> Result<Arc<Sandbox>, Status> {
    let sandbox = sandbox_of(caller, id)?;
    match Note::read(&caller.tenant, &sandbox).await?.stage {
        Stage::Running => Ok(sandbox),
        Stage::Pending | Stage::Stopped => Err(Status::failed_precondition("sandbox is not running")),
    }
}

/// Seconds of a time from now, which is not over before it was asked for.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[tonic::async_trait]
impl SandboxService for Sandboxes {
    type ExecStreamStream = Sent<ExecOutput>;
    type SessionExecStreamStream = Sent<ExecOutput>;

    async fn create_sandbox(
        &self,
        request: Request<CreateSandboxRequest>,
    ) -> Result<Response<proto::Sandbox>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let asked = request.into_inner();
        let codebase = required("codebase_id", &asked.codebase_id)?.to_owned();
        let (spec, rules) = (self.spec(&caller, &asked)?, rules_of(&asked.permissions)?);
        let expires = duration("expires_in", asked.expires_in)?.or(self.options().expiration);
        let (tenant, named, image) = (Arc::clone(&caller.tenant), codebase.clone(), spec.image.clone());
        on_a_thread(move || {
            tenant.codebases().vault(&named)?;
            image.map_or(Ok(()), |image| {
                Ok(tenant.store().images().get(&image).map(drop)?)
            })
        })
        .await?;
        // Also so that two requests do not both take the last place of an owner.
        let _changing = self.0.agentfense.changing.lock().await;
        self.check_owner(&caller, &codebase).await?;
        let new = NewSandbox {
            source: SandboxSource::Vault {
                name: codebase,
                revision: None,
            },
            spec,
            rules: Some(rules),
            expires_seconds: expires.map(whole_seconds),
            key: None,
            prefix: Some(ID),
        };
        let sandbox = caller.tenant.create_sandbox(new).await?;
        let note = Note::of(&asked);
        note.write(&caller.tenant, &sandbox).await?;
        Ok(Response::new(note.show(&sandbox)))
    }

    async fn get_sandbox(
        &self,
        request: Request<GetSandboxRequest>,
    ) -> Result<Response<proto::Sandbox>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let sandbox = sandbox_of(&caller, &request.get_ref().sandbox_id)?;
        let note = Note::read(&caller.tenant, &sandbox).await?;
        Ok(Response::new(note.show(&sandbox)))
    }

    async fn list_sandboxes(
        &self,
        request: Request<ListSandboxesRequest>,
    ) -> Result<Response<ListSandboxesResponse>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let asked = request.into_inner();
        let (cursor, codebase) = (given(&asked.page_token), given(&asked.codebase_id));
        let admits =
            |sandbox: &Sandbox| is_ours(sandbox) && (codebase.is_none() || sandbox.parent == codebase);
        let size = page_size(asked.page_size)?;
        let page = caller.tenant.sandboxes(cursor.as_deref(), size, admits)?;
        let mut sandboxes = Vec::new();
        for sandbox in &page.sandboxes {
            let note = Note::read(&caller.tenant, sandbox).await?;
            sandboxes.push(note.show(sandbox));
        }
        Ok(Response::new(ListSandboxesResponse {
            sandboxes,
            next_page_token: page.next.unwrap_or_default(),
        }))
    }

    async fn start_sandbox(
        &self,
        request: Request<StartSandboxRequest>,
    ) -> Result<Response<proto::Sandbox>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let sandbox = sandbox_of(&caller, &request.get_ref().sandbox_id)?;
        if Note::read(&caller.tenant, &sandbox).await?.stage == Stage::Running {
            return Err(Status::failed_precondition("sandbox is already running"));
        }
        caller.tenant.exchanges().merge(&sandbox).await?;
        caller.tenant.open_sandbox(&sandbox).await?;
        let change = |note: &mut Note| {
            if note.stage == Stage::Running {
                return Err(Status::failed_precondition("sandbox is already running"));
            }
            (note.stage, note.started) = (Stage::Running, Some(UnixMillis::now().0));
            note.stopped = None;
            Ok(())
        };
        let note = self.change(&caller, &sandbox, change).await?;
        Ok(Response::new(note.show(&sandbox)))
    }

    async fn stop_sandbox(
        &self,
        request: Request<StopSandboxRequest>,
    ) -> Result<Response<proto::Sandbox>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let sandbox = sandbox_of(&caller, &request.get_ref().sandbox_id)?;
        let change = |note: &mut Note| {
            if note.stage != Stage::Running {
                return Err(Status::failed_precondition("sandbox is not running"));
            }
            (note.stage, note.stopped) = (Stage::Stopped, Some(UnixMillis::now().0));
            Ok(())
        };
        let note = self.change(&caller, &sandbox, change).await?;
        caller.tenant.close_sandbox(&sandbox).await?;
        caller.tenant.exchanges().merge(&sandbox).await?;
        Ok(Response::new(note.show(&sandbox)))
    }

    async fn destroy_sandbox(
        &self,
        request: Request<DestroySandboxRequest>,
    ) -> Result<Response<Empty>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let sandbox = sandbox_of(&caller, &request.get_ref().sandbox_id)?;
        let end = caller.tenant.delete_sandbox(&sandbox).await?;
        if end.conflicts.is_empty() {
            return Ok(Response::new(Empty {}));
        }
        let codebase = sandbox.parent.as_deref().unwrap_or_default();
        let paths = end.conflicts.join(", ");
        let text = format!(
            "sandbox {} is destroyed, and its changes are in codebase {codebase}; others have changed there too, and \
             both versions are kept as open conflicts (`avfs conflicts --vault {codebase}`): {paths}",
            sandbox.id
        );
        Err(Status::aborted(text))
    }

    async fn exec(&self, request: Request<ExecRequest>) -> Result<Response<ExecResult>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let (_, end) = self.command(&caller, request.into_inner()).await?;
        Ok(Response::new(end.await?))
    }

    async fn exec_stream(&self, request: Request<ExecRequest>) -> Result<Response<Sent<ExecOutput>>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let (listener, end) = self.command(&caller, request.into_inner()).await?;
        Ok(Response::new(output(listener, end)))
    }

    async fn create_session(
        &self,
        request: Request<CreateSessionRequest>,
    ) -> Result<Response<Session>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let asked = request.into_inner();
        let sandbox = running(&caller, &asked.sandbox_id).await?;
        caller.tenant.exchanges().merge(&sandbox).await?;
        let program = given(&asked.shell).unwrap_or(SHELL.to_owned());
        check_shell(&program)?;
        let env: BTreeMap<String, String> = asked.env.into_iter().collect();
        let started = sessions::start(&caller, &sandbox, program, env).await?;
        Ok(Response::new(started))
    }

    async fn get_session(&self, request: Request<GetSessionRequest>) -> Result<Response<Session>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let found = sessions::find(&caller, &request.get_ref().session_id).await?;
        Ok(Response::new(found.show()))
    }

    async fn list_sessions(
        &self,
        request: Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        let caller = caller(&request, Scope::Read)?;
        let sandbox = sandbox_of(&caller, &request.get_ref().sandbox_id)?;
        let sessions = sessions::list(&caller, &sandbox).await?;
        Ok(Response::new(ListSessionsResponse { sessions }))
    }

    async fn destroy_session(
        &self,
        request: Request<DestroySessionRequest>,
    ) -> Result<Response<Empty>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let found = sessions::find(&caller, &request.get_ref().session_id).await?;
        let sandbox = Arc::clone(&found.sandbox);
        found.end(&caller).await?;
        caller.tenant.exchanges().merge(&sandbox).await?;
        Ok(Response::new(Empty {}))
    }

    async fn session_exec(
        &self,
        request: Request<SessionExecRequest>,
    ) -> Result<Response<ExecResult>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let (_, end) = self.session_command(&caller, request.into_inner()).await?;
        Ok(Response::new(end.await?))
    }

    async fn session_exec_stream(
        &self,
        request: Request<SessionExecRequest>,
    ) -> Result<Response<Sent<ExecOutput>>, Status> {
        let caller = caller(&request, Scope::Run)?;
        let (listener, end) = self.session_command(&caller, request.into_inner()).await?;
        Ok(Response::new(output(listener, end)))
    }
}

/// What a command writes, and how it ends. When the latter is dropped before, the command is stopped.
type Running = (OutputListener, BoxedEnd);
type BoxedEnd = Pin<Box<dyn Future<Output = Result<ExecResult, Status>> + Send>>;

impl Sandboxes {
    async fn command(&self, caller: &Caller, asked: ExecRequest) -> Result<Running, Status> {
        required("sandbox_id", &asked.sandbox_id)?;
        required("command", &asked.command)?;
        let timeout = self.timeout(asked.timeout)?;
        let sandbox = running(caller, &asked.sandbox_id).await?;
        let new = NewProcess {
            command: Command::Shell(asked.command),
            cwd: given(&asked.workdir).map(PathBuf::from),
            env: asked.env.into_iter().collect(),
            streams: match given(&asked.stdin) {
                Some(text) => ProcessStreams::Given(text.into_bytes()),
                None => ProcessStreams::NoInput,
            },
            timeout,
        };
        let tenant = Arc::clone(&caller.tenant);
        tenant.exchanges().merge(&sandbox).await?;
        let (listener, end) = tenant.commands().follow(&sandbox, new).await?;
        let end = async move {
            let finished = end.await;
            tenant.exchanges().merge(&sandbox).await?;
            result_of(&*finished?)
        };
        Ok((listener, Box::pin(end)))
    }

    async fn session_command(&self, caller: &Caller, asked: SessionExecRequest) -> Result<Running, Status> {
        required("command", &asked.command)?;
        let timeout = self.timeout(asked.timeout)?;
        let found = sessions::find(caller, &asked.session_id).await?;
        let (tenant, sandbox) = (Arc::clone(&caller.tenant), Arc::clone(&found.sandbox));
        tenant.exchanges().merge(&sandbox).await?;
        let (listener, end) = found.run(caller, asked.command, timeout).await?;
        let end = async move {
            let result = end.await;
            tenant.exchanges().merge(&sandbox).await?;
            result
        };
        Ok((listener, Box::pin(end)))
    }
}

fn result_of(finished: &FinishedRun) -> Result<ExecResult, Status> {
    let process = finished.outcome.process.as_ref();
    let process = process.ok_or_else(|| Status::internal("the command has no end"))?;
    if process.timed_out() {
        return Err(timed_out());
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(ExecResult {
        stdout: text(process.stdout.bytes()),
        stderr: text(process.stderr.bytes()),
        exit_code: process.status(),
        duration: Some(length(process.duration)),
    })
}

/// Sessions are of bash, which reads what is written for these.
fn check_shell(program: &str) -> Result<(), Status> {
    let name = program.rsplit('/').next().unwrap_or_default();
    if matches!(name, "sh" | "bash" | "dash" | "ash") {
        return Ok(());
    }
    let text = format!("a session has bash, which stands for sh too; '{program}' is another language");
    Err(Status::invalid_argument(text))
}
