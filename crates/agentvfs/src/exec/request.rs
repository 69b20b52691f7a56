//! A command to run, with its options.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use avfs_core::rules::Rule;
use avfs_core::{SnapshotId, TreePath};
use avfs_exec::classify::Command;
use avfs_exec::network::PublishedPort;
use avfs_exec::plan::{Toolchain, WORKSPACE, toolchains};
use avfs_exec::policy::Policy;
use avfs_exec::{Capabilities, Network, RunLimits, SandboxPlan, Stdin};

use super::home::HomeShare;
use crate::mount::Transport;

/// One command for the exec boundary.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The command.
    pub command: Command,
    /// Where it starts: a path in the vault, or an absolute one of the sandbox. `None`: the root of the vault.
    pub cwd: Option<PathBuf>,
    /// The directory of the vault that is the workspace; `None`: all of it.
    pub path: Option<TreePath>,
    /// The directory of the host of which the vault is a copy; the workspace is at the same path inside.
    /// `None`: as recorded in the vault.
    pub own_path: Option<PathBuf>,
    /// The image on which the sandbox is made: its root directory is a fork of it, which keeps what runs change.
    /// `None`: the system of this machine.
    pub image: Option<String>,
    /// Nothing can be changed in the root directory of the image.
    pub read_only_root: bool,
    /// The state of that root directory when the run was asked for. Set by the library, whatever it was.
    pub root_state: Option<SnapshotId>,
    /// Variables that are added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the caller that come along, by name. Their values are kept nowhere.
    pub passed: Vec<(OsString, OsString)>,
    /// The caller's environment; only variables about the presentation for people are used.
    pub caller_env: Vec<(OsString, OsString)>,
    /// The home of the user, whose toolchains are shown.
    pub home: Option<PathBuf>,
    /// Its input; `None`: empty.
    pub stdin: Option<Vec<u8>>,
    /// The limits of its resources.
    pub limits: RunLimits,
    /// The requested network; `None`: what the policy grants, which is nothing by default.
    pub network: Network,
    /// Ports inside that this machine reaches while it runs.
    pub published: Vec<PublishedPort>,
    /// Nothing can be changed, whatever the command is.
    pub read_only: bool,
    /// Whether a checkpoint is taken before it.
    pub checkpoint: CheckpointMode,
    /// Through which rules the vault is seen.
    pub rules: Option<Vec<Rule>>,
    /// The principal, for the audit log.
    pub principal: Option<String>,
    /// The session that it belongs to, if it does to one: approvals hold in it alone.
    pub session: Option<String>,
    /// The variables of the session's shell that it does not have.
    pub left_out: Vec<String>,
    /// The policy to use; `None`: the policy that is stored for the vault, or the built-in one.
    pub policy: Option<Policy>,
    /// What happens if the policy requires an approval.
    pub asking: Asking,
    /// Decide, and do nothing.
    pub dry_run: bool,
    /// The kind of sandbox that it needs.
    pub isolation: IsolationChoice,
    /// The runtime of containers, by its name or its path; `None`: the first that is installed.
    pub container_runtime: Option<String>,
    /// How the requests of its mount travel.
    pub transport: Transport,
}

impl RunSpec {
    /// A run of this command, which can write to all of the vault and reaches no host.
    pub fn new(command: Command) -> RunSpec {
        RunSpec {
            command,
            cwd: None,
            path: None,
            own_path: None,
            image: None,
            read_only_root: false,
            root_state: None,
            env: Vec::new(),
            passed: Vec::new(),
            caller_env: Vec::new(),
            home: None,
            stdin: None,
            limits: RunLimits::default(),
            network: Network::None,
            published: Vec::new(),
            read_only: false,
            checkpoint: CheckpointMode::Auto,
            rules: None,
            principal: None,
            session: None,
            left_out: Vec::new(),
            policy: None,
            asking: Asking::Ask,
            dry_run: false,
            isolation: IsolationChoice::Bubblewrap,
            container_runtime: None,
            transport: Transport::Auto,
        }
    }

    /// The requested capabilities, whatever the command.
    pub fn asked(&self) -> Capabilities {
        Capabilities {
            write: !self.read_only,
            network: self.network.clone(),
            published: self.published.iter().map(PublishedPort::asked).collect(),
        }
    }

