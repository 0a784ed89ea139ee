//! Notes for the reader of an answer: warnings and infos in the words of Prometheus, each once, with the place in the query.

use std::collections::BTreeMap;

use crate::limits::{SENTENCES_KEPT, SENTENCES_SHOWN};
use crate::print;
use crate::text::Position;

/// Sentences with the place of the last expression that said them; what a source says has no place.
type Sentences = BTreeMap<String, Option<Position>>;

/// Warnings and infos of a query.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    warnings: Sentences,
    infos: Sentences,
    /// Where histograms were not monotonic, by the sentence's beginning.
    forced: BTreeMap<String, Forced>,
}

/// How much the buckets of histograms had to be changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forced {
    pub(crate) at: Position,
    /// The first and the last time (ms).
    pub(crate) times: (i64, i64),
    /// The lowest and the highest bucket.
    pub(crate) buckets: (f64, f64),
    pub(crate) difference: f64,
    pub(crate) count: u64,
}

impl Annotations {
    /// Something is probably wrong.
    pub(crate) fn warn(&mut self, sentence: impl std::fmt::Display, at: Position) {
        keep(&mut self.warnings, format!("PromQL warning: {sentence}"), Some(at));
    }

    /// Something may be meant otherwise.
    pub(crate) fn inform(&mut self, sentence: impl std::fmt::Display, at: Position) {
        keep(&mut self.infos, format!("PromQL info: {sentence}"), Some(at));
    }

    /// Adds the remarks of the samples' source.
    pub(crate) fn source(&mut self, sentences: Vec<String>) {
        for sentence in sentences {
            keep(&mut self.warnings, sentence, None);
        }
    }

    /// A histogram was not monotonic; `of` names its metric.
    pub(crate) fn forced(&mut self, of: &str, this: Forced) {
        let sentence = format!(
            "input to histogram_quantile needed to be fixed for monotonicity (see \
             https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile){of}"
        );
        if self.forced.len() >= SENTENCES_KEPT {
            return;
        }
        self.forced
            .entry(sentence)
            .and_modify(|all| {
                all.times = (all.times.0.min(this.times.0), all.times.1.max(this.times.1));
                all.buckets = (all.buckets.0.min(this.buckets.0), all.buckets.1.max(this.buckets.1));
                all.difference = all.difference.max(this.difference);
                all.count += this.count;
            })
            .or_insert(this);
    }

    /// Warnings and infos, as many as an answer may have, with their places in the query.
    pub(crate) fn sentences(mut self, query: &str) -> (Vec<String>, Vec<String>) {
        for (sentence, forced) in std::mem::take(&mut self.forced) {
            let text = format!(
                "{sentence}, from buckets {} to {}, with a max diff of {}, over {} samples from {} to {}",
                print::shortest(forced.buckets.0),
                print::shortest(forced.buckets.1),
                print::two_digits(forced.difference),
                forced.count,
                print::rfc3339(forced.times.0),
                print::rfc3339(forced.times.1),
            );
            self.inform(text, forced.at);
        }
        (shown(self.warnings, query, "warning"), shown(self.infos, query, "info"))
    }
}

fn keep(all: &mut Sentences, sentence: String, at: Option<Position>) {
    if all.len() < SENTENCES_KEPT || all.contains_key(&sentence) {
        all.insert(sentence, at);
    }
}

fn shown(all: Sentences, query: &str, sort: &str) -> Vec<String> {
    let more = all.len().saturating_sub(SENTENCES_SHOWN);
    let placed = |(sentence, at): (String, Option<Position>)| match at {
        Some(at) => format!("{sentence} {}", at.place(query)),
        None => sentence,
    };
    let mut all: Vec<String> = all.into_iter().take(SENTENCES_SHOWN).map(placed).collect();
    if more > 0 {
        all.push(format!("{more} more {sort} annotations omitted"));
    }
    all
}
