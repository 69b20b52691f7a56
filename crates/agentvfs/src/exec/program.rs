//! A program that a person runs in a task: with a terminal, at the project's own path, and without a time
//! limit.
//!
//! Commands that a person types are not classified. The sandbox is the same as for every run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use avfs_core::rules::{Rule, Rules};
use avfs_exec::launch::LaunchRequest;
use avfs_exec::network::{PublishedPort, Upstream};
use avfs_exec::plan::{OwnPaths, SandboxLink, SandboxUser, Toolchain, environment};
use avfs_exec::{Capabilities, Launcher, Network, RunEvent, RunLimits, SandboxBuilder, SandboxPlan, Stdin};

use super::builder::bubblewrap;
use super::door::{DoorScope, behind_door};
use super::git_monitor::GitMonitor;
use super::home::{HomePlaces, HomeShare, HomeView};
use super::inner_environment::{TASK_VARIABLE, VAULT_VARIABLE};
use super::outcome::{ProgramEnd, RunError};
use super::prompt::name_in_prompt;
use super::workspace::{AfterRun, MountedVault};
use super::{COMMAND_SHOWN, GrantedBody, IsolationChoice, RunContext, mount_options_for};
use crate::error::{Error, Result};
use crate::git::outside_directory;
use crate::mount::{Report, Transport};
use crate::run_directory::{RUNS, RunDirectory};
use crate::task::Task;

/// The action in the history and the audit log.
const RUN: &str = "run";

/// A program to run in a task, with its options.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Where it starts: a path of the host, in the project.
    pub cwd: PathBuf,
    /// Variables that are added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// The caller's environment; only variables about the presentation for people are used.
    pub caller_env: Vec<(OsString, OsString)>,
    /// Directories with programs, which are shown read-only.
    pub toolchains: Vec<Toolchain>,
    /// The hosts that it reaches.
    pub network: Network,
    /// Ports inside that this machine reaches while it runs.
    pub published: Vec<PublishedPort>,
    /// The limits of its resources.
    pub limits: RunLimits,
    /// Through which rules the task is seen.
    pub rules: Option<Vec<Rule>>,
    /// Who it is inside.
    pub user: SandboxUser,
    /// The shared part of the user's home; `None`: nothing, and the home inside is a different one.
    pub home: Option<HomeShare>,
    /// How the requests of its mounts travel.
    pub transport: Transport,
}

/// A program that is over.
pub struct FinishedProgram {
    /// How it ended, or why it did not begin.
    pub ended: Result<ProgramEnd, RunError>,
    /// The work that this process must continue after the run.
    pub after: AfterRun,
}

impl Program {
    /// The grants by the person who runs it, for the audit log.
    fn noted(&self, isolation: &str) -> String {
        let granted = Capabilities {
            write: true,
            network: self.network.clone(),
            published: self.published.iter().map(PublishedPort::asked).collect(),
        };
        GrantedBody::from(&granted).noted(isolation, self.rules.as_deref())
    }
}

/// Starts a person's programs in a task, with a home and the task's repository.
#[derive(Clone, Copy)]
pub struct TaskPrograms<'a> {
    pub(crate) task: &'a Task,
}

