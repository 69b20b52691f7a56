//! Errors of calls without a stream: `{"code": STATUS, "message": …}`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::connect::CallError;
use crate::problem::Problem;
use crate::service::ServiceError;

/// Why a request was not fulfilled.
#[derive(Debug)]
pub(super) struct Failure {
    pub status: StatusCode,
    pub message: String,
}

impl Failure {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Failure {
        Failure {
            status,
            message: message.into(),
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, message)
    }

    /// It is part of the interface, but not of this server.
    pub fn absent(what: &str) -> Failure {
        Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            format!("this server has no {what}; see docs/e2b.md"),
        )
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Failure {
        let approval = problem.error.approval.as_deref();
        let asked = approval.map(|id| format!(" (approval {id})")).unwrap_or_default();
        Failure::new(problem.status, format!("{}{asked}", problem.error.message))
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Failure {
        Problem::from(error).into()
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Failure {
        Failure::new(error.status(), error.message())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let body = json!({ "code": self.status.as_u16(), "message": self.message });
        let mut response = (self.status, Json(body)).into_response();
        if matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            let later = HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, later);
        }
        response
    }
}
