//! One sandbox: a vault of its own, and what runs in it.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentvfs::exec::sandbox::Docker;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::ContainerRuntime;
use agentvfs::exec::sandbox::network::{NetworkChoice, PortConnection, PortPublication};
use agentvfs::exec::sandbox::plan::WORKSPACE;
use agentvfs::exec::sandbox::policy::{Policy, PolicyAction};
use agentvfs::exec::sandbox::{Capabilities, Network, RunLimits};
use agentvfs::exec::{AfterRun, IsolationChoice, RunSpec};
use agentvfs::{ErrorKind, OpenSandbox, PolicyOrigin, Vault};
use avfs_core::TreePath;
use serde::{Deserialize, Serialize};

use super::error::{ServiceError, ServiceResult};
use super::exchange::{Exchanged, GivesBack};
use super::metering::Meter;
use super::pausing::Pausing;
use super::process::Process;
use super::session::Session;
use super::tenant::Tenant;
use crate::clock::{Moment, SteadyMillis};
use crate::options::ServerOptions;

/// What is asked about by the built-in policy for its words alone, and not for what it is given.
const UNATTENDED: &str = "[classes]\nnetworked = \"allow\"\nhost_escape_risk = \"allow\"\n";
/// How many ended processes of a sandbox are remembered.
const ENDED_MAX: usize = 256;

/// What a sandbox was asked to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Hosts that its commands may reach, as `avfs exec --net` takes them.
    #[serde(default)]
    pub network: Vec<String>,
    /// Its commands can change nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Variables of all its commands.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Bytes of memory of all its processes together.
    #[serde(default)]
    pub memory: Option<u64>,
    /// Seconds that a command may take, unless it says otherwise.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    /// Seconds without a command after which what is left in the background is ended. Its files stay.
    #[serde(default)]
    pub idle_seconds: Option<u64>,
    /// Whatever the client wants to find again.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Who asked for it.
    #[serde(default)]
    pub principal: String,
    /// A second path at which its programs see its files, besides `/workspace`. Commands start there.
    #[serde(default)]
    pub also_at: Option<PathBuf>,
    /// Nobody answers approvals of its commands: where no policy is stored, what their words say is not asked about. They
    /// get no more by that: what a sandbox can do is decided by its network and its limits.
    #[serde(default)]
    pub unattended: bool,
    /// The image whose system its commands run in; nothing: that of this machine.
    #[serde(default)]
    pub image: Option<String>,
    /// What builds it: `bubblewrap`, or `oci` or `docker` for a container on an image. Nothing: bubblewrap.
    #[serde(default)]
    pub isolation: Option<String>,
    /// Processes and threads at one time.
    #[serde(default)]
    pub pids: Option<u64>,
    /// Microseconds of CPU time in each 100 milliseconds, of all its processes together.
    #[serde(default)]
    pub cpu_quota: Option<u64>,
    /// Its weight when CPUs are scarce; 1024 is usual.
    #[serde(default)]
    pub cpu_shares: Option<u64>,
    /// Its changes go back to the vault that it is made from; nothing, if they are only its own.
    #[serde(default)]
    pub gives_back: Option<GivesBack>,
    /// At the end of its time it is paused, and not deleted.
    #[serde(default)]
    pub pausing: Option<Pausing>,
    /// Its ports are reached with its token only.
    #[serde(default)]
    pub private_ports: bool,
}

