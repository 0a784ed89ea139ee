//! Who is told of alerts: the tables below `[notify]`. What a way has in common with other servers of somebody else is in
//! `foreign.rs`. Secrets are in files of their own.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use khz_ask::is_secret_header;
use khz_notify::{
    AlertmanagerSettings, EmailSettings, ExecSettings, Pace, Settings, SmtpTls, WebhookSettings,
};

use super::foreign::{Table, host, is_loopback, within};
use super::remote::file_name;
use super::values::{bad, switch};
use super::{ConfigError, NotifyValues, Origin, Value};

/// How long an Alertmanager or a webhook may take for an answer, a server of e-mail for each step, a program to end.
const TIMEOUT: u64 = 10;
const PROGRAM_TIMEOUT: u64 = 30;
/// The longest times that can be set, in seconds.
const TIMEOUT_MAX: u64 = 600;
const WAIT_MAX: u64 = 3_600;
const REPEAT_MAX: u64 = 30 * 86_400;
/// Less would be a flood, and more than an Alertmanager's own memory of alerts.
const RESEND: (u64, u64) = (5, 600);
/// More messages are read by nobody.
const PER_HOUR_MAX: u32 = 3_600;

/// Checks all tables.
pub(super) fn settings(values: &NotifyValues) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    for (name, value) in &values.labels {
        if !khz_model::labels::is_label_name(name) {
            let full = format!("notify.labels.{name}");
            return Err(bad(&full, value, "this is no name of a label".to_owned()));
        }
        settings.labels.insert(name.clone(), value.text.clone());
    }
    for values in &values.alertmanagers {
        let table = Table { name: "notify.alertmanager", values };
        let server = table.server_within("http://alertmanager:9093", TIMEOUT)?;
        let shorter = server.url.trim_end_matches('/');
        if let Some(shorter) = shorter.strip_suffix("/alerts").and_then(|url| url.strip_suffix("/api/v2")) {
            let problem = format!("leave out /api/v2/alerts, which khz adds: url = \"{shorter}\"");
            return Err(table.bad("url", problem));
        }
        if server.url.contains('?') {
            return Err(table.bad("url", "an Alertmanager's address has no '?'".to_owned()));
        }
        let resend = table.seconds("resend", 60, RESEND)?;
        let name = table.way_name(&host(&server.url).unwrap_or_default())?;
        settings.alertmanagers.push(AlertmanagerSettings { name, server, resend });
    }
    if let Some(values) = &values.email {
        settings.email = Some(email(Table { name: "notify.email", values })?);
    }
    for values in &values.webhooks {
        let table = Table { name: "notify.webhook", values };
        let server = table.server_within("https://example.org/hook", TIMEOUT)?;
        let name = table.way_name(&host(&server.url).unwrap_or_default())?;
        settings.webhooks.push(WebhookSettings { name, server, pace: table.pace()? });
    }
    for (values, command) in &values.execs {
        let table = Table { name: "notify.exec", values };
        let problem = || "it is missing: command = [\"/usr/local/bin/page\", \"ops\"]".to_owned();
        let first = command.first().filter(|first| !first.is_empty());
        let first = first.ok_or_else(|| table.bad("command", problem()))?;
        program(command).map_err(|problem| table.bad("command", problem))?;
        let name = table.way_name(first.rsplit('/').next().unwrap_or_default())?;
        let timeout = table.seconds("timeout", PROGRAM_TIMEOUT, (1, TIMEOUT_MAX))?;
        settings.execs.push(ExecSettings { name, command: command.clone(), timeout, pace: table.pace()? });
    }
    if let Err(error) = settings.check() {
        let all = values.alertmanagers.iter().chain(&values.email).chain(&values.webhooks);
        let last = all.chain(values.execs.iter().map(|(values, _)| values)).last();
        let at = last.map_or(Origin::Default, |values| values.at.clone());
        return Err(bad("notify", &Value { text: String::new(), origin: at }, error.to_string()));
    }
    Ok(settings)
}

