//! Which series of a lane a selector means.

use khz_model::exposed;
use khz_model::{Instance, Series, ValueType};

use crate::bind::Identity;
use crate::labels::{LabelSet, METRIC_NAME};
use crate::plan::{Condition, Form, Selector, Test};

impl Selector {
    /// The labels of a series, if it is meant. Series that are labels have no numbers, and are never meant.
    pub(crate) fn labels(&self, series: &Series, identity: Identity<'_>) -> Option<LabelSet> {
        if matches!(series.metric.value_type, ValueType::Labels | ValueType::Unknown) {
            return None;
        }
        let name = match self.form {
            Form::Exposed => &series.metric.exposition.name,
            Form::Own => &series.metric.name,
        };
        // Most series have another name.
        let of_name = |condition: &&Condition| condition.label == METRIC_NAME;
        if !self.conditions.iter().filter(of_name).all(|condition| condition.test.holds(name)) {
            return None;
        }
        let labels = labels(self.form, series, identity);
        self.conditions
            .iter()
            .all(|condition| condition.test.holds(labels.get(&condition.label)))
            .then_some(labels)
    }
}

/// The labels of a series, its name among them.
fn labels(form: Form, series: &Series, identity: Identity<'_>) -> LabelSet {
    let metric = &series.metric;
    match form {
        Form::Exposed => {
            let named = (METRIC_NAME, &*metric.exposition.name);
            let identity = exposed::Identity { node: identity.node, job: identity.job };
            LabelSet::new([named].into_iter().chain(exposed::labels(series, Some(identity), None)))
        }
        Form::Own => {
            let instance = series.instance.as_ref();
            let label = exposed::exported(metric.instances.as_deref().unwrap_or(exposed::INSTANCE), true);
            let primary = instance.and_then(Instance::primary).map(|value| (label, value));
            let further = instance.into_iter().flat_map(Instance::labels);
            let further = further.map(|(name, value)| (exposed::exported(name, true), value));
            let named = [(METRIC_NAME, &*metric.name), (exposed::INSTANCE, identity.node.as_str())];
            LabelSet::new(named.into_iter().chain(primary).chain(further))
        }
    }
}

impl Test {
    fn holds(&self, value: &str) -> bool {
        match self {
            Test::Is(text) => value == text,
            Test::IsNot(text) => value != text,
            Test::Fits(globs) => globs.iter().any(|glob| fits(glob.as_bytes(), value.as_bytes())),
            Test::FitsNot(globs) => !globs.iter().any(|glob| fits(glob.as_bytes(), value.as_bytes())),
        }
    }
}

/// True if a glob fits a text. It goes back to the last star only, so that it takes at most the product of both lengths.
fn fits(glob: &[u8], text: &[u8]) -> bool {
    let (mut g, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(b'?') => {
                g += 1;
                t += character(&text[t..]);
            }
            Some(byte) if *byte == text[t] => (g, t) = (g + 1, t + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                let next = from + character(&text[from..]);
                star = Some((at, next));
                (g, t) = (at + 1, next);
            }
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

/// The bytes of the first character.
fn character(text: &[u8]) -> usize {
    1 + text[1..].iter().take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_whole_texts() {
        for (glob, text, is_fit) in [
            ("", "", true),
            ("*", "", true),
            ("?*", "", false),
            ("eth*", "eth0", true),
            ("*0", "eth0", true),
            ("e*h?", "eth0", true),
            ("eth", "eth0", false),
            ("*a*b", "aab", true),
            ("*a*b", "aba", false),
            ("?", "ü", true),
            ("??", "ü", false),
            ("*ü", "aü", true),
        ] {
            assert_eq!(fits(glob.as_bytes(), text.as_bytes()), is_fit, "{glob} {text}");
        }
        let long = "a".repeat(2_000);
        assert!(!fits("*a*a*a*a*a*a*a*b".as_bytes(), long.as_bytes()));
    }
}
