//! Sandboxes made by bubblewrap.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::builder::BuilderTies;
use super::built::{BuilderProcess, BuiltRun, ExtraDescriptors, run_built};
use super::child::{ChildStart, StagedPaths, numbers};
use super::ending::group_for;
use super::pipes::{StageEnds, in_memory};
use super::processes::ProcessTable;
use super::version::ProgramVersion;
use super::{InnerProgram, Isolation, LaunchError, LaunchOutcome, LaunchRequest, Launcher};
use crate::limits::{ControlGroup, LimitsBy, private_bytes};
use crate::plan::{INSIDE, Layout, LayoutStep, SandboxPlan, layout};
use avfs_inside::{StageWork, landlock_abi};

/// Runs commands in bubblewrap's namespaces.
#[derive(Debug)]
pub struct Bubblewrap {
    program: PathBuf,
    inside: InnerProgram,
    version: ProgramVersion,
    ties: BuilderTies,
}

impl Bubblewrap {
    /// Bubblewrap as installed on the system, unless `inside`, our own program, is started by another one.
    pub fn new(inside: InnerProgram) -> Self {
        let program = inside.bubblewrap.clone();
        Self::at(program.unwrap_or_else(|| find().to_owned()), inside)
    }

    /// Bubblewrap at this path. `inside` is the first program of the sandbox.
    pub fn at(program: impl Into<PathBuf>, inside: InnerProgram) -> Self {
        Self {
            program: program.into(),
            inside,
            version: ProgramVersion::default(),
            ties: BuilderTies::default(),
        }
    }

    /// Caches the version of the program in this file, so that most runs need not query it.
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

    /// The output of `bwrap --version`, without the name.
    pub fn version(&self) -> Result<&str, LaunchError> {
        self.check_program()?;
        let asked = self.version.ask(&self.program).map_err(LaunchError::no_start)?;
        self.version
            .told(asked)
            .map_err(LaunchError::system("asking bubblewrap for its version"))
    }

    pub(super) fn isolation(&self) -> Result<Isolation, LaunchError> {
        Ok(Isolation::Bubblewrap {
            version: self.version()?.to_owned(),
            landlock_abi: landlock_abi(),
        })
    }

    fn check_program(&self) -> Result<(), LaunchError> {
        if self.program.exists() {
            Ok(())
        } else {
            Err(LaunchError::NoBubblewrap {
                program: self.program.clone(),
            })
        }
    }

    fn start(&self, drawn: SandboxArguments, inner: &StageEnds, extra: ExtraDescriptors) -> ChildStart {
        let SandboxArguments {
            mut arguments,
            files,
            staged,
        } = drawn;
        let descriptors = inner.descriptors(extra.network.as_ref());
        let info = extra.info.as_raw_fd().to_string();
        arguments.extend(words(["--info-fd", &info, "--chdir", "/", "--", INSIDE]));
        arguments.extend(self.inside.arguments.iter().cloned());
        arguments.push(descriptors.argument().into());
        let mut keep = inner.numbers();
        // The arguments name these by number, so they must keep their numbers across `exec`.
        keep.extend(numbers(extra.network.iter().chain(&files).chain([&extra.info])));
        let ExtraDescriptors { talk, info, network } = extra;
        let held = files.into_iter().chain([info]).chain(network).collect();
        let program = self.program.clone();
        ChildStart {
            program,
            arguments,
            keep,
            held,
            talk,
            staged,
            dies_with_parent: true,
            renumbered_from: None,
        }
    }
}

/// The arguments for bubblewrap that build a sandbox.
struct SandboxArguments {
    arguments: Vec<OsString>,
    /// Contents of files of the sandbox, to which the arguments refer by number.
    files: Vec<OwnedFd>,
    staged: Option<StagedPaths>,
}

impl SandboxArguments {
    fn of(plan: &SandboxPlan, tree: &Layout) -> Result<Self, LaunchError> {
        let mut drawn = Self {
            arguments: namespaces(plan),
            files: Vec::new(),
            staged: StagedPaths::new().map(StagedPaths::without_system_controls),
        };
        for step in &tree.steps {
            let step = reachable(step, drawn.staged.as_mut())?;
            drawn.arguments.extend(step_arguments(&step, &mut drawn.files)?);
        }
        Ok(drawn)
    }
}