/// The words of a command, if the kernel can run it without a search path.
pub(super) fn program(command: &[String]) -> Result<Vec<String>, String> {
    let first = command.first().filter(|first| !first.is_empty()).ok_or("it names no program")?;
    if command.iter().any(|word| word.contains('\0')) {
        return Err("a word has a zero byte".to_owned());
    }
    if !first.starts_with('/') {
        return Err(format!("'{first}' is not a path from /: the search path of a service is not yours"));
    }
    Ok(command.to_vec())
}

fn email(table: Table<'_>) -> Result<EmailSettings, ConfigError> {
    let missing = |key: &str, example: &str| {
        table
            .text(key)
            .filter(|text| !text.is_empty())
            .ok_or_else(|| table.bad(key, format!("it is missing: {key} = {example}")))
    };
    let server = missing("server", "\"mail.example.org:587\"")?;
    let (host, port) = server
        .rsplit_once(':')
        .and_then(|(host, port)| Some((host, port.parse().ok()?)))
        .filter(|(host, port)| !host.is_empty() && *port > 0u16 && !host.contains(char::is_whitespace))
        .ok_or_else(|| {
            table.bad("server", format!("'{server}' is not HOST:PORT, as mail.example.org:587"))
        })?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let word = table.text("tls").unwrap_or_else(|| "starttls".to_owned());
    let tls = match (word.as_str(), table.file("ca")) {
        ("starttls", Some(ca)) => SmtpTls::Start(ca),
        ("tls", Some(ca)) => SmtpTls::Whole(ca),
        ("none", None) => SmtpTls::Nothing,
        ("none", Some(_)) => return Err(table.bad("ca", "tls = \"none\" has no CA".to_owned())),
        ("starttls" | "tls", None) => {
            let problem = "TLS needs the CA that signed the server's certificate: ca = \"FILE\" (of a public CA: \
                           /etc/ssl/certs/ca-certificates.crt); or tls = \"none\"";
            return Err(table.bad("ca", problem.to_owned()));
        }
        _ => return Err(table.bad("tls", format!("'{word}' is not one of starttls, tls, none"))),
    };
    let login = match (table.text("user"), table.file("password")) {
        (None, None) => None,
        (Some(user), Some(file)) => Some((user, file)),
        _ => {
            let problem = "user and password (the name of its file) belong together";
            return Err(table.bad("user", problem.to_owned()));
        }
    };
    let may_show = table.read("insecure", false, switch)?;
    if login.is_some() && tls == SmtpTls::Nothing && !is_loopback(&server) && !may_show {
        let problem = "without TLS everybody on the way could read the password: use tls = \"starttls\", or insecure = \
                       true in this table";
        return Err(table.bad("tls", problem.to_owned()));
    }
    let address =
        |key: &str, text: &str| khz_notify::check_address(text).map_err(|problem| table.bad(key, problem));
    let from = missing("from", "\"khz@example.org\"")?;
    address("from", &from)?;
    let to: Vec<String> =
        super::values::items(&missing("to", "[\"ops@example.org\"]")?).map(str::to_owned).collect();
    to.iter().try_for_each(|text| address("to", text))?;
    if to.is_empty() {
        return Err(table.bad("to", "it names nobody".to_owned()));
    }
    let timeout = table.seconds("timeout", TIMEOUT, (1, TIMEOUT_MAX))?;
    Ok(EmailSettings { host, port, tls, from, to, login, timeout, pace: table.pace()? })
}

