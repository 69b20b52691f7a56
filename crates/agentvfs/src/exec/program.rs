//! A program that a person runs in a task: with a terminal, at the project's own path, and for as long as it takes.
//!
//! What a person types is the person's own and is not classified. The sandbox is the same as for every run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::SnapshotId;
use avfs_core::rules::{Rule, Rules};
use avfs_exec::launch::{End, Run, Stop};
use avfs_exec::limits::{Limit, LimitsBy};
use avfs_exec::network::{Published, Upstream};
use avfs_exec::plan::{Link, OwnPaths, Toolchain, User, environment};
use avfs_exec::{Cancel, Capabilities, Event, LaunchError, Launcher, Limits, Network, Outcome, Plan, Stdin};

use super::door::behind_door;
use super::git_monitor::GitMonitor;
use super::home::{HomeShare, HomeView, Places};
use super::job::bubblewrap;
use super::places::{RUNS, RunDirectory};
use super::prompt::name_in_prompt;
use super::workspace::Workspace;
use super::{
    COMMAND_SHOWN, ErrorBody, GrantedBody, IsolationChoice, RefusalBody, Running, mount_options_for, run_id,
};
use crate::error::{Error, Result};
use crate::git::outside_directory;
use crate::mount::{Report, Transport};
use crate::task::Task;
use crate::task_run::{RunStreams, SupervisedRun};

/// The action in the history and the audit log.
const RUN: &str = "run";

