//! The misses of a request, as JSON and as a refusal. `khz_model` finds the misses and the
//! suggestions.

use khz_model::{Miss, Misses, Pattern, Query, QueryError};

use crate::json;
use crate::refusal::Refusal;

/// The misses of these patterns.
pub(crate) fn of(query: &dyn Query, patterns: &[Pattern]) -> Misses {
    Misses::of(&query, patterns)
}

/// `{"nodes":[...],"patterns":[...],"more":0}`.
pub(crate) fn put(out: &mut String, misses: &Misses) {
    out.push_str("{\"nodes\":");
    json::list(out, &misses.nodes, miss_json);
    out.push_str(",\"patterns\":");
    json::list(out, &misses.patterns, miss_json);
    out.push_str(",\"more\":");
    json::number(out, misses.more as u64);
    out.push('}');
}

/// The same as an event of a stream; empty where nothing is missing.
pub(crate) fn event(misses: &Misses) -> String {
    let mut out = String::new();
    if !misses.is_empty() {
        out.push_str("event: misses\ndata: ");
        put(&mut out, misses);
        out.push_str("\n\n");
    }
    out
}

fn miss_json(out: &mut String, miss: &Miss) {
    out.push_str("{\"asked\":");
    json::text(out, &miss.asked);
    out.push_str(",\"near\":");
    json::text_or_null(out, miss.near.as_deref());
    out.push('}');
}

/// A refusal that also suggests what was probably meant.
pub(crate) fn refusal(query: &dyn Query, patterns: &[Pattern], error: QueryError) -> Refusal {
    let misses = match &error {
        QueryError::NothingMatches { .. } => of(query, patterns),
        _ => Misses::default(),
    };
    let mut refusal = Refusal::from(error);
    if !misses.is_empty() {
        let catalog = (!misses.patterns.is_empty()).then(|| "`khz catalog` lists every metric".to_owned());
        refusal.error = misses.sentences().into_iter().chain(catalog).collect::<Vec<_>>().join("; ");
    }
    refusal
}

/// Those of these names that are known nodes: a known node that does not answer is not the same as an unknown
/// one.
pub(crate) fn known(query: &dyn Query, missing: &[String]) -> Vec<String> {
    if missing.is_empty() {
        return Vec::new();
    }
    let known = query.nodes();
    let is_known = |name: &&String| known.binary_search_by(|node| node.as_str().cmp(name)).is_ok();
    missing.iter().filter(is_known).cloned().collect()
}