/// A sandbox that exists. Its files are in a vault of its own; its processes share namespaces, `/tmp` and network from the
/// first command on, and until it is closed.
pub struct Sandbox {
    /// Its name.
    pub id: String,
    /// When it was made, in milliseconds since 1970.
    pub created: i64,
    /// The sandbox or vault that it is a fork of.
    pub parent: Option<String>,
    /// What it was asked to be.
    pub spec: SandboxSpec,
    vault: Vault,
    /// Milliseconds since 1970; 0 if it does not expire.
    expires: AtomicI64,
    /// When that is, on the clock that nobody sets. This is what counts.
    ends: AtomicI64,
    last_used: AtomicI64,
    /// The same on the clock that nobody sets.
    used: AtomicI64,
    is_gone: AtomicBool,
    /// Nothing before the first command, and after it was closed. Held while it is opened, so that it is opened once.
    open: Mutex<Option<Arc<OpenSandbox>>>,
    is_open: AtomicBool,
    /// How many commands somebody waits for.
    attended: AtomicUsize,
    /// In the order in which they were started.
    processes: Mutex<Vec<Arc<Process>>>,
    /// In the order in which they were started.
    sessions: Mutex<Vec<Arc<Session>>>,
    /// Held while changes are exchanged with its vault.
    exchanged: Mutex<Exchanged>,
    /// The hosts that its commands may reach now; those of `spec` are what it began with. Taken after `open`.
    network: Mutex<Vec<String>>,
    /// Held while it is paused, or goes on. Taken before `open`.
    pausing: Mutex<()>,
    meter: Meter,
}

