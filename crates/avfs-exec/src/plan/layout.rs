//! The file tree inside a sandbox, as a list of steps. It is built on an empty file system that belongs to
//! the sandbox: no step creates anything in a directory to which an agent could ever write.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use avfs_inside::PathAccess;

use super::covered::{beside, covered};
use super::etc::{etc, etc_paths};
use super::{DOOR, HOME, INSIDE, OWN, PROGRAMS, SESSION, SandboxPlan, SandboxRoot, WORKSPACE};

/// One step of building the tree. `from` is a path of the host, `at` one inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayoutStep {
    /// A directory or file of the system, which every user can read.
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
    /// A replacement for an existing file.
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
    /// Nothing can be created or removed in this file system from now on.
    Seal {
        at: PathBuf,
    },
}

/// The tree and the access to its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) steps: Vec<LayoutStep>,
    pub(crate) access: Vec<(PathBuf, PathAccess)>,
}

/// Directories of the root that most distributions have moved to `/usr`, with links in their place.
const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// The system's directories: a project cannot be shown there.
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

/// Directories of the sandbox itself: a project can be inside one of them, but not in its place.
const PRIVATE: [&str; 5] = ["/", "/tmp", HOME, "/var/tmp", "/var/run"];

/// The tree for `plan` on a host whose files are below `host` (`/`, except in tests). `inside` is our own
/// program.
pub(crate) fn layout(plan: &SandboxPlan, host: &Path, inside: &Path) -> Layout {
    if let Some(root) = &plan.root {
        return own_system(plan, root, inside);
    }
    // In the order of the mounts: what comes later lies over what came before.
    let mut steps = system(host);
    steps.extend(etc(plan, host));
    steps.extend(private(plan));
    steps.extend(caches(plan));
    steps.extend(toolchains(plan));
    steps.push(LayoutStep::ReadOnly {
        from: inside.to_owned(),
        at: INSIDE.into(),
    });
    let session = plan.session.iter();
    steps.extend(session.map(|from| LayoutStep::ReadOnly {
        from: from.clone(),
        at: SESSION.into(),
    }));
    let files = plan.files.iter();
    steps.extend(files.map(|(at, contents)| LayoutStep::File {
        at: at.clone(),
        contents: contents.clone(),
    }));
    steps.extend(door(plan));
    steps.extend(workspace(plan));
    steps.extend(plan.links.iter().map(|link| LayoutStep::Symlink {
        to: link.to.clone(),
        at: link.at.clone(),
    }));
    steps.extend(top_level(&plan.top_level, &steps));
    // Last: from here on nobody can make entries in the two.
    steps.push(LayoutStep::Seal { at: "/dev".into() });
    steps.push(LayoutStep::Seal { at: "/".into() });
    Layout {
        steps,
        access: access(plan),
    }
}

/// The tree around the root directory of another system. What lies above its mount points is only ever made in file
/// systems of the sandbox's own: an agent can write to the root directory.
fn own_system(plan: &SandboxPlan, root: &SandboxRoot, inside: &Path) -> Layout {
    let bytes = plan.limits.private_bytes;
    let private = |at: &str, mode| LayoutStep::Private {
        at: at.into(),
        mode,
        bytes,
    };
    let (from, at) = (root.from.clone(), PathBuf::from("/"));
    let mut steps = vec![
        if root.read_only {
            LayoutStep::ReadOnly { from, at }
        } else {
            LayoutStep::Writable { from, at }
        },
        LayoutStep::Proc { at: "/proc".into() },
        LayoutStep::Devices { at: "/dev".into() },
        private("/dev/shm", 0o1777),
        private("/tmp", 0o1777),
        private("/run", 0o755),
        private(OWN, 0o755),
        LayoutStep::ReadOnly {
            from: inside.to_owned(),
            at: INSIDE.into(),
        },
    ];
    let session = plan.session.iter();
    steps.extend(session.map(|from| LayoutStep::ReadOnly {
        from: from.clone(),
        at: SESSION.into(),
    }));
    steps.extend(door(plan));
    steps.extend(workspace(plan));
    steps.push(LayoutStep::Seal { at: OWN.into() });
    steps.push(LayoutStep::Seal { at: "/dev".into() });
    let whole = if root.read_only {
        PathAccess::Read
    } else {
        PathAccess::Write
    };
    let mut access = vec![(PathBuf::from("/"), whole)];
    access.extend(["/dev", "/proc"].map(|at| (at.into(), PathAccess::Use)));
    access.extend(["/tmp", "/run", "/dev/shm"].map(|at| (at.into(), PathAccess::Write)));
    access.extend(plan.session.iter().map(|_| (SESSION.into(), PathAccess::Use)));
    if !plan.read_only {
        access.push((WORKSPACE.into(), PathAccess::Write));
    }
    Layout { steps, access }
}

