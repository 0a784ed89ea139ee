//! Recorded series: what rules have computed, as series of groups of rules. A group is an owner of series, as a node is, with a name
//! that no node can have ([`NodeName::of_group`]), so that rings of hubs, logs and columns keep its rows like those of nodes. Each
//! recorded series is an instance of one metric: its name is the instance's primary name, its labels are the instance's labels.

use std::sync::{Arc, OnceLock};

use crate::instance::{INSTANCE_MAX, Instance};
use crate::labels::{LabelError, Labels};
use crate::metric::{Kind, Metric, Unit};
use crate::name::NodeName;
use crate::pattern::Pattern;
use crate::schema::Series;
use crate::value_type::ValueType;

/// The one metric of recorded series.
pub const METRIC: &str = "recorded";
/// Bytes of the owners in one pattern, with room for a series below the limit of a pattern.
const OWNERS_BYTES: usize = 2_048;

/// Why a series cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordedError {
    /// It has no name, a longer one than an instance can have, or one with a NUL.
    #[error("a recorded series has a name of 1 to {INSTANCE_MAX} bytes without a NUL; this one has '{0}'")]
    Name(String),
    /// A label that no series may have.
    #[error("the recorded series '{name}': {error}")]
    Label {
        /// The name of the series.
        name: String,
        /// What is wrong.
        error: LabelError,
    },
}

/// The metric of which every recorded series is an instance: doubles that go up and down.
pub fn metric() -> Arc<Metric> {
    static ONE: OnceLock<Arc<Metric>> = OnceLock::new();
    let make = || {
        let plain = Metric::plain(METRIC, METRIC, Kind::Gauge, Unit::Count).of_instances("series");
        Arc::new(Metric { value_type: ValueType::Float, help: "A result of a rule.".into(), ..plain })
    };
    ONE.get_or_init(make).clone()
}

/// The series that a rule has recorded under this name with these labels.
///
/// # Errors
/// The name or a label is none that a series can have.
pub fn series<'a>(
    name: &str,
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Series, RecordedError> {
    let shown = || name[..name.floor_char_boundary(64)].to_owned();
    let fits = !name.is_empty() && name.len() <= INSTANCE_MAX;
    let instance = Instance::from_text(name).filter(|_| fits).ok_or_else(|| RecordedError::Name(shown()))?;
    let labels = Labels::new(labels).map_err(|error| RecordedError::Label { name: shown(), error })?;
    Ok(Series { metric: metric(), instance: Some(instance.with_labels(&labels)) })
}

/// The name of a recorded series; `None`: it is none.
pub fn name(series: &Series) -> Option<&str> {
    let instance = series.instance.as_ref().filter(|_| series.metric.name == METRIC)?;
    instance.primary()
}

/// Its labels besides its name, sorted by name.
pub fn labels(series: &Series) -> impl Iterator<Item = (&str, &str)> + Clone {
    series.instance.as_ref().map(Instance::labels).into_iter().flatten()
}