impl TaskPrograms<'_> {
    /// Runs a program to its end. `printed` is given what it writes.
    pub(crate) fn execute(
        &self,
        program: &Program,
        (id, printed): (&str, &dyn Fn(&[u8])),
        stdin: Stdin,
        context: RunContext<'_>,
    ) -> FinishedProgram {
        let mut after = AfterRun::default();
        let ended = self.run_to_end(program, (id, printed), stdin, context, &mut after);
        FinishedProgram { ended, after }
    }

    fn run_to_end(
        &self,
        program: &Program,
        (id, printed): (&str, &dyn Fn(&[u8])),
        stdin: Stdin,
        context: RunContext<'_>,
        lingering: &mut AfterRun,
    ) -> Result<ProgramEnd, RunError> {
        let vault = self.task.vault();
        let directory = RunDirectory::make(vault.store(), RUNS, id)?;
        let link = self.repository_link(program);
        let options = mount_options_for(program.rules.clone(), program.transport);
        let (place, report) = (directory.place().to_owned(), &context.report);
        let (home, workspace) = std::thread::scope(|scope| {
            let home = scope.spawn(|| self.home(program, link.as_ref(), &place, report));
            let workspace = MountedVault::mount(vault, directory, &options, report);
            (
                home.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                workspace,
            )
        });
        let workspace = workspace?;
        let home = match home {
            Ok(home) => home,
            Err(error) => {
                workspace.end(RUN, id, lingering)?;
                return Err(error.into());
            }
        };
        let before = workspace.settle()?;
        let seq = vault.record()?.0.seq;
        let mut plan = self.plan(program, &workspace, home.as_ref(), link);
        if let Stdin::Terminal(_) = stdin {
            name_in_prompt(&mut plan);
        }
        let (inside, cancel, watch) = (context.inside, context.cancel, context.watch);
        let outlets = context.outlets;
        let mut events = |event: RunEvent<'_>| {
            if let RunEvent::Stdout(bytes) | RunEvent::Stderr(bytes) = event {
                printed(bytes);
            }
            watch.event(event);
        };
        let rules = program
            .rules
            .clone()
            .map(Rules::shared)
            .transpose()
            .map_err(Error::from)?;
        let monitor = GitMonitor::of(self.task, &workspace, context.door, rules, before);
        let door = monitor.as_ref().map_or(context.door, |monitor| Some(monitor));
        if let Some(monitor) = &monitor {
            monitor.set_up(&mut plan);
        }
        let door = door.zip(DoorScope::of_program(&plan, program.rules.as_deref()).ok());
        let launch = || {
            behind_door(door, &workspace.door_place(), plan, |plan| {
                let builder = SandboxBuilder::from(bubblewrap(vault, inside));
                builder.served_by(workspace.server()).launch(LaunchRequest {
                    outlets,
                    ..LaunchRequest::new(plan, stdin, cancel, &mut events)
                })
            })
        };
        let launched = match &monitor {
            Some(monitor) => monitor.during(launch),
            None => launch(),
        };
        drop(monitor);
        let dropped = home.as_ref().map(HomeView::changed_copies).unwrap_or_default();
        if let Some(home) = home {
            home.end(lingering);
        }
        let line = shown_program(&program.command);
        let (after, directory) = workspace.leave(RUN, &format!("{id} {line}"), lingering)?;
        lingering.later(move || drop(directory));
        let outcome = launched.inspect_err(|_| {
            drop(vault.update(
                RUN,
                &format!(
                    "{id} not run [{}]: {line}",
                    program.noted(IsolationChoice::Bubblewrap.as_str())
                ),
                |_, _| Ok(()),
            ))
        })?;
        let status = outcome.status();
        let given = program.noted(&outcome.isolation.to_string());
        let detail = format!("{id} exit {status} [{given}]: {line}");
        let audit_head = vault.runs().note_one_step(RUN, &detail, seq)?;
        Ok(ProgramEnd {
            run: id.to_owned(),
            process: outcome.into(),
            audit_head,
            before,
            after,
            dropped,
        })
    }

    /// Where the host has the repository of the project, if that is outside of the project: it leads to the one that
    /// the task has instead.
    fn repository_link(&self, program: &Program) -> Option<SandboxLink> {
        let at = outside_directory(self.task.root())?;
        let toolchains = program.toolchains.iter().map(|one| &*one.at);
        let shown: Vec<&Path> = toolchains.chain([self.task.root()]).collect();
        SandboxLink::fits(&at, &shown).then(|| SandboxLink {
            at,
            to: self.task.root().join(".git"),
        })
    }

    /// The user's home, with mount points for the paths that are shown in it.
    fn home(
        &self,
        program: &Program,
        link: Option<&SandboxLink>,
        place: &Path,
        report: &Report,
    ) -> Result<Option<HomeView>> {
        let Some(share) = &program.home else {
            return Ok(None);
        };
        let shown = program
            .toolchains
            .iter()
            .map(|one| (one.at.as_path(), one.from.is_dir()));
        let covered: Vec<(&Path, bool)> = shown.chain([(self.task.root(), true)]).collect();
        let places = HomePlaces {
            covered: &covered,
            link,
            write: true,
        };
        HomeView::mount(
            self.task.vault(),
            place,
            share,
            &places,
            program.transport,
            report,
        )
        .map(Some)
    }

    fn plan(
        &self,
        program: &Program,
        workspace: &MountedVault,
        view: Option<&HomeView>,
        link: Option<SandboxLink>,
    ) -> SandboxPlan {
        let home = view.map(HomeView::shown).unwrap_or_default();
        let mut given = vec![("HOME".into(), home.at.clone().into())];
        given.extend(["USER", "LOGNAME"].map(|name| (name.into(), program.user.name.as_str().into())));
        given.push((VAULT_VARIABLE.into(), self.task.vault_name().as_str().into()));
        given.push((TASK_VARIABLE.into(), self.task.name().as_str().into()));
        // A person's programs are not classified: git may update its index.
        given.push(("GIT_OPTIONAL_LOCKS".into(), "1".into()));
        given.extend(program.env.iter().cloned());
        // In a home that is shown, it is there already.
        let is_apart = |link: &SandboxLink| home.shows.is_none() || SandboxLink::fits(&link.at, &[&home.at]);
        let project = Some(self.task.root());
        let alone = OwnPaths {
            project,
            ..OwnPaths::default()
        };
        let own = view.map_or(alone, |view| view.own_paths(project));
        SandboxPlan {
            also_at: Some(self.task.root().to_owned()),
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
            ..SandboxPlan::new(workspace.mountpoint(), program.command.clone())
        }
    }
}

/// The command as one short line.
pub(crate) fn shown_program(command: &[OsString]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| avfs_core::printable(word.as_bytes()))
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(COMMAND_SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