impl Table<'_> {
    fn way_name(&self, default: &str) -> Result<String, ConfigError> {
        self.read("name", file_name(default), |text| match text == file_name(text) && !text.is_empty() {
            true => Ok(text.to_owned()),
            false => Err(format!("'{text}' has other characters than letters, digits, '-', '_' and '.'")),
        })
    }

    fn seconds(&self, key: &str, default: u64, (least, most): (u64, u64)) -> Result<Duration, ConfigError> {
        let default = khz_model::Nanos::from_secs(default);
        self.read(key, default, |text| within(text, least, most)).map(Duration::from)
    }

    fn pace(&self) -> Result<Pace, ConfigError> {
        let usual = Pace::default();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(Pace {
            wait: millis(self.seconds("wait", usual.wait / 1_000, (0, WAIT_MAX))?),
            repeat: millis(self.seconds("repeat", usual.repeat / 1_000, (60, REPEAT_MAX))?),
            per_hour: self.read("per_hour", usual.per_hour, |text| match text.parse() {
                Ok(number @ 1..=PER_HOUR_MAX) => Ok(number),
                _ => Err(format!("'{text}' is not a number from 1 to {PER_HOUR_MAX}")),
            })?,
        })
    }
}

/// What is wrong with files of settings that have a secret header and can be read by everybody.
pub fn warnings(values: &NotifyValues) -> Vec<String> {
    let tables = values.alertmanagers.iter().chain(&values.webhooks);
    let headers = tables.flat_map(|table| &table.headers).filter(|(name, _)| is_secret_header(name));
    let open = headers.filter_map(|(name, value)| match &value.origin {
        Origin::File { path, line } if is_open(path) => Some(format!(
            "everybody may read {path}, which has a secret in line {line} (header {name}): chmod 640 {path}"
        )),
        _ => None,
    });
    open.collect()
}

