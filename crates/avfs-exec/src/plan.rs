//! Everything that is to be known about one sandbox, before anything runs.

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
pub(crate) use layout::{Access, Layout, Step, host_access, layout};
pub use toolchains::{Toolchain, toolchains};

use crate::network::{HostRule, Published, Upstream};

/// Where the vault is inside.
pub const WORKSPACE: &str = "/workspace";

/// The private home inside, unless a plan says another.
pub const HOME: &str = "/home/agent";

/// Where our own program is inside.
pub(crate) const INSIDE: &str = "/run/avfs/inside";

/// Where a session has what it and its shell talk by.
pub(crate) const SESSION: &str = "/run/avfs/session";

/// Where the inner door is inside, and a directory with our own program under its own name.
pub const DOOR: &str = "/run/avfs/door";
pub const PROGRAMS: &str = "/run/avfs/bin";

/// The user and group that a run gets when root starts it: below 65534 (nobody), above what distributions give out.
/// Root without capabilities would still own `/etc/shadow`.
pub const UNPRIVILEGED: u32 = 64_999;

/// One sandbox and the command in it. Paths are paths inside, unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The directory of the host that is at `/workspace` inside.
    pub workspace: PathBuf,
    /// A second place for it: the project's own path, so that absolute paths go on working.
    pub also_at: Option<PathBuf>,
    /// Links to places in the workspace, for those who know these by paths of the host.
    pub links: Vec<Link>,
    /// Names in the workspace that can be reached as `/NAME` too.
    pub top_level: Vec<OsString>,
    /// A socket of the host through which the run can ask for things about its own workspace.
    pub door: Option<PathBuf>,
    /// Nothing in the workspace can be changed.
    pub read_only: bool,
    pub cwd: PathBuf,
    pub command: Vec<OsString>,
    /// The whole environment of the command: nothing else is inherited.
    pub env: Vec<(OsString, OsString)>,
    pub network: Network,
    /// The proxy that the user's own programs go through, if there is one.
    pub upstream: Upstream,
    /// Ports inside that this machine reaches.
    pub published: Vec<Published>,
    pub limits: Limits,
    /// Compilers and interpreters in the user's home, which are shown read-only.
    pub toolchains: Vec<Toolchain>,
    pub user: User,
    pub home: Home,
    /// The directory of the host that is at `/run/avfs/session` inside, if the command is the shell of a session.
    /// Nothing in it can be made or removed from inside.
    pub session: Option<PathBuf>,
    /// Files that exist inside only, and cannot be changed there.
    pub files: Vec<(PathBuf, Vec<u8>)>,
}

/// What can be reached over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing: a network of its own with nothing in it.
    None,
    /// Everything that the host can reach.
    Host,
    /// Listed hosts, by way of a proxy that speaks HTTP. An empty list is the same as `None`.
    Hosts(Vec<HostRule>),
}

/// What a run may use up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub timeout: Option<Duration>,
    /// How long a run may clean up between being asked to end and being killed.
    pub grace: Duration,
    /// Bytes of memory, of all processes together.
    pub memory: Option<u64>,
    /// Processes and threads at one time.
    pub pids: Option<u64>,
    /// Seconds of CPU time, of all processes together.
    pub cpu_seconds: Option<u64>,
    /// Bytes of standard output, and as many of standard error, that are kept.
    pub output_bytes: usize,
    /// Bytes that can be written to `/tmp`, and as many to a home that shows nothing of the host.
    pub private_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(600)),
            grace: Duration::from_secs(2),
            memory: Some(4 << 30),
            pids: Some(1024),
            cpu_seconds: None,
            output_bytes: 1 << 20,
            private_bytes: 2 << 30,
        }
    }
}

/// Who the command is, inside. Outside it is who started the run, or [`UNPRIVILEGED`] if root did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
}

/// The user and group inside of a run that root starts. Not 0: agents and databases refuse to run as root, and `tar`
/// would try to give files away, which nothing in a sandbox may do.
const INSTEAD_OF_ROOT: u32 = 1000;

impl User {
    /// The user who asks, under the own numbers, so that files belong to whom they belong on the host: git's index
    /// says so of each. If that is root, an ordinary user.
    pub fn of_caller() -> Self {
        let (uid, gid) = match rustix::process::geteuid() {
            root if root.is_root() => (INSTEAD_OF_ROOT, INSTEAD_OF_ROOT),
            uid => (uid.as_raw(), rustix::process::getegid().as_raw()),
        };
        Self { name: "agent".to_owned(), uid, gid }
    }
}

