//! The exec boundary of a vault: classify, decide, checkpoint, mount, run in a sandbox, report.
//!
//! Whatever happens, the answer is one [`Envelope`]. The class of a command is advice and the sandbox is the boundary:
//! what counts as reading gets a vault that cannot be written to and no network.

mod asking;
pub(crate) mod changes;
mod copied;
mod door;
mod envelope;
mod git_monitor;
mod granted;
mod home;
mod job;
mod naming;
mod networked;
pub(crate) mod places;
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
use avfs_exec::launch::{Inside, Outlets};
use avfs_exec::network::Upstream;
use avfs_exec::plan::{OwnPaths, UNPRIVILEGED, environment};
use avfs_exec::policy::Decision;
use avfs_exec::{Cancel, Capabilities, Event, LaunchError, Plan};

pub use avfs_exec as boundary;
pub use changes::{ChangeKind, ChangedFile, PathText};
pub use door::{DOOR_VARIABLE, DoorReply, InnerDoor, ask};
pub use envelope::{
    CheckpointBody, Envelope, ErrorBody, LimitsBody, NetworkBody, PublishedBody, RefusalBody, RequestBody,
    RunResult, StderrBody, StdoutBody, UsageBody,
};
pub use granted::GrantedBody;
pub use home::HomeShare;
pub(crate) use home::{CACHES, HomeView};
pub use program::{Program, ProgramEnd, ProgramError};
pub use request::{Asking, CheckpointMode, ExecRequest, IsolationChoice};

use crate::approvals::{Approval, ApprovalId, Binding};
use crate::error::{Error, Result};
use crate::git::{safe_directories, settings_inside, variables};
use crate::mount::{MountOptions, OneOwner, Report, Transport};
use crate::name::CheckpointName;
use crate::task::Task;
use crate::vault::Vault;
pub(crate) use door::{Staffed, show_door};
use job::Job;
pub use workspace::Lingering;
use workspace::Workspace;

/// The action in the history and the audit log.
pub(crate) const EXEC: &str = "exec";
/// How long a command may be in the history.
const COMMAND_SHOWN: usize = 200;

/// What a run needs of the process that it is started from.
pub struct Running<'a> {
    /// Our own program, which is the first one in the sandbox.
    pub inside: Inside,
    pub cancel: &'a Cancel,
    pub events: &'a mut dyn FnMut(Event<'_>),
    /// Where the output goes; the command meets a closed pipe when nobody reads there any more.
    pub outlets: Outlets<'a>,
    /// Answers what is asked from inside; `None`: there is no door.
    pub door: Option<&'a dyn InnerDoor>,
    /// Hears what an operator should know of the mount.
    pub report: Report,
    /// Hears which approval a run waits for.
    pub asked: Option<&'a mut dyn FnMut(&ApprovalId)>,
    /// What this process has to go on with after the run.
    pub lingering: &'a mut Lingering,
}

impl Vault {
    /// Runs a command in this vault. A handle with rules runs it through them, whatever the request says.
    pub fn exec(&self, request: &ExecRequest, mut running: Running<'_>) -> Envelope {
        if let Some(rules) = self.rules() {
            let request = ExecRequest { rules: Some(rules.list().to_vec()), ..request.clone() };
            return self.unrestricted().exec(&request, running);
        }
        let name = self.name().map(|name| name.to_string());
        // What cannot be read is told of when the vault is opened.
        let request = &request.placed(self.own_path().unwrap_or_default());
        let cwd = request.working_directory();
        let body = RequestBody::of(request, name.as_deref().unwrap_or_default().to_owned(), &cwd);
        let classification = classify(&request.command);
        let mut result = RunResult { run: run_id(), vault: body.vault.clone(), ..RunResult::default() };
        let done = name
            .map_err(Failed::from)
            .and_then(|_| self.decide_and_run(request, &mut running, &cwd, &classification, &mut result));
        let error = done.err().map(|failed| failed.body());
        Envelope::new(body, Some(result), error)
    }

    /// Runs a command that may run. What an approval lets run, runs if the approval still holds when everything
    /// is ready.
    fn run(
        &self,
        request: &ExecRequest,
        running: &mut Running<'_>,
        permit: &Permit,
        cwd: &Path,
        result: &mut RunResult,
    ) -> Result<(), Failed> {
        let decision = &permit.decision;
        let mut granted = permit.granted.clone();
        let rules = request.rules.clone().map(Rules::new).transpose().map_err(Error::from)?;
        if request.isolation == IsolationChoice::Landlock {
            granted.write &= copied::is_writable(rules.as_ref())?;
        }
        result.granted = Some((&granted).into());
        let job = Job { vault: self, request, permit, cwd, granted };
        let (workspace, launched) = job.launch(running, result)?;
        let detail = format!("{} {}", result.run, shown(request));
        let after = workspace.end(EXEC, &detail, running.lingering)?;
        let ((before, seq), launched) = launched?;
        result.snapshot_after = Some(after.to_string());
        // A copy is where it is.
        result.mountpoint = (request.isolation == IsolationChoice::Bubblewrap).then(|| request.place_shown());
        let outcome = launched.map_err(Failed::Launch)?;
        result.take(&outcome);
        result.changed_files = changes::changed_files(self, before, after, rules.as_ref())?;
        self.note_run(request, result, decision, seq)?;
        Ok(())
    }

