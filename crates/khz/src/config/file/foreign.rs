//! The tables of the file that name servers, `[engine]`, `[[remote_write]]` and `[[rules_peer]]`, as text with the line of each
//! value.

use toml::de::{DeArray, DeTable, DeValue};

use super::{Item, Key, Reader};
use crate::config::settings::Shape;
use crate::config::{ConfigError, ForeignValues, Value};

/// Keys with one value that every such table has.
pub(super) const KEYS: [(&str, Shape); 9] = [
    ("url", Shape::Text("URL")),
    ("timeout", Shape::Text("TIME")),
    ("bearer", Shape::Text("FILE")),
    ("user", Shape::Text("NAME")),
    ("password", Shape::Text("FILE")),
    ("ca", Shape::Text("FILE")),
    ("cert", Shape::Text("FILE")),
    ("key", Shape::Text("FILE")),
    ("insecure", Shape::Switch),
];

/// Further keys with one value, of a receiver.
const RECEIVER_KEYS: [(&str, Shape); 6] = [
    ("name", Shape::Text("NAME")),
    ("match", Shape::Patterns("PATTERNS")),
    ("every", Shape::Text("TIME")),
    ("batch", Shape::Text("TIME")),
    ("delay", Shape::Text("TIME")),
    ("samples_max", Shape::Text("NUMBER")),
];

/// Keys of a rule.
const RULE_KEYS: [(&str, Shape); 6] = [
    ("source_labels", Shape::List("NAMES")),
    ("separator", Shape::Text("TEXT")),
    ("regex", Shape::Text("REGEX")),
    ("target_label", Shape::Text("NAME")),
    ("replacement", Shape::Text("TEXT")),
    ("action", Shape::Text("ACTION")),
];

impl Reader<'_> {
    /// All tables, in their order.
    pub(super) fn remote_writes(&self, item: &Item<'_>) -> Result<Vec<ForeignValues>, ConfigError> {
        let tables = self.tables("remote_write", item)?;
        tables.into_iter().map(|(table, at)| self.remote_write(table, at)).collect()
    }

    /// The table `[engine]`.
    pub(super) fn engine(&self, name: &Key<'_>, item: &Item<'_>) -> Result<ForeignValues, ConfigError> {
        let at = name.span();
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type("engine", at, "a table: [engine]"));
        };
        self.server(table, "engine", at)
    }

    /// All tables `[[rules_peer]]`, in their order.
    pub(super) fn rules_peers(&self, item: &Item<'_>) -> Result<Vec<ForeignValues>, ConfigError> {
        let tables = self.tables("rules_peer", item)?;
        tables.into_iter().map(|(table, at)| self.server(table, "rules_peer", at..at)).collect()
    }

    /// A table with the keys of every server.
    fn server(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        at: std::ops::Range<usize>,
    ) -> Result<ForeignValues, ConfigError> {
        let mut values = ForeignValues { at: self.origin(at), ..ForeignValues::default() };
        for (key, item) in table.iter() {
            let name = key.get_ref().as_ref();
            let full = format!("{prefix}.{name}");
            match (name, KEYS.iter().find(|(known, _)| *known == name)) {
                ("headers", _) => values.headers = self.texts(&full, item)?,
                (_, Some((_, shape))) => {
                    values.keys.push((name.to_owned(), self.setting(&full, *shape, item)?));
                }
                _ => {
                    let known = KEYS.iter().map(|(known, _)| *known);
                    return Err(self.unknown(key, &format!("{prefix}."), known.chain(["headers"])));
                }
            }
        }
        Ok(values)
    }

    fn remote_write(&self, table: &DeTable<'_>, at: usize) -> Result<ForeignValues, ConfigError> {
        let mut values = ForeignValues { at: self.origin(at..at), ..ForeignValues::default() };
        for (key, item) in table.iter() {
            let name = key.get_ref().as_ref();
            let full = format!("remote_write.{name}");
            match name {
                "labels" => values.labels = self.texts(&full, item)?,
                "headers" => values.headers = self.texts(&full, item)?,
                "relabel" => {
                    for (rule, _) in self.tables(&full, item)? {
                        values.rules.push(self.keys(rule, &full, &RULE_KEYS)?);
                    }
                }
                _ => match KEYS.iter().chain(&RECEIVER_KEYS).find(|(known, _)| *known == name) {
                    Some((_, shape)) => {
                        values.keys.push((name.to_owned(), self.setting(&full, *shape, item)?));
                    }
                    None => {
                        let known = KEYS.iter().chain(&RECEIVER_KEYS).map(|(known, _)| *known);
                        return Err(self.unknown(
                            key,
                            "remote_write.",
                            known.chain(["labels", "headers", "relabel"]),
                        ));
                    }
                },
            }
        }
        Ok(values)
    }

    pub(super) fn keys(
        &self,
        table: &DeTable<'_>,
        prefix: &str,
        known: &[(&'static str, Shape)],
    ) -> Result<Vec<(String, Value)>, ConfigError> {
        let mut values = Vec::new();
        for (key, item) in table.iter() {
            let name = key.get_ref().as_ref();
            let Some((_, shape)) = known.iter().find(|(known, _)| *known == name) else {
                return Err(self.unknown(key, &format!("{prefix}."), known.iter().map(|(known, _)| *known)));
            };
            values.push((name.to_owned(), self.setting(&format!("{prefix}.{name}"), *shape, item)?));
        }
        Ok(values)
    }

    /// A table of texts.
    pub(super) fn texts(&self, key: &str, item: &Item<'_>) -> Result<Vec<(String, Value)>, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type(key, item.span(), "a table of texts: { name = \"value\" }"));
        };
        let texts = table.iter().map(|(name, item)| {
            let full = format!("{key}.{}", name.get_ref());
            Ok((name.get_ref().to_string(), self.setting(&full, Shape::Text("TEXT"), item)?))
        });
        texts.collect()
    }

    /// A list of tables, and where each begins.
    pub(super) fn tables<'t>(
        &self,
        key: &str,
        item: &'t Item<'_>,
    ) -> Result<Vec<(&'t DeTable<'t>, usize)>, ConfigError> {
        let wrong =
            |span| self.wrong_type(key, span, "a list of tables, each after a line with its name in [[ ]]");
        let DeValue::Array(items) = item.get_ref() else { return Err(wrong(item.span())) };
        let items: &DeArray<'_> = items;
        items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::Table(table) => Ok((table, item.span().start)),
                _ => Err(wrong(item.span())),
            })
            .collect()
    }
}
