//! Errors of the library as exceptions of the package.
//!
//! The classes are written in Python (`agentvfs/errors.py`), where they also inherit from the built-in exceptions that
//! Python programs catch. An error goes over as its stable code, its words, what helps, and its details; the code
//! decides the class.

use agentvfs::error::FileError;
use agentvfs::exec::{ErrorBody, RunError, RunOutcome};
use agentvfs::session::SessionStartError;
use agentvfs::{Error, Hint, ReadError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::hints;

/// Does work of the library without the interpreter's lock.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> agentvfs::Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|error| raised(py, &error))
}

/// The exception for an error of the library.
pub fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let mut details = Details::new(py);
    details.of_error(error);
    details.exception(&ErrorBody::from(error))
}

/// The exception for a sandbox or session that did not open.
pub fn not_opened(py: Python<'_>, error: &SessionStartError) -> PyErr {
    match error {
        SessionStartError::Library(error) => raised(py, error),
        SessionStartError::Launch(error) => Details::new(py).exception(&ErrorBody::from(error)),
        SessionStartError::Refused(body) => Details::new(py).exception(body),
    }
}

/// The exception for a run without an ordinary end.
pub fn of_run(py: Python<'_>, error: &RunError, outcome: &RunOutcome) -> PyErr {
    let mut details = Details::new(py);
    if let RunError::Library(error) = error {
        details.of_error(error);
    }
    if let Some(approval) = &outcome.approval {
        details.put("approval_id", approval.to_string());
    }
    details.exception(&error.body())
}

/// An exception of the package itself.
pub fn own(py: Python<'_>, code: &str, message: impl Into<String>) -> PyErr {
    Details::new(py).exception(&ErrorBody {
        code: code.to_owned(),
        message: message.into(),
        hint: None,
    })
}

/// The exception for a sandbox that is over.
pub fn closed(py: Python<'_>) -> PyErr {
    own(py, "sandbox-not-running", "the sandbox is closed")
}

/// The exception for something that a forked child cannot use.
pub fn of_parent(py: Python<'_>) -> PyErr {
    own(
        py,
        "sandbox-not-running",
        "this belongs to the parent of this process: open it again here",
    )
}

/// What an exception has besides its words.
struct Details<'py>(Bound<'py, PyDict>);

impl<'py> Details<'py> {
    fn new(py: Python<'py>) -> Details<'py> {
        Details(PyDict::new(py))
    }

    fn put(&mut self, name: &str, value: impl IntoPyObject<'py>) {
        // A detail that cannot be told is left out; the error itself counts.
        let _ = self.0.set_item(name, value);
    }

    fn of_error(&mut self, error: &Error) {
        match error {
            Error::File(FileError::StaleVersion {
                path,
                expected,
                found,
            }) => {
                self.put("path", path.to_string());
                self.put("expected", expected.as_str());
                self.put("actual", found.as_str());
            }
            Error::File(FileError::Tree { path, .. } | FileError::Mode { path, .. }) => {
                self.put("path", path.to_string())
            }
            Error::File(FileError::Read { source, .. }) => {
                if let Some(path) = path_of(source) {
                    self.put("path", path);
                }
            }
            Error::Apply(agentvfs::error::ApplyError::Conflicts { conflicts, .. }) => {
                let paths: Vec<(String, &str)> = conflicts
                    .iter()
                    .map(|conflict| (conflict.path.to_string(), conflict.kind.as_str()))
                    .collect();
                self.put("conflicts", paths);
            }
            _ => {}
        }
    }

    fn exception(mut self, body: &ErrorBody) -> PyErr {
        if let Some(hint) = &body.hint {
            if let Some(id) = approval_of(hint) {
                self.put("approval_id", id);
            }
            if let Some(words) = hints::words(hint) {
                self.put("hint", words);
            }
        }
        let py = self.0.py();
        let made = || -> PyResult<PyErr> {
            let make = py.import("agentvfs.errors")?.getattr("from_native")?;
            let exception = make.call1((body.code.as_str(), body.message.as_str(), &self.0))?;
            Ok(PyErr::from_value(exception))
        };
        made().unwrap_or_else(|error| error)
    }
}

fn path_of(error: &ReadError) -> Option<String> {
    match error {
        ReadError::NotFound { path }
        | ReadError::NotADirectory { path }
        | ReadError::IsADirectory { path }
        | ReadError::NotAFile { path }
        | ReadError::Denied { path, .. }
        | ReadError::Object { path, .. } => Some(path.to_string()),
    }
}

fn approval_of(hint: &Hint) -> Option<&str> {
    match hint {
        Hint::AnswerApproval { id } | Hint::UseApproval { id } => Some(id),
        Hint::RunWithNetwork { approval, .. } => approval.as_deref(),
        _ => None,
    }
}
