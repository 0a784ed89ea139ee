//! An error in Prometheus' form: `{"status":"error","errorType":"bad_data","error":"..."}`, with its status code.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use khz_promql::QueryError;

use crate::engine::EngineError;
use crate::json;
use crate::refusal::{OverBudget, Refusal};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    kind: &'static str,
    text: String,
    /// Refused because answers hold all that they may.
    is_busy: bool,
}

impl Failure {
    /// The request is wrong.
    pub fn bad(text: impl Into<String>) -> Self {
        QueryError::Bad(text.into()).into()
    }

    /// A parameter is wrong.
    pub fn parameter(name: &str, problem: impl std::fmt::Display) -> Self {
        Failure::bad(format!("invalid parameter \"{name}\": {problem}"))
    }

    /// The same failure; what is wrong with a request that names no parameter is wrong with its query.
    pub fn of_query(self) -> Self {
        let is_named =
            self.text.starts_with("invalid parameter") || self.text.starts_with("exceeded maximum");
        match self.kind == "bad_data" && !is_named {
            true => Failure::parameter("query", self.text),
            false => self,
        }
    }

    /// The door is closing.
    pub fn closing() -> Self {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing").into()
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        let status = match error {
            QueryError::Bad(_) => StatusCode::BAD_REQUEST,
            QueryError::Execution(_) => StatusCode::UNPROCESSABLE_ENTITY,
            QueryError::Timeout(_) | QueryError::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
            QueryError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure { status, kind: error.kind(), text: error.to_string(), is_busy: false }
    }
}

/// The same for khz's own paths: what cannot be read is not there, and what fails may be tried again.
impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        let status = match failure.status {
            StatusCode::UNPROCESSABLE_ENTITY => StatusCode::NOT_FOUND,
            status if status.is_server_error() => StatusCode::SERVICE_UNAVAILABLE,
            status => status,
        };
        Refusal { busy: failure.is_busy, ..Refusal::new(status, failure.text) }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.status {
            StatusCode::NOT_FOUND => "not_found",
            status if status.is_client_error() => "bad_data",
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::BAD_GATEWAY => "unavailable",
            _ => "internal",
        };
        Failure { status: refusal.status, kind, text: refusal.error, is_busy: refusal.busy }
    }
}

/// The kinds of errors that Prometheus knows.
const KINDS: [&str; 9] = [
    "bad_data",
    "execution",
    "timeout",
    "canceled",
    "internal",
    "unavailable",
    "not_found",
    "not_acceptable",
    "too_many_requests",
];

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (status, kind, text) = match error {
            EngineError::Refused { status, kind, text } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
                // Some engines have other words, such as the status.
                let kind = KINDS.into_iter().find(|known| *known == kind).unwrap_or(match status {
                    StatusCode::BAD_REQUEST => "bad_data",
                    StatusCode::NOT_FOUND => "not_found",
                    StatusCode::TOO_MANY_REQUESTS => "too_many_requests",
                    status if status.is_client_error() => "execution",
                    StatusCode::SERVICE_UNAVAILABLE => "unavailable",
                    _ => "internal",
                });
                (status, kind, text)
            }
            EngineError::Late(text) => (StatusCode::SERVICE_UNAVAILABLE, "timeout", text),
            EngineError::Unusable(text) => (StatusCode::BAD_GATEWAY, "unavailable", text),
        };
        Failure { status, kind, text, is_busy: false }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut out = String::from("{\"status\":\"error\",\"errorType\":");
        json::text(&mut out, self.kind);
        out.push_str(",\"error\":");
        json::text(&mut out, &self.text);
        out.push('}');
        let mut response = json::response(out);
        *response.status_mut() = self.status;
        if self.is_busy {
            response.extensions_mut().insert(OverBudget);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}
