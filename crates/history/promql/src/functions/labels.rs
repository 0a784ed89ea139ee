//! `label_replace` and `label_join`.

use regex::Regex;

use super::text;
use crate::error::QueryError;
use crate::expression::Expression;
use crate::labels::LabelSet;
use crate::limits::LABEL_BYTES_MAX;
use crate::plan::Node;
use crate::text::is_label_name;

/// What `label_replace` does to the labels of a series.
pub(crate) struct Replace<'a> {
    to: &'a str,
    replacement: &'a str,
    from: &'a str,
    regex: Regex,
}

fn invalid(what: &str, function: &str, text: &str) -> QueryError {
    QueryError::Execution(format!("invalid {what} in {function}(): {text}"))
}

impl<'a> Replace<'a> {
    pub(crate) fn new(arguments: &'a [Node]) -> Result<Self, QueryError> {
        let (to, replacement) = (text(arguments, 1), text(arguments, 2));
        let (from, expression) = (text(arguments, 3), text(arguments, 4));
        let regex = Expression::regex(expression)
            .map_err(|_| invalid("regular expression", "label_replace", expression))?;
        if !is_label_name(to) {
            return Err(invalid("destination label name", "label_replace", to));
        }
        Ok(Replace { to, replacement, from, regex })
    }

    pub(crate) fn apply(&self, labels: &LabelSet) -> Result<LabelSet, QueryError> {
        let source = labels.get(self.from);
        let Some(found) = self.regex.captures(source) else { return Ok(labels.clone()) };
        // Each reference puts in at most the whole value.
        let references = self.replacement.bytes().filter(|&byte| byte == b'$').count();
        check_length(self.replacement.len().saturating_add(references.saturating_mul(source.len())))?;
        let mut value = String::new();
        found.expand(self.replacement, &mut value);
        Ok(labels.with(self.to, &value))
    }
}

fn check_length(length: usize) -> Result<(), QueryError> {
    if length <= LABEL_BYTES_MAX {
        return Ok(());
    }
    Err(QueryError::Execution(format!(
        "the query makes a label of up to {length} bytes; label_replace() and label_join() make labels of at most \
         {LABEL_BYTES_MAX} bytes"
    )))
}

/// What `label_join` gives for the labels of a series.
pub(crate) fn joined(
    labels: &LabelSet,
    to: &str,
    separator: &str,
    from: &[&str],
) -> Result<LabelSet, QueryError> {
    let parts: usize = from.iter().map(|name| labels.get(name).len()).sum();
    check_length(parts.saturating_add(separator.len().saturating_mul(from.len().saturating_sub(1))))?;
    let parts: Vec<&str> = from.iter().map(|name| labels.get(name)).collect();
    Ok(labels.with(to, &parts.join(separator)))
}

/// Fails for names that `label_join` must not have.
pub(crate) fn check_join(to: &str, from: &[&str]) -> Result<(), QueryError> {
    if let Some(name) = from.iter().find(|name| !is_label_name(name)) {
        return Err(invalid("source label name", "label_join", name));
    }
    if !is_label_name(to) {
        return Err(invalid("destination label name", "label_join", to));
    }
    Ok(())
}
