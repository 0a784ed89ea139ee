//! A refusal: the status and the one sentence that a client gets if its request is refused. Foreign bytes
//! appear only in JSON strings.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use khz_model::name::NameError;
use khz_model::{QuantityError, QueryError};
use tokio::task::JoinError;

use crate::json;

/// Why a request is not answered; becomes `{"error": "...", "column": n, "shown": "..."}`.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub error: String,
    /// Column from 1 in the pattern, and the pattern with a caret under that column.
    pub column: Option<(usize, String)>,
    /// Refused because answers hold all that they may.
    pub busy: bool,
    /// The methods that this path takes, if another one was used.
    pub allowed: Option<&'static str>,
}

/// Marks a response that was refused because answers hold all that they may.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverBudget;

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Refusal { status, error: error.into(), column: None, busy: false, allowed: None }
    }

    pub(crate) fn bad_request(error: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, error)
    }

    /// Another method than these.
    pub(crate) fn method(allowed: &'static str) -> Self {
        let error = format!("this path takes only {allowed}; /khz/v1/openapi.json lists every path");
        Refusal { allowed: Some(allowed), ..Refusal::new(StatusCode::METHOD_NOT_ALLOWED, error) }
    }

    /// Answers hold all that they may.
    pub(crate) fn busy() -> Self {
        let error = "answers hold all memory that this door has for them (answers_max): ask for less at once, or try again in a few seconds";
        Refusal { busy: true, ..Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error) }
    }

    /// The client takes an answer that holds much too slowly.
    pub(crate) fn slow() -> Self {
        let error =
            "the client takes this answer too slowly for the memory that it holds; ask for less at once";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    fn body(&self) -> String {
        let mut out = String::from("{\"error\":");
        json::text(&mut out, &self.error);
        if let Some((column, shown)) = &self.column {
            out.push_str(",\"column\":");
            json::number(&mut out, *column as u64);
            out.push_str(",\"shown\":");
            json::text(&mut out, shown);
        }
        out.push_str("}\n");
        out
    }
}

/// Work beside the door that was cut short: the process ends.
impl From<JoinError> for Refusal {
    fn from(_: JoinError) -> Self {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the hub ends")
    }
}

impl From<NameError> for Refusal {
    fn from(error: NameError) -> Self {
        let column = error.text.char_indices().take_while(|(at, _)| *at < error.at).count() + 1;
        let shown = error.to_string();
        Refusal { column: Some((column, shown)), ..Refusal::bad_request(error.problem) }
    }
}

impl From<QuantityError> for Refusal {
    fn from(error: QuantityError) -> Self {
        Refusal::bad_request(error.to_string())
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        let status = match error {
            QueryError::NothingMatches { .. }
            | QueryError::NoMemory
            | QueryError::NoStore
            | QueryError::OnlySince { .. } => StatusCode::NOT_FOUND,
            QueryError::AboveCeiling { .. }
            | QueryError::TooMuch { .. }
            | QueryError::RangeTooLarge { .. }
            | QueryError::RangeTooFine { .. }
            | QueryError::RangeBackwards => StatusCode::BAD_REQUEST,
            // What is asked makes sense: this node cannot do it, or is set not to.
            QueryError::Channel { .. } => StatusCode::CONFLICT,
            QueryError::Full { .. } => StatusCode::TOO_MANY_REQUESTS,
            QueryError::Stopped | QueryError::Unwritten => StatusCode::SERVICE_UNAVAILABLE,
        };
        Refusal::new(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = json::response(self.body());
        *response.status_mut() = self.status;
        if self.busy {
            response.extensions_mut().insert(OverBudget);
        }
        let headers = response.headers_mut();
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"khz\""));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static(self.allowed.unwrap_or("GET, HEAD")));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            }
            // The rest of this connection is a body that nobody reads.
            StatusCode::PAYLOAD_TOO_LARGE => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