/// As long as this lives, somebody waits for a command in the sandbox.
pub(super) struct Attended(Arc<Sandbox>);

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.touch();
        self.0.attended.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Sandbox {
    pub(super) fn new(
        (id, created): (String, i64),
        parent: Option<String>,
        spec: SandboxSpec,
        vault: Vault,
        expires: Option<i64>,
        now: Moment,
    ) -> Sandbox {
        let network = Mutex::new(spec.network.clone());
        let sandbox = Sandbox {
            network,
            pausing: Mutex::default(),
            meter: Meter::default(),
            id,
            created,
            parent,
            spec,
            vault,
            expires: AtomicI64::default(),
            ends: AtomicI64::new(i64::MAX),
            last_used: AtomicI64::new(now.day.0),
            used: AtomicI64::new(now.steady.0),
            is_gone: AtomicBool::new(false),
            open: Mutex::default(),
            is_open: AtomicBool::new(false),
            attended: AtomicUsize::new(0),
            processes: Mutex::default(),
            sessions: Mutex::default(),
            exchanged: Mutex::default(),
        };
        sandbox.set_expires(expires, now);
        sandbox
    }

    /// The vault with its files, without any rules.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// When it expires, in milliseconds since 1970.
    pub fn expires(&self) -> Option<i64> {
        Some(self.expires.load(Ordering::Acquire)).filter(|expires| *expires != 0)
    }

    pub(super) fn set_expires(&self, expires: Option<i64>, now: Moment) {
        let ends = expires.map_or(i64::MAX, |expires| now.steady_at(expires).0);
        self.expires.store(expires.unwrap_or(0), Ordering::Release);
        self.ends.store(ends, Ordering::Release);
    }

    /// The time of day was set: it expires after as long as before.
    pub(super) fn move_expires(&self, jump: i64) {
        if let Some(expires) = self.expires() {
            self.expires
                .store(expires.saturating_add(jump).max(1), Ordering::Release);
        }
    }

    /// Whether its time is over.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.ends.load(Ordering::Acquire) <= SteadyMillis::now().0
    }

    /// Whether it is over for everybody. One that is paused at the end of its time is not.
    pub(super) fn has_expired(&self) -> bool {
        self.spec.pausing.is_none() && self.is_out_of_time()
    }

    /// When something was last done with it, in milliseconds since 1970.
    pub fn last_used(&self) -> i64 {
        self.last_used.load(Ordering::Acquire)
    }

    /// What it is now.
    pub fn present_spec(&self) -> SandboxSpec {
        SandboxSpec {
            network: self.network(),
            ..self.spec.clone()
        }
    }

    /// The hosts that its commands may reach.
    pub fn network(&self) -> Vec<String> {
        self.network
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Refuses a port that others may not reach by a stored policy, as one that is published.
    pub fn check_published(&self, port: u16) -> ServiceResult<()> {
        let in_force = self.vault.policy_in_force()?;
        if in_force.origin == PolicyOrigin::BuiltIn {
            return Ok(());
        }
        let published = port.to_string().parse::<PortPublication>();
        let published = published.map_err(|error| ServiceError::invalid(error.to_string()))?;
        let asked = Capabilities {
            published: vec![published],
            ..Capabilities::READING
        };
        if in_force.policy.decide_session(&asked, false).action == PolicyAction::Allow {
            return Ok(());
        }
        let text =
            format!("the policy lets nobody reach port {port}: it would have `publish = [\"{port}\"]`");
        Err(ServiceError::new("port-denied", ErrorKind::Denied, text))
    }

    /// Connects to a port inside. Waits for the server there.
    pub fn connect_port(&self, port: u16) -> io::Result<(TcpStream, PortConnection)> {
        let connected = self.with_open(|open| open.connect(port));
        connected.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()))
    }

    /// Does something with the open sandbox, if it is open.
    pub(super) fn with_open<T>(&self, work: impl FnOnce(&OpenSandbox) -> T) -> Option<T> {
        // Not under the lock: whoever closes it waits for those who have it.
        let open = self.place().clone();
        open.map(|open| work(&open))
    }

    /// Gives it another network, from now on and when it is opened again. `keep` writes that down.
    pub(super) fn set_network(
        &self,
        hosts: Vec<String>,
        keep: impl FnOnce(&SandboxSpec) -> ServiceResult<()>,
    ) -> ServiceResult<()> {
        let changed = network(&hosts)?;
        // Held, so that it is not opened with the old one meanwhile.
        let place = self.place();
        if let Some(open) = &*place {
            open.set_network(changed)?;
        }
        let spec = SandboxSpec {
            network: hosts.clone(),
            ..self.spec.clone()
        };
        keep(&spec)?;
        *self.network.lock().unwrap_or_else(PoisonError::into_inner) = hosts;
        Ok(())
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(super) fn pausing(&self) -> MutexGuard<'_, ()> {
        self.pausing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it is used.
    pub fn touch(&self) {
        let now = Moment::now();
        self.last_used.store(now.day.0, Ordering::Release);
        self.used.fetch_max(now.steady.0, Ordering::AcqRel);
    }

    /// For how many milliseconds nothing was done with it.
    pub(super) fn unused_ms(&self) -> i64 {
        SteadyMillis::now().0 - self.used.load(Ordering::Acquire)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    pub(super) fn mark_gone(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    /// Whether its namespaces exist, so that a command in it starts at once.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Its processes, in the order in which they were started. Those that ended long ago are forgotten.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.table().clone()
    }

    /// How many of its processes run.
    pub fn running(&self) -> usize {
        self.table()
            .iter()
            .filter(|process| process.finished().is_none())
            .count()
    }

    /// The process of the run with this id.
    pub fn process(&self, run: &str) -> ServiceResult<Arc<Process>> {
        let table = self.table();
        let found = table.iter().find(|process| process.run == run);
        found.cloned().ok_or_else(|| {
            let run = avfs_core::printable(run.as_bytes());
            let text = format!("there is no process '{run}' in sandbox '{}'", self.id);
            ServiceError::new("unknown-process", ErrorKind::NotFound, text)
        })
    }

    pub(super) fn add(&self, process: &Arc<Process>) {
        self.touch();
        let mut table = self.table();
        table.push(Arc::clone(process));
        if table.len() > ENDED_MAX
            && let Some(oldest) = table.iter().position(|process| process.finished().is_some())
        {
            table.remove(oldest);
        }
    }

    pub(super) fn forget(&self, process: &Arc<Process>) {
        self.table().retain(|known| !Arc::ptr_eq(known, process));
    }

    /// The open sandbox, which is opened if it is not.
    pub(super) fn opened(&self, tenant: &Tenant) -> ServiceResult<Arc<OpenSandbox>> {
        let mut place = self.place();
        if self.is_gone() {
            return Err(ServiceError::unknown_sandbox(&self.id));
        }
        tenant.check_open()?;
        if let Some(open) = &*place {
            return Ok(Arc::clone(open));
        }
        let spec = self.run_spec(tenant)?;
        self.prepare_root(tenant)?;
        let report = tenant.report();
        let opened = self
            .vault
            .open_sandbox(&spec, tenant.options().inside.clone(), None, report)?;
        self.is_open.store(true, Ordering::Release);
        Ok(Arc::clone(place.insert(Arc::new(opened))))
    }

    /// What all its commands have in common.
    pub(super) fn run_spec(&self, tenant: &Tenant) -> ServiceResult<RunSpec> {
        let limits = tenant.limits();
        let usual = RunLimits::default();
        Ok(RunSpec {
            env: self
                .spec
                .env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            caller_env: tenant.options().caller_env.clone(),
            network: network(&self.network())?,
            read_only: self.spec.read_only,
            own_path: self.spec.also_at.clone(),
            image: self.spec.image.clone(),
            container_runtime: tenant.options().container_runtime.clone(),
            policy: self.policy()?,
            rules: self.vault.rules_for_programs()?,
            principal: Some(self.spec.principal.clone()),
            isolation: isolation(&self.spec)?,
            limits: RunLimits {
                memory: Some(self.spec.memory.unwrap_or(limits.memory).min(limits.memory)),
                pids: self.spec.pids.or(usual.pids),
                cpu_quota: self.spec.cpu_quota,
                cpu_shares: self.spec.cpu_shares,
                timeout: self
                    .spec
                    .timeout_seconds
                    .map(std::time::Duration::from_secs)
                    .or(usual.timeout),
                ..usual
            },
            ..RunSpec::new(Command::Shell(String::new()))
        })
    }

    /// Makes the root directory of a sandbox on an image: with room for as much as the sandbox itself has, and with its
    /// second path, which leads to the files.
    fn prepare_root(&self, tenant: &Tenant) -> ServiceResult<()> {
        let Some(image) = self.spec.image.as_deref() else {
            return Ok(());
        };
        let is_new = !tenant
            .store()
            .has_vault(&format!("{}.{image}", self.vault.name()?))?;
        let root = self.vault.image().root_on(image)?;
        if let Some(disk) = tenant.limits().disk.filter(|_| is_new) {
            let own = root.info()?.bytes;
            root.set_quota(Some(own.saturating_add(disk)), None)?;
        }
        let Some(at) = self.spec.also_at.as_deref() else {
            return Ok(());
        };
        let invalid = |error: avfs_core::BadName| ServiceError::invalid(error.to_string());
        let path = |path: &Path| TreePath::parse(path.as_os_str().as_encoded_bytes()).map_err(invalid);
        let (link, above) = (path(at)?, at.parent().map(path).transpose()?);
        let open = root.begin()?;
        if open.exists(&link)? {
            return Ok(());
        }
        if let Some(above) = above {
            open.make_directory(&above, true)?;
        }
        open.symlink(WORKSPACE.as_bytes(), &link)?;
        open.commit("image", "the second path of the workspace")?;
        Ok(())
    }

    /// The policy of a sandbox that nobody attends to; nothing, if that is a stored one.
    fn policy(&self) -> ServiceResult<Option<Policy>> {
        let is_stored = self.vault.policy_in_force()?.origin != PolicyOrigin::BuiltIn;
        if is_stored || !self.spec.unattended {
            return Ok(None);
        }
        let policy = Policy::parse(Path::new("unattended"), UNATTENDED);
        let policy = policy.map_err(|error| ServiceError::invalid(error.to_string()))?;
        Ok(Some(policy))
    }

    /// What was opened does not answer any more: the next command opens it again.
    pub(super) fn lost(&self, lost: &Weak<OpenSandbox>) {
        let mut place = self.place();
        if place
            .as_ref()
            .is_some_and(|open| Weak::ptr_eq(&Arc::downgrade(open), lost))
        {
            self.is_open.store(false, Ordering::Release);
            if let Some(open) = place.take() {
                open.stop();
            }
        }
    }

    /// Somebody waits for a command, so the sandbox is in use as long as that takes.
    pub(super) fn attend(self: &Arc<Sandbox>) -> Attended {
        self.attended.fetch_add(1, Ordering::AcqRel);
        Attended(Arc::clone(self))
    }

    pub(super) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Acquire) > 0
    }

    /// Ends every process in it. Its files stay, and the next command opens it again. Waits until everything is stored.
    pub(super) fn close(&self) -> ServiceResult<AfterRun> {
        self.end_sessions()?;
        let mut place = self.place();
        let Some(mut open) = place.take() else {
            return Ok(AfterRun::default());
        };
        self.is_open.store(false, Ordering::Release);
        open.stop();
        // Each command has a thread that holds it open until its run is written down, and those threads are many: one that
        // is between two steps is waited for.
        loop {
            match Arc::try_unwrap(open) {
                Ok(open) => return Ok(open.end()?),
                Err(shared) => open = shared,
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    /// Opens a sandbox that nobody knows of, and gives that away.
    pub(super) fn open_alone(self, tenant: &Tenant) -> ServiceResult<OpenSandbox> {
        let opened = self.opened(tenant)?;
        drop(self.place().take());
        // Nobody else has it.
        Arc::try_unwrap(opened).map_err(|_| ServiceError::ending())
    }

    /// Begins with a sandbox that was opened before.
    pub(super) fn begin_open(&self, open: OpenSandbox) {
        self.is_open.store(true, Ordering::Release);
        *self.place() = Some(Arc::new(open));
    }

    pub(super) fn exchanged(&self) -> MutexGuard<'_, Exchanged> {
        self.exchanged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self) -> MutexGuard<'_, Option<Arc<OpenSandbox>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn session_table(&self) -> MutexGuard<'_, Vec<Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what builds a sandbox, and refuses what cannot.
pub(super) fn isolation(spec: &SandboxSpec) -> ServiceResult<IsolationChoice> {
    let name = spec.isolation.as_deref().unwrap_or("bubblewrap");
    let known = IsolationChoice::ALL
        .into_iter()
        .find(|choice| choice.as_str() == name);
    match known {
        Some(IsolationChoice::Oci | IsolationChoice::Docker) if spec.image.is_none() => {
            Err(ServiceError::invalid("`isolation`: a container needs an `image`"))
        }
        Some(choice @ (IsolationChoice::Bubblewrap | IsolationChoice::Oci | IsolationChoice::Docker)) => {
            Ok(choice)
        }
        Some(IsolationChoice::Landlock) | None => Err(ServiceError::invalid(
            "`isolation` is `bubblewrap`, `oci` or `docker`",
        )),
    }
}

/// Refuses a container that nothing on this machine could build.
pub(super) fn check_builder(choice: IsolationChoice, options: &ServerOptions) -> ServiceResult<()> {
    let found = match choice {
        IsolationChoice::Bubblewrap | IsolationChoice::Landlock => return Ok(()),
        IsolationChoice::Oci => match options.container_runtime.as_deref() {
            Some(name) => ContainerRuntime::named(name).map(drop),
            None => ContainerRuntime::find().map(drop),
        },
        IsolationChoice::Docker => {
            let host = options.caller_env.iter().find(|(name, _)| name == "DOCKER_HOST");
            let host = host.map(|(_, value)| value.to_string_lossy());
            Docker::find(host.as_deref()).map(drop)
        }
    };
    found.map_err(|error| {
        let text = avfs_core::with_causes(&error);
        ServiceError::new("no-runtime", ErrorKind::Conflict, text)
    })
}

/// Reads the hosts of a sandbox.
pub(super) fn network(words: &[String]) -> ServiceResult<Network> {
    let choices = words.iter().map(|word| {
        word.parse::<NetworkChoice>()
            .map_err(|error| ServiceError::invalid(format!("network: {error}")))
    });
    Ok(NetworkChoice::all(
        &choices.collect::<ServiceResult<Vec<_>>>()?,
        Network::None,
    ))
}
