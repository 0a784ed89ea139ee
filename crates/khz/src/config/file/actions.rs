//! The tables `[actions.NAME]`, `[health]` and `[jobs]`, as text with the line of each value.

use toml::de::{DeTable, DeValue};

use super::{Item, Key, Reader};
use crate::config::settings::Shape;
use crate::config::{ActionValues, ConfigError, ForeignValues};

/// Keys of all actions.
const KEYS: [(&str, Shape); 7] = [
    ("dry_run", Shape::Switch),
    ("node_label", Shape::Text("NAME")),
    ("timeout", Shape::Text("TIME")),
    ("retries", Shape::Text("NUMBER")),
    ("retry_after", Shape::Text("TIME")),
    ("cooldown", Shape::Text("TIME")),
    ("per_hour", Shape::Text("NUMBER")),
];

/// What an action does, if that is a program.
const PROGRAMS: [&str; 3] = ["exec", "diagnose", "checkpoint"];

/// The same, if that is a table, and its keys.
const SLURM_KEYS: [(&str, Shape); 5] = [
    ("scontrol", Shape::Text("FILE")),
    ("squeue", Shape::Text("FILE")),
    ("conf", Shape::Text("FILE")),
    ("strip_domain", Shape::Switch),
    ("reason", Shape::Text("TEXT")),
];
const BOOST_KEYS: [(&str, Shape); 3] =
    [("series", Shape::Patterns("PATTERNS")), ("rate", Shape::Text("RATE")), ("for", Shape::Text("TIME"))];
const FREEZE_KEYS: [(&str, Shape); 3] =
    [("nodes", Shape::Text("HOSTLIST")), ("before", Shape::Text("TIME")), ("after", Shape::Text("TIME"))];
const TABLES: [(&str, &[(&str, Shape)]); 4] =
    [("drain", &SLURM_KEYS), ("requeue", &SLURM_KEYS), ("boost", &BOOST_KEYS), ("freeze", &FREEZE_KEYS)];

/// Keys of `[health]`.
const HEALTH_KEYS: [(&str, Shape); 4] = [
    ("conditions", Shape::Patterns("CONDITIONS")),
    ("age", Shape::Text("TIME")),
    ("unknown", Shape::Text("WORD")),
    ("on_unhealthy", Shape::Text("ACTION")),
];

/// Keys of `[jobs]`.
const JOBS_KEYS: [(&str, Shape); 3] =
    [("visible", Shape::Text("WORD")), ("discover", Shape::Switch), ("freeze_failed", Shape::Switch)];

/// Whether this can be the name of an action.
fn is_name(text: &str) -> bool {
    const NAME_BYTES_MAX: usize = 64;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain)
}

impl Reader<'_> {
    /// The table `[health]`.
    pub(super) fn health(&self, name: &Key<'_>, item: &Item<'_>) -> Result<ForeignValues, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type("health", name.span(), "a table: [health]"));
        };
        let keys = self.keys(table, "health", &HEALTH_KEYS)?;
        Ok(ForeignValues { at: self.origin(name.span()), keys, ..ForeignValues::default() })
    }

    /// The table `[jobs]`.
    pub(super) fn jobs(&self, name: &Key<'_>, item: &Item<'_>) -> Result<ForeignValues, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type("jobs", name.span(), "a table: [jobs]"));
        };
        let keys = self.keys(table, "jobs", &JOBS_KEYS)?;
        Ok(ForeignValues { at: self.origin(name.span()), keys, ..ForeignValues::default() })
    }

    /// All actions, in the order of the file.
    pub(super) fn actions(&self, tables: &DeTable<'_>) -> Result<Vec<ActionValues>, ConfigError> {
        let mut actions = Vec::new();
        for (key, table) in tables.iter() {
            let name = key.get_ref().as_ref();
            // So that it can be written everywhere as it is, also in a list with commas.
            let full = format!("actions.{name}");
            if !is_name(name) {
                let problem = "a name has letters, digits, '-' and '_', and 64 of them at most".to_owned();
                return Err(ConfigError::BadValue { at: self.origin(key.span()), key: full, problem });
            }
            let DeValue::Table(table) = table.get_ref() else {
                return Err(self.wrong_type(&full, table.span(), "a table: [actions.drain-node]"));
            };
            actions.push((key.span().start, self.action(name, &full, table, key.span().start)?));
        }
        actions.sort_by_key(|(start, _)| *start);
        Ok(actions.into_iter().map(|(_, action)| action).collect())
    }

    fn action(
        &self,
        name: &str,
        full: &str,
        table: &DeTable<'_>,
        at: usize,
    ) -> Result<ActionValues, ConfigError> {
        let mut action = ActionValues {
            name: name.to_owned(),
            values: ForeignValues { at: self.origin(at..at), ..ForeignValues::default() },
            programs: Vec::new(),
            tables: Vec::new(),
        };
        for (key, item) in table.iter() {
            let (known, whole) = (key.get_ref().as_ref(), format!("{full}.{}", key.get_ref()));
            if let Some((_, shape)) = KEYS.iter().find(|(name, _)| *name == known) {
                action.values.keys.push((known.to_owned(), self.setting(&whole, *shape, item)?));
            } else if PROGRAMS.contains(&known) {
                action.programs.push((known.to_owned(), self.words(&whole, item)?));
            } else if let Some((_, keys)) = TABLES.iter().find(|(name, _)| *name == known) {
                let values = self.inner(&whole, item, keys)?;
                action.tables.push((known.to_owned(), values));
            } else {
                let tables = TABLES.map(|(name, _)| name);
                let known = KEYS.iter().map(|(name, _)| *name).chain(PROGRAMS).chain(tables);
                return Err(self.unknown(key, &format!("{full}."), known));
            }
        }
        Ok(action)
    }

    fn inner(
        &self,
        full: &str,
        item: &Item<'_>,
        keys: &[(&'static str, Shape)],
    ) -> Result<ForeignValues, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type(full, item.span(), "a table: { }"));
        };
        let at = self.origin(item.span());
        Ok(ForeignValues { at, keys: self.keys(table, full, keys)?, ..ForeignValues::default() })
    }
}
