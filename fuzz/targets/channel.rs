//! Channels: definitions as JSON, and conditions as `khz wait` takes them, refused or compiled; what is compiled is a handler that
//! nodes take.

#![no_main]

use khz_channel::{About, Definition, Waited};
use khz_model::{Kind, Rate, Unit};
use khz_plan::Handler;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(definition) = Definition::from_json(bytes) {
        let again = Definition::from_json(definition.to_json().as_bytes());
        assert!(
            again.is_ok_and(|again| again == definition),
            "what was read is written so that it is read again"
        );
        if let Ok(interest) = definition.interest() {
            let terms = interest.channel.expect("a channel has terms");
            assert!(Handler::take(&terms.handler).is_ok(), "what is compiled is what nodes take");
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let about = |metric: &str| {
        let (unit, kind) = if metric.len().is_multiple_of(2) {
            (Unit::Bytes, Kind::Counter)
        } else {
            (Unit::Seconds, Kind::Gauge)
        };
        Some(About { unit, kind, instances: Some("device".to_owned()), is_labels: false })
    };
    let rate = Rate::from_hz(1).expect("a rate");
    if let Ok(waited) = Waited::read(text, rate, about) {
        let _ = Definition { name: "adhoc".to_owned(), expr: Some(waited.expr), ..Definition::default() }
            .interest();
    }
});
