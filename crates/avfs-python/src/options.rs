//! What Python says about sandboxes and commands, as the library takes it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use agentvfs::SandboxCommand;
use agentvfs::exec::sandbox::classify::Command;
use agentvfs::exec::sandbox::launch::ContainerRuntime;
use agentvfs::exec::sandbox::network::NetworkChoice;
use agentvfs::exec::sandbox::{Docker, Network, RunLimits};
use agentvfs::exec::{Asking, IsolationChoice, RunSpec};
use pyo3::prelude::*;

use crate::errors::own;

/// What all commands of a sandbox or session have in common.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SandboxOptions {
    env: Vec<(OsString, OsString)>,
    /// The environment of the caller, of which only what says how to talk to people is taken.
    caller_env: Vec<(OsString, OsString)>,
    home: Option<PathBuf>,
    network: Vec<String>,
    read_only: bool,
    principal: Option<String>,
    timeout: Option<f64>,
    memory: Option<u64>,
    processes: Option<u64>,
    cpu_seconds: Option<f64>,
    output_bytes: Option<usize>,
    image: Option<String>,
    isolation: Option<String>,
}

impl SandboxOptions {
    pub fn spec(self, py: Python<'_>) -> PyResult<RunSpec> {
        let usual = RunLimits::default();
        let limits = RunLimits {
            timeout: seconds(py, "timeout", self.timeout)?.or(usual.timeout),
            memory: self.memory.or(usual.memory),
            pids: self.processes.or(usual.pids),
            cpu_seconds: seconds(py, "cpu_seconds", self.cpu_seconds)?
                .map(|time| time.as_secs_f64().ceil() as u64)
                .or(usual.cpu_seconds),
            output_bytes: self.output_bytes.unwrap_or(usual.output_bytes),
            ..usual
        };
        Ok(RunSpec {
            env: self.env,
            caller_env: self.caller_env,
            home: self.home,
            network: network(py, &self.network)?,
            read_only: self.read_only,
            principal: self.principal,
            limits,
            asking: Asking::Ask,
            isolation: isolation(py, self.isolation.as_deref())?,
            image: self.image,
            ..RunSpec::new(Command::Argv(Vec::new()))
        })
    }
}

/// Says what is wrong with options, before anything is made that they are for.
#[pyfunction]
pub fn check_options(py: Python<'_>, options: SandboxOptions) -> PyResult<()> {
    options.spec(py).map(drop)
}

/// Whatever makes containers here.
const CONTAINER: &str = "container";

/// A daemon is slower, and only used where there is no runtime.
fn container() -> IsolationChoice {
    let host = std::env::var("DOCKER_HOST").ok();
    if ContainerRuntime::find().is_err() && Docker::find(host.as_deref()).is_ok() {
        IsolationChoice::Docker
    } else {
        IsolationChoice::Oci
    }
}

fn isolation(py: Python<'_>, name: Option<&str>) -> PyResult<IsolationChoice> {
    let name = match name {
        None => return Ok(IsolationChoice::default()),
        Some(CONTAINER) => return Ok(container()),
        Some(name) => name,
    };
    let known = IsolationChoice::ALL
        .into_iter()
        .find(|choice| choice.as_str() == name);
    known.ok_or_else(|| own(py, "invalid", format!("isolation: there is no '{name}'")))
}

fn network(py: Python<'_>, words: &[String]) -> PyResult<Network> {
    let choices: Result<Vec<NetworkChoice>, _> = words.iter().map(|word| word.parse()).collect();
    let choices = choices.map_err(|error| own(py, "invalid", format!("network: {error}")))?;
    Ok(NetworkChoice::all(&choices, Network::None))
}

/// A time that may be missing.
pub fn seconds(py: Python<'_>, name: &str, value: Option<f64>) -> PyResult<Option<Duration>> {
    let bad = |error| own(py, "invalid", format!("{name}: {error}"));
    value
        .map(|value| Duration::try_from_secs_f64(value).map_err(bad))
        .transpose()
}

/// A line for a shell, or a program and its arguments.
#[derive(FromPyObject)]
pub enum CommandWords {
    Line(String),
    Words(Vec<OsString>),
}

impl From<CommandWords> for Command {
    fn from(words: CommandWords) -> Command {
        match words {
            CommandWords::Line(line) => Command::Shell(line),
            CommandWords::Words(words) => Command::Argv(words),
        }
    }
}

/// One command.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CommandOptions {
    command: CommandWords,
    cwd: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    timeout: Option<f64>,
}

impl CommandOptions {
    /// For a sandbox that is open.
    pub fn read(self, py: Python<'_>) -> PyResult<SandboxCommand> {
        Ok(SandboxCommand {
            command: self.command.into(),
            cwd: self.cwd,
            env: self.env,
            stdin: self.stdin,
            timeout: seconds(py, "timeout", self.timeout)?,
        })
    }

    /// For a sandbox of its own.
    pub fn onto(self, py: Python<'_>, mut spec: RunSpec) -> PyResult<RunSpec> {
        spec.limits.timeout = seconds(py, "timeout", self.timeout)?.or(spec.limits.timeout);
        spec.env.extend(self.env);
        Ok(RunSpec {
            command: self.command.into(),
            cwd: self.cwd,
            stdin: self.stdin,
            ..spec
        })
    }
}
