//! Refusals, as gRPC and the gateway tell them.

use agentvfs::ErrorKind;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tonic::{Code, Status};

use crate::problem::Problem;
use crate::service::ServiceError;

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Status {
        let code = match (error.code.as_str(), error.kind) {
            ("too-many-sandboxes" | "too-many-commands", _) => Code::ResourceExhausted,
            (_, ErrorKind::BadInput) => Code::InvalidArgument,
            (_, ErrorKind::NotFound) => Code::NotFound,
            (_, ErrorKind::Conflict) => Code::FailedPrecondition,
            (_, ErrorKind::Busy) => Code::Unavailable,
            (_, ErrorKind::Denied) => Code::PermissionDenied,
            (_, ErrorKind::Full) => Code::ResourceExhausted,
            (_, ErrorKind::Corrupt) => Code::DataLoss,
            (_, ErrorKind::Internal) => Code::Internal,
        };
        Status::new(code, error.message)
    }
}

/// The answer of the gateway.
pub(super) struct Refusal(pub Status);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.0;
        let body = serde_json::json!({
            "code": i32::from(status.code()), "message": status.message(), "details": [],
        });
        let mut response = (http_status(status.code()), body.to_string()).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// A refusal by the entrance, if the request is one of this interface.
pub(crate) fn phrase(path: &str, headers: &HeaderMap, problem: &Problem) -> Option<Response> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let is_grpc = kind.is_some_and(|kind| kind.starts_with("application/grpc"));
    let is_gateway = path.starts_with("/v1/");
    if !is_grpc && !is_gateway {
        return None;
    }
    let code = match problem.status {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::BAD_REQUEST => Code::InvalidArgument,
        StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Internal,
    };
    let status = Status::new(code, problem.error.message.clone());
    Some(if is_grpc {
        status.into_http::<axum::body::Body>()
    } else {
        Refusal(status).into_response()
    })
}
