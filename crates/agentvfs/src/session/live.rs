//! The shell of a session and its vault, and one command after another.

mod apart;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use avfs_core::SnapshotId;
use avfs_core::rules::{Rule, Rules};
use avfs_exec::classify::{Command, classify};
use avfs_exec::launch::{CommandEnd, InnerProgram};
use avfs_exec::policy::{Policy, PolicyAction, PolicyDecision};
use avfs_exec::session::{PipeDirectory, Shell, ShellTurn, TurnAnswer, TurnEnd};
use avfs_exec::{Capabilities, RunEvent};

use super::{SessionCommand, SessionStartError};
use crate::error::{Error, Hint, Result};
use crate::exec::changes::changed_files;
use crate::exec::core::{RunCore, StateBefore};
use crate::exec::workspace::MountedVault;
use crate::exec::{
    AfterRun, DoorScope, EXEC, FinishedRun, GrantedBody, HomeView, ImageRoot, InnerDoor, Permit,
    ProcessOutcome, Refused, RequestBody, RunError, RunOutcome, RunSpec, ServedDoor, mount_options, run_id,
    sandbox_builder, show_door, shown,
};
use crate::mount::Report;
use crate::run_directory::{RunDirectory, TALK};
use crate::vault::Vault;

/// How long bash may take to read a line.
const READING: Duration = Duration::from_secs(10);

/// The status of bash when it cannot parse a line.
const UNREAD: i32 = 2;

/// A session that has not ended.
pub(super) struct Live {
    id: String,
    vault: Vault,
    request: RunSpec,
    /// The grants of the session, and of every command.
    granted: Capabilities,
    rules: Option<Rules>,
    cwd: PathBuf,
    isolation: String,
    inside: InnerProgram,
    report: Report,
    /// The environment that the shell was started with.
    start: Vec<(OsString, OsString)>,
    shell: Shell,
    door: Option<ServedDoor>,
    home: Option<HomeView>,
    root: Option<ImageRoot>,
    workspace: MountedVault,
    /// The state after the last command.
    last: SnapshotId,
}

impl Live {
    pub(super) fn start(
        id: &str,
        vault: &Vault,
        request: RunSpec,
        granted: Capabilities,
        directory: RunDirectory,
        (inside, door): (InnerProgram, Option<Arc<dyn InnerDoor + Send>>),
        report: &Report,
    ) -> Result<Live, SessionStartError> {
        let request = request.placed(vault.own_path()?);
        let rules = request
            .rules
            .clone()
            .map(Rules::shared)
            .transpose()
            .map_err(Error::from)?;
        let home = vault
            .runs()
            .home_view(&request, granted.write, directory.place(), report)?;
        let root = vault
            .image()
            .mount_root(&request, granted.write, id, &inside, report)?;
        let talk = directory.place().join(TALK);
        let options = mount_options(&request, !granted.write);
        let workspace = MountedVault::mount(vault, directory, &options, report)?;
        // A session without a door lacks only that.
        let door = door.and_then(|door| {
            let scope = DoorScope::of(&request, &granted).ok()?;
            ServedDoor::open(&workspace.door_place(), door, scope).ok()
        });
        let place = (&workspace, home.as_ref(), root.as_ref());
        let started = start_shell(
            vault,
            &request,
            &granted,
            place,
            talk,
            inside.clone(),
            door.is_some(),
        );
        let StartedShell {
            shell,
            isolation,
            env: start,
            last,
        } = match started {
            Ok(started) => started,
            Err(error) => {
                drop(door);
                drop(home);
                let mut lingering = AfterRun::default();
                let root_ended = root.map(|root| root.end(id, &mut lingering)).transpose();
                workspace.end(EXEC, id, &mut lingering)?;
                root_ended?;
                return Err(error);
            }
        };
        let cwd = request.working_directory();
        let (id, vault) = (id.to_owned(), vault.clone());
        Ok(Live {
            id,
            vault,
            request,
            granted,
            rules,
            cwd,
            isolation,
            inside,
            report: report.clone(),
            start,
            shell,
            door,
            home,
            root,
            workspace,
            last,
        })
    }

    pub(super) fn shell(&self) -> &Shell {
        &self.shell
    }

