//! The exec boundary of a vault: classify, decide, checkpoint, mount, run in a sandbox, report.
//!
//! In every case, the answer is one [`Envelope`]. The class of a command is advice and the sandbox is the
//! boundary: a read-only command gets a vault that cannot be written to and no network.

mod asking;
mod builder;
pub(crate) mod changes;
mod copied;
pub(crate) mod core;
mod door;
#[allow(
    missing_docs,
    reason = "docs/exec.schema.json describes the fields, for callers in every language"
)]
mod envelope;
mod git_monitor;
mod granted;
mod home;
mod image_root;
pub mod inner_environment;
mod job;
mod naming;
mod networked;
pub(crate) mod outcome;
mod program;
mod prompt;
mod request;
pub(crate) mod workspace;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::rules::{Rule, Rules};
use avfs_core::{SnapshotId, TreePath};
use avfs_exec::classify::classify;
use avfs_exec::launch::{CommandEnd, InnerProgram, LiveOutlets};
use avfs_exec::network::Upstream;
use avfs_exec::plan::{OwnPaths, SandboxUser, UNPRIVILEGED, environment};
use avfs_exec::policy::PolicyDecision;
use avfs_exec::{Cancel, Capabilities, RunEvent, SandboxPlan};

pub use crate::error::{NetworkedCommand, NetworkedRun};
pub use avfs_exec as sandbox;
pub use changes::{ChangeKind, ChangedFile, PathText};
pub use door::{DoorReply, DoorScope, InnerDoor, ask};
pub use envelope::{
    CheckpointBody, Envelope, ErrorBody, LimitsBody, NetworkBody, PublishedBody, RefusalBody, RequestBody,
    ResultBody, StderrBody, StdoutBody, UsageBody,
};
pub use granted::GrantedBody;
pub use home::HomeShare;
pub(crate) use home::HomeView;
pub(crate) use image_root::ImageRoot;
pub use outcome::{
    FinishedRun, ProcessOutcome, ProgramEnd, Refused, RunCheckpoint, RunError, RunOutcome, SessionTurn,
};
pub(crate) use program::shown_program;
pub use program::{FinishedProgram, Program, TaskPrograms};
pub use request::{Asking, CheckpointMode, IsolationChoice, RunSpec, SessionRequest};

use crate::approvals::{Approval, ApprovalId, Binding};
use crate::error::{Error, Result};
use crate::git::{Identity, Setting, safe_directories, settings_inside, variables};
use crate::mount::{MountOptions, OneOwner, Report, Transport};
use crate::task::Task;
use crate::vault::Vault;
pub(crate) use builder::sandbox_builder;
use core::RunCore;
pub(crate) use door::{ServedDoor, show_door};
use inner_environment::VAULT_VARIABLE;
use job::Job;
pub use workspace::AfterRun;

/// The action in the history and the audit log.
pub(crate) const EXEC: &str = "exec";
/// The maximum length of a command in the history.
const COMMAND_SHOWN: usize = 200;

/// What a run needs from its calling process.
pub struct RunContext<'a> {
    /// The first program in the sandbox.
    pub inside: InnerProgram,
    /// Ends the run early.
    pub cancel: &'a Cancel,
    /// Is told of events, in order.
    pub watch: &'a mut dyn RunWatch,
    /// The destinations of the output; the command gets a closed pipe when a reader is gone.
    pub outlets: LiveOutlets<'a>,
    /// Answers requests from inside; `None`: there is no door.
    pub door: Option<&'a dyn InnerDoor>,
    /// Receives messages about the mount for the operator.
    pub report: Report,
}

/// Receives the events of a run, as they happen.
pub trait RunWatch: Send {
    /// Called with each event.
    fn event(&mut self, event: RunEvent<'_>);

    /// The run waits for this approval, until it is answered or `cancel` is.
    fn waits_for(&mut self, _approval: &ApprovalId, _cancel: &Cancel) {}
}

/// Ignores all events.
impl RunWatch for () {
    fn event(&mut self, _event: RunEvent<'_>) {}
}

impl<'a> RunContext<'a> {
    /// A run whose output is only kept, without a door.
    pub fn new(inside: InnerProgram, cancel: &'a Cancel, watch: &'a mut dyn RunWatch) -> RunContext<'a> {
        RunContext {
            inside,
            cancel,
            watch,
            outlets: LiveOutlets::default(),
            door: None,
            report: std::sync::Arc::new(|_| {}),
        }
    }
}

/// Runs commands in sandboxes that show a vault.
#[derive(Clone, Copy)]
pub struct VaultRuns<'a> {
    pub(crate) vault: &'a Vault,
}

