//! Stub.
use khz_promql::{LabelSet, VectorSample};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A text with actions in braces.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    fault: Option<TemplateFault>,
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFault {
    /// Where, in bytes.
    pub at: usize,
    /// What is wrong.
    pub problem: String,
}

/// What a template knows.
pub struct TemplateData<'a> {
    /// `$labels`
    pub labels: &'a LabelSet,
    /// `$externalLabels`
    pub external_labels: &'a BTreeMap<String, String>,
    /// `$externalURL`
    pub external_url: &'a str,
    /// `$value`
    pub value: f64,
    /// ms
    pub now: i64,
    /// `query`
    pub query: &'a dyn Fn(&str) -> Result<Vec<VectorSample>, String>,
}

impl Template {
    /// Parses.
    pub fn parse(text: &str) -> Self {
        Template { text: text.into(), fault: None }
    }
    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// What is wrong.
    pub fn fault(&self) -> Option<&TemplateFault> {
        self.fault.as_ref()
    }
    /// Expands.
    pub fn expand(&self, _name: &str, data: &TemplateData<'_>) -> Result<String, String> {
        let mut text = self.text.to_string();
        let mut value = String::new();
        khz_promql::put_value(&mut value, data.value);
        text = text.replace("{{ $value }}", &value);
        for (name, value) in data.labels.iter() {
            text = text.replace(&format!("{{{{ $labels.{name} }}}}"), value);
        }
        Ok(text)
    }
}
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
