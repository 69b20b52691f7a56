//! A sandbox on a vault that stays open: any number of commands run in it side by side.
//!
//! The vault is mounted, and its view, network and limits are fixed, when the sandbox is opened. Each command
//! is then classified, decided on, recorded in the audit log and answered like a separate run, but it starts
//! in an existing sandbox, which takes a few milliseconds. Unlike a session, no shell lives on between
//! commands: each has its own directory, variables, streams or terminal. Commands share the vault, `/tmp`,
//! the network and the processes that earlier ones left in the background.
//!
//! Everything here can be called from several threads at the same time.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use avfs_core::rules::Rules;
use avfs_exec::classify::{Command, classify};
use avfs_exec::launch::{CommandEnd, InnerProgram};
use avfs_exec::policy::PolicyDecision;
use avfs_exec::processes::{OutputEvent, OutputSoFar, ProcessEnd, ProcessInput, SandboxProcess, SpawnError};
use avfs_exec::terminal::TerminalSize;
use avfs_exec::{Cancel, Capabilities, LaunchError, ProcessSandbox, ProcessSpec, RunEvent};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::error::{Error, Result};
use crate::exec::VaultRuns;
use crate::exec::changes::changed_files;
use crate::exec::core::{RunCore, StateBefore};
use crate::exec::workspace::MountedVault;
use crate::exec::{
    AfterRun, DoorScope, EXEC, FinishedRun, HomeView, ImageRoot, InnerDoor, ProcessOutcome, RequestBody,
    RunError, RunOutcome, RunSpec, RunWatch, ServedDoor, mount_options, run_id, sandbox_builder, show_door,
    shown,
};
use crate::mount::Report;
use crate::run_directory::{RUNS, RunDirectory};
use crate::session::{SessionRequest, SessionStartError};
use crate::vault::Vault;

mod hold;

/// How long a command may take to read its input, if it does not end first.
const READING: Duration = Duration::from_secs(24 * 60 * 60);

/// One command for an open sandbox.
#[derive(Clone, Debug)]
pub struct SandboxCommand {
    /// The command.
    pub command: Command,
    /// A path in the vault, or an absolute one of the sandbox. `None`: as the sandbox has it.
    pub cwd: Option<PathBuf>,
    /// Variables that are added to those of the sandbox.
    pub env: Vec<(OsString, OsString)>,
    /// Its input; `None`: empty.
    pub stdin: Option<Vec<u8>>,
    /// `None`: as the sandbox has it.
    pub timeout: Option<Duration>,
}

impl SandboxCommand {
    /// A command without input, environment or limits of its own.
    pub fn new(command: Command) -> SandboxCommand {
        SandboxCommand {
            command,
            cwd: None,
            env: Vec::new(),
            stdin: None,
            timeout: None,
        }
    }
}

/// The streams of a background process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Separate pipes for its input, its output and its errors.
    Pipes,
    /// It has a terminal of its own for all three.
    Terminal(TerminalSize),
}

/// An open sandbox. Nothing of it is left when this is dropped; [`OpenSandbox::end`] reports errors.
pub struct OpenSandbox {
    vault: Vault,
    spec: RunSpec,
    /// The grants of the sandbox, and of every command in it.
    granted: RwLock<Capabilities>,
    rules: Option<Rules>,
    isolation: String,
    // In the order in which they end.
    processes: Option<ProcessSandbox>,
    door: Option<ServedDoor>,
    home: Option<HomeView>,
    root: Option<ImageRoot>,
    /// Used by one command at a time, before it starts and after it has ended. Nothing once the sandbox is over.
    workspace: Mutex<Option<MountedVault>>,
}

/// A command that was started. Its run is written down when [`StartedRun::finish`] is called, or when this is dropped.
pub struct StartedRun<'a> {
    sandbox: &'a OpenSandbox,
    process: SandboxProcess,
    spec: RunSpec,
    request: RequestBody,
    decision: PolicyDecision,
    before: StateBefore,
    /// Nothing once it is written down.
    outcome: Option<RunOutcome>,
}

/// A started process, and the data for recording its run.
struct Launched {
    process: SandboxProcess,
    before: StateBefore,
    decision: PolicyDecision,
}

