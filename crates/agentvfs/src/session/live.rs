//! The shell of a session and its vault, and one command after another.

mod apart;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use avfs_core::SnapshotId;
use avfs_core::rules::{Rule, Rules};
use avfs_exec::classify::{Command, classify};
use avfs_exec::launch::Inside;
use avfs_exec::policy::{Action, Decision, Policy};
use avfs_exec::session::{Answer, Directory, Shell, Turn, TurnEnd};
use avfs_exec::{Bubblewrap, Capabilities, Event};

use super::{SessionCommand, SessionError};
use crate::error::{Error, Result};
use crate::exec::changes::changed_files;
use crate::exec::places::{RunDirectory, TALK};
use crate::exec::workspace::Workspace;
use crate::exec::{
    EXEC, Envelope, ErrorBody, ExecRequest, Failed, GrantedBody, HomeView, InnerDoor, Lingering, Permit,
    RequestBody, RunResult, Staffed, mount_options, run_id, show_door, shown,
};
use crate::mount::Report;
use crate::vault::Vault;

/// How long bash may take to read a line.
const READING: Duration = Duration::from_secs(10);

/// What bash ends with when it cannot read a line.
const UNREAD: i32 = 2;

/// A session that has not ended.
pub(super) struct Live {
    id: String,
    vault: Vault,
    request: ExecRequest,
    /// What the session has, and with it every command.
    granted: Capabilities,
    rules: Option<Rules>,
    cwd: PathBuf,
    isolation: String,
    inside: Inside,
    report: Report,
    /// The environment that the shell was started with.
    start: Vec<(OsString, OsString)>,
    shell: Shell,
    door: Option<Staffed>,
    home: Option<HomeView>,
    workspace: Workspace,
    /// The state after the last command.
    last: SnapshotId,
}

impl Live {
    pub fn start(
        id: &str,
        vault: &Vault,
        request: ExecRequest,
        granted: Capabilities,
        directory: RunDirectory,
        (inside, door): (Inside, Option<Arc<dyn InnerDoor + Send>>),
        report: &Report,
    ) -> Result<Live, SessionError> {
        let request = request.placed(vault.own_path()?);
        let rules = request.rules.clone().map(Rules::new).transpose().map_err(Error::from)?;
        let home = vault.home_view(&request, granted.write, directory.place(), report)?;
        let talk = directory.place().join(TALK);
        let options = mount_options(&request, !granted.write);
        let workspace = Workspace::mount(vault, directory, &options, report)?;
        // A session without a door lacks only that.
        let door = door.and_then(|door| Staffed::open(&workspace.door_place(), door).ok());
        let place = (&workspace, home.as_ref());
        let started = start_shell(vault, &request, &granted, place, talk, inside.clone(), door.is_some());
        let Started { shell, isolation, env: start, last } = match started {
            Ok(started) => started,
            Err(error) => {
                drop(door);
                drop(home);
                workspace.end(EXEC, id, &mut Lingering::default())?;
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
            workspace,
            last,
        })
    }

    pub fn shell(&self) -> &Shell {
        &self.shell
    }

