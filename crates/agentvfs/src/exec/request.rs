//! What is to be run, and how.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use avfs_core::TreePath;
use avfs_core::rules::Rule;
use avfs_exec::classify::Command;
use avfs_exec::network::Published;
use avfs_exec::plan::{Toolchain, WORKSPACE, toolchains};
use avfs_exec::policy::Policy;
use avfs_exec::{Capabilities, Limits, Network, Plan, Stdin};

use super::home::HomeShare;
use crate::mount::Transport;

/// One command for the exec boundary.
#[derive(Clone, Debug)]
pub struct ExecRequest {
    pub command: Command,
    /// Where it starts: a path in the vault, or an absolute one of the sandbox. `None`: the root of the vault.
    pub cwd: Option<PathBuf>,
    /// The directory of the vault that is the workspace; `None`: all of it.
    pub path: Option<TreePath>,
    /// The directory of the host that the vault is a copy of; the workspace is at the same path inside. `None`: what the
    /// vault says.
    pub own_path: Option<PathBuf>,
    /// What is added to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the caller that come along, by name. Their values are kept nowhere.
    pub passed: Vec<(OsString, OsString)>,
    /// The environment of whoever asks; only what says how to talk to people is taken from it.
    pub caller_env: Vec<(OsString, OsString)>,
    /// The home of the user, whose toolchains are shown.
    pub home: Option<PathBuf>,
    /// What it reads; `None`: nothing.
    pub stdin: Option<Vec<u8>>,
    pub limits: Limits,
    /// What it may reach; `None`: what the policy gives, which is nothing if it says nothing.
    pub network: Network,
    /// Ports inside that this machine reaches while it runs.
    pub published: Vec<Published>,
    /// Nothing can be changed, whatever the command is.
    pub read_only: bool,
    pub checkpoint: CheckpointMode,
    /// Through which rules the vault is seen.
    pub rules: Option<Vec<Rule>>,
    /// Who runs it, for the audit log.
    pub principal: Option<String>,
    /// The session that it belongs to, if it does to one: approvals hold in it alone.
    pub session: Option<String>,
    /// The variables of the session's shell that it does not have.
    pub left_out: Vec<String>,
    /// What decides on it; `None`: the policy that is stored for the vault, or the built-in one.
    pub policy: Option<Policy>,
    /// What happens when the policy wants somebody to be asked.
    pub asking: Asking,
    /// Decide, and do nothing.
    pub dry_run: bool,
    pub isolation: IsolationChoice,
    pub transport: Transport,
}

impl ExecRequest {
    pub fn new(command: Command) -> ExecRequest {
        ExecRequest {
            command,
            cwd: None,
            path: None,
            own_path: None,
            env: Vec::new(),
            passed: Vec::new(),
            caller_env: Vec::new(),
            home: None,
            stdin: None,
            limits: Limits::default(),
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
            transport: Transport::Auto,
        }
    }

    /// What it asks for, whatever its command is.
    pub fn asked(&self) -> Capabilities {
        Capabilities {
            write: !self.read_only,
            network: self.network.clone(),
            published: self.published.iter().map(Published::asked).collect(),
        }
    }

    /// The words that are run: those given, or a shell that is given the line.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match &self.command {
            Command::Argv(words) => words.clone(),
            Command::Shell(line) => ["bash", "-c", line].map(OsString::from).to_vec(),
        }
    }

    /// Whether it has no network, or one in which nothing is listed.
    pub(crate) fn reaches_nothing(&self) -> bool {
        self.network.reaches_nothing()
    }

    /// With the directory that the vault is a copy of, unless another one was said.
    pub(crate) fn placed(&self, own_path: Option<PathBuf>) -> ExecRequest {
        ExecRequest { own_path: self.own_path.clone().or(own_path), ..self.clone() }
    }

    /// Where the workspace is inside beside its fixed place: at its own path, where the sandbox has nothing of its own.
    pub(crate) fn own_place(&self) -> Option<PathBuf> {
        let own = self.own_path.as_deref().filter(|_| self.isolation == IsolationChoice::Bubblewrap)?;
        let place = match &self.path {
            Some(below) => own.join(OsStr::from_bytes(below.as_bytes())),
            None => own.to_owned(),
        };
        Plan::can_show(&place).then_some(place)
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
            .map(|home| toolchains(home, &self.caller_env, project.as_deref()))
            .unwrap_or_default()
    }

    /// What is shared of the user's home. Without namespaces, nothing can be shown in another place than its own.
    pub(crate) fn home_share(&self) -> Option<HomeShare> {
        let home = self.home.as_deref().filter(|_| self.isolation == IsolationChoice::Bubblewrap)?;
        let home = home.canonicalize().ok()?;
        Some(HomeShare::of_tools(&home, self.own_place().as_deref(), &self.caller_env))
    }

    pub(crate) fn input(&self) -> Stdin {
        self.stdin.clone().map_or(Stdin::Nothing, Stdin::Bytes)
    }
}

/// What happens to a command that takes an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It is denied: nobody is there.
    Never,
    /// It is asked for, and the answer names the approval.
    #[default]
    Ask,
    /// It is asked for, and waits for the answer; `None`: as long as it takes.
    Wait(Option<Duration>),
}

/// When a checkpoint is taken before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointMode {
    /// If the command may change files and something changed since the last checkpoint.
    #[default]
    Auto,
    Always,
    Never,
}

impl CheckpointMode {
    pub const ALL: [CheckpointMode; 3] =
        [CheckpointMode::Auto, CheckpointMode::Always, CheckpointMode::Never];

    pub fn as_str(self) -> &'static str {
        match self {
            CheckpointMode::Auto => "auto",
            CheckpointMode::Always => "always",
            CheckpointMode::Never => "never",
        }
    }
}

/// What stands around the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationChoice {
    /// Namespaces, by bubblewrap.
    #[default]
    Bubblewrap,
    /// Landlock alone, where there are no namespaces: only if it is asked for by name.
    Landlock,
}

impl IsolationChoice {
    pub const ALL: [IsolationChoice; 2] = [IsolationChoice::Bubblewrap, IsolationChoice::Landlock];

    pub fn as_str(self) -> &'static str {
        match self {
            IsolationChoice::Bubblewrap => "bubblewrap",
            IsolationChoice::Landlock => "landlock",
        }
    }
}
