//! The complete description of one sandbox, before anything runs.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

mod caches;
mod covered;
mod credentials;
mod environment;
mod etc;
mod layout;
mod toolchains;

pub use caches::{HostCache, caches, tool_settings};
pub use credentials::{INSPECTED_BYTES, is_inspected, is_secret};
pub use environment::{OwnPaths, environment, is_for_people, is_inherited};
pub use layout::is_around_own;
pub(crate) use layout::{Layout, LayoutStep, host_access, layout};
pub use toolchains::{Toolchain, toolchains};

use crate::network::{HostRule, PublishedPort, Upstream};

/// The path of the vault inside.
pub const WORKSPACE: &str = "/workspace";

/// The private home inside, unless a plan has another one.
pub const HOME: &str = "/home/agent";

/// The directory of what is ours inside.
pub(crate) const OWN: &str = "/run/avfs";

/// The path of our own program inside.
pub(crate) const INSIDE: &str = "/run/avfs/inside";

/// The directory for the communication between a session and its shell.
pub(crate) const SESSION: &str = "/run/avfs/session";

/// The inner door inside, and a directory with our own program under its own name.
pub const DOOR: &str = "/run/avfs/door";
/// Where programs of ours are inside.
pub const PROGRAMS: &str = "/run/avfs/bin";

/// The user and group of a run that root starts: below 65534 (nobody), above the ids that distributions
/// assign. Root without capabilities would still own `/etc/shadow`.
pub const UNPRIVILEGED: u32 = 64_999;

/// One sandbox and the command in it. Paths are paths inside, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxPlan {
    /// The directory of the host that is at `/workspace` inside.
    pub workspace: PathBuf,
    /// The system around it; `None`: that of the host. With one of its own, there is nothing else of the host: no
    /// second path, no toolchains, no home.
    pub root: Option<SandboxRoot>,
    /// A second path for it: the project's own path, so that absolute paths continue to work.
    pub also_at: Option<PathBuf>,
    /// Links to directories in the workspace, for programs that know these by paths of the host.
    pub links: Vec<SandboxLink>,
    /// Names in the workspace that can be reached as `/NAME` too.
    pub top_level: Vec<OsString>,
    /// A socket of the host through which the run can make requests about its own workspace.
    pub door: Option<PathBuf>,
    /// Nothing in the workspace can be changed.
    pub read_only: bool,
    /// The working directory inside.
    pub cwd: PathBuf,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The whole environment of the command: nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    /// The hosts that it reaches.
    pub network: Network,
    /// The proxy of the user's own programs, if there is one.
    pub upstream: Upstream,
    /// Ports inside that this machine can reach.
    pub published: Vec<PublishedPort>,
    /// The limits of its resources.
    pub limits: RunLimits,
    /// Compilers and interpreters in the user's home, which are shown read-only.
    pub toolchains: Vec<Toolchain>,
    /// Who it is inside.
    pub user: SandboxUser,
    /// The home directory inside.
    pub home: SandboxHome,
    /// The directory of the host that is at `/run/avfs/session` inside, if the command is the shell of a
    /// session. Nothing in it can be created or removed from inside.
    pub session: Option<PathBuf>,
    /// Files that exist inside only, and cannot be changed there.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// The hosts that a run can reach over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing: an empty network of its own.
    None,
    /// Everything that the host can reach.
    Host,
    /// Listed hosts, through a proxy that speaks HTTP. An empty list is the same as `None`.
    Hosts(Vec<HostRule>),
}

/// The resource limits of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// After this time it is ended; `None`: never.
    pub timeout: Option<Duration>,
    /// The grace period between asking a run to end and killing it.
    pub grace: Duration,
    /// Bytes of memory, of all processes together.
    pub memory: Option<u64>,
    /// Processes and threads at one time.
    pub pids: Option<u64>,
    /// Seconds of CPU time, of all processes together.
    pub cpu_seconds: Option<u64>,
    /// Microseconds of CPU time in each 100 milliseconds, of all processes together.
    pub cpu_quota: Option<u64>,
    /// The share of the CPUs beside other sandboxes, when there is too little for all: 1024 is usual.
    pub cpu_shares: Option<u64>,
    /// Bytes of standard output, and as many of standard error, that are kept.
    pub output_bytes: usize,
    /// Bytes that can be written to `/tmp`, and as many to a home without a directory of the host.
    pub private_bytes: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(600)),
            grace: Duration::from_secs(2),
            memory: Some(4 << 30),
            pids: Some(1024),
            cpu_seconds: None,
            cpu_quota: None,
            cpu_shares: None,
            output_bytes: 1 << 20,
            private_bytes: 2 << 30,
        }
    }
}