fn is_open(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o007 != 0)
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn plan(file: &str) -> Result<Settings, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let plan = Plan::check(&layers(file, &[], &[]), "hub", &["stat"]);
        plan.map(|plan| plan.notify).map_err(|error| error.to_string())
    }

    #[test]
    fn all_ways_have_names_and_times_of_their_own() {
        let settings = plan(
            "[notify.labels]\ncluster = \"a\"\n\
             [[notify.alertmanager]]\nurl = \"http://am1:9093/prefix/\"\n\
             [[notify.alertmanager]]\nurl = \"http://am2:9093\"\nname = \"second\"\nresend = \"30s\"\n\
             [notify.email]\nserver = \"[::1]:25\"\ntls = \"none\"\nfrom = \"khz <khz@a.b>\"\nto = [\"x@a.b\", \"y@a.b\"]\n\
             [[notify.webhook]]\nurl = \"http://hook/x\"\nwait = \"0s\"\nrepeat = \"1h\"\nper_hour = 5\n\
             [[notify.exec]]\ncommand = [\"/bin/page\", \"a, b\"]\n",
        )
        .unwrap();
        assert_eq!(settings.names().collect::<Vec<_>>(), ["am1-9093", "second", "email", "hook", "page"]);
        assert_eq!(settings.alertmanagers[0].resend, Duration::from_secs(60));
        assert_eq!(settings.alertmanagers[1].resend, Duration::from_secs(30));
        let email = settings.email.unwrap();
        assert_eq!((email.host.as_str(), email.port, email.to.len()), ("::1", 25, 2));
        assert_eq!(settings.webhooks[0].pace, Pace { wait: 0, repeat: 3_600_000, per_hour: 5 });
        assert_eq!(settings.execs[0].command, ["/bin/page", "a, b"]);
        assert_eq!(settings.labels["cluster"], "a");
        assert_eq!(plan("").unwrap().ways(), 0);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let mail = "[notify.email]\nserver = \"m:25\"\ntls = \"none\"\nfrom = \"k@a.b\"\nto = [\"x@a.b\"]\n";
        for (file, expected) in [
            (
                "[notify]\nemial = 1\n",
                "/etc/khz/khz.toml:2: no setting is called 'notify.emial' (did you mean 'email'?)",
            ),
            (
                "[[notify.webhook]]\nurll = \"x\"\n",
                "/etc/khz/khz.toml:2: no setting is called 'notify.webhook.urll' (did you mean 'url'?)",
            ),
            (
                "[[notify.alertmanager]]\nname = \"x\"\n",
                "notify.alertmanager.url (from /etc/khz/khz.toml:1): it is missing",
            ),
            (
                "[[notify.alertmanager]]\nurl = \"http://am/api/v2/alerts\"\n",
                "notify.alertmanager.url (from /etc/khz/khz.toml:2): leave out /api/v2/alerts, which khz adds: url = \"http://am\"",
            ),
            (
                "[[notify.webhook]]\nurl = \"http://127.0.0.1:99999\"\n",
                "notify.webhook.url (from /etc/khz/khz.toml:2): 'http://127.0.0.1:99999': '99999' is no port",
            ),
            (
                "[notify.email]\nserver = \"mail:65536\"\n",
                "notify.email.server (from /etc/khz/khz.toml:2): 'mail:65536' is not HOST:PORT",
            ),
            (
                "[[notify.alertmanager]]\nurl = \"http://am\"\nresend = \"1s\"\n",
                "notify.alertmanager.resend (from /etc/khz/khz.toml:3): '1s' is not between 5s and 600s",
            ),
            (
                "[[notify.webhook]]\nurl = \"http://hook\"\nbearer = \"/t\"\n",
                "notify.webhook.url (from /etc/khz/khz.toml:2): without TLS everybody",
            ),
            (
                "[[notify.exec]]\ncommand = []\n",
                "notify.exec.command (from /etc/khz/khz.toml:1): it is missing",
            ),
            (
                "[[notify.exec]]\ncommand = [\"page\"]\n",
                "notify.exec.command (from /etc/khz/khz.toml:1): 'page' is not a path from /",
            ),
            (
                "[[notify.exec]]\ncommand = \"/bin/page\"\n",
                "/etc/khz/khz.toml:2: notify.exec.command takes a list of texts",
            ),
            (
                "[notify.labels]\n1a = \"x\"\n",
                "notify.labels.1a (from /etc/khz/khz.toml:2): this is no name of a label",
            ),
            (
                "[[notify.exec]]\ncommand = [\"/bin/page\"]\n[[notify.exec]]\ncommand = [\"/usr/bin/page\"]\n",
                "notify (from /etc/khz/khz.toml:3): two ways are called 'page'",
            ),
            (
                "[notify.email]\nserver = \"mail\"\n",
                "notify.email.server (from /etc/khz/khz.toml:2): 'mail' is not HOST:PORT",
            ),
            (
                &mail.replace("\"none\"", "\"starttls\""),
                "notify.email.ca (from /etc/khz/khz.toml:1): TLS needs the CA",
            ),
            (
                &mail.replace("k@a.b", "nobody"),
                "notify.email.from (from /etc/khz/khz.toml:4): 'nobody' is no address of e-mail",
            ),
            (
                &format!("{mail}user = \"u\"\npassword = \"/p\"\n"),
                "notify.email.tls (from /etc/khz/khz.toml:3): without TLS everybody on the way could read the password",
            ),
        ] {
            let got = plan(file).unwrap_err();
            assert!(got.starts_with(expected), "{file}: {got}");
        }
        assert!(plan(&format!("{mail}user = \"u\"\npassword = \"/p\"\ninsecure = true\n")).is_ok());
    }

    #[test]
    fn a_secret_header_in_a_file_that_everybody_reads_is_warned_about() {
        let path = std::env::temp_dir().join(format!("khz-open-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let name = path.to_str().unwrap();
        let text =
            "[[notify.webhook]]\nurl = \"https://hook\"\nca = \"/ca\"\nheaders = { X-API-Key = \"s\" }\n";
        let values = super::super::file::read(name, text, &[]).unwrap().notify;
        let warned = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            warnings(&values)
        };
        assert!(warned(0o640).is_empty());
        let expected = format!(
            "everybody may read {name}, which has a secret in line 4 (header X-API-Key): chmod 640 {name}"
        );
        assert_eq!(warned(0o644), [expected]);
        std::fs::remove_file(path).unwrap();
    }
}
