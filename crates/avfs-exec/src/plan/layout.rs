//! The file tree inside a sandbox, as a list of steps. It is built on an empty file system that belongs to the sandbox:
//! no step makes anything in a directory that an agent could ever write to.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::covered::{beside, covered};
use super::etc::{etc, etc_paths};
use super::{DOOR, HOME, INSIDE, PROGRAMS, Plan, SESSION, WORKSPACE};

/// One step of building the tree. `from` is a path of the host, `at` one inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A directory or file of the system, which everybody can read.
    System {
        from: PathBuf,
        at: PathBuf,
    },
    /// A directory or file of the caller, which the user of the run may not be able to reach by its path.
    ReadOnly {
        from: PathBuf,
        at: PathBuf,
    },
    Writable {
        from: PathBuf,
        at: PathBuf,
    },
    Symlink {
        to: PathBuf,
        at: PathBuf,
    },
    File {
        at: PathBuf,
        contents: Vec<u8>,
    },
    /// Something else in the place of a file that is there already.
    Cover {
        at: PathBuf,
        contents: &'static [u8],
    },
    /// An empty file system in memory.
    Private {
        at: PathBuf,
        mode: u32,
        bytes: u64,
    },
    Proc {
        at: PathBuf,
    },
    Devices {
        at: PathBuf,
    },
    /// Nothing is made or removed in this file system any more.
    Seal {
        at: PathBuf,
    },
}

/// What may be done below a path, for those who ask twice (Landlock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Existing files can be written, and devices driven, but nothing made.
    Use,
}

/// The tree and who may do what in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) steps: Vec<Step>,
    pub(crate) access: Vec<(PathBuf, Access)>,
}

/// Directories of the root that most distributions have moved to `/usr`, with links in their place.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The system's directories: nothing of a project can be shown there.
const SYSTEM: [&str; 15] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/proc",
    "/dev",
    "/sys",
    "/run",
    "/boot",
    "/workspace",
    "/nix",
];

/// Places of the sandbox itself, which can have a project in them but not in their stead.
const PRIVATE: [&str; 5] = ["/", "/tmp", HOME, "/var/tmp", "/var/run"];

/// The tree for `plan` on a host whose files are below `host` (`/`, but for tests). `inside` is our own program.
pub(crate) fn layout(plan: &Plan, host: &Path, inside: &Path) -> Layout {
    let mut steps = system(host);
    steps.extend(etc(plan, host));
    steps.extend(private(plan));
    steps.extend(caches(plan));
    steps.extend(toolchains(plan));
    steps.push(Step::ReadOnly { from: inside.to_owned(), at: INSIDE.into() });
    let session = plan.session.iter();
    steps.extend(session.map(|from| Step::ReadOnly { from: from.clone(), at: SESSION.into() }));
    let files = plan.files.iter();
    steps.extend(files.map(|(at, contents)| Step::File { at: at.clone(), contents: contents.clone() }));
    steps.extend(door(plan));
    steps.extend(workspace(plan));
    steps.extend(plan.links.iter().map(|link| Step::Symlink { to: link.to.clone(), at: link.at.clone() }));
    steps.extend(top_level(&plan.top_level, &steps));
    steps.push(Step::Seal { at: "/dev".into() });
    steps.push(Step::Seal { at: "/".into() });
    Layout { steps, access: access(plan) }
}

/// Whether `path` holds something that the sandbox has of its own. What is below it may be free.
pub fn is_around_own(path: &Path) -> bool {
    SYSTEM.iter().chain(&PRIVATE).any(|place| Path::new(place).starts_with(path))
}

/// Whether a cache of the host can be shown at its own path. Below the system's directories it has a place to be mounted on,
/// because the host has it there.
pub(super) fn can_have_cache(path: &Path) -> bool {
    let is_own = ["/etc", "/proc", "/dev", "/sys", "/run", "/boot", "/workspace", "/nix", "/var/run"];
    !is_around_own(path) && !is_own.iter().any(|place| path.starts_with(place))
}

/// Whether a project cannot be shown at `path`.
pub(super) fn is_taken(path: &Path) -> bool {
    let within = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    within(&SYSTEM) || is_around_own(path)
}

fn system(host: &Path) -> Vec<Step> {
    let mut steps = vec![Step::System { from: host.join("usr"), at: "/usr".into() }];
    steps.extend(MERGED.iter().filter_map(|name| merged(host, name)));
    let nix = host.join("nix/store");
    steps.extend(nix.is_dir().then(|| Step::System { from: nix, at: "/nix/store".into() }));
    steps
}

fn merged(host: &Path, name: &str) -> Option<Step> {
    let from = host.join(name);
    let at = Path::new("/").join(name);
    match std::fs::read_link(&from) {
        Ok(to) => Some(Step::Symlink { to, at }),
        Err(_) => from.is_dir().then_some(Step::System { from, at }),
    }
}

fn private(plan: &Plan) -> Vec<Step> {
    let bytes = plan.limits.private_bytes;
    let link = |to: &str, at: &str| Step::Symlink { to: to.into(), at: at.into() };
    // A home below it needs a directory, and before the home is there.
    let var_tmp = match plan.home.at.starts_with("/var/tmp") {
        true => Step::Private { at: "/var/tmp".into(), mode: 0o1777, bytes },
        false => link("../tmp", "/var/tmp"),
    };
    vec![
        Step::Proc { at: "/proc".into() },
        Step::Devices { at: "/dev".into() },
        Step::Private { at: "/dev/shm".into(), mode: 0o1777, bytes },
        Step::Private { at: "/tmp".into(), mode: 0o1777, bytes },
        var_tmp,
        home(plan),
        link("../run", "/var/run"),
    ]
}