/// The user of the command inside. Outside it is the user who started the run, or [`UNPRIVILEGED`] if that is
/// root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxUser {
    /// Its name inside.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
}

/// The user and group inside a run that root starts. Not 0: agents and databases refuse to run as root, and
/// `tar` would try to change owners, which is forbidden in a sandbox.
const INSTEAD_OF_ROOT: u32 = 1000;

impl SandboxUser {
    /// The calling user, with the same ids, so that the owners of files are the same as on the host: git's
    /// index records them. An ordinary user instead of root.
    pub fn of_caller() -> Self {
        let (uid, gid) = match rustix::process::geteuid() {
            root if root.is_root() => (INSTEAD_OF_ROOT, INSTEAD_OF_ROOT),
            uid => (uid.as_raw(), rustix::process::getegid().as_raw()),
        };
        Self {
            name: "agent".to_owned(),
            uid,
            gid,
        }
    }
}

/// The path of the home inside, and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxHome {
    /// Its path inside.
    pub at: PathBuf,
    /// The directory of the host that is shown there; `None`: an empty one, which is removed with the run.
    pub shows: Option<PathBuf>,
    /// Directories of it that are also at another path.
    pub also: Vec<AlsoAt>,
}

/// The root directory of a system of its own. It has directories at `/dev`, `/proc`, `/run`, `/tmp` and the workspace's
/// path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRoot {
    /// The directory of the host.
    pub from: PathBuf,
    /// Nothing in it can be changed.
    pub read_only: bool,
}

/// A directory in the home that is also at a second path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlsoAt {
    /// Its path in the home.
    pub below: PathBuf,
    /// The second path.
    pub at: PathBuf,
}

impl Default for SandboxHome {
    fn default() -> Self {
        Self {
            at: HOME.into(),
            shows: None,
            also: Vec::new(),
        }
    }
}

impl SandboxHome {
    /// Whether a home can be at a path: not at the sandbox's own paths, nor above or below a project.
    pub fn fits(at: &Path, project: Option<&Path>) -> bool {
        let apart = project.is_none_or(|project| !at.starts_with(project));
        apart && check_path("the home", at).is_ok() && (at == Path::new(HOME) || !layout::is_taken(at))
    }
}

/// A symbolic link of the sandbox's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxLink {
    /// The path of the link.
    pub at: PathBuf,
    /// What it holds.
    pub to: PathBuf,
}

impl SandboxLink {
    /// Whether a link can be at a path: not at the sandbox's own paths, nor above or below a directory of the
    /// host that is shown.
    pub fn fits(at: &Path, shown: &[&Path]) -> bool {
        let is_apart = |place: &&Path| !at.starts_with(place) && !place.starts_with(at);
        check_path("a link", at).is_ok() && !layout::is_taken(at) && shown.iter().all(is_apart)
    }
}

/// Why no launcher can execute a plan.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// There is no command.
    #[error("there is no command to run")]
    NoCommand,
    /// A path is not absolute, or has `.` or `..`.
    #[error("{what} must be an absolute path without `.` and `..`, but is {path:?}")]
    BadPath {
        /// Whose path it is.
        what: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The sandbox has something of its own at a path.
    #[error("nothing can be shown at '{}', because the sandbox has something of its own there", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// The name of a variable is empty, or has `=` or NUL.
    #[error("{name:?} cannot be the name of an environment variable")]
    BadVariable {
        /// The name.
        name: OsString,
    },
    /// A port cannot be published.
    #[error("port {port} cannot be published: {reason}")]
    CannotPublish {
        /// The port.
        port: u16,
        /// Why.
        reason: &'static str,
    },
}

