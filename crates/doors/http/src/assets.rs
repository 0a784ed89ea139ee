//! The page's files, embedded when the program is built. Nothing is read at run time.

use axum::Extension;
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::exchange::Embedded;
use crate::gzip;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// One file of the page.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Path in the URL.
    pub path: &'static str,
    pub content_type: &'static str,
    /// In quotes, as the header writes it.
    pub etag: &'static str,
    pub bytes: &'static [u8],
    /// The file packed with gzip, and its own tag, since the bytes differ.
    pub packed: &'static [u8],
    pub packed_etag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The source of a file of the page, such as `plot.js`: for pages that are files and have no server.
pub fn page_file(name: &str) -> Option<&'static str> {
    SOURCES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The file, or 304 when the client already has it.
pub(crate) fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let (etag, bytes, coding) = match gzip::is_accepted(headers) {
        true => (asset.packed_etag, asset.packed, Some((header::CONTENT_ENCODING, GZIP))),
        false => (asset.etag, asset.bytes, None),
    };
    let known = [
        (header::ETAG, HeaderValue::from_static(etag)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
    ];
    let is_ours = |tag: &str| tag == asset.etag || tag == asset.packed_etag;
    let unchanged = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|tags| tags.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|tag| matches!(tag.trim(), "*") || is_ours(tag.trim().trim_start_matches("W/")));
    if unchanged {
        return (StatusCode::NOT_MODIFIED, known).into_response();
    }
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type))];
    let mut response = (Extension(Embedded), known, kind, bytes).into_response();
    response.headers_mut().extend(coding);
    response
}