/// The arguments and the group of the run; preparing each takes time, so they are prepared in parallel.
fn prepare(
    plan: &SandboxPlan,
    inside: &Path,
) -> Result<(Layout, SandboxArguments, Option<ControlGroup>, Vec<OwnedFd>), LaunchError> {
    std::thread::scope(|scope| {
        let group = scope.spawn(|| group_for(&plan.limits));
        let tree = layout(plan, Path::new("/"), inside);
        let drawn = SandboxArguments::of(plan, &tree);
        let (group, entrances) = group
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let by = group.as_ref().map_or(LimitsBy::Rlimits, ControlGroup::by);
        let bytes = private_bytes(&plan.limits, by);
        // Built again if there is no group, which is rare: with a group, this costs nothing.
        if bytes == plan.limits.private_bytes {
            Ok((tree, drawn?, group, entrances))
        } else {
            let tree = tree.with_private_bytes(bytes);
            let drawn = SandboxArguments::of(plan, &tree)?;
            Ok((tree, drawn, group, entrances))
        }
    })
}

/// The usual places of the program. Not searched in `PATH`, which may lead into a project.
const PLACES: [&str; 3] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

pub(crate) fn find() -> &'static Path {
    let there = PLACES.iter().find(|place| Path::new(place).exists());
    Path::new(there.unwrap_or(&PLACES[0]))
}

impl Launcher for Bubblewrap {
    fn launch(&self, run: LaunchRequest<'_>) -> Result<LaunchOutcome, LaunchError> {
        run.plan.check()?;
        let work = StageWork::Command(run.plan.command.clone());
        self.carry_out(run, work, None)
    }
}

impl Bubblewrap {
    /// Builds the sandbox of a run and keeps it open for these processes; the command of its plan is ignored.
    pub(crate) fn keep_open(
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
        self.check_program()?;
        let (tree, drawn, group, entrances) = prepare(run.plan, &self.inside.program)?;
        let built = BuiltRun {
            run,
            work,
            processes,
            tree,
            group,
            entrances,
            ties: &self.ties,
            name: "bubblewrap",
        };
        run_built(
            built,
            |inner, extra| {
                let child = self
                    .start(drawn, inner, extra)
                    .spawn()
                    .map_err(LaunchError::no_start)?;
                // The sandbox is built meanwhile. If the version is unknown, the run continues without it.
                let child = BuilderProcess::Child(child);
                Ok((child, self.version.ask(&self.program).unwrap_or_default()))
            },
            |asked| {
                let version = self
                    .version
                    .told(asked)
                    .map_err(LaunchError::system("asking bubblewrap for its version"))?;
                Ok(Isolation::Bubblewrap {
                    version: version.to_owned(),
                    landlock_abi: landlock_abi(),
                })
            },
        )
    }
}

fn namespaces(plan: &SandboxPlan) -> Vec<OsString> {
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

/// The same step, with a path that the user of the run can reach.
fn reachable(step: &LayoutStep, staged: Option<&mut StagedPaths>) -> Result<LayoutStep, LaunchError> {
    let stage = |from: &Path, staging: Option<&mut StagedPaths>| match staging {
        Some(staging) => staging.add(from).map_err(|source| LaunchError::Workspace {
            path: from.to_owned(),
            source,
        }),
        None => Ok(from.to_owned()),
    };
    Ok(match step {
        LayoutStep::ReadOnly { from, at } => LayoutStep::ReadOnly {
            from: stage(from, staged)?,
            at: at.clone(),
        },
        LayoutStep::Writable { from, at } => LayoutStep::Writable {
            from: stage(from, staged)?,
            at: at.clone(),
        },
        other => other.clone(),
    })
}

fn step_arguments(step: &LayoutStep, files: &mut Vec<OwnedFd>) -> Result<Vec<OsString>, LaunchError> {
    let three = |option: &str, one: &Path, two: &Path| vec![option.into(), one.into(), two.into()];
    let two = |option: &str, one: &Path| vec![OsString::from(option), one.into()];
    Ok(match step {
        // Not `--ro-bind-try`: a path that was there when the plan was made and is gone now ends the run.
        LayoutStep::System { from, at } | LayoutStep::ReadOnly { from, at } => three("--ro-bind", from, at),
        LayoutStep::Writable { from, at } => three("--bind", from, at),
        LayoutStep::Symlink { to, at } => three("--symlink", to, at),
        LayoutStep::Proc { at } => two("--proc", at),
        LayoutStep::Devices { at } => two("--dev", at),
        LayoutStep::Seal { at } => two("--remount-ro", at),
        LayoutStep::Private { at, mode, bytes } => {
            let mut all = words(["--perms", &format!("{mode:04o}"), "--size", &bytes.to_string()]);
            all.extend(two("--tmpfs", at));
            all
        }
        LayoutStep::File { at, contents } => file_arguments("--file", at, contents, files)?,
        // Mounted over the file, and never written into it.
        LayoutStep::Cover { at, contents } => file_arguments("--ro-bind-data", at, contents, files)?,
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