impl SandboxPlan {
    /// A sandbox without a network around `command` in `workspace`, with default limits and a minimal
    /// environment.
    pub fn new(
        workspace: impl Into<PathBuf>,
        command: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            workspace: workspace.into(),
            root: None,
            also_at: None,
            links: Vec::new(),
            top_level: Vec::new(),
            door: None,
            read_only: false,
            cwd: PathBuf::from(WORKSPACE),
            command: command.into_iter().map(Into::into).collect(),
            env: environment(&[], &[], OwnPaths::default(), &[]),
            network: Network::None,
            upstream: Upstream::default(),
            published: Vec::new(),
            limits: RunLimits::default(),
            toolchains: Vec::new(),
            user: SandboxUser::of_caller(),
            home: SandboxHome::default(),
            session: None,
            files: Vec::new(),
        }
    }

    /// Whether a path of the host can be shown at the same path inside: not at the sandbox's own paths.
    pub fn can_show(path: &Path) -> bool {
        check_path("the project's path", path).is_ok() && !layout::is_taken(path)
    }

    /// The paths inside at which parts of the host are shown, beside the system and the sandbox's own.
    fn shown(&self) -> Vec<&Path> {
        let home = self.home.shows.iter().map(|_| &*self.home.at);
        let toolchains = self.toolchains.iter().map(|toolchain| &*toolchain.at);
        self.also_at
            .as_deref()
            .into_iter()
            .chain(home)
            .chain(toolchains)
            .collect()
    }

    /// Checks everything that can be checked without accessing the host.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return Err(PlanError::NoCommand);
        }
        self.check_sandbox()
    }

    /// The same without the command.
    pub(crate) fn check_sandbox(&self) -> Result<(), PlanError> {
        check_path("the workspace", &self.workspace)?;
        if let Some(root) = &self.root {
            check_path("the root directory", &root.from)?;
        }
        check_path("the working directory", &self.cwd)?;
        for toolchain in &self.toolchains {
            check_path("a toolchain", &toolchain.at)?;
        }
        for also in &self.home.also {
            check_path("a cache", &also.at)?;
        }
        if let Some(path) = &self.also_at {
            check_path("the project's path", path)?;
            if layout::is_taken(path) {
                return Err(PlanError::Taken { path: path.clone() });
            }
        }
        if !SandboxHome::fits(&self.home.at, self.also_at.as_deref()) {
            return Err(PlanError::Taken {
                path: self.home.at.clone(),
            });
        }
        if let Some(link) = self
            .links
            .iter()
            .find(|link| !SandboxLink::fits(&link.at, &self.shown()))
        {
            return Err(PlanError::Taken {
                path: link.at.clone(),
            });
        }
        self.check_published()?;
        match self.env.iter().find(|(name, _)| !is_variable(name)) {
            Some((name, _)) => Err(PlanError::BadVariable { name: name.clone() }),
            None => Ok(()),
        }
    }

    fn check_published(&self) -> Result<(), PlanError> {
        let is_listed = |port: u16| {
            self.network
                .hosts()
                .iter()
                .any(|rule| rule.local().is_some_and(|(_, listed)| listed == port))
        };
        for port in self.published.iter().map(PublishedPort::port) {
            if self.network.is_host() {
                let reason = "the run has the network of this machine, where its ports are anyway";
                return Err(PlanError::CannotPublish { port, reason });
            }
            if is_listed(port) {
                let reason = "inside, it is the port of this machine that is listed";
                return Err(PlanError::CannotPublish { port, reason });
            }
        }
        Ok(())
    }
}

impl Network {
    /// Whether the sandbox has the network of the host.
    pub(crate) fn is_host(&self) -> bool {
        matches!(self, Self::Host)
    }

    /// The hosts for which a proxy is needed.
    pub(crate) fn hosts(&self) -> &[HostRule] {
        match self {
            Self::None | Self::Host => &[],
            Self::Hosts(hosts) => hosts,
        }
    }
}

fn check_path(what: &'static str, path: &Path) -> Result<(), PlanError> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let clean = path.is_absolute() && path.components().all(plain);
    // `components` omits `.`, which a program of the sandbox might not.
    let dotted = path
        .as_os_str()
        .as_encoded_bytes()
        .split(|byte| *byte == b'/')
        .any(|part| part == b".");
    let nul = path.as_os_str().as_encoded_bytes().contains(&0);
    if clean && !dotted && !nul {
        Ok(())
    } else {
        Err(PlanError::BadPath {
            what,
            path: path.to_owned(),
        })
    }
}

pub(crate) fn is_variable(name: &OsString) -> bool {
    let bytes = name.as_encoded_bytes();
    !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, b'=' | 0))
}