impl VaultRuns<'_> {
    /// Runs a command in this vault. A handle with rules runs it through them, whatever the request
    /// specifies.
    pub fn exec(&self, spec: &RunSpec, mut context: RunContext<'_>) -> FinishedRun {
        if let Some(rules) = self.vault.rules() {
            let spec = RunSpec {
                rules: Some(rules.list().to_vec()),
                ..spec.clone()
            };
            return self.vault.unrestricted().exec(&spec, context);
        }
        let name = self.vault.name().map(|name| name.to_string());
        let shown_name = name.as_deref().unwrap_or_default().to_owned();
        // If it cannot be read, opening the vault reports the error.
        let mut placed = spec.placed(self.own_path().unwrap_or_default());
        let root_state = self.vault.image().root_state(&placed);
        placed.root_state = root_state.as_ref().ok().copied().flatten();
        let spec = &placed;
        let cwd = spec.working_directory();
        let request = RequestBody::of(spec, shown_name.clone(), &cwd);
        let classification = classify(&spec.command);
        let mut core = RunCore::new(self.vault, RunOutcome::new(run_id(), shown_name));
        let done = name
            .and_then(|_| self.vault.store().projects().check_directory_of(self.vault))
            .and_then(|()| root_state.map(drop))
            .map_err(RunError::from)
            .and_then(|()| core.decide_and_run(spec, &mut context, &cwd, &classification));
        FinishedRun {
            request,
            outcome: core.outcome,
            error: done.err(),
            after: core.after,
        }
    }
}

impl RunCore<'_> {
    /// Runs a command that is allowed. If an approval allows it, the command runs only if the approval is
    /// still valid when everything is ready.
    fn run(
        &mut self,
        spec: &RunSpec,
        context: &mut RunContext<'_>,
        permit: &Permit,
        cwd: &Path,
    ) -> Result<(), RunError> {
        let mut granted = permit.granted.clone();
        let rules = spec
            .rules
            .clone()
            .map(Rules::shared)
            .transpose()
            .map_err(Error::from)?;
        if spec.isolation == IsolationChoice::Landlock {
            granted.write &= copied::is_writable(rules.as_ref())?;
        }
        self.outcome.granted = Some(granted.clone());
        let detail = format!("{} {}", self.outcome.run, shown(spec));
        let root = self.vault.image().mount_root(
            spec,
            granted.write,
            &self.outcome.run,
            &context.inside,
            &context.report,
        )?;
        let job = Job {
            spec,
            permit,
            cwd,
            granted,
            root: root.as_ref(),
        };
        let launched = job.launch(self, context);
        // First, so that nothing of it is lost whatever becomes of the workspace.
        let root_ended = root.map(|root| root.end(&detail, &mut self.after)).transpose();
        let (workspace, launched) = launched?;
        let after = workspace.end(EXEC, &detail, &mut self.after)?;
        root_ended?;
        let (before, launched) = launched?;
        self.outcome.after = Some(after);
        // A copy is where it is.
        self.outcome.place = (spec.isolation != IsolationChoice::Landlock).then(|| spec.place_shown());
        let outcome = launched?;
        self.outcome.isolation = Some(outcome.isolation.to_string());
        self.outcome.process = Some(outcome.into());
        self.outcome.changed_files =
            changes::changed_files(self.vault, before.snapshot, after, rules.as_ref())?;
        self.record(spec, &permit.decision, before)?;
        self.check_server()
    }
}

/// What git inside has to know: which directories are safe, and who commits. The author is the user whose home and
/// tools the run has; one for somebody else, as of a server, has none.
fn git_settings(request: &RunSpec) -> Vec<Setting> {
    let place = request.own_place();
    // Side by side, because each of them waits for a git process.
    let (identity, safe) = std::thread::scope(|scope| {
        let identity = request.home.as_ref().map(|_| {
            let place = place.as_deref().unwrap_or(Path::new("/"));
            scope.spawn(|| Identity::of(place))
        });
        let safe = place.as_deref().map(safe_directories).unwrap_or_default();
        let identity = identity.and_then(|thread| thread.join().ok());
        (identity.unwrap_or_default(), safe)
    });
    let mut settings = settings_inside();
    settings.extend(identity.settings());
    settings.extend(safe);
    settings
}

