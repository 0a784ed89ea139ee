//! Whether a query uses syntax that is experimental in Prometheus: found by reading the query, never by a list of tests.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::Regex;

/// Functions and aggregations that Prometheus' documentation calls experimental.
const FUNCTIONS: &str = "double_exponential_smoothing|histogram_quantiles|info|integral|mad_over_time|max_of|min_of|\
     sort_by_label|sort_by_label_desc|start_timestamp|ts_of_first_over_time|ts_of_last_over_time|ts_of_max_over_time|\
     ts_of_min_over_time|limitk|limit_ratio|range|step|fill|fill_left|fill_right";

thread_local! {
    /// Expressions that were compiled: there are thousands of queries.
    static COMPILED: RefCell<HashMap<String, Regex>> = RefCell::default();
}

fn compiled(expression: &str) -> Regex {
    COMPILED.with_borrow_mut(|all| {
        all.entry(expression.to_owned()).or_insert_with(|| Regex::new(expression).unwrap()).clone()
    })
}

/// The query without texts and comments.
fn plain(query: &str) -> String {
    let text_or_comment = compiled(r#"(?s)"(\\.|[^"\\])*"|'(\\.|[^'\\])*'|`[^`]*`|#[^\n]*"#);
    text_or_comment.replace_all(query, "\"\"").into_owned()
}

/// True if a query uses something experimental.
pub fn experimental(query: &str) -> bool {
    let plain = plain(query);
    let has = |expression: &str| compiled(expression).is_match(&plain);
    // Functions, and modifiers of selectors.
    has(&format!(r"(?i)\b({FUNCTIONS})\s*(by|without)?\s*\(")) || has(r"(?i)\b(anchored|smoothed)\b")
        // Durations that are computed.
        || has(r"\[[^\]]*[-+*/%^()][^\]]*\]") || has(r"(?i)\boffset\s*[-+]?\s*(\(|[a-z])")
        || has(r"(?i)\boffset\s*[-+]?\s*[0-9][0-9a-z]*\s*[*/%^]")
        // `start()` and `end()` anywhere but with `@`.
        || has(r"(?i)(^|[^@\s])\s*\b(start|end)\s*\(")
        // Names of other letters, without quotes.
        || has(r"[^\x00-\x7f]") || has(r"(?i)[a-z_][a-z0-9_]*\.([^0-9]|$)")
        // Operators of native histograms.
        || has("</|>/")
}

/// True for a query whose result is another with Prometheus' switch `promql-delayed-name-removal`, with which these tests
/// run: the names of metrics are looked at after something has dropped them, or series of any name are computed with.
pub fn may_need_dropped_names(query: &str) -> bool {
    let has = |text: &str, expression: &str| compiled(expression).is_match(text);
    let outside = compiled(r"\{[^}]*\}").replace_all(query, "{}").into_owned();
    has(&outside, "__name__")
        || (has(&plain(query), r"(^|[^\w:])\{[^}]*\}") && !has(query, r#"__name__\s*="#))
}

/// True for a query that gives numbers or vectors, and that is not about its own range.
pub fn may_run_over_a_range(query: &str) -> bool {
    let plain = plain(query);
    !plain.starts_with('"')
        && !plain.starts_with("(\"")
        && !compiled(r"(?i)(start|end)\s*\(\)|\][^)]*$|\bsort").is_match(&plain)
}