    /// The words that are run: those given, or a shell that is given the line.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match &self.command {
            Command::Argv(words) => words.clone(),
            Command::Shell(line) => ["bash", "-c", line].map(OsString::from).to_vec(),
        }
    }

    /// Whether it has no network, or one with an empty list.
    pub(crate) fn reaches_nothing(&self) -> bool {
        self.network.reaches_nothing()
    }

    /// With the directory of which the vault is a copy, unless another one was specified.
    pub(crate) fn placed(&self, own_path: Option<PathBuf>) -> RunSpec {
        RunSpec {
            own_path: self.own_path.clone().or(own_path),
            ..self.clone()
        }
    }

    /// Where the workspace is inside beside its fixed place: at its own path, where the sandbox has nothing of its own.
    pub(crate) fn own_place(&self) -> Option<PathBuf> {
        let own = self
            .own_path
            .as_deref()
            .filter(|_| self.isolation == IsolationChoice::Bubblewrap && self.image.is_none())?;
        let place = match &self.path {
            Some(below) => own.join(OsStr::from_bytes(below.as_bytes())),
            None => own.to_owned(),
        };
        SandboxPlan::can_show(&place).then_some(place)
    }

    /// Where the command sees the workspace.
    fn place(&self) -> PathBuf {
        self.own_place().unwrap_or_else(|| WORKSPACE.into())
    }

    pub(crate) fn place_shown(&self) -> String {
        avfs_core::printable(self.place().as_os_str().as_bytes())
    }

    /// Where the command starts: below the workspace, unless it is a place of the sandbox already.
    pub(crate) fn working_directory(&self) -> PathBuf {
        let mut cwd = self.place();
        for part in self.cwd.as_deref().unwrap_or(Path::new("")).components() {
            match part {
                Component::RootDir => cwd = PathBuf::from("/"),
                Component::Normal(name) => cwd.push(name),
                Component::ParentDir => drop(cwd.pop()),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        cwd
    }

    pub(crate) fn toolchains(&self) -> Vec<Toolchain> {
        let project = self.own_place();
        self.home
            .as_deref()
            .filter(|_| self.image.is_none())
            .map(|home| toolchains(home, &self.caller_env, project.as_deref()))
            .unwrap_or_default()
    }

    /// The shared part of the user's home. Without namespaces, nothing can be shown at another path than its
    /// own.
    pub(crate) fn home_share(&self) -> Option<HomeShare> {
        let home = self
            .home
            .as_deref()
            .filter(|_| self.isolation == IsolationChoice::Bubblewrap && self.image.is_none())?;
        let home = home.canonicalize().ok()?;
        Some(HomeShare::of_tools(
            &home,
            self.own_place().as_deref(),
            &self.caller_env,
        ))
    }

    pub(crate) fn input(&self) -> Stdin {
        self.stdin.clone().map_or(Stdin::Nothing, Stdin::Bytes)
    }
}

/// What happens to a command that needs an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It is denied: no person can be asked.
    Never,
    /// An approval is requested, and the answer names it.
    #[default]
    Ask,
    /// An approval is requested, and the run waits for the answer; `None`: without a time limit.
    Wait(Option<Duration>),
}

/// When a checkpoint is taken before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointMode {
    /// If the command may change files and something changed since the last checkpoint.
    #[default]
    Auto,
    /// Before every command.
    Always,
    /// Before none.
    Never,
}

impl CheckpointMode {
    /// Every mode.
    pub const ALL: [CheckpointMode; 3] = [
        CheckpointMode::Auto,
        CheckpointMode::Always,
        CheckpointMode::Never,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckpointMode::Auto => "auto",
            CheckpointMode::Always => "always",
            CheckpointMode::Never => "never",
        }
    }
}

/// The isolation around the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationChoice {
    /// Namespaces, by bubblewrap.
    #[default]
    Bubblewrap,
    /// A container on an image, by runc or a program like it.
    Oci,
    /// A container on an image, by the daemon of Docker or Podman.
    Docker,
    /// Landlock alone, on systems without namespaces: only if it is requested by name.
    Landlock,
}

impl IsolationChoice {
    /// Every choice.
    pub const ALL: [IsolationChoice; 4] = [
        IsolationChoice::Bubblewrap,
        IsolationChoice::Oci,
        IsolationChoice::Docker,
        IsolationChoice::Landlock,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            IsolationChoice::Bubblewrap => "bubblewrap",
            IsolationChoice::Oci => "oci",
            IsolationChoice::Docker => "docker",
            IsolationChoice::Landlock => "landlock",
        }
    }
}

/// What a session is to be.
#[derive(Clone, Debug)]
pub struct SessionRequest {
    /// What all commands of the session have in common. Its own command and its input do not count.
    pub exec: RunSpec,
    /// After so long without a command it ends.
    pub idle: Duration,
}
