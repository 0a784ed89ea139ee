//! The scores for readers: one JSON object for each rule, and a summary of all rules.

use khz_model::moment::seconds_text;
use serde_json::{Value, json};

use super::{Score, Scores};
use crate::limits::SCORE_WINDOW;

/// The scores in words of JSON, ready to be sent piece by piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreSheet {
    /// The members of the whole object before `rules`, without braces.
    pub head: String,
    /// An object for each rule.
    pub rules: Vec<String>,
}

impl Default for ScoreSheet {
    fn default() -> Self {
        Scores::default().sheet([])
    }
}

impl Scores {
    /// The scores, with those of alerting rules in use that have never fired.
    pub fn sheet<'a>(&self, in_use: impl IntoIterator<Item = &'a str>) -> ScoreSheet {
        let mut rules: std::collections::BTreeMap<&str, String> = std::collections::BTreeMap::new();
        for rule in in_use {
            rules.insert(rule, object(rule, &Score::default(), 0));
        }
        for (rule, score, open) in self.rules() {
            rules.insert(rule, object(rule, score, open));
        }
        let last: Vec<Value> = self
            .unforetold
            .iter()
            .map(|one| json!({ "node": one.node, "at": seconds_text(one.at) }))
            .collect();
        let head = json!({
            "since": self.since.map(seconds_text),
            "window": lead_seconds(SCORE_WINDOW),
            "failures": self.failures,
            "foretold": self.foretold,
            "drains": self.drains,
            "unscored": self.unscored,
            "unforetold": last,
        });
        let head = head.to_string();
        ScoreSheet { head: head[1..head.len() - 1].to_owned(), rules: rules.into_values().collect() }
    }
}

fn object(rule: &str, score: &Score, open: u64) -> String {
    let lead = score.leads().map(|(median, lowest, highest)| {
        json!({
            "median": lead_seconds(median), "lowest": lead_seconds(lowest), "highest": lead_seconds(highest),
        })
    });
    json!({
        "rule": rule,
        "fired": score.fired,
        "elsewhere": score.elsewhere,
        "late": score.late,
        "warnings": score.warnings(open),
        "down": score.down,
        "drained": score.drained,
        "acted": score.acted,
        "nothing": score.nothing,
        "unknown": score.unknown,
        "open": open,
        "lead": lead,
        "last": Some(score.last).filter(|_| score.fired > 0).map(seconds_text),
    })
    .to_string()
}

fn lead_seconds(ms: i64) -> String {
    (ms / 1_000).to_string()
}

/// A time for people, to two units: `3 h 10 min`, `2 d 4 h`, `45 s`.
pub fn lead_text(seconds: u64) -> String {
    let (d, h, min, s) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let two = |one: u64, unit: &str, two: u64, of: &str| match two {
        0 => format!("{one} {unit}"),
        _ => format!("{one} {unit} {two} {of}"),
    };
    match (d, h, min) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => two(min, "min", s, "s"),
        (0, ..) => two(h, "h", min, "min"),
        _ => two(d, "d", h, "h"),
    }
}
