//! Sandboxes made by a container runtime that follows the OCI specification.
//!
//! The runtime is started by the same unprivileged user as bubblewrap, in the same way, and makes a user namespace
//! with that one user: nobody in a container is root outside. It gets a bundle that is made from the same plan, with
//! our own program as the first one, so that everything inside is as in other sandboxes. An image whose programs run as
//! another user than root needs no second user of the host: our program takes the other number once the container is
//! built ([`StageIdentity`]).

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::builder::BuilderTies;
use super::built::{BuilderProcess, BuiltRun, ExtraDescriptors, run_built};
use super::child::{ChildStart, StagedPaths, is_root, numbers};
use super::ending::group_for;
use super::error::LaunchHint;
use super::pipes::StageEnds;
use super::processes::ProcessTable;
use super::version::ProgramVersion;
use super::{InnerProgram, Isolation, LaunchError, LaunchOutcome, LaunchRequest, Launcher};
use crate::limits::{ControlGroup, LimitsBy, private_bytes};
use crate::plan::{Layout, SandboxPlan, SandboxUser, UNPRIVILEGED, layout};
use avfs_inside::{StageDescriptors, StageIdentity, StageWork};

mod bundle;
mod runtime;

use bundle::ContainerBundle;
pub use runtime::ContainerRuntime;

/// Runs commands in containers.
#[derive(Debug)]
pub struct Container {
    runtime: ContainerRuntime,
    inside: InnerProgram,
    version: ProgramVersion,
    /// Where bundles are made; `None`: where temporary files are.
    place: Option<PathBuf>,
    ties: BuilderTies,
}

/// The descriptors that a runtime passes on follow the standard streams without a gap.
const FIRST_PASSED: i32 = 3;

impl Container {
    /// Containers by a runtime. `inside` is our own program.
    pub fn new(runtime: ContainerRuntime, inside: InnerProgram) -> Container {
        Container {
            runtime,
            inside,
            version: ProgramVersion::default(),
            place: None,
            ties: BuilderTies::default(),
        }
    }

    /// Makes its bundles in this directory, which only this user can look into. It is made when it is needed, and its
    /// owner removes it: what a killed run has left there is found with it.
    #[must_use]
    pub fn with_bundles_in(self, place: PathBuf) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// Caches the version of the runtime in this file, so that most runs need not query it.
    #[must_use]
    pub fn remembering(self, place: PathBuf) -> Self {
        Self {
            version: ProgramVersion::kept_in(place),
            ..self
        }
    }

    pub(super) fn ties(&self) -> &BuilderTies {
        &self.ties
    }

    pub(super) fn ties_mut(&mut self) -> &mut BuilderTies {
        &mut self.ties
    }

    pub(super) fn isolation(&self) -> Result<Isolation, LaunchError> {
        let asked = self.version.ask(self.runtime.program()).unwrap_or_default();
        let version = self
            .version
            .told(asked)
            .map_err(LaunchError::system("asking the runtime for its version"))?;
        Ok(Isolation::Container {
            runtime: self.runtime.name(),
            version: version.to_owned(),
        })
    }

    /// Builds the sandbox of a run and keeps it open for these processes; the command of its plan is ignored.
    pub(super) fn keep_open(
        &self,
        run: LaunchRequest<'_>,
        processes: &ProcessTable,
    ) -> Result<LaunchOutcome, LaunchError> {
        run.plan.check_sandbox()?;
        self.carry_out(run, StageWork::Orders, Some(processes))
    }