impl VaultRuns<'_> {
    /// Opens a sandbox on the vault. The command of `spec` does not count; its view, network, limits and environment are
    /// those of every command. Whatever of it the policy does not grant has to be approved before the sandbox opens.
    pub fn open_sandbox(
        &self,
        spec: &RunSpec,
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
        report: Report,
    ) -> Result<OpenSandbox, SessionStartError> {
        if let Some(rules) = self.vault.rules() {
            let spec = RunSpec {
                rules: Some(rules.list().to_vec()),
                ..spec.clone()
            };
            return self
                .vault
                .unrestricted()
                .open_sandbox(&spec, inside, door, report);
        }
        self.vault.store().projects().check_directory_of(self.vault)?;
        let mut spec = spec.placed(self.own_path()?);
        spec.root_state = self.vault.image().root_state(&spec)?;
        let granted = self.vault.sessions().granted_for_good(&SessionRequest {
            exec: spec.clone(),
            idle: Duration::ZERO,
        })?;
        let rules = spec
            .rules
            .clone()
            .map(Rules::shared)
            .transpose()
            .map_err(Error::from)?;
        let run = run_id();
        let directory = RunDirectory::make(self.vault.store(), RUNS, &run)?;
        let home = self.home_view(&spec, granted.write, directory.place(), &report)?;
        let root = self
            .vault
            .image()
            .mount_root(&spec, granted.write, &run, &inside, &report)?;
        let options = mount_options(&spec, !granted.write);
        let workspace = MountedVault::mount(self.vault, directory, &options, &report)?;
        let place = (&workspace, home.as_ref(), root.as_ref());
        let opened = self.open_in(place, (&spec, &granted), inside, door);
        let (processes, door, isolation) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                drop(home);
                let mut after = AfterRun::default();
                let root_ended = root.map(|root| root.end("sandbox", &mut after)).transpose();
                workspace.end(EXEC, "sandbox", &mut after)?;
                root_ended?;
                return Err(error);
            }
        };
        Ok(OpenSandbox {
            vault: self.vault.clone(),
            spec,
            granted: RwLock::new(granted),
            rules,
            isolation,
            processes: Some(processes),
            door,
            home,
            root,
            workspace: Mutex::new(Some(workspace)),
        })
    }

    fn open_in(
        &self,
        (workspace, home, root): (&MountedVault, Option<&HomeView>, Option<&ImageRoot>),
        (spec, granted): (&RunSpec, &Capabilities),
        inside: InnerProgram,
        door: Option<Arc<dyn InnerDoor + Send>>,
    ) -> Result<(ProcessSandbox, Option<ServedDoor>, String), SessionStartError> {
        let builder = sandbox_builder(self.vault, spec, inside, (Some(workspace), root))?;
        let isolation = builder.isolation()?.to_string();
        let before = workspace.settle()?;
        let cwd = spec.working_directory();
        let plan = self.plan(spec, &workspace.mountpoint(), &cwd, granted, before, (home, root));
        let mut plan = plan.map_err(SessionStartError::from)?;
        // The time limit of the request is that of each command.
        plan.limits.timeout = None;
        // A sandbox without a door lacks only that.
        let scope = DoorScope::of(spec, granted)?;
        let door = door.and_then(|door| ServedDoor::open(&workspace.door_place(), door, scope).ok());
        if door.is_some() {
            show_door(&mut plan, &workspace.door_place());
        }
        Ok((ProcessSandbox::start(builder, plan)?, door, isolation))
    }
}

impl OpenSandbox {
    /// The vault that it shows.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// Runs a command to its end.
    pub fn exec(
        &self,
        command: SandboxCommand,
        cancel: &Cancel,
        watch: &mut dyn RunWatch,
    ) -> Box<FinishedRun> {
        let stdin = command.stdin.clone();
        let started = match self.start_with(command, stdin.is_some().then_some(Streams::Pipes)) {
            Ok(started) => started,
            Err(finished) => return finished,
        };
        watch.event(RunEvent::Started);
        started.follow(stdin.as_deref(), cancel, watch);
        Box::new(started.finish())
    }

