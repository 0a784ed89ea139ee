//! Which series of a lane a selector means.

use khz_model::exposed;
use khz_model::glob::Glob;
use khz_model::metric::Called;
use khz_model::{Instance, Series, ValueType};

use crate::bind::Identity;
use crate::labels::{LabelSet, METRIC_NAME};
use crate::plan::{Condition, Form, Selector, Test};

impl Selector {
    /// Whether it may mean series of this metric, as far as their names tell.
    pub(crate) fn may_mean(&self, metric: Called<'_>) -> bool {
        if matches!(metric.value_type, ValueType::Labels | ValueType::Unknown) {
            return false;
        }
        let name = match self.form {
            Form::Exposed => metric.exposed,
            Form::Own => metric.name,
        };
        let of_name = |condition: &&Condition| condition.label == METRIC_NAME;
        self.conditions.iter().filter(of_name).all(|condition| condition.test.holds(name))
    }

    /// The labels of a series, if it is meant. Series that are labels have no numbers, and are never meant.
    pub(crate) fn labels(&self, series: &Series, identity: Identity<'_>) -> Option<LabelSet> {
        // Most series have another name.
        if !self.may_mean(series.metric.called()) {
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
            Test::Fits(globs) => fits(globs, value),
            Test::FitsNot(globs) => !fits(globs, value),
        }
    }
}

fn fits(globs: &[String], value: &str) -> bool {
    globs.iter().any(|glob| Glob::new(glob).matches(value))
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
            assert_eq!(fits(&[glob.to_owned()], text), is_fit, "{glob} {text}");
        }
        let long = "a".repeat(2_000);
        assert!(!fits(&["*a*a*a*a*a*a*a*b".to_owned()], &long));
    }
}
