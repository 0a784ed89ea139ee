//! The page's files, embedded when the door is built. It refuses to read files at run time.

use axum::Extension;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::exchange::Embedded;

/// One file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Path in the URL.
    pub path: &'static str,
    pub content_type: &'static str,
    /// In quotes, as in the header.
    pub etag: &'static str,
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The file, or 304 when the client has it already.
pub(crate) fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let known = [
        (header::ETAG, HeaderValue::from_static(asset.etag)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    let unchanged = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|tags| tags.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == asset.etag);
    if unchanged {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type))];
    (Extension(Embedded), known, kind, asset.bytes).into_response()
}