    /// What comes before the command: the state is noted, with a checkpoint if it takes one.
    pub(crate) fn prepare(
        &self,
        request: &ExecRequest,
        permit: &Permit,
        workspace: &Workspace,
        result: &mut RunResult,
    ) -> Result<(SnapshotId, u64), Failed> {
        let before = workspace.settle()?;
        if let Some((approval, binding)) = &permit.approval {
            let binding = Binding { head: before, ..binding.clone() };
            if !self.use_approval(&approval.id, &binding, &result.run)? {
                return Err(Failed::PermitGone);
            }
        }
        result.snapshot_before = Some(before.to_string());
        let wanted = match request.checkpoint {
            CheckpointMode::Never => Err("it was not wanted"),
            CheckpointMode::Always => Ok(()),
            CheckpointMode::Auto if !permit.granted.write => Err("the command changes nothing"),
            CheckpointMode::Auto => match self.record()?.0.last_checkpoint {
                Some(last) if last.snapshot == before => Err("nothing changed since the last one"),
                Some(_) | None => Ok(()),
            },
        };
        result.checkpoint = match wanted {
            Err(skipped) => CheckpointBody::Skipped { skipped },
            Ok(()) => {
                let name = CheckpointName::new(&format!("before-{}", result.run))?;
                let saved = self.save_automatic_checkpoint(&name, Some(&shown(request)))?;
                CheckpointBody::Taken { id: saved.snapshot.to_string(), name: name.to_string() }
            }
        };
        Ok((before, self.record()?.0.seq))
    }

    /// The sandbox of a run: it has what was granted, and nothing else of what was asked for.
    pub(crate) fn plan(
        &self,
        request: &ExecRequest,
        mountpoint: &Path,
        cwd: &Path,
        granted: &Capabilities,
        before: SnapshotId,
        view: Option<&HomeView>,
    ) -> Result<Plan, Failed> {
        let home = view.map(HomeView::shown).unwrap_or_default();
        let toolchains = request.toolchains();
        let mut settings = settings_inside();
        settings.extend(request.own_place().iter().flat_map(|place| safe_directories(place)));
        let mut given = variables(&settings);
        given.push(("HOME".into(), home.at.clone().into()));
        given.extend(request.env.iter().chain(&request.passed).cloned());
        given.push(("AVFS_VAULT".into(), self.name()?.as_str().into()));
        let place = request.own_place();
        let alone = OwnPaths { project: place.as_deref(), ..OwnPaths::default() };
        let own = view.map_or(alone, |view| view.own_paths(place.as_deref()));
        let top = request.path.clone().unwrap_or_default();
        let reader = self.reader_at(before)?;
        let top_level = reader.list(&top).map_err(|error| self.read_error(error))?;
        let names =
            top_level.flatten().map(|(name, _)| std::ffi::OsStr::from_bytes(name.as_bytes()).to_owned());
        let env = environment(&request.caller_env, &toolchains, own, &given);
        Ok(Plan {
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
            ..Plan::new(workspace(mountpoint, &top)?, request.words())
        })
    }

    /// The user's home for a run of this vault, in the run's directory.
    pub(crate) fn home_view(
        &self,
        request: &ExecRequest,
        write: bool,
        place: &Path,
        report: &Report,
    ) -> Result<Option<HomeView>> {
        let Some(share) = request.home_share() else { return Ok(None) };
        let toolchains = request.toolchains();
        let shown = toolchains.iter().map(|one| (one.at.as_path(), one.from.is_dir()));
        let project = request.own_place();
        let project = project.as_deref().map(|path| (path, true));
        let covered: Vec<(&Path, bool)> = shown.chain(project).collect();
        let places = home::Places { covered: &covered, link: None, write };
        HomeView::mount(self, place, &share, &places, request.transport, report).map(Some)
    }

    /// The directory of the host that the vault is a copy of, if there is one: of a task and of a project.
    pub fn own_path(&self) -> Result<Option<PathBuf>> {
        if self.record()?.0.task.is_some() {
            return Ok(Some(Task::of(self.clone())?.root().to_owned()));
        }
        self.store().project_of_vault(self.id())
    }