fn home(plan: &Plan) -> Step {
    let at = plan.home.at.clone();
    match plan.home.shows.clone() {
        Some(from) => Step::Writable { from, at },
        None => Step::Private { at, mode: 0o700, bytes: plan.limits.private_bytes },
    }
}

/// Caches in the home that are at a path outside of it as well.
fn caches(plan: &Plan) -> Vec<Step> {
    let shown = plan.home.shows.iter().flat_map(|home| plan.home.also.iter().map(move |also| (home, also)));
    shown.map(|(home, also)| Step::Writable { from: home.join(&also.below), at: also.at.clone() }).collect()
}

fn toolchains(plan: &Plan) -> Vec<Step> {
    let mut shown = BTreeSet::new();
    let each = plan.toolchains.iter().filter(|toolchain| shown.insert(&toolchain.at));
    let mut steps: Vec<Step> = each
        .map(|toolchain| Step::ReadOnly { from: toolchain.from.clone(), at: toolchain.at.clone() })
        .collect();
    let covers = covered(&plan.toolchains);
    steps.extend(covers.iter().map(|one| Step::Cover { at: one.at.clone(), contents: one.contents() }));
    steps
}

/// The inner door, with the program that can use it.
fn door(plan: &Plan) -> Vec<Step> {
    let Some(from) = plan.door.clone() else { return Vec::new() };
    let program = Step::Symlink { to: INSIDE.into(), at: Path::new(PROGRAMS).join("avfs") };
    vec![program, Step::Writable { from, at: DOOR.into() }]
}

fn workspace(plan: &Plan) -> Vec<Step> {
    let from = &plan.workspace;
    let bind = |at: PathBuf| match plan.read_only {
        true => Step::ReadOnly { from: from.clone(), at },
        false => Step::Writable { from: from.clone(), at },
    };
    let places = [Some(PathBuf::from(WORKSPACE)), plan.also_at.clone()];
    places.into_iter().flatten().map(bind).collect()
}

/// Links to the workspace's own names, where the sandbox has nothing of that name.
fn top_level(names: &[OsString], steps: &[Step]) -> Vec<Step> {
    let mut taken: BTreeSet<OsString> = steps.iter().filter_map(|step| first_name(step.at())).collect();
    taken.extend(SYSTEM.iter().chain(&["/home", "/var", "/root"]).map(|path| OsString::from(&path[1..])));
    let mut free = Vec::new();
    for name in names {
        if is_name(name) && taken.insert(name.clone()) {
            let to = Path::new("workspace").join(name);
            free.push(Step::Symlink { to, at: Path::new("/").join(name) });
        }
    }
    free
}

fn first_name(path: &Path) -> Option<OsString> {
    path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::RootDir | Component::CurDir | Component::ParentDir | Component::Prefix(_) => None,
    })
}

fn is_name(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.iter().any(|byte| matches!(byte, b'/' | 0))
}

fn access(plan: &Plan) -> Vec<(PathBuf, Access)> {
    let mut access = vec![(PathBuf::from("/"), Access::Read)];
    access.extend(["/dev", "/proc"].map(|at| (at.into(), Access::Use)));
    let private = [Path::new("/tmp"), &plan.home.at, Path::new("/dev/shm")];
    access.extend(private.map(|at| (at.to_owned(), Access::Write)));
    access.extend(plan.home.also.iter().map(|also| (also.at.clone(), Access::Write)));
    // Pipes can be written to where nothing can be changed.
    access.extend(plan.session.iter().map(|_| (SESSION.into(), Access::Use)));
    if !plan.read_only {
        access.push((WORKSPACE.into(), Access::Write));
        access.extend(plan.also_at.clone().map(|at| (at, Access::Write)));
    }
    access
}

/// Devices without a memory or a listener.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];

/// What `/proc` tells about the machine. What it tells about processes would be about those of the host.
const MACHINE: [&str; 8] = [
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
];

/// What of the host's own tree may be used by a run that has no tree of its own, beside its workspace.
pub(crate) fn host_access(plan: &Plan) -> Vec<(PathBuf, Access)> {
    let read = |path: &str| (PathBuf::from(path), Access::Read);
    let mut access: Vec<(PathBuf, Access)> = ["/usr", "/nix/store"].map(read).to_vec();
    access.extend(MERGED.iter().map(|name| (Path::new("/").join(name), Access::Read)));
    access.extend(MACHINE.map(read));
    access.extend(etc_paths(plan).into_iter().map(|path| (path, Access::Read)));
    access.extend(DEVICES.map(|path| (path.into(), Access::Use)));
    let covers = covered(&plan.toolchains);
    let toolchains = plan.toolchains.iter().flat_map(|toolchain| beside(&toolchain.from, &covers));
    access.extend(toolchains.map(|path| (path, Access::Read)));
    access
}

impl Layout {
    /// The same, with this much room in each place that is kept in memory.
    pub(crate) fn with_private_bytes(mut self, room: u64) -> Self {
        for step in &mut self.steps {
            if let Step::Private { bytes, .. } = step {
                *bytes = room;
            }
        }
        self
    }
}

impl Step {
    /// The place inside that the step makes or changes.
    pub(crate) fn at(&self) -> &Path {
        match self {
            Self::System { at, .. }
            | Self::ReadOnly { at, .. }
            | Self::Writable { at, .. }
            | Self::Symlink { at, .. }
            | Self::File { at, .. }
            | Self::Cover { at, .. }
            | Self::Private { at, .. }
            | Self::Proc { at }
            | Self::Devices { at }
            | Self::Seal { at } => at,
        }
    }
}

#[cfg(test)]
mod tests;
