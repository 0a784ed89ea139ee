//! The tables below `[notify]`, as text with the line of each value: `[[notify.alertmanager]]`, `[notify.email]`,
//! `[[notify.webhook]]`, `[[notify.exec]]`.

use toml::de::{DeTable, DeValue};

use super::foreign::KEYS;
use super::{Item, Key, Reader};
use crate::config::settings::Shape;
use crate::config::{ConfigError, ForeignValues, NotifyValues};

/// When people are told: keys of all ways but Alertmanagers.
const PACE_KEYS: [(&str, Shape); 3] =
    [("wait", Shape::Text("TIME")), ("repeat", Shape::Text("TIME")), ("per_hour", Shape::Text("NUMBER"))];

/// Further keys of an Alertmanager.
const ALERTMANAGER_KEYS: [(&str, Shape); 2] =
    [("name", Shape::Text("NAME")), ("resend", Shape::Text("TIME"))];

/// Further keys of a webhook.
const WEBHOOK_KEYS: [(&str, Shape); 1] = [("name", Shape::Text("NAME"))];

/// Keys of e-mail.
const EMAIL_KEYS: [(&str, Shape); 9] = [
    ("server", Shape::Text("HOST:PORT")),
    ("tls", Shape::Text("WORD")),
    ("ca", Shape::Text("FILE")),
    ("from", Shape::Text("ADDRESS")),
    ("to", Shape::List("ADDRESSES")),
    ("user", Shape::Text("NAME")),
    ("password", Shape::Text("FILE")),
    ("timeout", Shape::Text("TIME")),
    ("insecure", Shape::Switch),
];

/// Keys of a program.
const EXEC_KEYS: [(&str, Shape); 2] = [("name", Shape::Text("NAME")), ("timeout", Shape::Text("TIME"))];

/// The tables that there are.
const TABLES: [&str; 5] = ["labels", "alertmanager", "email", "webhook", "exec"];

impl Reader<'_> {
    /// The table `[notify]` with all that is below it.
    pub(super) fn notify(&self, name: &Key<'_>, item: &Item<'_>) -> Result<NotifyValues, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Err(self.wrong_type("notify", name.span(), "tables: [[notify.alertmanager]]"));
        };
        let mut values = NotifyValues::default();
        for (key, item) in table.iter() {
            match key.get_ref().as_ref() {
                "labels" => values.labels = self.texts("notify.labels", item)?,
                "alertmanager" => {
                    let keys = [&KEYS[..], &ALERTMANAGER_KEYS].concat();
                    values.alertmanagers = self.ways("notify.alertmanager", item, &keys)?;
                }
                "webhook" => {
                    let keys = [&KEYS[..], &WEBHOOK_KEYS, &PACE_KEYS].concat();
                    values.webhooks = self.ways("notify.webhook", item, &keys)?;
                }
                "email" => {
                    let DeValue::Table(table) = item.get_ref() else {
                        return Err(self.wrong_type("notify.email", key.span(), "a table: [notify.email]"));
                    };
                    let keys = [&EMAIL_KEYS[..], &PACE_KEYS].concat();
                    values.email = Some(self.way("notify.email", table, key.span().start, &keys, &[])?);
                }
                "exec" => {
                    let keys = [&EXEC_KEYS[..], &PACE_KEYS].concat();
                    for (table, at) in self.tables("notify.exec", item)? {
                        let way = self.way("notify.exec", table, at, &keys, &["command"])?;
                        let command = table.iter().find(|(key, _)| key.get_ref() == "command");
                        let words = command.map(|(_, item)| self.words("notify.exec.command", item));
                        values.execs.push((way, words.transpose()?.unwrap_or_default()));
                    }
                }
                _ => return Err(self.unknown(key, "notify.", TABLES)),
            }
        }
        Ok(values)
    }

    fn ways(
        &self,
        full: &str,
        item: &Item<'_>,
        keys: &[(&'static str, Shape)],
    ) -> Result<Vec<ForeignValues>, ConfigError> {
        let tables = self.tables(full, item)?.into_iter();
        tables.map(|(table, at)| self.way(full, table, at, keys, &["headers"])).collect()
    }

    /// One table. `others` are keys of another shape, of which only `headers` is read here.
    fn way(
        &self,
        full: &str,
        table: &DeTable<'_>,
        at: usize,
        keys: &[(&'static str, Shape)],
        others: &[&'static str],
    ) -> Result<ForeignValues, ConfigError> {
        let mut values = ForeignValues { at: self.origin(at..at), ..ForeignValues::default() };
        for (key, item) in table.iter() {
            let name = key.get_ref().as_ref();
            let whole = format!("{full}.{name}");
            match keys.iter().find(|(known, _)| *known == name) {
                Some((_, shape)) => values.keys.push((name.to_owned(), self.setting(&whole, *shape, item)?)),
                None if name == "headers" && others.contains(&name) => {
                    values.headers = self.texts(&whole, item)?;
                }
                None if others.contains(&name) => {}
                None => {
                    let known = keys.iter().map(|(known, _)| *known).chain(others.iter().copied());
                    return Err(self.unknown(key, &format!("{full}."), known));
                }
            }
        }
        Ok(values)
    }

    /// A list of words, which may have commas.
    pub(super) fn words(&self, full: &str, item: &Item<'_>) -> Result<Vec<String>, ConfigError> {
        let DeValue::Array(items) = item.get_ref() else {
            return Err(self.wrong_type(full, item.span(), "a list of texts: [\"a\", \"b\"]"));
        };
        Ok(self.list(full, items)?.into_iter().map(str::to_owned).collect())
    }
}
