//! The receivers of remote write: the tables `[[remote_write]]`. What a receiver has in common with other servers is in
//! `foreign.rs`.

use std::collections::BTreeMap;

use khz_ask::ForeignServer;
use khz_model::{Nanos, Pattern};
use khz_remote::write::{Action, Rule, Rules, Settings};

use super::foreign::{Table, host, within};
use super::values::{bad, quantity};
use super::{ConfigError, ForeignValues, Value};

/// The longest time between two samples.
const EVERY_MAX: u64 = 3_600;
/// The longest batch: a receiver is that far behind.
const BATCH_MAX: u64 = 3_600;
/// Samples of a request, if the file does not say it.
const SAMPLES: usize = 50_000;
/// The most samples of a request: those of 16 MB.
const SAMPLES_MAX: usize = 1_000_000;
/// Bytes of a receiver's name, which is that of a file.
const NAME_BYTES_MAX: usize = 100;

/// A receiver.
#[derive(Clone, Debug)]
pub struct RemoteWrite {
    /// Its name, which is that of its cursor.
    pub name: String,
    /// Where it is, and what it is shown.
    pub server: ForeignServer,
    /// What is sent.
    pub settings: Settings,
}

/// Checks all tables. `job` is the label of that name.
pub(super) fn receivers(tables: &[ForeignValues], job: &str) -> Result<Vec<RemoteWrite>, ConfigError> {
    let mut all: Vec<RemoteWrite> = Vec::new();
    for values in tables {
        let table = Table { name: "remote_write", values };
        let receiver = table.receiver(job)?;
        if all.iter().any(|known| known.name == receiver.name) {
            let problem =
                format!("two receivers are called '{}': give one of them another name", receiver.name);
            return Err(table.bad("name", problem));
        }
        all.push(receiver);
    }
    Ok(all)
}

impl Table<'_> {
    fn receiver(&self, job: &str) -> Result<RemoteWrite, ConfigError> {
        let server = self.server("http://victoria:8428/api/v1/write")?;
        let host = host(&server.url).map_err(|problem| self.bad("url", problem))?;
        let name =
            self.read("name", file_name(&host), |text| match text == file_name(text) && !text.is_empty() {
                true => Ok(text.to_owned()),
                false => Err(format!("'{text}' has other characters than letters, digits, '-', '_' and '.'")),
            })?;
        Ok(RemoteWrite { name, server, settings: self.settings(job)? })
    }

    fn settings(&self, job: &str) -> Result<Settings, ConfigError> {
        let every = self.read("every", 1, |text| seconds(text, EVERY_MAX))?;
        if 3_600 % every != 0 {
            return Err(
                self.bad("every", format!("an hour has no whole number of {every} s: use 1s, 10s, 15s, 60s"))
            );
        }
        // The first whole number of these that is 10 s or more.
        let default = every.saturating_mul(10u64.div_ceil(every));
        let batch = self.read("batch", default, |text| seconds(text, BATCH_MAX))?;
        if !batch.is_multiple_of(every) {
            return Err(self.bad("batch", format!("it is not a multiple of every, which is {every}s")));
        }
        let everything = vec![Pattern::everything()];
        let patterns = |text: &str| Pattern::list(text).map_err(|error| error.to_string());
        Ok(Settings {
            patterns: self.read("match", everything, patterns)?,
            job: job.into(),
            rules: self.rules()?,
            every,
            batch,
            delay: self.read("delay", Nanos::from_secs(30), delay)?.0,
            samples_max: self.read("samples_max", SAMPLES, |text| match text.parse() {
                Ok(number @ 100..=SAMPLES_MAX) => Ok(number),
                _ => Err(format!("'{text}' is not a number from 100 to {SAMPLES_MAX}")),
            })?,
        })
    }

    fn rules(&self) -> Result<Rules, ConfigError> {
        let mut external = BTreeMap::new();
        for (name, value) in &self.values.labels {
            if !khz_model::labels::is_label_name(name) {
                let full = format!("remote_write.labels.{name}");
                return Err(bad(&full, value, "this is no name of a label".to_owned()));
            }
            if value.text.is_empty() {
                let full = format!("remote_write.labels.{name}");
                return Err(bad(
                    &full,
                    value,
                    "a label without a value is none: give it one, or leave it out".to_owned(),
                ));
            }
            external.insert(name.clone(), value.text.clone());
        }
        let mut rules = Vec::new();
        for table in &self.values.rules {
            let mut rule = Rule::default();
            for (key, value) in table {
                let text = value.text.clone();
                match key.as_str() {
                    "source_labels" => {
                        rule.source_labels = super::values::items(&text).map(str::to_owned).collect()
                    }
                    "separator" => rule.separator = text,
                    "regex" => rule.regex = text,
                    "target_label" => rule.target_label = text,
                    "replacement" => rule.replacement = text,
                    _ => {
                        let known = Action::ALL.iter().find(|(name, _)| *name == text);
                        let all = Action::ALL.map(|(name, _)| name).join(", ");
                        let unknown =
                            || bad("remote_write.relabel.action", value, format!("there are {all}"));
                        rule.action = known.ok_or_else(unknown)?.1;
                    }
                }
            }
            // Each rule alone first: the error is at its line.
            let at = table.first().map(|(_, value)| value);
            if let Err(error) = Rules::new(BTreeMap::new(), vec![rule.clone()]) {
                let here = Value { text: String::new(), origin: self.values.at.clone() };
                return Err(bad("remote_write.relabel", at.unwrap_or(&here), error.to_string()));
            }
            rules.push(rule);
        }
        Rules::new(external, rules).map_err(|error| self.bad("relabel", error.to_string()))
    }
}