    fn carry_out(
        &self,
        run: LaunchRequest<'_>,
        work: StageWork,
        processes: Option<&ProcessTable>,
    ) -> Result<LaunchOutcome, LaunchError> {
        let plan = run.plan;
        if plan.root.is_none() {
            return Err(LaunchError::CannotIsolate {
                reason: "a container needs a root directory of its own, and no image is named".to_owned(),
                hint: LaunchHint::NameImage,
            });
        }
        let directory = self
            .new_bundle()
            .map_err(LaunchError::system("making the bundle of a container"))?;
        let (group, entrances) = group_for(&plan.limits)?;
        let by = group.as_ref().map_or(LimitsBy::Rlimits, ControlGroup::by);
        let tree = layout(plan, Path::new("/"), &self.inside.program);
        let tree = tree.with_private_bytes(private_bytes(&plan.limits, by));
        let container = NewContainer {
            plan,
            tree: tree.clone(),
            directory: directory.path(),
        };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let built = BuiltRun {
                run,
                work,
                processes,
                tree,
                group,
                entrances,
                ties: &self.ties,
                name: &self.runtime.name(),
            };
            let outcome = run_built(
                built,
                |inner, extra| {
                    let (child, teller) = self.start(&container, inner, extra)?;
                    let (pid_file, is_over) = (container.directory.join(PID), &is_over);
                    threads.spawn(move || tell_first_process(&pid_file, teller, is_over));
                    Ok((
                        child,
                        self.version.ask(self.runtime.program()).unwrap_or_default(),
                    ))
                },
                |asked| {
                    drop(self.version.told(asked));
                    self.isolation()
                },
            );
            is_over.store(true, Ordering::Release);
            outcome
        })
    }

    /// Starts the runtime. Also returns where the number of the first process is told.
    fn start(
        &self,
        container: &NewContainer<'_>,
        inner: &StageEnds,
        extra: ExtraDescriptors,
    ) -> Result<(BuilderProcess, OwnedFd), LaunchError> {
        let ExtraDescriptors { talk, info, network } = extra;
        let mut keep = inner.numbers();
        keep.extend(numbers(&network));
        let mut staged = StagedPaths::new();
        let directory = container.directory;
        let mut bundle = ContainerBundle::new(&mut staged, &self.inside);
        let shown = bundle.reach(directory)?;
        bundle.add(&container.tree)?;
        let descriptors = passed(inner, network.is_some(), identity(&container.plan.user));
        let config = bundle.config(container.plan, &descriptors);
        write_config(directory, &config.to_string())
            .map_err(LaunchError::system("writing the bundle of a container"))?;
        let name = directory.file_name().unwrap_or_default();
        let child = ChildStart {
            program: self.runtime.program().to_owned(),
            arguments: self.runtime.arguments(&shown, name, keep.len()),
            keep,
            held: network.into_iter().collect(),
            talk,
            staged,
            dies_with_parent: true,
            renumbered_from: Some(FIRST_PASSED),
        };
        let child = child.spawn().map_err(|source| LaunchError::CannotIsolate {
            reason: format!("{} cannot be started: {source}", self.runtime.name()),
            hint: LaunchHint::CheckMachine,
        })?;
        Ok((BuilderProcess::Child(child), info))
    }

    /// A directory that the user of the runtime owns, and nobody else can look into.
    fn new_bundle(&self) -> io::Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix("avfs-").permissions(Permissions::from_mode(0o700));
        let bundle = match &self.place {
            Some(place) => {
                std::fs::create_dir_all(place)?;
                builder.tempdir_in(place)?
            }
            None => builder.tempdir()?,
        };
        give_away(bundle.path())?;
        Ok(bundle)
    }
}

impl Launcher for Container {
    fn launch(&self, run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError> {
        run.plan.check()?;
        let work = StageWork::Command(run.plan.command.clone());
        self.carry_out(run, work, None)
    }
}

/// What a container is made of.
struct NewContainer<'a> {
    plan: &'a SandboxPlan,
    tree: Layout,
    directory: &'a Path,
}

/// Where a runtime writes the number of the first process in the container, below the bundle.
const PID: &str = "pid";
const LOOKING: Duration = Duration::from_millis(1);

/// Passes the number on as bubblewrap would, once it is there.
fn tell_first_process(pid_file: &Path, teller: OwnedFd, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        let text = std::fs::read_to_string(pid_file).unwrap_or_default();
        if let Ok(pid) = text.trim().parse::<u32>() {
            // If nobody listens any longer, the run is over.
            let _ = rustix::io::write(&teller, format!("{{\"child-pid\": {pid}}}\n").as_bytes());
            return;
        }
        std::thread::sleep(LOOKING);
    }
}

fn write_config(bundle: &Path, config: &str) -> io::Result<()> {
    let place = bundle.join("config.json");
    std::fs::write(&place, config)?;
    give_away(&place)
}

fn give_away(path: &Path) -> io::Result<()> {
    if is_root() {
        std::os::unix::fs::chown(path, Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
    }
    Ok(())
}

/// The user that the stage has to become by itself: the runtime starts it as root.
fn identity(user: &SandboxUser) -> Option<StageIdentity> {
    let SandboxUser { uid, gid, .. } = *user;
    ((uid, gid) != (0, 0)).then_some(StageIdentity { uid, gid })
}

/// The descriptors of the stage as the runtime numbers them: in the order of [`StageEnds::numbers`], the network last.
fn passed(inner: &StageEnds, has_network: bool, identity: Option<StageIdentity>) -> StageDescriptors {
    let mut next = FIRST_PASSED..;
    let mut number = || next.next().unwrap_or(FIRST_PASSED);
    let (control, stdin, stdout, stderr) = (number(), number(), number(), number());
    let terminal = inner.terminal.is_some().then(&mut number);
    let entrances = inner.entrances.iter().map(|_| number()).collect();
    StageDescriptors {
        control,
        stdin,
        stdout,
        stderr,
        terminal,
        entrances,
        network: has_network.then(&mut number),
        identity,
    }
}
