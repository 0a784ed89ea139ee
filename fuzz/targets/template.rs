//! Templates of labels and annotations: refused with a place, or expanded within the limits.

#![no_main]

use std::collections::BTreeMap;

use khz_promql::{LabelSet, VectorSample};
use khz_rules::limits::EXPANSION_BYTES_MAX;
use khz_rules::{Template, TemplateData};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let template = Template::parse(text);
    if let Some(fault) = template.fault() {
        assert!(fault.at <= text.len());
    }
    let labels = LabelSet::new([("instance", "n1:9100"), ("job", "node")]);
    let query = |_: &str| Ok(vec![VectorSample { labels: labels.clone(), time: 0, value: 1.5 }]);
    let data = TemplateData {
        labels: &labels,
        external_labels: &BTreeMap::new(),
        external_url: "http://hub/khz",
        value: 0.25,
        now: 1_000,
        query: &query,
    };
    if let Ok(expanded) = template.expand("t", &data) {
        assert!(expanded.len() <= EXPANSION_BYTES_MAX && template.fault().is_none());
    }
});