impl VaultRuns<'_> {
    /// The sandbox of a run: it has the granted capabilities, and nothing else that was requested.
    pub(crate) fn plan(
        &self,
        request: &RunSpec,
        mountpoint: &Path,
        cwd: &Path,
        granted: &Capabilities,
        before: SnapshotId,
        (view, root): (Option<&HomeView>, Option<&ImageRoot>),
    ) -> Result<SandboxPlan, RunError> {
        let home = view.map(HomeView::shown).unwrap_or_default();
        let toolchains = request.toolchains();
        let mut given = variables(&git_settings(request));
        given.push(("HOME".into(), home.at.clone().into()));
        given.extend(request.env.iter().chain(&request.passed).cloned());
        given.push((VAULT_VARIABLE.into(), self.vault.name()?.as_str().into()));
        let place = request.own_place();
        let alone = OwnPaths {
            project: place.as_deref(),
            ..OwnPaths::default()
        };
        let own = view.map_or(alone, |view| view.own_paths(place.as_deref()));
        let top = request.path.clone().unwrap_or_default();
        let reader = self.vault.reader_at(before)?;
        let top_level = reader
            .list(&top)
            .map_err(|error| self.vault.history().read_error(error))?;
        let names = top_level
            .flatten()
            .map(|(name, _)| std::ffi::OsStr::from_bytes(name.as_bytes()).to_owned());
        let mut words = request.words();
        let (env, user) = match root {
            None => {
                let env = environment(&request.caller_env, &toolchains, own, &given);
                (env, SandboxUser::of_caller())
            }
            Some(root) => {
                if let avfs_exec::classify::Command::Shell(_) = &request.command {
                    words[0] = root.shell().into();
                }
                // The home is the image's own, unless the caller names another.
                given.retain(|(name, _)| name != "HOME");
                given.extend(request.env.iter().chain(&request.passed).cloned());
                let given = root.environment(&given);
                let caller = ImageRoot::understood(&request.caller_env);
                (environment(&caller, &[], own, &given), root.user())
            }
        };
        Ok(SandboxPlan {
            root: root.map(ImageRoot::shown),
            user,
            also_at: place,
            read_only: !granted.write,
            cwd: cwd.to_owned(),
            top_level: names.collect::<Vec<OsString>>(),
            env,
            network: granted.network.clone(),
            upstream: Upstream::from_environment(&request.caller_env).0,
            published: request
                .published
                .iter()
                .filter(|one| granted.published.contains(&one.asked()))
                .cloned()
                .collect(),
            limits: request.limits.clone(),
            toolchains,
            home,
            ..SandboxPlan::new(workspace(mountpoint, &top)?, words)
        })
    }

    /// The user's home for a run of this vault, in the run's directory.
    pub(crate) fn home_view(
        &self,
        request: &RunSpec,
        write: bool,
        place: &Path,
        report: &Report,
    ) -> Result<Option<HomeView>> {
        let Some(share) = request.home_share() else {
            return Ok(None);
        };
        let toolchains = request.toolchains();
        let shown = toolchains.iter().map(|one| (one.at.as_path(), one.from.is_dir()));
        let project = request.own_place();
        let project = project.as_deref().map(|path| (path, true));
        let covered: Vec<(&Path, bool)> = shown.chain(project).collect();
        let places = home::HomePlaces {
            covered: &covered,
            link: None,
            write,
        };
        HomeView::mount(self.vault, place, &share, &places, request.transport, report).map(Some)
    }

    /// The directory of the host that the vault is a copy of, if there is one: of a task and of a project.
    pub fn own_path(&self) -> Result<Option<PathBuf>> {
        if self.vault.record()?.0.task.is_some() {
            return Ok(Some(Task::of(self.vault.clone())?.root().to_owned()));
        }
        self.vault.store().projects().project_of_vault(self.vault.id())
    }
}