    /// Runs a command. The answer states whether it was the last one.
    pub(super) fn exec(
        &mut self,
        command: SessionCommand,
        caller: &UnixStream,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> FinishedRun {
        let spec = self.spec_of(command);
        // Asked of the shell, because earlier commands may have changed it.
        let cwd = self.shell.cwd().unwrap_or_else(|| self.cwd.clone());
        let vault = self.vault.clone();
        let name = vault.name().map(|name| name.to_string()).unwrap_or_default();
        let request = RequestBody::of(&spec, name.clone(), &cwd);
        let mut core = RunCore::new(&vault, RunOutcome::new(run_id(), name).in_session(&self.id));
        let done = self.decide_and_run(&mut core, spec, &cwd, caller, events);
        FinishedRun {
            request,
            outcome: core.outcome,
            error: done.err(),
            after: core.after,
        }
    }

    fn decide_and_run(
        &mut self,
        core: &mut RunCore<'_>,
        spec: RunSpec,
        cwd: &Path,
        caller: &UnixStream,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), RunError> {
        let found = classify(&spec.command);
        // The policy that is stored now decides, whatever was when the session began.
        let mut spec = core.vault.policy().apply_to(&spec)?.into_owned();
        let policy = spec.policy.clone().unwrap_or_else(Policy::built_in);
        // Without permanent answers: each is valid only for what the person saw as well.
        let decision = policy.decide_within(&found, &self.granted, true);
        let is_asked = !matches!(
            decision.action,
            PolicyAction::Allow | PolicyAction::AllowWithCheckpoint
        );
        if is_asked && self.is_unread(core, &spec, &decision, caller, events) {
            return Ok(());
        }
        // The request gets the shell's values now, so that what is approved is what runs.
        if is_asked {
            self.fix_values(&mut spec);
        }
        let permit = core.permit_at_once(&spec, cwd, &found, &self.granted)?;
        if is_asked {
            self.run_apart(core, &spec, &permit, cwd, caller, events)
        } else {
            self.run(core, &spec, &permit, caller, events)
        }
    }

    /// The grants of the session, for the audit log.
    pub(super) fn noted(&self, rules: Option<&[Rule]>) -> String {
        GrantedBody::from(&self.granted).noted(&self.isolation, rules)
    }

    /// The answer to a client for which there is no room now.
    pub(super) fn busy(id: &str, request: &RunSpec, command: SessionCommand, vault: &Vault) -> FinishedRun {
        let spec = RunSpec {
            command: command.command,
            ..request.clone()
        };
        let name = vault.name().map(|name| name.to_string()).unwrap_or_default();
        let cwd = spec
            .placed(vault.own_path().unwrap_or_default())
            .working_directory();
        FinishedRun {
            request: RequestBody::of(&spec, name.clone(), &cwd),
            outcome: RunOutcome::new(run_id(), name).in_session(id),
            error: Some(RunError::Refused(Refused {
                code: "session_busy",
                message: format!("session '{id}' is running another command"),
                hint: Some(Hint::WaitForSession),
            })),
            after: AfterRun::default(),
        }
    }

    /// Whether a command that needs approval cannot be parsed by bash anyway. Then no approval is requested:
    /// bash's message is the answer, and nothing was run.
    fn is_unread(
        &mut self,
        core: &mut RunCore<'_>,
        request: &RunSpec,
        decision: &PolicyDecision,
        caller: &UnixStream,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> bool {
        let Command::Shell(line) = &request.command else {
            return false;
        };
        let turn = ShellTurn {
            // Turned round, so that `set -e` does not care.
            text: b"! \\builtin command /bin/bash -n",
            stdin: Some(line.as_bytes()),
            timeout: Some(READING),
            output_bytes: request.limits.output_bytes,
            caller: Some(caller.as_fd()),
        };
        let answer = self.shell.aside(turn, events);
        let is_unread =
            |answer: &TurnAnswer| matches!(answer.end, TurnEnd::Status(0)) && answer.stopped.is_none();
        let Some(answer) = answer.ok().filter(is_unread) else {
            return false;
        };
        core.outcome.process = Some(ProcessOutcome {
            end: CommandEnd::Exited(UNREAD),
            ..ProcessOutcome::of_turn(answer)
        });
        core.record_refusal(request, decision);
        core.outcome.decision = Some(decision.clone());
        true
    }

    fn spec_of(&self, command: SessionCommand) -> RunSpec {
        let mut request = RunSpec {
            command: command.command,
            stdin: command.stdin,
            ..self.request.clone()
        };
        // A permission here is valid only here: in the shell of another session the same words may mean other
        // programs.
        request.session = Some(self.id.clone());
        request.limits.timeout = command.timeout.or(request.limits.timeout);
        request
    }

    fn run(
        &mut self,
        core: &mut RunCore<'_>,
        request: &RunSpec,
        permit: &Permit,
        caller: &UnixStream,
        events: &mut dyn FnMut(RunEvent<'_>),
    ) -> Result<(), RunError> {
        let before = self.begin(core, request, permit)?;
        let text = text_of(&request.command);
        let turn = ShellTurn {
            text: &text,
            stdin: request.stdin.as_deref(),
            timeout: request.limits.timeout,
            output_bytes: request.limits.output_bytes,
            caller: Some(caller.as_fd()),
        };
        let answer = self.shell.run(turn, events);
        // An error counts as an end as well: the state of the shell is unknown then.
        let is_over = !matches!(&answer, Ok(answer) if matches!(answer.end, TurnEnd::Status(_)));
        core.outcome
            .turn
            .iter_mut()
            .for_each(|turn| turn.is_over = is_over);
        let answer = answer?;
        if let TurnEnd::Over(outcome) = &answer.end {
            core.outcome.isolation = Some(outcome.isolation.to_string());
        }
        core.outcome.process = Some(ProcessOutcome::of_turn(answer));
        self.finish(core, request, permit, before)
    }

    /// The steps before a command.
    fn begin(
        &mut self,
        core: &mut RunCore<'_>,
        request: &RunSpec,
        permit: &Permit,
    ) -> Result<StateBefore, RunError> {
        let before = core.prepare(request, permit, &self.workspace)?;
        let background = changed_files(&self.vault, self.last, before.snapshot, self.rules.as_ref())?;
        let outcome = &mut core.outcome;
        outcome
            .turn
            .iter_mut()
            .for_each(|turn| turn.background = Some(background.clone()));
        outcome.place = Some(request.place_shown());
        outcome.isolation = Some(self.isolation.clone());
        outcome.granted = Some(self.granted.clone());
        Ok(before)
    }

    /// The steps after a command, however it ended.
    fn finish(
        &mut self,
        core: &mut RunCore<'_>,
        request: &RunSpec,
        permit: &Permit,
        before: StateBefore,
    ) -> Result<(), RunError> {
        let detail = format!("{} {}", core.outcome.run, shown(request));
        let after = self.workspace.save(EXEC, &detail)?;
        self.last = after;
        core.outcome.after = Some(after);
        core.outcome.changed_files = changed_files(&self.vault, before.snapshot, after, self.rules.as_ref())?;
        core.record(request, &permit.decision, before)?;
        core.check_server()
    }

    /// Ends the shell and everything in its sandbox, and unmounts the vault. Others may still need this process for it.
    pub(super) fn end(self) -> Result<AfterRun> {
        // How it ended is irrelevant; that it did is certain.
        drop(self.shell.end());
        // Before the vault is unmounted: a request in progress may still use it.
        drop(self.door);
        drop(self.home);
        let mut lingering = AfterRun::default();
        let root = self
            .root
            .map(|root| root.end(&self.id, &mut lingering))
            .transpose();
        self.workspace.end(EXEC, &self.id, &mut lingering)?;
        root?;
        Ok(lingering)
    }
}

/// A shell that was started.
struct StartedShell {
    shell: Shell,
    isolation: String,
    env: Vec<(OsString, OsString)>,
    last: SnapshotId,
}

fn start_shell(
    vault: &Vault,
    request: &RunSpec,
    granted: &Capabilities,
    (workspace, home, root): (&MountedVault, Option<&HomeView>, Option<&ImageRoot>),
    talk: PathBuf,
    inside: InnerProgram,
    has_door: bool,
) -> Result<StartedShell, SessionStartError> {
    let builder = sandbox_builder(vault, request, inside, (Some(workspace), root))?;
    let isolation = builder.isolation()?.to_string();
    // The state with which the first command is compared.
    let before = workspace.settle()?;
    let cwd = request.working_directory();
    let plan = vault.runs().plan(
        request,
        &workspace.mountpoint(),
        &cwd,
        granted,
        before,
        (home, root),
    );
    let mut plan = plan.map_err(SessionStartError::from)?;
    if has_door {
        show_door(&mut plan, &workspace.door_place());
    }
    let made = PipeDirectory::make(&talk);
    let directory = made.map_err(|source| Error::Host {
        action: "making",
        place: talk.display().to_string(),
        source,
    })?;
    let env = plan.env.clone();
    let shell = Shell::start(builder, plan, directory)?;
    Ok(StartedShell {
        shell,
        isolation,
        env,
        last: before,
    })
}

/// The text for bash. Each word is quoted: none is an alias, a pattern or a name of a variable.
fn text_of(command: &Command) -> Vec<u8> {
    match command {
        Command::Shell(line) => line.clone().into_bytes(),
        Command::Argv(words) => words.iter().map(quoted).collect::<Vec<_>>().join(&b' '),
    }
}

fn quoted(word: &OsString) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            // Within single quotes nothing can be escaped: they are closed and opened again.
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_a_shell_as_they_are() {
        let words = ["echo", "it's", "$HOME", "a b", "", "*", "\n"]
            .map(OsString::from)
            .to_vec();
        let text = text_of(&Command::Argv(words));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "'echo' 'it'\\''s' '$HOME' 'a b' '' '*' '\n'"
        );
        assert_eq!(text_of(&Command::Shell("a | b".into())), b"a | b");
    }
}
