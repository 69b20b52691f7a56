//! A sandbox that is open, and the commands in it.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use agentvfs::exec::sandbox::launch::InnerProgram;
use agentvfs::exec::sandbox::terminal::TerminalSize;
use agentvfs::exec::sandbox::{Cancel, RunEvent};
use agentvfs::exec::{AfterRun, RunSpec, RunWatch};
use agentvfs::{Streams, Vault};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{self, detached};
use crate::forked::OwnProcess;
use crate::options::CommandOptions;
use crate::process::Process;
use crate::run::RunReport;
use crate::waiting::{CancelToken, wait};

/// A sandbox that is open: any number of commands run in it side by side.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct OpenSandbox(OwnProcess<Arc<Shared>>);

/// What the commands of a sandbox share with it.
pub struct Shared {
    /// Nothing once it is over.
    open: RwLock<Option<agentvfs::OpenSandbox>>,
}

impl Shared {
    pub fn get(&self) -> RwLockReadGuard<'_, Option<agentvfs::OpenSandbox>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenSandbox {
    pub fn open(
        py: Python<'_>,
        vault: &Vault,
        inside: InnerProgram,
        spec: &RunSpec,
    ) -> PyResult<OpenSandbox> {
        let opened = py.detach(|| vault.open_sandbox(spec, inside, None, Arc::new(|_| ())));
        let open = opened.map_err(|error| errors::not_opened(py, &error))?;
        Ok(OpenSandbox(OwnProcess::new(Arc::new(Shared {
            open: RwLock::new(Some(open)),
        }))))
    }

    fn shared(&self, py: Python<'_>) -> PyResult<&Arc<Shared>> {
        self.0.get().ok_or_else(|| errors::closed(py))
    }
}

#[pymethods]
impl OpenSandbox {
    /// Runs a command to its end. `listener` is called with each piece of output, and whether it is of standard output.
    fn exec(
        &self,
        py: Python<'_>,
        command: CommandOptions,
        cancel: &CancelToken,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<RunReport> {
        let cancel = cancel.cancel_of();
        let command = command.read(py)?;
        let shared = self.shared(py)?;
        let mut listener = Listener::new(listener, &cancel);
        let finished = wait(py, &cancel, || {
            let open = shared.get();
            open.as_ref()
                .map(|open| open.exec(command, &cancel, &mut listener))
        })?;
        listener.check()?;
        match finished {
            Some(finished) => RunReport::of(py, &finished),
            None => Err(errors::closed(py)),
        }
    }

    /// Starts a command that goes on beside its caller, with a terminal of this many rows and columns, or with pipes.
    fn start(
        &self,
        py: Python<'_>,
        command: CommandOptions,
        terminal: Option<(u16, u16)>,
    ) -> PyResult<Process> {
        let command = command.read(py)?;
        let streams = match terminal {
            Some((rows, columns)) => Streams::Terminal(TerminalSize { rows, columns }),
            None => Streams::Pipes,
        };
        Process::start(py, self.shared(py)?, command, streams)
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.0.get().is_some_and(|shared| shared.get().is_some())
    }

    /// Has every process in it end, without waiting.
    fn stop(&self) {
        if let Some(shared) = self.0.get()
            && let Some(open) = &*shared.get()
        {
            open.stop();
        }
    }

    /// Ends every process in it and unmounts the vault. What others still need of this process for the vault, which is
    /// named by its store and its name, is served on in the background, or waited for.
    fn close(&self, py: Python<'_>, vault_key: VaultKey, waits: bool) -> PyResult<()> {
        let Some(shared) = self.0.get() else { return Ok(()) };
        let after = detached(py, || {
            if let Some(open) = &*shared.get() {
                open.stop();
            }
            // Commands that run hold the lock until they are written down.
            let open = shared.open.write().unwrap_or_else(PoisonError::into_inner).take();
            open.map(agentvfs::OpenSandbox::end).transpose()
        })?;
        if let Some(after) = after {
            SERVED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((vault_key.clone(), OwnProcess::new(after)));
        }
        if waits {
            // Of this vault alone: another one may be in use for as long as this thread waits here.
            await_those(py, |served| *served == vault_key);
        }
        Ok(())
    }
}

/// A vault, by the place of its store and its name.
type VaultKey = (String, String);

/// What this process still does for vaults whose sandboxes it has closed.
static SERVED: Mutex<Vec<(VaultKey, OwnProcess<AfterRun>)>> = Mutex::new(Vec::new());

/// Waits until nobody needs this process any more for a vault whose sandbox was closed.
#[pyfunction]
pub fn await_served(py: Python<'_>) {
    await_those(py, |_| true);
}

fn await_those(py: Python<'_>, is_meant: impl Fn(&VaultKey) -> bool + Send + Sync) {
    py.detach(|| {
        let mut all = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
        let (meant, others) = std::mem::take(&mut *all)
            .into_iter()
            .partition(|(vault, _)| is_meant(vault));
        *all = others;
        drop(all);
        let meant: Vec<(VaultKey, OwnProcess<AfterRun>)> = meant;
        for after in meant.into_iter().filter_map(|(_, after)| after.into_inner()) {
            after.wait();
        }
    });
}

/// Tells Python of output. When that raises, the command is ended.
pub struct Listener<'a> {
    call: Option<Py<PyAny>>,
    cancel: &'a Cancel,
    raised: Option<PyErr>,
}

impl<'a> Listener<'a> {
    pub fn new(call: Option<Py<PyAny>>, cancel: &'a Cancel) -> Listener<'a> {
        Listener {
            call,
            cancel,
            raised: None,
        }
    }

    /// The exception that the listener has raised.
    pub fn check(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}

impl RunWatch for Listener<'_> {
    fn event(&mut self, event: RunEvent<'_>) {
        let (bytes, is_stdout) = match event {
            RunEvent::Stdout(bytes) => (bytes, true),
            RunEvent::Stderr(bytes) => (bytes, false),
            RunEvent::Started | RunEvent::Stopping(_) | RunEvent::Refused(_) => return,
        };
        let Some(call) = self.call.as_ref().filter(|_| self.raised.is_none()) else {
            return;
        };
        let told = Python::attach(|py| call.call1(py, (PyBytes::new(py, bytes), is_stdout)).map(drop));
        if let Err(error) = told {
            self.raised = Some(error);
            self.cancel.cancel();
        }
    }
}