    /// Runs a command. The answer says whether it was the last one.
    pub fn exec(
        &mut self,
        command: SessionCommand,
        caller: &UnixStream,
        events: &mut dyn FnMut(Event<'_>),
    ) -> Envelope {
        let mut request = self.request_of(command);
        let cwd = self.shell.cwd().unwrap_or_else(|| self.cwd.clone());
        let name = self.vault.name().map(|name| name.to_string()).unwrap_or_default();
        let body = RequestBody::of(&request, name.clone(), &cwd);
        let mut result = RunResult {
            run: run_id(),
            session: Some(self.id.clone()),
            session_ended: Some(false),
            vault: name,
            ..RunResult::default()
        };
        let found = classify(&request.command);
        // The policy that is stored now decides, whatever was when the session began.
        match self.vault.with_policy(&request) {
            Ok(decided) => request = decided.into_owned(),
            Err(error) => return Envelope::new(body, Some(result), Some((&error).into())),
        }
        let policy = request.policy.clone().unwrap_or_else(Policy::built_in);
        // Without what was answered for always: an answer holds for what the person saw as well.
        let decision = policy.decide_within(&found, &self.granted, true);
        let is_asked = !matches!(decision.action, Action::Allow | Action::AllowWithCheckpoint);
        if is_asked && self.is_unread(&request, &decision, caller, events, &mut result) {
            return Envelope::new(body, Some(result), None);
        }
        if is_asked {
            self.fix_values(&mut request);
        }
        let permit = self.vault.permit_at_once(&request, &cwd, &found, &self.granted, &mut result);
        let done = permit.and_then(|permit| match is_asked {
            true => self.run_apart(&request, &permit, &cwd, caller, events, &mut result),
            false => self.run(&request, &permit, caller, events, &mut result),
        });
        Envelope::new(body, Some(result), done.err().map(|failed| failed.body()))
    }

    /// For the audit log: what the session has.
    pub fn noted(&self, rules: Option<&[Rule]>) -> String {
        GrantedBody::from(&self.granted).noted(&self.isolation, rules)
    }

    /// The answer to somebody for whom there is no room now.
    pub fn busy(id: &str, request: &ExecRequest, command: SessionCommand, vault: &Vault) -> Envelope {
        let request = ExecRequest { command: command.command, ..request.clone() };
        let name = vault.name().map(|name| name.to_string()).unwrap_or_default();
        let cwd = request.placed(vault.own_path().unwrap_or_default()).working_directory();
        let body = RequestBody::of(&request, name.clone(), &cwd);
        let result = RunResult {
            run: run_id(),
            session: Some(id.to_owned()),
            session_ended: Some(false),
            vault: name,
            ..RunResult::default()
        };
        let error = ErrorBody {
            code: "session_busy".to_owned(),
            message: format!("session '{id}' is running another command"),
            hint: Some("--wait waits for its end".to_owned()),
        };
        Envelope::new(body, Some(result), Some(error))
    }

    /// Whether a command that would not run by itself is one that bash cannot read anyway. Then nobody is asked about it:
    /// what bash says is the answer, and nothing was run.
    fn is_unread(
        &mut self,
        request: &ExecRequest,
        decision: &Decision,
        caller: &UnixStream,
        events: &mut dyn FnMut(Event<'_>),
        result: &mut RunResult,
    ) -> bool {
        let Command::Shell(line) = &request.command else { return false };
        let turn = Turn {
            // Turned round, so that `set -e` does not care.
            text: b"! \\builtin command /bin/bash -n",
            stdin: Some(line.as_bytes()),
            timeout: Some(READING),
            output_bytes: request.limits.output_bytes,
            caller: Some(caller.as_fd()),
        };
        let answer = self.shell.aside(turn, events);
        let is_unread =
            |answer: &Answer| matches!(answer.end, TurnEnd::Status(0)) && answer.stopped.is_none();
        let Some(answer) = answer.ok().filter(is_unread) else { return false };
        result.take_turn(&answer);
        result.exit_code = Some(UNREAD);
        result.audit_head = self.vault.note_refusal(request, result, decision).ok();
        result.decision = Some(decision.clone());
        true
    }

    fn request_of(&self, command: SessionCommand) -> ExecRequest {
        let mut request =
            ExecRequest { command: command.command, stdin: command.stdin, ..self.request.clone() };
        // What is allowed here is allowed here alone: the shell of another session may mean other programs by it.
        request.session = Some(self.id.clone());
        request.limits.timeout = command.timeout.or(request.limits.timeout);
        request
    }

    fn run(
        &mut self,
        request: &ExecRequest,
        permit: &Permit,
        caller: &UnixStream,
        events: &mut dyn FnMut(Event<'_>),
        result: &mut RunResult,
    ) -> Result<(), Failed> {
        let (before, seq) = self.begin(request, permit, result)?;
        let text = text_of(&request.command);
        let turn = Turn {
            text: &text,
            stdin: request.stdin.as_deref(),
            timeout: request.limits.timeout,
            output_bytes: request.limits.output_bytes,
            caller: Some(caller.as_fd()),
        };
        let answer = self.shell.run(turn, events);
        if answer.is_err() {
            result.session_ended = Some(true);
        }
        let answer = answer.map_err(Failed::Launch)?;
        note_end(result, &answer);
        self.finish(request, permit, (before, seq), result)
    }

    /// What comes before a command.
    fn begin(
        &mut self,
        request: &ExecRequest,
        permit: &Permit,
        result: &mut RunResult,
    ) -> Result<(SnapshotId, u64), Failed> {
        let (before, seq) = self.vault.prepare(request, permit, &self.workspace, result)?;
        let background = changed_files(&self.vault, self.last, before, self.rules.as_ref())?;
        result.background_changed_files = Some(background);
        result.mountpoint = Some(request.place_shown());
        result.isolation = Some(self.isolation.clone());
        result.granted = Some((&self.granted).into());
        Ok((before, seq))
    }

    /// What comes after a command, however it ended.
    fn finish(
        &mut self,
        request: &ExecRequest,
        permit: &Permit,
        (before, seq): (SnapshotId, u64),
        result: &mut RunResult,
    ) -> Result<(), Failed> {
        let detail = format!("{} {}", result.run, shown(request));
        let after = self.workspace.save(EXEC, &detail)?;
        self.last = after;
        result.snapshot_after = Some(after.to_string());
        result.changed_files = changed_files(&self.vault, before, after, self.rules.as_ref())?;
        self.vault.note_run(request, result, &permit.decision, seq)
    }

    /// Ends the shell and everything in its sandbox, and unmounts the vault. Others may still need this process for it.
    pub fn end(self) -> Result<Lingering> {
        // How it ended is of no interest any more; that it did is certain.
        drop(self.shell.end());
        drop(self.door);
        drop(self.home);
        let mut lingering = Lingering::default();
        self.workspace.end(EXEC, &self.id, &mut lingering)?;
        Ok(lingering)
    }
}

fn note_end(result: &mut RunResult, answer: &Answer) {
    if let TurnEnd::Over(outcome) = &answer.end {
        result.take(outcome);
        result.session_ended = Some(true);
    }
    result.take_turn(answer);
}

/// A shell that was started.
struct Started {
    shell: Shell,
    isolation: String,
    env: Vec<(OsString, OsString)>,
    last: SnapshotId,
}

fn start_shell(
    vault: &Vault,
    request: &ExecRequest,
    granted: &Capabilities,
    (workspace, home): (&Workspace, Option<&HomeView>),
    talk: PathBuf,
    inside: Inside,
    has_door: bool,
) -> Result<Started, SessionError> {
    let bubblewrap = Bubblewrap::new(inside);
    let version = bubblewrap.version()?.to_owned();
    let before = workspace.settle()?;
    let cwd = request.working_directory();
    let plan = vault.plan(request, &workspace.mountpoint(), &cwd, granted, before, home);
    let mut plan = plan.map_err(|failed| match failed {
        Failed::Library(error) => SessionError::Library(error),
        Failed::Launch(error) => SessionError::Launch(error),
        Failed::PermitGone => SessionError::Library(Error::Contended { key: "approval".into() }),
        Failed::Refused(refusal) => SessionError::Library(Error::BadRequest { reason: refusal.message }),
    })?;
    if has_door {
        show_door(&mut plan, &workspace.door_place());
    }
    let made = Directory::make(&talk);
    let directory =
        made.map_err(|source| Error::Host { action: "making", place: talk.display().to_string(), source })?;
    let env = plan.env.clone();
    let shell = Shell::start(bubblewrap, plan, directory)?;
    Ok(Started { shell, isolation: format!("bubblewrap {version}"), env, last: before })
}

/// What bash is to read. Words are quoted, each of them: none is an alias, a pattern or a name of a variable.
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
        let words = ["echo", "it's", "$HOME", "a b", "", "*", "\n"].map(OsString::from).to_vec();
        let text = text_of(&Command::Argv(words));
        assert_eq!(String::from_utf8(text).unwrap(), "'echo' 'it'\\''s' '$HOME' 'a b' '' '*' '\n'");
        assert_eq!(text_of(&Command::Shell("a | b".into())), b"a | b");
    }
}