/// Where the home is inside, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub at: PathBuf,
    /// The directory of the host that is there; `None`: an empty one, which ends with the run.
    pub shows: Option<PathBuf>,
    /// Directories of what it shows that are at another path as well.
    pub also: Vec<AlsoAt>,
}

/// A directory in the home that is at a second path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlsoAt {
    pub below: PathBuf,
    pub at: PathBuf,
}

impl Default for Home {
    fn default() -> Self {
        Self { at: HOME.into(), shows: None, also: Vec::new() }
    }
}

impl Home {
    /// Whether a home can be at a path: not where the sandbox has something of its own, nor above or below a project.
    pub fn fits(at: &Path, project: Option<&Path>) -> bool {
        let apart = project.is_none_or(|project| !at.starts_with(project));
        apart && check_path("the home", at).is_ok() && (at == Path::new(HOME) || !layout::is_taken(at))
    }
}

/// A symbolic link of the sandbox's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub at: PathBuf,
    pub to: PathBuf,
}

impl Link {
    /// Whether a link can be at a path: not where the sandbox has something of its own, nor above or below what
    /// is shown of the host.
    pub fn fits(at: &Path, shown: &[&Path]) -> bool {
        let is_apart = |place: &&Path| !at.starts_with(place) && !place.starts_with(at);
        check_path("a link", at).is_ok() && !layout::is_taken(at) && shown.iter().all(is_apart)
    }
}

/// Why a plan cannot be carried out by anybody.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("there is no command to run")]
    NoCommand,
    #[error("{what} must be an absolute path without `.` and `..`, but is {path:?}")]
    BadPath { what: &'static str, path: PathBuf },
    #[error("nothing can be shown at '{}', because the sandbox has something of its own there", path.display())]
    Taken { path: PathBuf },
    #[error("{name:?} cannot be the name of an environment variable")]
    BadVariable { name: OsString },
    #[error("port {port} cannot be published: {reason}")]
    CannotPublish { port: u16, reason: &'static str },
}

impl Plan {
    /// A sandbox without a network around `command` in `workspace`, with the usual limits and a bare environment.
    pub fn new(
        workspace: impl Into<PathBuf>,
        command: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            workspace: workspace.into(),
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
            limits: Limits::default(),
            toolchains: Vec::new(),
            user: User::of_caller(),
            home: Home::default(),
            session: None,
            files: Vec::new(),
        }
    }

    /// Whether something can be at the same path inside as on the host: not where the sandbox has something of its own.
    pub fn can_show(path: &Path) -> bool {
        check_path("the project's path", path).is_ok() && !layout::is_taken(path)
    }

    /// Where inside something of the host is, beside the system and what the sandbox has of its own.
    fn shown(&self) -> Vec<&Path> {
        let home = self.home.shows.iter().map(|_| &*self.home.at);
        let toolchains = self.toolchains.iter().map(|toolchain| &*toolchain.at);
        self.also_at.as_deref().into_iter().chain(home).chain(toolchains).collect()
    }

    /// Checks what can be checked without looking at the host.
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        if self.command.first().is_none_or(|program| program.is_empty()) {
            return Err(PlanError::NoCommand);
        }
        check_path("the workspace", &self.workspace)?;
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
        if !Home::fits(&self.home.at, self.also_at.as_deref()) {
            return Err(PlanError::Taken { path: self.home.at.clone() });
        }
        if let Some(link) = self.links.iter().find(|link| !Link::fits(&link.at, &self.shown())) {
            return Err(PlanError::Taken { path: link.at.clone() });
        }
        self.check_published()?;
        match self.env.iter().find(|(name, _)| !is_variable(name)) {
            Some((name, _)) => Err(PlanError::BadVariable { name: name.clone() }),
            None => Ok(()),
        }
    }
    fn check_published(&self) -> Result<(), PlanError> {
        let is_listed = |port: u16| {
            self.network.hosts().iter().any(|rule| rule.local().is_some_and(|(_, listed)| listed == port))
        };
        for port in self.published.iter().map(Published::port) {
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

    /// The hosts that a proxy is needed for.
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
    // `components` leaves out `.`, which a program of the sandbox might not.
    let dotted = path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/').any(|part| part == b".");
    let nul = path.as_os_str().as_encoded_bytes().contains(&0);
    if clean && !dotted && !nul { Ok(()) } else { Err(PlanError::BadPath { what, path: path.to_owned() }) }
}

fn is_variable(name: &OsString) -> bool {
    let bytes = name.as_encoded_bytes();
    !bytes.is_empty() && !bytes.iter().any(|byte| matches!(byte, b'=' | 0))
}
