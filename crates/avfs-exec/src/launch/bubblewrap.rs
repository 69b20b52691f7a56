//! Sandboxes made by bubblewrap.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rustix::net::SocketType;

use super::child::{Staging, Start, numbers};
use super::ending::{Told, group_for, outcome, rlimits};
use super::pipes::{Inner, in_memory, output_pipe, pipes, socket_pair};
use super::supervise::{Killing, Watched, supervise};
use super::version::Version;
use super::{Inside, Isolation, LaunchError, Launcher, Outcome, Run, Stdin};
use crate::inside::{Sockets, Spec, Standing, landlock_abi};
use crate::limits::{Gauge, Group, LimitsBy, private_bytes};
use crate::network::{Gateway, Listening, Refusals, Setting, proxy_variables};
use crate::plan::{INSIDE, Layout, Plan, Step, layout};

/// The first interface of Landlock that keeps abstract sockets apart.
const FIRST_WITH_SCOPES: u32 = 6;

/// Runs commands in bubblewrap's namespaces.
#[derive(Debug)]
pub struct Bubblewrap {
    program: PathBuf,
    inside: Inside,
    version: Version,
    /// What the run uses, once its group is there.
    gauge: Arc<OnceLock<Gauge>>,
    refusals: Arc<Refusals>,
}

impl Bubblewrap {
    /// Bubblewrap as the system has it. `inside` is our own program.
    pub fn new(inside: Inside) -> Self {
        Self::at(find(), inside)
    }

    pub fn at(program: impl Into<PathBuf>, inside: Inside) -> Self {
        let (version, gauge, refusals) = (Version::default(), Arc::default(), Arc::default());
        Self { program: program.into(), inside, version, gauge, refusals }
    }

    /// Remembers in this file which version the program is, so that not every run has to ask.
    #[must_use]
    pub fn remembering(self, place: PathBuf) -> Self {
        Self { version: Version::kept_in(place), ..self }
    }

    /// Tells what the first run with a group uses, while it goes on.
    pub(crate) fn gauge(&self) -> Arc<OnceLock<Gauge>> {
        Arc::clone(&self.gauge)
    }

    /// What runs did not reach, while they go on.
    pub(crate) fn refusals(&self) -> Arc<Refusals> {
        Arc::clone(&self.refusals)
    }

    /// What `bwrap --version` says, without the name.
    pub fn version(&self) -> Result<&str, LaunchError> {
        self.check_program()?;
        let asked = self.version.ask(&self.program).map_err(LaunchError::no_start)?;
        self.version.told(asked).map_err(LaunchError::system("asking bubblewrap for its version"))
    }

    fn check_program(&self) -> Result<(), LaunchError> {
        match self.program.exists() {
            true => Ok(()),
            false => Err(LaunchError::NoBubblewrap { program: self.program.clone() }),
        }
    }

    fn start(&self, drawn: Drawn, inner: &Inner, extra: Extra) -> Start {
        let Drawn { mut arguments, files, staged } = drawn;
        let descriptors = inner.descriptors(extra.network.as_ref());
        let info = extra.info.as_raw_fd().to_string();
        arguments.extend(words(["--info-fd", &info, "--chdir", "/", "--", INSIDE]));
        arguments.extend(self.inside.arguments.iter().cloned());
        arguments.push(descriptors.argument().into());
        let mut keep = inner.numbers();
        keep.extend(numbers(extra.network.iter().chain(&files).chain([&extra.info])));
        let Extra { talk, info, network } = extra;
        let held = files.into_iter().chain([info]).chain(network).collect();
        let program = self.program.clone();
        Start { program, arguments, keep, held, talk, staged, dies_with_parent: true }
    }
}

/// A sandbox in bubblewrap's words.
struct Drawn {
    arguments: Vec<OsString>,
    /// Contents of files of the sandbox, which the arguments name by their numbers.
    files: Vec<OwnedFd>,
    staged: Option<Staging>,
}