/// Why a command may run.
pub(crate) struct Permit {
    pub(crate) decision: PolicyDecision,
    /// Its grants.
    pub(crate) granted: Capabilities,
    /// The approval that lets it run, and the binding by which it was found.
    pub(crate) approval: Option<(Approval, Binding)>,
}

/// The directory of the mount that is the workspace. Nothing on the way to it may lead elsewhere.
fn workspace(mountpoint: &Path, top: &TreePath) -> Result<PathBuf> {
    use rustix::fs::{Mode, OFlags, ResolveFlags};
    let below = Path::new(std::ffi::OsStr::from_bytes(top.as_bytes()));
    let place = mountpoint.join(below);
    if top.is_root() {
        return Ok(mountpoint.to_owned());
    }
    let host = |errno: rustix::io::Errno| Error::Host {
        action: "opening",
        place: top.to_string(),
        source: errno.into(),
    };
    let directory = rustix::fs::open(
        mountpoint,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    );
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let wanted = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(directory.map_err(host)?, below, wanted, Mode::empty(), plain).map_err(host)?;
    Ok(place)
}

pub(crate) fn mount_options(request: &RunSpec, read_only: bool) -> MountOptions {
    let principal = request.principal.clone();
    let usual = mount_options_for(request.rules.clone(), request.transport);
    MountOptions {
        read_only,
        principal,
        allow_other: usual.allow_other || is_shown_by_daemon(request),
        ..usual
    }
}

/// Whether another user has to reach mounts of the run: a daemon that shows them in its containers.
fn is_shown_by_daemon(request: &RunSpec) -> bool {
    request.isolation == IsolationChoice::Docker
}

/// If root starts the command, it runs as another user, who must have access and own the files.
fn mount_options_for(rules: Option<Vec<Rule>>, transport: Transport) -> MountOptions {
    let is_root = rustix::process::geteuid().is_root();
    MountOptions {
        allow_other: is_root,
        transport,
        rules,
        owner: is_root.then_some(OneOwner {
            uid: UNPRIVILEGED,
            gid: UNPRIVILEGED,
        }),
        ..MountOptions::default()
    }
}

/// The command as one short line.
pub(crate) fn shown(request: &RunSpec) -> String {
    let words = request.words();
    let line = match &request.command {
        avfs_exec::classify::Command::Shell(line) => avfs_core::printable(line.as_bytes()),
        avfs_exec::classify::Command::Argv(_) => words
            .iter()
            .map(|word| avfs_core::printable(word.as_bytes()))
            .collect::<Vec<_>>()
            .join(" "),
    };
    match line.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn audit_detail(request: &RunSpec, outcome: &RunOutcome, decision: &PolicyDecision) -> String {
    let end = match &outcome.process {
        None => "not run".to_owned(),
        Some(process) if process.timed_out() => "timed out".to_owned(),
        Some(process) => match process.end {
            CommandEnd::Signaled(signal) => format!("signal {signal}"),
            CommandEnd::Exited(_) | CommandEnd::NotStarted { .. } => format!("exit {}", process.status()),
        },
    };
    let who = request
        .principal
        .as_deref()
        .map(|who| format!(" by {who}"))
        .unwrap_or_default();
    let (action, class, rule) = (decision.action.as_str(), decision.class.as_str(), &decision.rule);
    let session = outcome
        .turn
        .as_ref()
        .map(|turn| format!(" in {}", turn.session))
        .unwrap_or_default();
    let given = match &outcome.granted {
        Some(granted) => {
            let isolation = outcome.isolation.as_deref().unwrap_or(request.isolation.as_str());
            GrantedBody::from(granted).noted(isolation, request.rules.as_deref())
        }
        None => granted::asked_noted(request),
    };
    let image = request.image.as_ref();
    let image = image.map(|name| format!(", image {name}")).unwrap_or_default();
    format!(
        "{}{session}{who} {action} ({class}, {rule}) {end} [{given}{image}]: {}",
        outcome.run,
        shown(request)
    )
}

/// Sorts by time, and is unique.
pub(crate) fn run_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    let seed = (
        now.as_nanos(),
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed),
    );
    let hash = blake3::hash(format!("{seed:?}").as_bytes()).to_hex();
    format!("r{:010x}-{}", now.as_secs(), &hash[..8])
}