/// Whether `path` contains one of the sandbox's own paths. Paths below it may be free.
pub fn is_around_own(path: &Path) -> bool {
    SYSTEM
        .iter()
        .chain(&PRIVATE)
        .any(|place| Path::new(place).starts_with(path))
}

/// Whether a cache of the host can be shown at its own path. Below the system's directories the mount point
/// exists, because the host has it there.
pub(super) fn can_have_cache(path: &Path) -> bool {
    let is_own = [
        "/etc",
        "/proc",
        "/dev",
        "/sys",
        "/run",
        "/boot",
        "/workspace",
        "/nix",
        "/var/run",
    ];
    !is_around_own(path) && !is_own.iter().any(|place| path.starts_with(place))
}

/// Whether a project cannot be shown at `path`.
pub(super) fn is_taken(path: &Path) -> bool {
    let within = |places: &[&str]| places.iter().any(|place| path.starts_with(place));
    within(&SYSTEM) || is_around_own(path)
}

fn system(host: &Path) -> Vec<LayoutStep> {
    let mut steps = vec![LayoutStep::System {
        from: host.join("usr"),
        at: "/usr".into(),
    }];
    steps.extend(MERGED.iter().filter_map(|name| merged(host, name)));
    let nix = host.join("nix/store");
    steps.extend(nix.is_dir().then(|| LayoutStep::System {
        from: nix,
        at: "/nix/store".into(),
    }));
    steps
}

fn merged(host: &Path, name: &str) -> Option<LayoutStep> {
    let from = host.join(name);
    let at = Path::new("/").join(name);
    match std::fs::read_link(&from) {
        // As the host has it: programs compare paths with what links say.
        Ok(to) => Some(LayoutStep::Symlink { to, at }),
        Err(_) => from.is_dir().then_some(LayoutStep::System { from, at }),
    }
}

fn private(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let bytes = plan.limits.private_bytes;
    let link = |to: &str, at: &str| LayoutStep::Symlink {
        to: to.into(),
        at: at.into(),
    };
    // A home below it needs a directory, which must exist before the home.
    let var_tmp = if plan.home.at.starts_with("/var/tmp") {
        LayoutStep::Private {
            at: "/var/tmp".into(),
            mode: 0o1777,
            bytes,
        }
    } else {
        link("../tmp", "/var/tmp")
    };
    vec![
        LayoutStep::Proc { at: "/proc".into() },
        LayoutStep::Devices { at: "/dev".into() },
        LayoutStep::Private {
            at: "/dev/shm".into(),
            mode: 0o1777,
            bytes,
        },
        LayoutStep::Private {
            at: "/tmp".into(),
            mode: 0o1777,
            bytes,
        },
        var_tmp,
        home(plan),
        link("../run", "/var/run"),
    ]
}

fn home(plan: &SandboxPlan) -> LayoutStep {
    let at = plan.home.at.clone();
    match plan.home.shows.clone() {
        Some(from) => LayoutStep::Writable { from, at },
        None => LayoutStep::Private {
            at,
            mode: 0o700,
            bytes: plan.limits.private_bytes,
        },
    }
}

/// Caches in the home that are also at a path outside of it.
fn caches(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let shown = plan
        .home
        .shows
        .iter()
        .flat_map(|home| plan.home.also.iter().map(move |also| (home, also)));
    shown
        .map(|(home, also)| LayoutStep::Writable {
            from: home.join(&also.below),
            at: also.at.clone(),
        })
        .collect()
}

fn toolchains(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let mut shown = BTreeSet::new();
    let each = plan
        .toolchains
        .iter()
        // Two settings may lead to one directory, and a second mount of it would fail.
        .filter(|toolchain| shown.insert(&toolchain.at));
    let mut steps: Vec<LayoutStep> = each
        .map(|toolchain| LayoutStep::ReadOnly {
            from: toolchain.from.clone(),
            at: toolchain.at.clone(),
        })
        .collect();
    let covers = covered(&plan.toolchains);
    steps.extend(covers.iter().map(|one| LayoutStep::Cover {
        at: one.at.clone(),
        contents: one.contents(),
    }));
    steps
}