    /// Starts a command in the background. If it is not allowed, or could not be started, the answer is that.
    pub fn start(
        &self,
        command: SandboxCommand,
        streams: Streams,
    ) -> std::result::Result<StartedRun<'_>, Box<FinishedRun>> {
        self.start_with(command, Some(streams))
    }

    fn start_with(
        &self,
        command: SandboxCommand,
        streams: Option<Streams>,
    ) -> std::result::Result<StartedRun<'_>, Box<FinishedRun>> {
        let spec = self.spec_of(command);
        let cwd = spec.working_directory();
        let name = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        let request = RequestBody::of(&spec, name.clone(), &cwd);
        let mut core = RunCore::new(&self.vault, RunOutcome::new(run_id(), name));
        let launched = self.launch(&mut core, &spec, &cwd, streams);
        let RunCore { outcome, after, .. } = core;
        match launched {
            Ok(Some(Launched {
                process,
                before,
                decision,
            })) => Ok(StartedRun {
                sandbox: self,
                process,
                spec,
                request,
                decision,
                before,
                outcome: Some(outcome),
            }),
            launched => Err(Box::new(FinishedRun {
                request,
                outcome,
                error: launched.err(),
                after,
            })),
        }
    }

    /// Decides on a command, prepares it and starts its process; `None` if it is not a program and therefore
    /// already over.
    fn launch(
        &self,
        core: &mut RunCore<'_>,
        spec: &RunSpec,
        cwd: &Path,
        streams: Option<Streams>,
    ) -> std::result::Result<Option<Launched>, RunError> {
        let found = classify(&spec.command);
        let granted = self.granted();
        let permit = core.permit_at_once(spec, cwd, &found, &granted)?;
        let before = {
            let workspace = self.workspace();
            let workspace = workspace.as_ref().ok_or_else(|| over(&self.vault))?;
            core.prepare(spec, &permit, workspace)?
        };
        core.outcome.place = Some(spec.place_shown());
        core.outcome.isolation = Some(self.isolation.clone());
        core.outcome.granted = Some(granted);
        let processes = self.processes.as_ref().ok_or_else(|| over(&self.vault))?;
        let decision = permit.decision;
        match processes
            .spawn(process_of(spec, cwd, streams))
            .map_err(not_started)
        {
            Ok(process) => Ok(Some(Launched {
                process,
                before,
                decision,
            })),
            // As for every run, that is an end of the command.
            Err(Ok(end)) => {
                core.outcome.process = Some(ProcessOutcome::not_started(end));
                core.outcome.after = Some(before.snapshot);
                core.record(spec, &decision, before)?;
                Ok(None)
            }
            Err(Err(error)) => {
                core.record_failure(spec, &decision);
                Err(error)
            }
        }
    }

    fn spec_of(&self, command: SandboxCommand) -> RunSpec {
        let mut spec = RunSpec {
            command: command.command,
            stdin: command.stdin,
            cwd: command.cwd.or_else(|| self.spec.cwd.clone()),
            network: self.granted().network,
            ..self.spec.clone()
        };
        spec.env.extend(command.env);
        spec.limits.timeout = command.timeout.or(spec.limits.timeout);
        spec
    }

    fn workspace(&self) -> MutexGuard<'_, Option<MountedVault>> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has every process in it end, from any thread and without waiting: commands that run are answered as killed, and no
    /// other one starts. [`OpenSandbox::end`] does the rest.
    pub fn stop(&self) {
        if let Some(processes) = &self.processes {
            processes.cancel().cancel();
        }
    }

    /// Ends every process in it and unmounts the vault. Others may still need this process for the vault: the answer waits
    /// for them.
    pub fn end(mut self) -> Result<AfterRun> {
        self.close()
    }

    fn close(&mut self) -> Result<AfterRun> {
        // How its processes ended is irrelevant; that they did is certain.
        drop(self.processes.take().map(ProcessSandbox::end));
        drop(self.door.take());
        drop(self.home.take());
        let mut after = AfterRun::default();
        let root = self
            .root
            .take()
            .map(|root| root.end("sandbox", &mut after))
            .transpose();
        let workspace = self.workspace().take();
        if let Some(workspace) = workspace {
            workspace.end(EXEC, "sandbox", &mut after)?;
        }
        root?;
        Ok(after)
    }
}

impl Drop for OpenSandbox {
    fn drop(&mut self) {
        // Errors cannot be reported; changes that could not be stored are in the journal.
        let _ = self.close();
    }
}

