//! What answers queries over Prometheus' HTTP interface, and how long it takes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::http;
use crate::program::failed;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(120);

/// A query over some time.
#[derive(Clone, Debug)]
pub struct Question {
    pub text: String,
    /// Seconds since 1970.
    pub from: u64,
    pub to: u64,
    pub step: u64,
}

/// What an answer has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    pub series: usize,
    pub points: usize,
    /// The sum of all values, to compare answers.
    pub sum: f64,
}

impl Question {
    /// Asks it. `more` are further parameters. Returns what came, and how long it took.
    pub fn ask(&self, address: SocketAddr, more: &str) -> Result<(Found, Duration), BenchError> {
        let Question { text, from, to, step } = self;
        let path =
            format!("/api/v1/query_range?query={}&start={from}&end={to}&step={step}{more}", escaped(text));
        let start = Instant::now();
        let body = http::get_within(address, &path, PATIENCE)?;
        let took = start.elapsed();
        Ok((found(&body).ok_or_else(|| failed(text, &body[..body.len().min(300)]))?, took))
    }
}

fn found(body: &str) -> Option<Found> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let result = body.get("data")?.get("result")?.as_array()?;
    let mut found = Found { series: result.len(), points: 0, sum: 0.0 };
    for series in result {
        for point in series.get("values")?.as_array()? {
            found.points += 1;
            let value: f64 = point.get(1)?.as_str()?.parse().ok()?;
            found.sum += if value.is_finite() { value } else { 0.0 };
        }
    }
    Some(found)
}

/// Escaped for a URL.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => out.push(byte.into()),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_counted_and_summed() {
        let body = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{},"values":[[1,"2"],[2,"NaN"]]},{"metric":{},"values":[[1,"0.5"]]}]}}"#;
        assert_eq!(found(body), Some(Found { series: 2, points: 3, sum: 2.5 }));
        assert_eq!(found("{}"), None);
        assert_eq!(escaped("a{b=\"c\"}"), "a%7Bb%3D%22c%22%7D");
    }
}