    /// One entry of the audit log for the run, and one step for `undo`.
    pub(crate) fn note_run(
        &self,
        request: &ExecRequest,
        result: &mut RunResult,
        decision: &Decision,
        seq: u64,
    ) -> Result<(), Failed> {
        let detail = audit_detail(request, result, decision);
        let now = self.record()?.0.seq;
        match now > seq + 1 {
            true => self.note_together(EXEC, &detail, seq)?,
            false => self.update(EXEC, &detail, |_, _| Ok(()))?,
        }
        result.audit_head = Some(self.record()?.0.audit.hash);
        Ok(())
    }

    pub(crate) fn note_refusal(
        &self,
        request: &ExecRequest,
        result: &RunResult,
        decision: &Decision,
    ) -> Result<String> {
        self.update("exec-refused", &audit_detail(request, result, decision), |_, _| Ok(()))?;
        Ok(self.record()?.0.audit.hash)
    }

    /// Of a run that was allowed and has no ordinary end: it did not begin, or nobody knows what became of it.
    pub(crate) fn note_failure(
        &self,
        request: &ExecRequest,
        result: &RunResult,
        decision: &Decision,
    ) -> Result<String> {
        self.update("exec-failed", &audit_detail(request, result, decision), |_, _| Ok(()))?;
        Ok(self.record()?.0.audit.hash)
    }
}

/// Why a run has no ordinary end.
pub(crate) enum Failed {
    Refused(Refusal),
    /// What allowed it does not any more, or somebody has answered: it is to be decided on anew.
    PermitGone,
    Library(Error),
    Launch(LaunchError),
}

/// Why a command may run.
pub(crate) struct Permit {
    pub(crate) decision: Decision,
    /// What it is given.
    pub(crate) granted: Capabilities,
    /// The approval that lets it run, and what it was looked up by.
    pub(crate) approval: Option<(Approval, Binding)>,
}

pub(crate) struct Refusal {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failed {
    pub(crate) fn body(&self) -> ErrorBody {
        match self {
            Failed::Refused(Refusal { code, message, hint }) => {
                ErrorBody { code: (*code).to_owned(), message: message.clone(), hint: hint.clone() }
            }
            Failed::PermitGone => {
                let message = "the approval does not hold any more".to_owned();
                ErrorBody { code: "approval_required".to_owned(), message, hint: None }
            }
            Failed::Library(error) => error.into(),
            Failed::Launch(error) => error.into(),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Library(error)
    }
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
    let directory =
        rustix::fs::open(mountpoint, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let plain = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let wanted = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(directory.map_err(host)?, below, wanted, Mode::empty(), plain).map_err(host)?;
    Ok(place)
}

pub(crate) fn mount_options(request: &ExecRequest, read_only: bool) -> MountOptions {
    let principal = request.principal.clone();
    MountOptions { read_only, principal, ..mount_options_for(request.rules.clone(), request.transport) }
}

/// Started by root, the command is somebody else, who must be let in and find files that are his.
fn mount_options_for(rules: Option<Vec<Rule>>, transport: Transport) -> MountOptions {
    let is_root = rustix::process::geteuid().is_root();
    MountOptions {
        allow_other: is_root,
        transport,
        rules,
        owner: is_root.then_some(OneOwner { uid: UNPRIVILEGED, gid: UNPRIVILEGED }),
        ..MountOptions::default()
    }
}

/// The command as one short line.
pub(crate) fn shown(request: &ExecRequest) -> String {
    let words = request.words();
    let line = match &request.command {
        avfs_exec::classify::Command::Shell(line) => avfs_core::printable(line.as_bytes()),
        avfs_exec::classify::Command::Argv(_) => {
            words.iter().map(|word| avfs_core::printable(word.as_bytes())).collect::<Vec<_>>().join(" ")
        }
    };
    match line.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn audit_detail(request: &ExecRequest, result: &RunResult, decision: &Decision) -> String {
    let end = match (result.exit_code, result.signal, result.timed_out) {
        (_, _, true) => "timed out".to_owned(),
        (Some(code), ..) => format!("exit {code}"),
        (None, Some(signal), _) => format!("signal {signal}"),
        (None, None, _) => "not run".to_owned(),
    };
    let who = request.principal.as_deref().map(|who| format!(" by {who}")).unwrap_or_default();
    let (action, class, rule) = (decision.action.as_str(), decision.class.as_str(), &decision.rule);
    let session = result.session.as_deref().map(|session| format!(" in {session}")).unwrap_or_default();
    let given = match &result.granted {
        Some(granted) => {
            let isolation = result.isolation.as_deref().unwrap_or(request.isolation.as_str());
            granted.noted(isolation, request.rules.as_deref())
        }
        None => granted::asked_noted(request),
    };
    format!("{}{session}{who} {action} ({class}, {rule}) {end} [{given}]: {}", result.run, shown(request))
}

/// Sorts by time, and is unique.
pub(crate) fn run_id() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = (now.as_nanos(), std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let hash = blake3::hash(format!("{seed:?}").as_bytes()).to_hex();
    format!("r{:010x}-{}", now.as_secs(), &hash[..8])
}
