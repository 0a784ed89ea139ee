//! The template language of labels and annotations: the part of Go's text/template that Prometheus' rules use, with Prometheus'
//! functions. It is limited, and gets series only through the caller.

mod functions;
mod lex;
mod parse;
mod run;
mod tree;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use khz_model::text_place::line_and_column;
use khz_promql::{LabelSet, VectorSample};

use self::tree::Tree;
use crate::finding::Place;

/// A text with actions in double braces.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    tree: Result<Arc<Tree>, TemplateFault>,
}

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateFault {
    /// Where, in bytes from the beginning.
    pub at: usize,
    /// What is wrong, and what to do.
    pub problem: String,
}

/// Series for `query`, or why there are none.
pub type QuerySeries<'a> = dyn Fn(&str) -> Result<Vec<VectorSample>, String> + 'a;

/// What a template is expanded with.
pub struct TemplateData<'a> {
    /// `$labels`: those of the series.
    pub labels: &'a LabelSet,
    /// `$externalLabels`
    pub external_labels: &'a BTreeMap<String, String>,
    /// `$externalURL`
    pub external_url: &'a str,
    /// `$value`
    pub value: f64,
    /// The time of the evaluation (ms since 1970).
    pub now: i64,
    /// What `query` asks.
    pub query: &'a QuerySeries<'a>,
}

impl Template {
    /// Parses a text. An invalid text gives a template, too, which cannot be expanded: [`Template::fault`] says what is wrong.
    pub fn parse(text: &str) -> Self {
        Template { text: Arc::from(text), tree: parse::parse(text).map(Arc::new) }
    }

    /// The text as it is written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong with it.
    pub fn fault(&self) -> Option<&TemplateFault> {
        self.tree.as_ref().err()
    }

    /// Returns the text with its actions replaced. `name`: the name of the template, for errors.
    ///
    /// # Errors
    ///
    /// Returns an error in Prometheus' words, with line and column of the text.
    pub fn expand(&self, name: &str, data: &TemplateData<'_>) -> Result<String, String> {
        let words = |what: &str, fault: &TemplateFault| {
            format!("error {what} template {name}: {}: {}", self.place(fault.at), fault.problem)
        };
        let tree = self.tree.as_ref().map_err(|fault| words("parsing", fault))?;
        run::expand(tree, data).map_err(|fault| words("executing", &fault))
    }

    fn place(&self, at: usize) -> Place {
        let (line, column) = line_and_column(&self.text, at);
        Place { line, column }
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
