//! Metrics that are not in the catalogue, because programs name them: the metrics that jobs publish, and those in files of numbers. All
//! names of a source have the same prefix.

use std::sync::Arc;

use khz_model::{Metric, Pattern, Series};

/// The given names of a source.
pub(crate) struct Given {
    /// Where they begin.
    pub prefix: &'static str,
    /// Those that are known now.
    pub known: Vec<Arc<Metric>>,
}

impl Given {
    /// Those among the series of a text. A metric's series stand together.
    pub fn of(prefix: &'static str, series: &[Series]) -> Given {
        let names = series.iter().map(|series| &series.metric);
        let mut known: Vec<_> = names.filter(|metric| metric.name.starts_with(prefix)).cloned().collect();
        known.dedup_by(|one, other| Arc::ptr_eq(one, other));
        Given { prefix, known }
    }

    /// True if a pattern selects one of the metrics, or may select one that comes later.
    pub fn may_match(&self, patterns: &[Pattern]) -> bool {
        let is_of_it = |pattern: &Pattern| {
            let text = pattern.to_string();
            let metric =
                if pattern.nodes().is_some() { text.split_once(':').map_or("", |s| s.1) } else { &text };
            metric.starts_with(self.prefix) || pattern.matches_metric(self.prefix)
        };
        patterns.iter().any(is_of_it)
            || self.known.iter().any(|metric| patterns.iter().any(|p| p.matches_metric(&metric.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Kind, Unit};

    #[test]
    fn patterns_speak_of_names_before_there_are_any() {
        let may = |known: &[&str], text: &str| {
            let metric =
                |name: &&str| Arc::new(Metric::plain((*name).to_owned(), "x", Kind::Gauge, Unit::Count));
            let given = Given { prefix: "job.", known: known.iter().map(metric).collect() };
            given.may_match(&[Pattern::new(text).unwrap()])
        };
        for text in ["*", "job.*", "job.queue", "n[1-2]:job.x[*]"] {
            assert!(may(&[], text), "{text}");
        }
        assert!(!may(&[], "mem.*") && !may(&[], "n1:load.1m"));
        assert!(may(&["job.queue"], "*.queue") && !may(&[], "*.queue"));
    }
}
