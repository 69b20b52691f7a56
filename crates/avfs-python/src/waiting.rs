//! Calls that wait: without the interpreter's lock, and ended by `Ctrl-C`.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use agentvfs::exec::sandbox::Cancel;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// How long a signal may wait for its handler while the main thread waits for a command.
pub const HANDLING: Duration = Duration::from_millis(20);

/// Ends a run from another thread.
#[pyclass(frozen, module = "agentvfs._native")]
pub struct CancelToken(Cancel);

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> PyResult<CancelToken> {
        let cancel = Cancel::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(CancelToken(cancel))
    }

    /// Ends the run that has this token, or keeps it from starting.
    fn cancel(&self) {
        self.0.cancel();
    }
}

impl CancelToken {
    pub fn cancel_of(&self) -> Cancel {
        self.0.clone()
    }
}

/// Does work that may take long. Python runs signal handlers in its main thread alone, so there another thread does the
/// work, and an exception of a handler, such as `KeyboardInterrupt`, cancels it.
pub fn wait<T: Send>(py: Python<'_>, cancel: &Cancel, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    if !is_main_thread() {
        return Ok(py.detach(work));
    }
    std::thread::scope(|scope| {
        let (done, mut ended) = channel();
        scope.spawn(move || {
            // The receiver lives as long as this scope.
            let _ = done.send(work());
        });
        let mut interrupted = Ok(());
        loop {
            let waited;
            (ended, waited) = py.detach(move || receive(ended));
            match waited {
                Ok(answer) => return interrupted.map(|()| answer),
                // The scope goes on with the panic of its thread.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("a thread panicked"));
                }
                Err(RecvTimeoutError::Timeout) if interrupted.is_err() => {}
                Err(RecvTimeoutError::Timeout) => {
                    interrupted = py.check_signals();
                    if interrupted.is_err() {
                        cancel.cancel();
                    }
                }
            }
        }
    })
}

fn receive<T>(ended: Receiver<T>) -> (Receiver<T>, Result<T, RecvTimeoutError>) {
    let answer = ended.recv_timeout(HANDLING);
    (ended, answer)
}

fn is_main_thread() -> bool {
    rustix::thread::gettid() == rustix::process::getpid()
}
