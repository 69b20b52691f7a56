//! The shell over a filesystem in memory, for Python.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avfs_shell::{
    Canceller, CommandCall, CommandResult, HostBridge, HostCall, OwnCommand, SandboxShell, ShellError,
    ShellLimits, ShellOptions,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::vfs::{Vfs, wrapped};

/// How long a signal may wait for its handler while a line runs.
const HANDLING: Duration = Duration::from_millis(20);

/// A shell. The class `SandboxShell` adds what is easier in Python.
#[pyclass(subclass, frozen, module = "agentvfs._native")]
pub struct Shell {
    shell: Mutex<SandboxShell>,
    canceller: Canceller,
}

/// The limits as keywords.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LimitValues {
    timeout: f64,
    max_commands: usize,
    max_loop_rounds: usize,
    max_depth: usize,
}

#[pymethods]
impl Shell {
    #[new]
    #[pyo3(signature = (vfs, allowed_commands, max_output_bytes, env, cwd, limits, commands, bridge, host_fallback))]
    #[expect(
        clippy::too_many_arguments,
        reason = "only the Python part of the package calls it"
    )]
    fn new(
        py: Python<'_>,
        vfs: &Vfs,
        allowed_commands: Option<BTreeSet<String>>,
        max_output_bytes: Option<usize>,
        env: BTreeMap<String, String>,
        cwd: Option<String>,
        limits: LimitValues,
        commands: BTreeMap<String, Py<PyAny>>,
        bridge: Option<Py<PyAny>>,
        host_fallback: bool,
    ) -> PyResult<Shell> {
        let bridge = bridge.map(|bridge| Arc::new(PythonBridge(bridge)) as Arc<dyn HostBridge>);
        let commands = commands
            .into_iter()
            .map(|(name, command)| (name, own_command(command)));
        let options = ShellOptions {
            view: None,
            allowed_commands,
            max_output_bytes,
            env,
            cwd,
            limits: ShellLimits {
                time: Duration::try_from_secs_f64(limits.timeout)
                    .map_err(|error| crate::errors::own(py, "invalid", error.to_string()))?,
                commands: limits.max_commands,
                loop_rounds: limits.max_loop_rounds,
                depth: limits.max_depth,
            },
            commands: commands.collect(),
            bridge,
            host_fallback,
        };
        let shell = SandboxShell::with_options(&vfs.vfs, options);
        let shell = shell.map_err(|error| crate::vfs::vfs_error(py, error))?;
        Ok(Shell {
            canceller: shell.canceller(),
            shell: Mutex::new(shell),
        })
    }

    /// Standard output, standard error and status.
    fn _exec<'py>(
        &self,
        py: Python<'py>,
        script: &str,
        stdin: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, i32)> {
        let outcome = self.interruptibly(py, || self.shell().exec_with_input(script, stdin))?;
        let result = outcome.map_err(|error| shell_error(py, &error))?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok((bytes(&result.stdout), bytes(&result.stderr), result.exit_code))
    }

    fn _register_command(&self, name: &str, command: Py<PyAny>) {
        self.shell().register_command(name, own_command(command));
    }

    /// Ends the line that another thread runs.
    fn cancel(&self) {
        self.canceller.cancel();
    }

    #[getter]
    fn cwd(&self) -> String {
        self.shell().cwd()
    }

    fn _variable(&self, name: &str) -> Option<String> {
        self.shell().variable(name)
    }

    fn _set_variable(&self, name: &str, value: &str) {
        self.shell().set_variable(name, value);
    }

    fn __repr__(&self) -> String {
        format!("SandboxShell(in '{}')", self.cwd())
    }
}

impl Shell {
    fn shell(&self) -> MutexGuard<'_, SandboxShell> {
        self.shell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Python runs signal handlers in its main thread alone, so another one does the work, and an exception of a
    /// handler, such as `KeyboardInterrupt`, cancels it.
    fn interruptibly<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
        if rustix::thread::gettid() != rustix::process::getpid() {
            return Ok(py.detach(work));
        }
        std::thread::scope(|scope| {
            let (done, mut ended) = channel();
            // The receiver lives as long as this scope.
            scope.spawn(move || drop(done.send(work())));
            let mut interrupted = Ok(());
            loop {
                let answer;
                (ended, answer) = py.detach(move || {
                    let answer = ended.recv_timeout(HANDLING);
                    (ended, answer)
                });
                match answer {
                    Ok(answer) => return interrupted.map(|()| answer),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(PyRuntimeError::new_err("a thread panicked"));
                    }
                    Err(RecvTimeoutError::Timeout) if interrupted.is_err() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        interrupted = py.check_signals();
                        if interrupted.is_err() {
                            self.canceller.cancel();
                        }
                    }
                }
            }
        })
    }
}

fn shell_error(py: Python<'_>, error: &ShellError) -> PyErr {
    let make = py.import("agentvfs._vfs_errors").and_then(|module| {
        let details = PyDict::new(py);
        module
            .getattr("from_vfs")?
            .call1((error.code(), error.to_string(), details))
    });
    make.map_or_else(|error| error, PyErr::from_value)
}

/// What a command of Python is called with, as keywords.
fn call_values<'py>(py: Python<'py>, call: &CommandCall) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("name", &call.name)?;
    values.set_item("args", &call.args)?;
    values.set_item("stdin", PyBytes::new(py, &call.stdin))?;
    values.set_item("cwd", &call.cwd)?;
    values.set_item("env", &call.env)?;
    values.set_item("vfs", wrapped(py, &call.vfs)?)?;
    Ok(values)
}

/// Calls Python through `agentvfs.vfs`, which turns what it returns into bytes, bytes and a status.
fn called(
    run: &str,
    command: &Py<PyAny>,
    call: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
) -> CommandResult {
    let outcome = Python::attach(|py| -> PyResult<CommandResult> {
        let runner = py.import("agentvfs.vfs")?.getattr(run)?;
        let (stdout, stderr, exit_code) = runner
            .call1((command, call(py)?))?
            .extract::<(Vec<u8>, Vec<u8>, i32)>()?;
        Ok(CommandResult {
            stdout,
            stderr,
            exit_code,
        })
    });
    outcome.unwrap_or_else(|error| CommandResult::failure(1, format!("{error}\n")))
}

fn own_command(command: Py<PyAny>) -> Arc<OwnCommand> {
    Arc::new(move |call: &CommandCall| {
        called("_run_own", &command, |py| {
            Ok(call_values(py, call)?.into_any().unbind())
        })
    })
}

struct PythonBridge(Py<PyAny>);

impl HostBridge for PythonBridge {
    fn run(&self, call: &HostCall) -> CommandResult {
        called("_run_bridge", &self.0, |py| {
            let values = call_values(py, &call.call)?;
            values.set_item("argv", &call.argv)?;
            values.set_item("tree", format!("{}", call.tree))?;
            Ok(values.into_any().unbind())
        })
    }
}
