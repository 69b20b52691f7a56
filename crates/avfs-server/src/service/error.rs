//! Why the server did not do what it was asked for, before any protocol phrases it.

use agentvfs::exec::{ErrorBody, FinishedRun, RunError};
use agentvfs::session::SessionStartError;
use agentvfs::{Error, ErrorCode, ErrorKind, Hint};

/// The answer of a call of the service.
pub type ServiceResult<T> = Result<T, ServiceError>;

/// A refusal or a failure.
#[derive(Clone, Debug)]
pub struct ServiceError {
    /// A name that stays the same when the words change.
    pub code: String,
    /// How a caller can react.
    pub kind: ErrorKind,
    /// What happened, for people.
    pub message: String,
    /// What would help.
    pub hint: Option<Box<Hint>>,
    /// The request that a person has to allow first.
    pub approval: Option<String>,
}

impl std::fmt::Display for ServiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.message)
    }
}

impl std::error::Error for ServiceError {}

impl ServiceError {
    /// An error of the server itself.
    pub fn new(code: &str, kind: ErrorKind, message: impl Into<String>) -> ServiceError {
        ServiceError {
            code: code.to_owned(),
            kind,
            message: message.into(),
            hint: None,
            approval: None,
        }
    }

    /// The input is wrong.
    pub fn invalid(message: impl Into<String>) -> ServiceError {
        ServiceError::new("invalid", ErrorKind::BadInput, message)
    }

    /// There is no such sandbox for this tenant. Whether another one has it is not told.
    pub fn unknown_sandbox(id: &str) -> ServiceError {
        let id = avfs_core::printable(id.as_bytes());
        ServiceError::new(
            "unknown-sandbox",
            ErrorKind::NotFound,
            format!("there is no sandbox '{id}'"),
        )
    }

    /// The server ends.
    pub fn ending() -> ServiceError {
        ServiceError::new("server-ending", ErrorKind::Busy, "the server is about to end")
    }

    /// The machine failed.
    pub fn host(action: &str, source: &std::io::Error) -> ServiceError {
        let kind = match source.kind() {
            std::io::ErrorKind::StorageFull => ErrorKind::Full,
            _ => ErrorKind::Internal,
        };
        ServiceError::new("host-io", kind, format!("{action}: {source}"))
    }

    /// Why a run has no ordinary end, if it has none.
    pub fn of_run(finished: &FinishedRun) -> Option<ServiceError> {
        let error = finished.error.as_ref()?;
        let kind = match error {
            RunError::Library(error) => error.kind(),
            RunError::Refused(_) | RunError::PermitGone => ErrorKind::Denied,
            RunError::Launch(_) => ErrorKind::Internal,
        };
        Some(ServiceError {
            approval: finished.outcome.approval.as_ref().map(ToString::to_string),
            ..ServiceError::of_body(error.body(), kind)
        })
    }

    fn of_body(body: ErrorBody, kind: ErrorKind) -> ServiceError {
        let approval = match &body.hint {
            Some(Hint::AnswerApproval { id }) => Some(id.clone()),
            _ => None,
        };
        let kind = match body.code.as_str() {
            // What the caller asked for cannot be; nothing is wrong with this machine.
            "no_such_directory" | "bad_plan" => ErrorKind::BadInput,
            code => ErrorCode::named(code).map_or(kind, ErrorCode::kind),
        };
        ServiceError {
            kind,
            code: body.code,
            message: body.message,
            hint: body.hint.map(Box::new),
            approval,
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> ServiceError {
        ServiceError {
            code: error.code().to_string(),
            kind: error.kind(),
            message: avfs_core::with_causes(&error),
            hint: error.hint().map(Box::new),
            approval: None,
        }
    }
}

impl From<rusqlite::Error> for ServiceError {
    fn from(error: rusqlite::Error) -> ServiceError {
        let kind = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => ErrorKind::Full,
            Some(rusqlite::ErrorCode::DatabaseBusy) => ErrorKind::Busy,
            _ => ErrorKind::Internal,
        };
        ServiceError::new("server-database", kind, format!("the server's database: {error}"))
    }
}

impl From<SessionStartError> for ServiceError {
    fn from(error: SessionStartError) -> ServiceError {
        match error {
            SessionStartError::Library(error) => error.into(),
            SessionStartError::Launch(error) => ServiceError::of_body((&error).into(), ErrorKind::Internal),
            SessionStartError::Refused(body) => ServiceError::of_body(body, ErrorKind::Denied),
        }
    }
}