/// The inner door, with the program that uses it.
fn door(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let Some(from) = plan.door.clone() else {
        return Vec::new();
    };
    let program = LayoutStep::Symlink {
        to: INSIDE.into(),
        at: Path::new(PROGRAMS).join("avfs"),
    };
    vec![
        program,
        LayoutStep::Writable {
            from,
            at: DOOR.into(),
        },
    ]
}

fn workspace(plan: &SandboxPlan) -> Vec<LayoutStep> {
    let from = &plan.workspace;
    let bind = |at: PathBuf| {
        if plan.read_only {
            LayoutStep::ReadOnly {
                from: from.clone(),
                at,
            }
        } else {
            LayoutStep::Writable {
                from: from.clone(),
                at,
            }
        }
    };
    let places = [Some(PathBuf::from(WORKSPACE)), plan.also_at.clone()];
    places.into_iter().flatten().map(bind).collect()
}

/// Links to the workspace's own names, where the sandbox has no such name.
fn top_level(names: &[OsString], steps: &[LayoutStep]) -> Vec<LayoutStep> {
    let mut taken: BTreeSet<OsString> = steps.iter().filter_map(|step| first_name(step.at())).collect();
    taken.extend(
        SYSTEM
            .iter()
            .chain(&["/home", "/var", "/root"])
            .map(|path| OsString::from(&path[1..])),
    );
    let mut free = Vec::new();
    for name in names {
        // The names come from the workspace, where any program could have chosen them.
        if is_name(name) && taken.insert(name.clone()) {
            let to = Path::new("workspace").join(name);
            free.push(LayoutStep::Symlink {
                to,
                at: Path::new("/").join(name),
            });
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

fn access(plan: &SandboxPlan) -> Vec<(PathBuf, PathAccess)> {
    let mut access = vec![(PathBuf::from("/"), PathAccess::Read)];
    access.extend(["/dev", "/proc"].map(|at| (at.into(), PathAccess::Use)));
    let private = [Path::new("/tmp"), &plan.home.at, Path::new("/dev/shm")];
    access.extend(private.map(|at| (at.to_owned(), PathAccess::Write)));
    access.extend(
        plan.home
            .also
            .iter()
            .map(|also| (also.at.clone(), PathAccess::Write)),
    );
    // Pipes can be written to although nothing else can be changed.
    access.extend(plan.session.iter().map(|_| (SESSION.into(), PathAccess::Use)));
    if !plan.read_only {
        access.push((WORKSPACE.into(), PathAccess::Write));
        access.extend(plan.also_at.clone().map(|at| (at, PathAccess::Write)));
    }
    access
}

/// Devices that neither store data nor pass it to other processes.
const DEVICES: [&str; 7] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
];

/// Files of `/proc` about the machine. Those about processes would show the host's.
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

/// The parts of the host's tree that a run without a tree of its own may use, beside its workspace.
pub(crate) fn host_access(plan: &SandboxPlan) -> Vec<(PathBuf, PathAccess)> {
    let read = |path: &str| (PathBuf::from(path), PathAccess::Read);
    let mut access: Vec<(PathBuf, PathAccess)> = ["/usr", "/nix/store"].map(read).to_vec();
    access.extend(
        MERGED
            .iter()
            .map(|name| (Path::new("/").join(name), PathAccess::Read)),
    );
    access.extend(MACHINE.map(read));
    access.extend(etc_paths(plan).into_iter().map(|path| (path, PathAccess::Read)));
    access.extend(DEVICES.map(|path| (path.into(), PathAccess::Use)));
    let covers = covered(&plan.toolchains);
    let toolchains = plan
        .toolchains
        .iter()
        .flat_map(|toolchain| beside(&toolchain.from, &covers));
    access.extend(toolchains.map(|path| (path, PathAccess::Read)));
    access
}

impl Layout {
    /// The same, with this limit for each directory that is kept in memory.
    pub(crate) fn with_private_bytes(mut self, room: u64) -> Self {
        for step in &mut self.steps {
            if let LayoutStep::Private { bytes, .. } = step {
                *bytes = room;
            }
        }
        self
    }
}

impl LayoutStep {
    /// The path inside that the step creates or changes.
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