/// The patterns for recorded series of these owners with this name and these label values, as far as patterns can express this. They
/// may select more.
pub fn patterns(owners: &[NodeName], name: Option<&str>, labels: &[(&str, &str)]) -> Vec<Pattern> {
    let one = |name: &str, labels: &[(&str, &str)]| {
        let labels = Labels::new(labels.iter().copied()).ok()?;
        Some(format!("{METRIC}[{}]", Instance::from_text(name)?.with_labels(&labels)))
    };
    let series = match name {
        Some(name) => one(name, labels).or_else(|| one(name, &[])),
        None => Some(METRIC.to_owned()),
    };
    // A name that no pattern can say is the name of nothing.
    let Some(series) = series else { return Vec::new() };
    let mut lists: Vec<String> = Vec::new();
    for owner in owners {
        match lists.last_mut().filter(|list| list.len() + owner.as_str().len() < OWNERS_BYTES) {
            Some(list) => {
                list.push(',');
                list.push_str(owner.as_str());
            }
            None => lists.push(owner.to_string()),
        }
    }
    let of = |list: String| {
        let narrow = Pattern::new(&format!("{list}:{series}"));
        narrow.or_else(|_| Pattern::new(&format!("{list}:{METRIC}"))).ok()
    };
    lists.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recorded(series: &Series) -> (String, Vec<(String, String)>) {
        let labels = labels(series).map(|(name, value)| (name.to_owned(), value.to_owned()));
        (name(series).unwrap().to_owned(), labels.collect())
    }

    #[test]
    fn a_recorded_series_has_its_own_name_and_labels() {
        let one =
            series("job:node_cpu:rate5m", [("mode", "user"), ("instance", "n1"), ("none", "")]).unwrap();
        let labels = vec![("instance".into(), "n1".into()), ("mode".into(), "user".into())];
        assert_eq!(recorded(&one), ("job:node_cpu:rate5m".to_owned(), labels));
        assert_eq!(recorded(&series("ALERTS", []).unwrap()), ("ALERTS".to_owned(), vec![]));
        let metric = Metric::plain("mem.free", "mem_free", Kind::Gauge, Unit::Bytes);
        assert_eq!(name(&Series { metric: metric.into(), instance: None }), None);
    }

    #[test]
    fn what_no_series_can_have_is_refused() {
        for wrong in ["", "a\0b", &"n".repeat(INSTANCE_MAX + 1)] {
            assert!(matches!(series(wrong, []), Err(RecordedError::Name(_))), "{wrong}");
        }
        let long = "v".repeat(5_000);
        for wrong in [("__x", "1"), ("a b", "1"), ("a", "b\0c"), ("a", long.as_str())] {
            let refused = series("x", [wrong]).unwrap_err();
            assert!(refused.to_string().starts_with("the recorded series 'x': "), "{refused}");
        }
    }

    #[test]
    fn only_patterns_that_name_an_owner_select_it() {
        let owner = NodeName::of_group("rules.yml;cpu load");
        assert_eq!(owner.as_str(), "khz_rules.rules.yml_3Bcpu_20load");
        let one = series("a:b", [("x", "1")]).unwrap();
        for written in ["*", "*:*", "khz*:*", "khz_rules.*:recorded", "khz_rules.rules.yml_3Bcpu_20load,n*:*"]
        {
            let pattern = Pattern::new(written).unwrap();
            assert!(!pattern.matches_node(owner.as_str()), "{written}");
        }
        let owners = [NodeName::of_group("one"), owner.clone()];
        for (name, labels, is_selected) in [
            (None, vec![], true),
            (Some("a:b"), vec![], true),
            (Some("a:b"), vec![("x", "1")], true),
            (Some("a:b"), vec![("x", "2")], false),
            (Some("a"), vec![], false),
        ] {
            let patterns = patterns(&owners, name, &labels);
            assert!(patterns.iter().any(|pattern| pattern.matches_node(owner.as_str())));
            assert_eq!(one.is_selected(&patterns), is_selected, "{name:?} {labels:?}");
        }
    }

    #[test]
    fn many_owners_and_long_labels_fit_into_patterns() {
        let owners: Vec<NodeName> = (0..500).map(|n| NodeName::of_group(&format!("group{n}"))).collect();
        let long = "v".repeat(3_000);
        let all = patterns(&owners, Some("a"), &[("x", &long)]);
        let one = series("a", [("x", long.as_str())]).unwrap();
        for owner in &owners {
            let of_owner = all.iter().any(|it| {
                it.matches_node(owner.as_str()) && it.matches_series(METRIC, one.instance.as_ref())
            });
            assert!(of_owner, "{owner}");
        }
    }

    proptest! {
        #[test]
        fn each_group_has_an_owner_of_its_own_and_each_series_its_pattern(
            one in "\\PC{0,300}", two in "\\PC{0,8}", name in "[^\0]{1,40}", value in "[^\0]{0,40}",
        ) {
            let (a, b) = (NodeName::of_group(&one), NodeName::of_group(&two));
            prop_assert_eq!(a == b, one == two);
            prop_assert!(a.is_owner() && NodeName::new(a.as_str()).is_err());
            prop_assert_eq!(NodeName::stored(a.as_str()).unwrap(), a.clone());
            let recorded = series(&name, [("x", value.as_str())]).unwrap();
            let labels: Vec<(&str, &str)> = labels(&recorded).collect();
            let found = patterns(&[a], Some(&name), &labels);
            prop_assert!(recorded.is_selected(&found));
        }
    }
}