impl Drawn {
    fn of(plan: &Plan, tree: &Layout) -> Result<Self, LaunchError> {
        let mut drawn = Self { arguments: namespaces(plan), files: Vec::new(), staged: Staging::new() };
        for step in &tree.steps {
            let step = reachable(step, drawn.staged.as_mut())?;
            drawn.arguments.extend(step_arguments(&step, &mut drawn.files)?);
        }
        Ok(drawn)
    }
}

/// What is drawn and the group of the run, each of which takes its time.
fn prepare(plan: &Plan, inside: &Path) -> Result<(Layout, Drawn, Option<Group>, Vec<OwnedFd>), LaunchError> {
    std::thread::scope(|scope| {
        let group = scope.spawn(|| group_for(&plan.limits));
        let tree = layout(plan, Path::new("/"), inside);
        let drawn = Drawn::of(plan, &tree);
        let (group, entrances) = group.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let by = group.as_ref().map_or(LimitsBy::Rlimits, Group::by);
        let bytes = private_bytes(&plan.limits, by);
        // Drawn anew where there is no group, which is seldom: nobody waits for it where there is one.
        match bytes == plan.limits.private_bytes {
            true => Ok((tree, drawn?, group, entrances)),
            false => {
                let tree = tree.with_private_bytes(bytes);
                let drawn = Drawn::of(plan, &tree)?;
                Ok((tree, drawn, group, entrances))
            }
        }
    })
}

/// Where systems keep it. Not by `PATH`, which may lead into a project.
const PLACES: [&str; 3] = ["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

pub(crate) fn find() -> &'static Path {
    let there = PLACES.iter().find(|place| Path::new(place).exists());
    Path::new(there.unwrap_or(&PLACES[0]))
}

/// What else the child is given.
struct Extra {
    talk: OwnedFd,
    info: OwnedFd,
    network: Option<OwnedFd>,
}

impl Launcher for Bubblewrap {
    fn launch(&self, mut run: Run<'_>) -> Result<Outcome, LaunchError> {
        let (plan, stdin) = (run.plan, std::mem::replace(&mut run.stdin, Stdin::Nothing));
        plan.check()?;
        self.check_program()?;
        let system = LaunchError::system;
        let (tree, drawn, group, entrances) = prepare(plan, &self.inside.program)?;
        if let Some(group) = &group {
            self.gauge.get_or_init(|| group.gauge().clone());
        }
        let (outer, inner, talk) = pipes(stdin, entrances).map_err(system("making pipes"))?;
        let (info, inner_info) = output_pipe().map_err(system("making pipes"))?;
        let listening = (!plan.network.is_host()).then(|| Listening::of(plan.network.hosts()));
        let setting = listening.clone().map(|listening| Setting::of(plan, listening, self.refusals()));
        let (gateway, network) =
            setting.map(gateway).transpose().map_err(system("starting the proxy"))?.unzip();
        let extra = Extra { talk, info: inner_info, network };
        let child = self.start(drawn, &inner, extra).spawn().map_err(LaunchError::no_start)?;
        // The sandbox is made meanwhile. A run whose version nobody knows is a run nevertheless.
        let version = self.version.ask(&self.program).unwrap_or_default();
        drop(inner);
        let wanted = run.is_wanted();
        let since = Instant::now();
        let Run { cancel, events, outlets, .. } = run;
        let by = group.as_ref().map_or(LimitsBy::Rlimits, Group::by);
        let limits = &plan.limits;
        let watched = Watched {
            child,
            outer,
            info: Some(info),
            group: group.as_ref(),
            limits,
            cancel,
            events,
            outlets,
            since,
            wanted,
            killing: Killing::First,
            refusals: Some(&self.refusals),
            spec: spec_of(plan, tree, by, listening.as_ref()),
        };
        let ended = supervise(watched).map_err(system("watching the run"))?;
        if !wanted {
            return Err(LaunchError::Withdrawn);
        }
        let version = self.version.told(version).map_err(system("asking bubblewrap for its version"))?;
        let isolation = Isolation::Bubblewrap { version: version.to_owned(), landlock_abi: landlock_abi() };
        gateway.map(Gateway::finish).unwrap_or_default();
        let refusals = self.refusals.take();
        outcome(plan, ended, Told { since, isolation, group, refusals })
    }
}

