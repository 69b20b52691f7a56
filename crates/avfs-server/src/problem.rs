//! Answers that say what went wrong, as RFC 9457 has them.

use agentvfs::ErrorKind;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;

use crate::connection::is_too_slow;
use crate::service::ServiceError;

/// The type of the body of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request was not fulfilled.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) error: ServiceError,
}

/// The body of a problem (RFC 9457).
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProblemBody {
    /// `urn:avfs:problem:` and the code.
    r#type: String,
    /// The status in words.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What happened, for people. The words may change.
    detail: String,
    /// A name that stays the same when the words change.
    code: String,
    /// What would help, as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<serde_json::Value>,
    /// The request that a person has to allow first.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Problem {
        Problem {
            status,
            error: ServiceError::new(code, ErrorKind::BadInput, message),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad-request", message)
    }

    /// The body could not be read to its end.
    pub(crate) fn of_body(error: &(dyn std::error::Error + 'static)) -> Problem {
        if is_too_slow(error) {
            let text = "the body does not come, or too slowly";
            return Problem::new(StatusCode::REQUEST_TIMEOUT, "slow-client", text);
        }
        Problem::bad_request(format!("the body: {error}"))
    }

    pub(crate) fn unauthenticated() -> Problem {
        let text = "the request needs a token: `Authorization: Bearer avfs_…`";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", text)
    }

    pub(crate) fn invalid_token() -> Problem {
        let text = "the token is not valid here: it is unknown, revoked or expired";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", text)
    }

    pub(crate) fn body(&self) -> ProblemBody {
        let hint = self
            .error
            .hint
            .as_ref()
            .and_then(|hint| serde_json::to_value(hint).ok());
        ProblemBody {
            r#type: format!("urn:avfs:problem:{}", self.error.code),
            title: self.status.canonical_reason().unwrap_or("Error").to_owned(),
            status: self.status.as_u16(),
            detail: self.error.message.clone(),
            code: self.error.code.clone(),
            hint,
            approval: self.error.approval.clone(),
        }
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Problem {
        let status = match (error.code.as_str(), error.kind) {
            ("stale-version", _) => StatusCode::PRECONDITION_FAILED,
            ("too-large", _) => StatusCode::PAYLOAD_TOO_LARGE,
            ("too-many-sandboxes" | "too-many-sessions" | "too-many-commands", _) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            (_, ErrorKind::BadInput) => StatusCode::BAD_REQUEST,
            (_, ErrorKind::NotFound) => StatusCode::NOT_FOUND,
            (_, ErrorKind::Conflict) => StatusCode::CONFLICT,
            (_, ErrorKind::Busy) => StatusCode::SERVICE_UNAVAILABLE,
            (_, ErrorKind::Denied) => StatusCode::FORBIDDEN,
            (_, ErrorKind::Full) => StatusCode::INSUFFICIENT_STORAGE,
            (_, ErrorKind::Corrupt | ErrorKind::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem { status, error }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // A struct of texts and numbers is always JSON.
        let body = serde_json::to_vec(&self.body()).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
