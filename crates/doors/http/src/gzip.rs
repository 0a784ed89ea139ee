//! Packs answers with gzip while they are sent, for clients that accept it. Packs page by page, as pages are
//! built, and never delays a stream of events.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Body as _, Frame};
use khz_model::{Budget, Share};

use crate::accept::thousandths;
use crate::limits::{HANDED_BYTES, PACKED_FROM, PACKER_BYTES};

/// At the fastest level, text of names and numbers shrinks to a tenth, at one millisecond for some hundred
/// kilobytes. Higher levels take longer for little gain.
const LEVEL: Compression = Compression::fast();

/// Whether the client prefers gzip, by RFC 9110; without the header it gets the bytes unpacked.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut identity) = (None, None, None);
    let fields = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for coding in fields.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        // Ignores a weight that cannot be read.
        let Some(weight) = weight.map_or(Some(1_000), thousandths) else { continue };
        match name.as_str() {
            "gzip" | "x-gzip" => gzip = gzip.max(Some(weight)),
            "identity" => identity = Some(weight),
            "*" => any = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && gzip >= identity.unwrap_or(0)
}

/// Tells caches that the answer depends on Accept-Encoding.
pub(crate) fn vary(headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
}

/// The answer, packed if the client accepts gzip and packing helps.
pub(crate) fn of(mut response: Response, is_accepted: bool, budget: &Budget) -> Response {
    if !is_text(response.headers()) || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    vary(response.headers_mut());
    let is_short = response.body().size_hint().upper().is_some_and(|bytes| bytes < PACKED_FROM);
    if !is_accepted || is_short {
        return response;
    }
    // Without room for packing, the client gets the answer unpacked.
    let Some(share) = budget.take(PACKER_BYTES) else { return response };
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.map(|body| {
        let packer = GzEncoder::new(Vec::with_capacity(2 * HANDED_BYTES), LEVEL);
        Body::new(Packed { body, packer: Some(packer), _share: share })
    })
}

/// True for texts, except streams of events: their events must leave at once.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    matches!(kind, "application/json" | "application/openmetrics-text" | "text/plain")
}

/// A body that is packed while it is sent.
struct Packed {
    body: Body,
    /// `None` when everything is packed.
    packer: Option<GzEncoder<Vec<u8>>>,
    _share: Share,
}

impl Packed {
    /// Takes the packed bytes; the packer continues with an empty page.
    fn hand_over(packer: &mut GzEncoder<Vec<u8>>) -> Bytes {
        Bytes::from(std::mem::replace(packer.get_mut(), Vec::with_capacity(2 * HANDED_BYTES)))
    }
}

impl http_body::Body for Packed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Packed { body, packer, .. } = &mut *self;
        let Some(open) = packer else { return Poll::Ready(None) };
        let bytes = loop {
            match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending if open.get_ref().is_empty() => return Poll::Pending,
                Poll::Pending => break Packed::hand_over(open),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        open.write_all(&data)?;
                    }
                    if open.get_ref().len() >= HANDED_BYTES {
                        break Packed::hand_over(open);
                    }
                }
                Poll::Ready(None) => match packer.take() {
                    Some(last) => break Bytes::from(last.finish()?),
                    None => return Poll::Ready(None),
                },
            }
        };
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.packer.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_coding_wins_and_without_a_header_nothing_is_packed() {
        for (accept, expected) in [
            (None, false),
            (Some(""), false),
            (Some("gzip"), true),
            (Some("x-gzip"), true),
            (Some("GZip;q=1.0"), true),
            (Some("deflate, gzip;q=1.0, *;q=0.5"), true),
            (Some("br, zstd"), false),
            (Some("gzip;q=0"), false),
            (Some("gzip;q=0.000, *"), false),
            (Some("*"), true),
            (Some("*;q=0"), false),
            (Some("identity"), false),
            (Some("gzip;q=0.5, identity"), false),
            (Some("gzip;q=0.5, identity;q=0.4"), true),
            (Some("gzip, identity;q=0"), true),
            (Some("gzip;q=nonsense"), false),
            (Some(";;,,=q"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            }
            assert_eq!(is_accepted(&headers), expected, "{accept:?}");
        }
    }
}