/// What is run in a task, and how.
#[derive(Clone, Debug)]
pub struct Program {
    pub command: Vec<OsString>,
    /// Where it starts: a path of the host, in the project.
    pub cwd: PathBuf,
    /// What is added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// The environment of whoever asks; only what says how to talk to people is taken from it.
    pub caller_env: Vec<(OsString, OsString)>,
    /// Directories with programs, which are shown read-only.
    pub toolchains: Vec<Toolchain>,
    pub network: Network,
    /// Ports inside that this machine reaches while it runs.
    pub published: Vec<Published>,
    pub limits: Limits,
    /// Through which rules the task is seen.
    pub rules: Option<Vec<Rule>>,
    pub user: User,
    /// What is shared of the user's home; `None`: nothing, and the home inside is another one.
    pub home: Option<HomeShare>,
    pub transport: Transport,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct ProgramEnd {
    pub run: String,
    /// What a shell would show.
    pub status: i32,
    /// Whether there was such a program, and it was one.
    pub started: bool,
    /// The hash at the end of the audit log.
    pub audit_head: String,
    pub before: SnapshotId,
    pub after: SnapshotId,
    /// What the proxy did not let through.
    pub refusals: Vec<RefusalBody>,
    /// Files below the home that it changed for itself alone: its copies of them are gone.
    pub dropped: Vec<PathBuf>,
    /// Why it was ended before its time.
    pub stopped: Option<Stop>,
    /// The limits that it came up against.
    pub limits_hit: Vec<Limit>,
    /// What held them. Limits of each process alone do not tell when they are met.
    pub limits_by: LimitsBy,
}

/// Why it has no ordinary end.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    #[error(transparent)]
    Library(#[from] Error),
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl ProgramError {
    /// Its code, what is wrong and what can be done, as in the envelope of a run.
    pub fn body(&self) -> ErrorBody {
        match self {
            ProgramError::Library(error) => error.into(),
            ProgramError::Launch(error) => error.into(),
        }
    }
}

impl Program {
    /// What the person who runs it gives it, for the audit log.
    fn noted(&self, isolation: &str) -> String {
        let granted = Capabilities {
            write: true,
            network: self.network.clone(),
            published: self.published.iter().map(Published::asked).collect(),
        };
        GrantedBody::from(&granted).noted(isolation, self.rules.as_deref())
    }
}

impl Task {
    /// Begins a run of a program: others can look at it from now on. `cancel` is what will end it.
    pub fn begin_run(
        &self,
        program: &Program,
        streams: RunStreams,
        cancel: &Cancel,
    ) -> Result<SupervisedRun> {
        self.supervise(&run_id(), shown(&program.command), streams, cancel)
    }

    /// Runs a program to its end, supervised.
    pub(crate) fn execute(
        &self,
        program: &Program,
        run: &SupervisedRun,
        stdin: Stdin,
        running: Running<'_>,
    ) -> Result<ProgramEnd, ProgramError> {
        let vault = self.vault();
        let id = run.id();
        let directory = RunDirectory::make(vault.store(), RUNS, id)?;
        let link = self.repository_link(program);
        let home = self.home(program, link.as_ref(), directory.place(), &running.report)?;
        let options = mount_options_for(program.rules.clone(), program.transport);
        let workspace = Workspace::mount(vault, directory, &options, &running.report)?;
        let before = workspace.settle()?;
        let seq = vault.record()?.0.seq;
        let mut plan = self.plan(program, &workspace, home.as_ref(), link);
        if let Stdin::Terminal(_) = stdin {
            name_in_prompt(&mut plan);
        }
        let (inside, cancel, events) = (running.inside, running.cancel, running.events);
        let outlets = running.outlets;
        let mut events = |event: Event<'_>| {
            if let Event::Stdout(bytes) | Event::Stderr(bytes) = event {
                run.printed(bytes);
            }
            events(event);
        };
        let rules = program.rules.clone().map(Rules::new).transpose().map_err(Error::from)?;
        let monitor = GitMonitor::of(self, &workspace, running.door, rules, before);
        let door = monitor.as_ref().map_or(running.door, |monitor| Some(monitor));
        if let Some(monitor) = &monitor {
            monitor.set_up(&mut plan);
        }
        let launch = || {
            behind_door(door, &workspace.door_place(), plan, |plan| {
                bubblewrap(vault, inside)
                    .launch(Run { outlets, ..Run::new(plan, stdin, cancel, &mut events) })
            })
        };
        let launched = match &monitor {
            Some(monitor) => monitor.during(launch),
            None => launch(),
        };
        drop(monitor);
        let dropped = home.as_ref().map(HomeView::changed_copies).unwrap_or_default();
        drop(home);
        let line = shown(&program.command);
        let after = workspace.end(RUN, &format!("{id} {line}"), running.lingering)?;
        let outcome = launched.inspect_err(|_| {
            drop(vault.update(
                RUN,
                &format!("{id} not run [{}]: {line}", program.noted(IsolationChoice::Bubblewrap.as_str())),
                |_, _| Ok(()),
            ))
        })?;
        let status = outcome.status();
        let audit_head = self.note(
            seq,
            &format!("{id} exit {status} [{}]: {line}", program.noted(&outcome.isolation.to_string())),
        )?;
        let refusals = refusals(&outcome);
        Ok(ProgramEnd {
            run: id.to_owned(),
            status,
            started: !matches!(outcome.end, End::NotStarted { .. }),
            audit_head,
            before,
            after,
            refusals,
            dropped,
            stopped: outcome.stopped,
            limits_hit: outcome.limits_hit,
            limits_by: outcome.limits_by,
        })
    }

    /// Where the host has the repository of the project, if that is outside of the project: it leads to the one that
    /// the task has instead.
    fn repository_link(&self, program: &Program) -> Option<Link> {
        let at = outside_directory(self.root())?;
        let toolchains = program.toolchains.iter().map(|one| &*one.at);
        let shown: Vec<&Path> = toolchains.chain([self.root()]).collect();
        Link::fits(&at, &shown).then(|| Link { at, to: self.root().join(".git") })
    }

    /// The user's home, with places for what is shown in it.
    fn home(
        &self,
        program: &Program,
        link: Option<&Link>,
        place: &Path,
        report: &Report,
    ) -> Result<Option<HomeView>> {
        let Some(share) = &program.home else { return Ok(None) };
        let shown = program.toolchains.iter().map(|one| (one.at.as_path(), one.from.is_dir()));
        let covered: Vec<(&Path, bool)> = shown.chain([(self.root(), true)]).collect();
        let places = Places { covered: &covered, link, write: true };
        HomeView::mount(self.vault(), place, share, &places, program.transport, report).map(Some)
    }

    fn plan(
        &self,
        program: &Program,
        workspace: &Workspace,
        view: Option<&HomeView>,
        link: Option<Link>,
    ) -> Plan {
        let home = view.map(HomeView::shown).unwrap_or_default();
        let mut given = vec![("HOME".into(), home.at.clone().into())];
        given.extend(["USER", "LOGNAME"].map(|name| (name.into(), program.user.name.as_str().into())));
        given.push(("AVFS_VAULT".into(), self.vault_name().as_str().into()));
        given.push(("AVFS_TASK".into(), self.name().as_str().into()));
        // What a person runs is not classified: git may note what it has looked at.
        given.push(("GIT_OPTIONAL_LOCKS".into(), "1".into()));
        given.extend(program.env.iter().cloned());
        // In a home that is shown, it is there already.
        let is_apart = |link: &Link| home.shows.is_none() || Link::fits(&link.at, &[&home.at]);
        let project = Some(self.root());
        let alone = OwnPaths { project, ..OwnPaths::default() };
        let own = view.map_or(alone, |view| view.own_paths(project));
        Plan {
            also_at: Some(self.root().to_owned()),
            links: link.filter(is_apart).into_iter().collect(),
            cwd: program.cwd.clone(),
            env: environment(&program.caller_env, &program.toolchains, own, &given),
            network: program.network.clone(),
            upstream: Upstream::from_environment(&program.caller_env).0,
            published: program.published.clone(),
            limits: program.limits.clone(),
            toolchains: program.toolchains.clone(),
            user: program.user.clone(),
            home,
            ..Plan::new(workspace.mountpoint(), program.command.clone())
        }
    }

    /// One entry of the audit log, and one step for `undo`. Returns the hash at its end.
    fn note(&self, seq: u64, detail: &str) -> Result<String> {
        let vault = self.vault();
        match vault.record()?.0.seq > seq + 1 {
            true => vault.note_together(RUN, detail, seq)?,
            false => vault.update(RUN, detail, |_, _| Ok(()))?,
        }
        Ok(vault.record()?.0.audit.hash)
    }
}

fn refusals(outcome: &Outcome) -> Vec<RefusalBody> {
    outcome.refusals.iter().map(RefusalBody::from).collect()
}

/// The command as one short line.
fn shown(command: &[OsString]) -> String {
    let words: Vec<String> = command.iter().map(|word| avfs_core::printable(word.as_bytes())).collect();
    let line = words.join(" ");
    match line.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