/// A text as the name of a file.
pub(super) fn file_name(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = text.chars().map(plain).take(NAME_BYTES_MAX).collect();
    name.trim_start_matches('.').to_owned()
}

fn seconds(text: &str, most: u64) -> Result<u64, String> {
    let time: Nanos = quantity(text)?;
    let whole = time.0 / Nanos::SECOND.0;
    match time.0.is_multiple_of(Nanos::SECOND.0) && (1..=most).contains(&whole) {
        true => Ok(whole),
        false => Err(format!("'{text}' is not a number of seconds from 1s to {most}s")),
    }
}

fn delay(text: &str) -> Result<Nanos, String> {
    within(text, 0, 3_600)
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;
    use khz_ask::Login;
    use std::time::Duration;

    fn plan(file: &str) -> Result<Vec<RemoteWrite>, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let layers = layers(file, &[], &[]);
        Plan::check(&layers, "hub", &["stat"])
            .map(|plan| plan.remote_write)
            .map_err(|error| error.to_string())
    }

    fn refused(more: &str) -> String {
        let file = format!("\n[[remote_write]]\nurl = \"http://vm:8428/api/v1/write\"\n{more}\n");
        plan(&file).unwrap_err()
    }

    #[test]
    fn a_receiver_needs_an_address_and_nothing_else() {
        let all = plan("[[remote_write]]\nurl = \"http://vm:8428/api/v1/write\"\n").unwrap();
        let [RemoteWrite { name, settings, server }] = &all[..] else { panic!("{all:?}") };
        let ForeignServer { login, timeout, .. } = server;
        assert_eq!((name.as_str(), login, *timeout), ("vm-8428", &Login::Nothing, Duration::from_secs(30)));
        assert_eq!((settings.every, settings.batch, settings.delay), (1, 10, 30_000_000_000));
    }

    #[test]
    fn everything_can_be_said() {
        let file = "[[remote_write]]\nurl = \"https://mimir/api/v1/push\"\nname = \"mimir\"\nmatch = [\"*:cpu.*\", \"*:net.*\"]\n\
            every = \"15s\"\nbatch = \"60s\"\ndelay = \"2m\"\ntimeout = \"10s\"\nsamples_max = 2000\n\
            user = \"khz\"\npassword = \"/etc/khz/mimir.password\"\nca = \"/etc/khz/ca.pem\"\ncert = \"/etc/khz/hub.pem\"\nkey = \"/etc/khz/hub.key\"\n\
            labels = { cluster = \"a\", replica = \"1\" }\nheaders = { X-Scope-OrgID = \"team\" }\n\
            relabel = [{ source_labels = [\"__name__\"], regex = \"khz_.*\", action = \"drop\" }]\n\
            [[remote_write.relabel]]\n";
        // TOML refuses a list that is written in both ways.
        let file = file.trim_end_matches("[[remote_write.relabel]]\n");
        let all = plan(file).unwrap();
        assert_eq!(all[0].server.login, Login::Basic("khz".into(), "/etc/khz/mimir.password".into()));
        assert_eq!(all[0].server.headers, [("X-Scope-OrgID".to_owned(), "team".to_owned())]);
        assert_eq!(
            (all[0].settings.every, all[0].settings.batch, all[0].settings.patterns.len()),
            (15, 60, 2)
        );
        assert!(all[0].server.files.as_ref().is_some_and(|files| files.pair.is_some()));
        for (every, batch) in [(1, 10), (3, 12), (4, 12), (8, 16), (10, 10), (15, 15)] {
            let file = format!("[[remote_write]]\nurl = \"http://h/w\"\nevery = \"{every}s\"\n");
            assert_eq!(plan(&file).unwrap()[0].settings.batch, batch, "{every}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        for (more, expected) in [
            (
                "urll = \"x\"",
                "/etc/khz/khz.toml:4: no setting is called 'remote_write.urll' (did you mean 'url'?)",
            ),
            (
                "every = \"7s\"",
                "remote_write.every (from /etc/khz/khz.toml:4): an hour has no whole number of 7 s: use 1s, 10s, 15s, 60s",
            ),
            (
                "every = \"15s\"\nbatch = \"20s\"",
                "remote_write.batch (from /etc/khz/khz.toml:5): it is not a multiple of every, which is 15s",
            ),
            (
                "bearer = \"/t\"",
                "remote_write.url (from /etc/khz/khz.toml:3): without TLS everybody on the way could read the secret: use https://, or insecure = true",
            ),
            (
                "user = \"a\"",
                "remote_write.user (from /etc/khz/khz.toml:4): user and password (the name of its file) belong together",
            ),
            (
                "ca = \"/ca\"",
                "remote_write.ca (from /etc/khz/khz.toml:4): the url has no https://, so there is no TLS",
            ),
            (
                "name = \"../x\"",
                "remote_write.name (from /etc/khz/khz.toml:4): '../x' has other characters than letters, digits, '-', '_' and '.'",
            ),
            (
                "headers = { Authorization = \"x\" }",
                "remote_write.headers.Authorization (from /etc/khz/khz.toml:4): this header cannot be set",
            ),
            (
                "labels = { 1a = \"x\" }",
                "remote_write.labels.1a (from /etc/khz/khz.toml:4): this is no name of a label",
            ),
            (
                "labels = { cluster = \"\" }",
                "remote_write.labels.cluster (from /etc/khz/khz.toml:4): a label without a value is none",
            ),
            (
                "relabel = [{ regex = \"(\", action = \"drop\" }]",
                "remote_write.relabel (from /etc/khz/khz.toml:4): the regular expression \"(\" cannot be used: ",
            ),
            (
                "relabel = [{ action = \"hashmod\" }]",
                "remote_write.relabel.action (from /etc/khz/khz.toml:4): there are replace, keep, drop, labelmap, labeldrop, labelkeep",
            ),
            (
                "labels = \"x\"",
                "/etc/khz/khz.toml:4: remote_write.labels takes a table of texts: { name = \"value\" }",
            ),
        ] {
            let got = refused(more);
            assert!(got.starts_with(expected), "{more}: {got}");
        }
        let both = "[[remote_write]]\nurl = \"http://vm/a\"\n[[remote_write]]\nurl = \"http://vm/b\"\n";
        let problem = "remote_write.name (from /etc/khz/khz.toml:3): two receivers are called 'vm': give one of them another name";
        assert_eq!(plan(both).unwrap_err(), problem);
        for (url, problem) in [
            ("https://vm/a", "https:// needs the CA"),
            ("http://u:p@vm/a", "a url has no user and no password"),
            ("vm:8428", "'vm:8428': there are http:// and https://"),
        ] {
            let refused = plan(&format!("[[remote_write]]\nurl = \"{url}\"\n")).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
        let missing = plan("[[remote_write]]\nname = \"x\"\n").unwrap_err();
        assert!(
            missing.starts_with("remote_write.url (from /etc/khz/khz.toml:1): it is missing"),
            "{missing}"
        );
    }
}