impl StartedRun<'_> {
    /// The process, for its streams, signals and end.
    pub fn process(&self) -> &SandboxProcess {
        &self.process
    }

    /// The id of the run, in the audit log and the history.
    pub fn run(&self) -> &str {
        self.outcome.as_ref().map_or("", |outcome| &outcome.run)
    }

    /// Passes its input and reports its output, to its end. When it is cancelled, its whole group is killed.
    fn follow(&self, stdin: Option<&[u8]>, cancel: &Cancel, watch: &mut dyn RunWatch) {
        let over = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok();
        std::thread::scope(|scope| {
            if let Some(bytes) = stdin {
                scope.spawn(|| {
                    // A command that does not read has a reason.
                    let _ = self.process.write_stdin(bytes, Some(READING));
                    self.process.close_stdin();
                });
            }
            if let Some(over) = &over {
                scope.spawn(|| {
                    let mut fds = [
                        PollFd::new(cancel, PollFlags::IN),
                        PollFd::new(over, PollFlags::IN),
                    ];
                    while poll(&mut fds, None) == Err(rustix::io::Errno::INTR) {}
                    if !fds[0].revents().is_empty() {
                        // A process that has ended by now needs no signal.
                        let _ = self.process.kill_group();
                    }
                });
            }
            let events = self.process.subscribe();
            // Output from before the subscription.
            let OutputSoFar { stdout, stderr } = events.so_far();
            for (bytes, is_stdout) in [(stdout.bytes(), true), (stderr.bytes(), false)] {
                if bytes.is_empty() {
                    continue;
                }
                watch.event(if is_stdout {
                    RunEvent::Stdout(&bytes)
                } else {
                    RunEvent::Stderr(&bytes)
                });
            }
            for event in events {
                match event {
                    OutputEvent::Stdout(bytes) => watch.event(RunEvent::Stdout(&bytes)),
                    OutputEvent::Stderr(bytes) => watch.event(RunEvent::Stderr(&bytes)),
                    OutputEvent::Skipped { .. } => {}
                    // Its background processes may continue to write; the command is over.
                    OutputEvent::Ended(_) => break,
                }
            }
            if let Some(over) = &over {
                // It fails only after 2^64 calls.
                let _ = rustix::io::write(over, &1_u64.to_ne_bytes());
            }
        });
    }

    /// Waits for its end and writes the run down.
    pub fn finish(mut self) -> FinishedRun {
        let outcome = self
            .outcome
            .take()
            .expect("only this and the drop behind it take it");
        self.write_down(outcome)
    }

    fn write_down(&self, outcome: RunOutcome) -> FinishedRun {
        let mut core = RunCore::new(&self.sandbox.vault, outcome);
        let ended = self.process.wait(None);
        let error = self.record(&mut core, ended).err();
        FinishedRun {
            request: self.request.clone(),
            outcome: core.outcome,
            error,
            after: core.after,
        }
    }

    fn record(&self, core: &mut RunCore<'_>, ended: Option<ProcessEnd>) -> Result<(), RunError> {
        let sandbox = self.sandbox;
        if let Some(ended) = ended {
            core.outcome.process = Some(sandbox.outcome_of(&self.process, ended));
        }
        let detail = format!("{} {}", core.outcome.run, shown(&self.spec));
        let after = {
            let workspace = sandbox.workspace();
            let workspace = workspace.as_ref().ok_or_else(|| over(&sandbox.vault))?;
            workspace.save(EXEC, &detail)?
        };
        core.outcome.after = Some(after);
        let rules = sandbox.rules.as_ref();
        core.outcome.changed_files = changed_files(&sandbox.vault, self.before.snapshot, after, rules)?;
        core.record(&self.spec, &self.decision, self.before)?;
        core.check_server()
    }
}

impl Drop for StartedRun<'_> {
    /// A run that is dropped without waiting is still ended and recorded.
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome.take() {
            let _ = self.process.kill_group();
            drop(self.write_down(outcome));
        }
    }
}

impl OpenSandbox {
    fn outcome_of(&self, process: &SandboxProcess, ended: ProcessEnd) -> ProcessOutcome {
        let output = process.output();
        let processes = self.processes.as_ref();
        ProcessOutcome {
            end: ended.end,
            stopped: ended.stopped,
            stdout: output.stdout,
            stderr: output.stderr,
            duration: ended.duration,
            usage: processes.map(ProcessSandbox::usage).unwrap_or_default(),
            limits_by: processes.map_or(avfs_exec::limits::LimitsBy::Rlimits, ProcessSandbox::limits_by),
            limits_hit: processes.map(ProcessSandbox::limits_hit).unwrap_or_default(),
            refusals: processes.map(ProcessSandbox::take_refusals).unwrap_or_default(),
        }
    }
}

fn process_of(spec: &RunSpec, cwd: &Path, streams: Option<Streams>) -> ProcessSpec {
    ProcessSpec {
        env: spec.env.clone(),
        cwd: Some(cwd.to_owned()),
        input: match streams {
            None => ProcessInput::Nothing,
            Some(Streams::Pipes) => ProcessInput::Pipe,
            Some(Streams::Terminal(size)) => ProcessInput::Terminal(size),
        },
        timeout: spec.limits.timeout,
        output_bytes: Some(spec.limits.output_bytes),
        ..ProcessSpec::new(spec.words())
    }
}

fn over(vault: &Vault) -> RunError {
    let id = vault.name().map(|name| name.to_string()).unwrap_or_default();
    RunError::Library(Error::Session(crate::error::SessionError::Unknown { id }))
}

/// How a command ended that is not a program, or why that is unknown.
fn not_started(error: SpawnError) -> std::result::Result<CommandEnd, RunError> {
    match error {
        SpawnError::NotFound { .. } => Ok(CommandEnd::NotStarted {
            errno: rustix::io::Errno::NOENT.raw_os_error(),
        }),
        SpawnError::NotExecutable { source, .. } => Ok(CommandEnd::NotStarted {
            errno: source
                .raw_os_error()
                .unwrap_or(rustix::io::Errno::ACCESS.raw_os_error()),
        }),
        SpawnError::NoDirectory { path, .. } => Err(RunError::Launch(LaunchError::NoDirectory { path })),
        other => {
            let source = std::io::Error::other(avfs_core::with_causes(&other));
            Err(RunError::Launch(LaunchError::system("starting the command")(
                source,
            )))
        }
    }
}
