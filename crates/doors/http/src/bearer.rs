//! The token of a request, and the status of a request whose token is missing or wrong (401, or 403). The crate `door` decides
//! what a token is worth; the sentences are in its `access.rs` and in `trust/token.rs`.

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use khz_door::AccessError;

use crate::refusal::Refusal;

/// The token in `Authorization: Bearer TOKEN`, if there is one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut fields = headers.get_all(header::AUTHORIZATION).iter();
    let Some(field) = fields.next() else { return Ok(None) };
    let token = field.to_str().ok().and_then(|field| field.split_once(' '));
    match token {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && fields.next().is_none() => {
            Ok(Some(token))
        }
        _ => {
            Err(Refusal::new(StatusCode::UNAUTHORIZED, "the Authorization header is not one 'Bearer TOKEN'"))
        }
    }
}

impl From<AccessError> for Refusal {
    fn from(error: AccessError) -> Self {
        let status = match error {
            AccessError::Unknown(_) | AccessError::Nameless { .. } => StatusCode::UNAUTHORIZED,
            AccessError::Sender(_) | AccessError::TooFast { .. } | AccessError::NoOperator { .. } => {
                StatusCode::FORBIDDEN
            }
        };
        Refusal::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn what_is_no_bearer_token_is_refused() {
        for text in ["Basic YTpi", "Bearer", ""] {
            let value = HeaderValue::from_str(text).unwrap();
            let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            assert_eq!(bearer(&headers).unwrap_err().status, StatusCode::UNAUTHORIZED, "{text}");
        }
        let mut twice = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("Bearer a"))]);
        assert_eq!(bearer(&twice).unwrap(), Some("a"));
        twice.append(header::AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert!(bearer(&twice).is_err());
        assert_eq!(bearer(&HeaderMap::new()).unwrap(), None);
    }
}
