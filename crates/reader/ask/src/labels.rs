//! Labels as the door's JSON has them.

use std::collections::BTreeMap;
use std::fmt;

use khz_model::{Instance, Labels};
use serde::{Deserialize, Deserializer, de};

/// Names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelsAnswer(pub Labels);

impl<'de> Deserialize<'de> for LabelsAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = BTreeMap::<String, String>::deserialize(deserializer)?;
        let labels = Labels::new(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        labels.map(LabelsAnswer).map_err(de::Error::custom)
    }
}

impl fmt::Display for LabelsAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The instance of a series from its two members; `None`: the metric has no instances.
pub fn instance(name: Option<&str>, labels: &LabelsAnswer) -> Option<Instance> {
    if name.is_none() && labels.0.is_empty() {
        return None;
    }
    // The name is as khz writes it already.
    Some(Instance::from_text(name.unwrap_or_default())?.with_labels(&labels.0))
}