fn spec_of(plan: &Plan, tree: Layout, by: LimitsBy, listening: Option<&Listening>) -> Spec {
    let sockets = match plan.network.is_host() && landlock_abi() < FIRST_WITH_SCOPES {
        true => Sockets::Internet,
        false => Sockets::All,
    };
    Spec {
        standing: Standing::Init,
        command: plan.command.clone(),
        env: environment_of(plan, listening),
        cwd: plan.cwd.clone(),
        access: tree.access,
        sockets,
        listens: listening.map(Listening::addresses).unwrap_or_default(),
        // In a user namespace of its own, the stage is the only other process.
        rlimits: rlimits(plan, by, || 1),
    }
}

fn environment_of(plan: &Plan, listening: Option<&Listening>) -> Vec<(OsString, OsString)> {
    let proxy = listening.map(proxy_variables).unwrap_or_default();
    plan.env.iter().cloned().chain(proxy).collect()
}

/// What serves the network of a run, and what the stage is given for it.
fn gateway(setting: Setting) -> io::Result<(Gateway, OwnedFd)> {
    let (outer, inner) = socket_pair(SocketType::SEQPACKET)?;
    Ok((Gateway::start(setting, outer)?, inner))
}

fn namespaces(plan: &Plan) -> Vec<OsString> {
    let (uid, gid) = (plan.user.uid.to_string(), plan.user.gid.to_string());
    let mut arguments = words([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        // The stage is the first process itself: nothing else inside holds descriptors of the set-up.
        "--as-pid-1",
        "--cap-drop",
        "ALL",
        "--hostname",
        "sandbox",
        "--uid",
        &uid,
        "--gid",
        &gid,
    ]);
    if !plan.network.is_host() {
        arguments.extend(words(["--unshare-net"]));
    }
    arguments
}

/// The same step, from where the user of the run can reach it.
fn reachable(step: &Step, staged: Option<&mut Staging>) -> Result<Step, LaunchError> {
    let stage = |from: &Path, staging: Option<&mut Staging>| match staging {
        Some(staging) => {
            staging.add(from).map_err(|source| LaunchError::Workspace { path: from.to_owned(), source })
        }
        None => Ok(from.to_owned()),
    };
    Ok(match step {
        Step::ReadOnly { from, at } => Step::ReadOnly { from: stage(from, staged)?, at: at.clone() },
        Step::Writable { from, at } => Step::Writable { from: stage(from, staged)?, at: at.clone() },
        other => other.clone(),
    })
}

fn step_arguments(step: &Step, files: &mut Vec<OwnedFd>) -> Result<Vec<OsString>, LaunchError> {
    let three = |option: &str, one: &Path, two: &Path| vec![option.into(), one.into(), two.into()];
    let two = |option: &str, one: &Path| vec![OsString::from(option), one.into()];
    Ok(match step {
        Step::System { from, at } | Step::ReadOnly { from, at } => three("--ro-bind", from, at),
        Step::Writable { from, at } => three("--bind", from, at),
        Step::Symlink { to, at } => three("--symlink", to, at),
        Step::Proc { at } => two("--proc", at),
        Step::Devices { at } => two("--dev", at),
        Step::Seal { at } => two("--remount-ro", at),
        Step::Private { at, mode, bytes } => {
            let mut all = words(["--perms", &format!("{mode:04o}"), "--size", &bytes.to_string()]);
            all.extend(two("--tmpfs", at));
            all
        }
        Step::File { at, contents } => file_arguments("--file", at, contents, files)?,
        // Mounted over the file, and never written into it.
        Step::Cover { at, contents } => file_arguments("--ro-bind-data", at, contents, files)?,
    })
}

fn file_arguments(
    option: &str,
    at: &Path,
    contents: &[u8],
    files: &mut Vec<OwnedFd>,
) -> Result<Vec<OsString>, LaunchError> {
    let file = in_memory(contents).map_err(LaunchError::system("making a file of the sandbox"))?;
    let mut all = words(["--perms", "0444", option, &file.as_raw_fd().to_string()]);
    all.push(at.into());
    files.push(file);
    Ok(all)
}

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.map(OsString::from).to_vec()
}
