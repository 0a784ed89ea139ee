//! Content negotiation for the exposition: which of two formats an `Accept` header prefers. Never answers
//! 406: a scraper that names neither gets the older text format, as from Prometheus's own libraries.

use axum::http::header::{self, HeaderMap};

use crate::exposition::Format;

/// The format that the client prefers; the older text format if it has no preference.
pub(crate) fn negotiate(headers: &HeaderMap) -> Format {
    let ranges: Vec<Range> = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(Range::parse)
        .collect();
    let open_metrics = quality(&ranges, "application", "openmetrics-text", &["1.0.0"]);
    let text = quality(&ranges, "text", "plain", &["0.0.4"]);
    if open_metrics > text { Format::OpenMetrics } else { Format::Text }
}

/// One media range: `application/openmetrics-text;version=1.0.0;q=0.8`.
#[derive(Debug)]
struct Range {
    kind: String,
    subkind: String,
    version: Option<String>,
    /// In thousandths, the precision of the header.
    quality: u16,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let mut parts = text.split(';').map(str::trim);
        let (kind, subkind) = parts.next()?.split_once('/')?;
        let mut range = Range {
            kind: kind.to_ascii_lowercase(),
            subkind: subkind.to_ascii_lowercase(),
            version: None,
            quality: 1_000,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "q" => range.quality = thousandths(value)?,
                "version" => range.version = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(range)
    }

    /// How closely this range names the type, higher is closer; `None` when it does not match.
    fn closeness(&self, kind: &str, subkind: &str, versions: &[&str]) -> Option<u8> {
        match (self.kind.as_str(), self.subkind.as_str(), self.version.as_deref()) {
            ("*", "*", _) => Some(0),
            (k, "*", _) if k == kind => Some(1),
            (k, s, None) if k == kind && s == subkind => Some(2),
            (k, s, Some(version)) if k == kind && s == subkind && versions.contains(&version) => Some(3),
            _ => None,
        }
    }
}

/// The quality by the closest range, as RFC 9110 says; 0 when none matches.
fn quality(ranges: &[Range], kind: &str, subkind: &str, versions: &[&str]) -> u16 {
    let matching =
        ranges.iter().filter_map(|range| Some((range.closeness(kind, subkind, versions)?, range.quality)));
    matching.max().map_or(0, |(_, quality)| quality)
}

/// `0.75` as 750; `None` where the text is no quality.
pub(crate) fn thousandths(text: &str) -> Option<u16> {
    let quality: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&quality).then_some((quality * 1_000.0).round() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_preferred_format_wins() {
        for (accept, expected) in [
            ("", Format::Text),
            ("*/*", Format::Text),
            ("text/html", Format::Text),
            ("application/openmetrics-text", Format::OpenMetrics),
            ("application/openmetrics-text; version=1.0.0; charset=utf-8", Format::OpenMetrics),
            ("application/openmetrics-text;version=0.0.1", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            (
                "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.4",
                Format::OpenMetrics,
            ),
            ("application/openmetrics-text;version=1.0.0;q=0.4, text/plain;q=0.5", Format::Text),
            ("application/openmetrics-text;q=0.3, */*;q=0.9", Format::Text),
            ("application/*, text/plain;q=0.1", Format::OpenMetrics),
            ("text/plain;q=nonsense,;;,/", Format::Text),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(negotiate(&headers), expected, "{accept}");
        }
    }
}
