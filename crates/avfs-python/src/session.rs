//! A shell that stays, with its directory, its variables and its `/tmp`.

use std::sync::{Arc, Mutex, PoisonError};

use agentvfs::exec::RunWatch;
use agentvfs::session::{HeldSession, SessionCommand};
use pyo3::prelude::*;

use crate::errors::{detached, own, raised};
use crate::forked::OwnProcess;
use crate::options::{CommandWords, seconds};
use crate::sandbox::Listener;
use crate::waiting::{CancelToken, wait};

/// A session of this process.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct Session {
    id: String,
    /// Nothing once it is over.
    held: OwnProcess<Mutex<Option<Arc<HeldSession>>>>,
}

impl Session {
    pub fn new(held: HeldSession) -> Session {
        Session {
            id: held.id().to_owned(),
            held: OwnProcess::new(Mutex::new(Some(Arc::new(held)))),
        }
    }

    fn held(&self) -> Option<Arc<HeldSession>> {
        let held = self.held.get()?;
        held.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl Session {
    #[getter]
    fn id(&self) -> &str {
        &self.id
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.held().is_some()
    }

    /// Runs a command and returns its envelope, as JSON.
    fn exec(
        &self,
        py: Python<'_>,
        command: CommandWords,
        stdin: Option<Vec<u8>>,
        timeout: Option<f64>,
        cancel: &CancelToken,
        listener: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let held = self.held().ok_or_else(|| closed(py))?;
        let command = SessionCommand {
            timeout: seconds(py, "timeout", timeout)?,
            stdin,
            wait: true,
            ..SessionCommand::new(command.into())
        };
        let cancel = cancel.cancel_of();
        let mut listener = Listener::new(listener, &cancel);
        let answer = wait(py, &cancel, || {
            held.exec_until(&command, &cancel, &mut |event| listener.event(event))
        })?;
        listener.check()?;
        Ok(answer.map_err(|error| raised(py, &error))?.line)
    }

    /// Ends the session and everything in it.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(held) = self.held.get() else {
            return Ok(());
        };
        detached(py, || {
            let held = held.lock().unwrap_or_else(PoisonError::into_inner).take();
            match held.map(Arc::try_unwrap) {
                Some(Ok(held)) => held.end(),
                // A command runs in it: the last one who holds it ends it.
                Some(Err(_)) | None => Ok(()),
            }
        })
    }
}

fn closed(py: Python<'_>) -> PyErr {
    own(py, "session-closed", "the session is closed")
}
