//! A server of somebody else as the file names it: a receiver of remote write, or another engine. Its address, what it is shown,
//! and its TLS. It is in the file only: neither a flag nor anything that asks over the network names such a server, and secrets
//! are in files of their own.

use std::path::PathBuf;
use std::time::Duration;

use khz_ask::{ForeignServer, Login, is_secret_header};
use khz_model::Nanos;
use khz_trust::ClientFiles;

use super::values::{bad, quantity, switch};
use super::{ConfigError, ForeignValues, Value};

/// How long an answer may take, if the file does not say it.
const TIMEOUT: u64 = 30;
/// The longest that an answer may take, in seconds.
const TIMEOUT_MAX: u64 = 600;

/// Headers that say what a body is, how it travels, or who we are.
const OUR_HEADERS: [&str; 9] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
];

/// Checks the table `[engine]`.
pub(super) fn engine(values: &ForeignValues) -> Result<ForeignServer, ConfigError> {
    let table = Table { name: "engine", values };
    let server = table.server("http://victoria:8428")?;
    let path = server.url.trim_end_matches('/');
    if server.url.contains('?') {
        return Err(table.bad("url", "an engine's address has no '?'".to_owned()));
    }
    match path.strip_suffix("/api/v1") {
        Some(shorter) => {
            Err(table.bad("url", format!("leave out /api/v1, which khz adds: url = \"{shorter}\"")))
        }
        None => Ok(server),
    }
}

/// How long another hub's answer may take (s), if the file does not say it: it is asked each second.
const PEER_TIMEOUT: u64 = 5;
/// Hubs that a hub asks for the state of their alerts: one that takes over is enough.
pub(super) const PEERS_MAX: usize = 4;

/// Checks the tables `[[rules_peer]]`.
pub(super) fn rules_peers(tables: &[ForeignValues]) -> Result<Vec<ForeignServer>, ConfigError> {
    let mut peers: Vec<ForeignServer> = Vec::new();
    for values in tables {
        let table = Table { name: "rules_peer", values };
        let server = table.server_within("http://hub2:7070", PEER_TIMEOUT)?;
        if server.url.contains('?') {
            return Err(table.bad("url", "a hub's address has no '?'".to_owned()));
        }
        if peers.iter().any(|known| known.url == server.url) {
            return Err(table.bad("url", format!("the hub {} is named twice", server.url)));
        }
        if peers.len() == PEERS_MAX {
            return Err(table.bad("url", format!("there may be {PEERS_MAX} such tables")));
        }
        peers.push(server);
    }
    Ok(peers)
}

/// A table of the file, and what it is called there.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub name: &'a str,
    pub values: &'a ForeignValues,
}

impl Table<'_> {
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.values.keys.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// An error at the value of this key, or at the table if it has none.
    pub(super) fn bad(&self, key: &str, problem: String) -> ConfigError {
        let at = Value { text: String::new(), origin: self.values.at.clone() };
        bad(&format!("{}.{key}", self.name), self.value(key).unwrap_or(&at), problem)
    }

    pub(super) fn read<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        match self.value(key) {
            Some(value) => read(&value.text).map_err(|problem| self.bad(key, problem)),
            None => Ok(default),
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.value(key).map(|value| value.text.clone())
    }

    pub(super) fn file(&self, key: &str) -> Option<PathBuf> {
        self.text(key).map(PathBuf::from)
    }

    /// The server; `example` is an address of its kind.
    pub(super) fn server(&self, example: &str) -> Result<ForeignServer, ConfigError> {
        self.server_within(example, TIMEOUT)
    }

    /// The same, with another time in seconds that an answer may take if the file does not say it.
    pub(super) fn server_within(&self, example: &str, usual: u64) -> Result<ForeignServer, ConfigError> {
        let url =
            self.text("url").ok_or_else(|| self.bad("url", format!("it is missing: url = \"{example}\"")))?;
        let host = host(&url).map_err(|problem| self.bad("url", problem))?;
        let files = match (self.file("ca"), self.file("cert").zip(self.file("key"))) {
            (Some(ca), pair) => Some(ClientFiles { ca, pair }),
            (None, Some(_)) => {
                return Err(self.bad("cert", "a certificate is shown only in TLS: name a ca, too".into()));
            }
            (None, None) => None,
        };
        if self.value("cert").is_some() != self.value("key").is_some() {
            return Err(self.bad("cert", "cert and key belong together".into()));
        }
        match (url.starts_with("https://"), files.is_some()) {
            (true, false) => {
                let problem = "https:// needs the CA that signed the server's certificate: ca = \"FILE\" (of a public CA: \
                               /etc/ssl/certs/ca-certificates.crt)";
                return Err(self.bad("url", problem.to_owned()));
            }
            (false, true) => {
                return Err(self.bad("ca", "the url has no https://, so there is no TLS".to_owned()));
            }
            _ => {}
        }
        let login = self.login()?;
        let headers = self.values.headers.iter().map(|(name, value)| self.header(name, value));
        let headers: Vec<(String, String)> = headers.collect::<Result<_, _>>()?;
        // Not that of the whole hub, which is about who may reach it: here its own secrets would be shown to others.
        let may_show = self.read("insecure", false, switch)?;
        let is_shown = login != Login::Nothing || headers.iter().any(|(name, _)| is_secret_header(name));
        if is_shown && !url.starts_with("https://") && !is_loopback(&host) && !may_show {
            let problem = "without TLS everybody on the way could read the secret: use https://, or insecure = true in \
                           this table";
            return Err(self.bad("url", problem.to_owned()));
        }
        Ok(ForeignServer {
            timeout: Duration::from_nanos(self.read("timeout", Nanos::from_secs(usual), timeout)?.0),
            login,
            headers,
            files,
            url,
        })
    }

    fn login(&self) -> Result<Login, ConfigError> {
        match (self.file("bearer"), self.text("user"), self.file("password")) {
            (None, None, None) => Ok(Login::Nothing),
            (Some(file), None, None) => Ok(Login::Bearer(file)),
            (None, Some(user), Some(file)) if !user.contains(':') => Ok(Login::Basic(user, file)),
            (None, Some(_), Some(_)) => Err(self.bad("user", "a user's name has no ':'".into())),
            (None, _, _) => {
                Err(self.bad("user", "user and password (the name of its file) belong together".into()))
            }
            (Some(_), _, _) => Err(self.bad("bearer", "there is either a bearer or a user".into())),
        }
    }

    fn header(&self, name: &str, value: &Value) -> Result<(String, String), ConfigError> {
        let full = format!("{}.headers.{name}", self.name);
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let small = name.to_ascii_lowercase();
        let is_ours = OUR_HEADERS.contains(&small.as_str()) || small.starts_with("x-prometheus-remote-write");
        match is_name && !is_ours && value.text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
            true => Ok((name.to_owned(), value.text.clone())),
            false => Err(bad(&full, value, "this header cannot be set".to_owned())),
        }
    }
}

/// A URL without what may be a secret: a user before '@', and what follows a '?' or '#'.
fn shown(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let rest = rest.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

/// Host and port of a URL.
pub(super) fn host(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let rest = rest.ok_or_else(|| format!("'{}': there are http:// and https://", shown(url)))?;
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err("a url has no user and no password: use the keys user and password".to_owned());
    }
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
    if let Some(port) = port.filter(|port| !matches!(port.parse::<u16>(), Ok(1..))) {
        return Err(format!("'{}': '{port}' is no port: there are 1 to 65535", shown(url)));
    }
    let is_host = !host.is_empty() && !url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#');
    if is_host { Ok(host.to_owned()) } else { Err(format!("'{}' is not an address", shown(url))) }
}

pub(super) fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn timeout(text: &str) -> Result<Nanos, String> {
    within(text, 1, TIMEOUT_MAX)
}

/// A time between two numbers of seconds.
pub(super) fn within(text: &str, least: u64, most: u64) -> Result<Nanos, String> {
    let time: Nanos = quantity(text)?;
    match (Nanos::from_secs(least)..=Nanos::from_secs(most)).contains(&time) {
        true => Ok(time),
        false => Err(format!("'{text}' is not between {least}s and {most}s")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::layers::tests::layers;
    use super::super::plan::Plan;
    use super::*;

    fn plan(file: &str) -> Result<Option<ForeignServer>, String> {
        super::super::file::read("/etc/khz/khz.toml", file, &["stat"]).map_err(|error| error.to_string())?;
        let layers = layers(file, &[], &[]);
        Plan::check(&layers, "hub", &["stat"]).map(|plan| plan.engine).map_err(|error| error.to_string())
    }

    #[test]
    fn an_engine_needs_an_address_and_nothing_else() {
        assert!(plan("").unwrap().is_none());
        let engine = plan("[engine]\nurl = \"http://vm:8481/select/0/prometheus\"\n").unwrap().unwrap();
        assert_eq!(
            (engine.url.as_str(), engine.login),
            ("http://vm:8481/select/0/prometheus", Login::Nothing)
        );
        assert_eq!(engine.timeout, Duration::from_secs(30));
        let file = "[engine]\nurl = \"http://vm\"\nbearer = \"/t\"\ninsecure = true\n";
        assert_eq!(plan(file).unwrap().unwrap().login, Login::Bearer("/t".into()));
        let file = "[engine]\nurl = \"https://mimir/prometheus\"\nca = \"/ca.pem\"\nuser = \"khz\"\n\
            password = \"/etc/khz/p\"\ntimeout = \"2m\"\nheaders = { X-Scope-OrgID = \"hpc\" }\n";
        let engine = plan(file).unwrap().unwrap();
        assert_eq!(engine.headers, [("X-Scope-OrgID".to_owned(), "hpc".to_owned())]);
        assert_eq!(engine.login, Login::Basic("khz".into(), "/etc/khz/p".into()));
    }

    #[test]
    fn another_hub_needs_an_address_and_is_named_once() {
        let peers = |file: &str| {
            let layers = layers(file, &[], &[]);
            let plan = Plan::check(&layers, "hub", &["stat"]).map_err(|error| error.to_string())?;
            Ok::<_, String>(
                plan.rules_peers.into_iter().map(|peer| (peer.url, peer.timeout.as_secs())).collect(),
            )
        };
        let two = "[[rules_peer]]\nurl = \"http://hub2:7070\"\n[[rules_peer]]\nurl = \"http://hub3:7070\"\ntimeout = \"2s\"\n";
        let expected: Vec<(String, u64)> =
            vec![("http://hub2:7070".to_owned(), 5), ("http://hub3:7070".to_owned(), 2)];
        assert_eq!(peers(two), Ok(expected));
        let problem = |file: &str| peers(file).map(|peers: Vec<(String, u64)>| peers.len()).unwrap_err();
        assert!(problem(&two.replace('3', "2")).contains("is named twice"));
        assert!(problem("[[rules_peer]]\ntimeout = \"2s\"").contains("it is missing: url = "));
        let secret = "[[rules_peer]]\nurl = \"http://hub2:7070\"\nbearer = \"/t\"";
        assert!(problem(secret).contains("without TLS everybody"));
    }

    #[test]
    fn secrets_travel_without_tls_only_where_the_table_itself_allows_it() {
        let bearer = "bearer = \"/t\"\n";
        let mail = "server = \"mail:25\"\ntls = \"none\"\nfrom = \"a@b.org\"\nto = [\"c@d.org\"]\nuser = \"u\"\npassword = \"/p\"\n";
        let tables = [
            format!("[engine]\nurl = \"http://vm\"\n{bearer}"),
            format!("[[rules_peer]]\nurl = \"http://hub2:7070\"\n{bearer}"),
            format!("[[remote_write]]\nurl = \"http://vm/api/v1/write\"\n{bearer}"),
            format!("[[notify.alertmanager]]\nurl = \"http://am:9093\"\n{bearer}"),
            format!("[[notify.webhook]]\nname = \"w\"\nurl = \"http://am/\"\n{bearer}"),
            format!("[notify.email]\n{mail}"),
        ];
        let check = |file: &str| {
            let layers = layers(file, &[], &[("insecure", "true")]);
            Plan::check(&layers, "hub", &["stat"]).map(|_| ()).map_err(|error| error.to_string())
        };
        for table in tables {
            // That of the whole hub is about who may reach it.
            let problem = check(&table).expect_err(&table);
            assert!(problem.contains("insecure = true in this table"), "{problem}");
            let own = format!("{table}insecure = true\n");
            assert_eq!(check(&own), Ok(()), "{own}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        for (file, expected) in [
            ("[engine]\ntimeout = \"5s\"", "engine.url (from /etc/khz/khz.toml:1): it is missing: url = "),
            (
                "[engine]\nurl = \"http://vm/api/v1/\"",
                "engine.url (from /etc/khz/khz.toml:2): leave out /api/v1, which khz adds: url = \"http://vm\"",
            ),
            (
                "[engine]\nurl = \"http://vm/?a=b\"",
                "engine.url (from /etc/khz/khz.toml:2): an engine's address has no '?'",
            ),
            (
                "[engine]\nurl = \"http://127.0.0.1:99999/x?t=SECRET\"",
                "engine.url (from /etc/khz/khz.toml:2): 'http://127.0.0.1:99999/x': '99999' is no port: there are 1 to 65535",
            ),
            (
                "[engine]\nurl = \"http://[::1]:0\"",
                "engine.url (from /etc/khz/khz.toml:2): 'http://[::1]:0': '0' is no port",
            ),
            ("[engine]\nurl = \"http://u:p@vm\"", "engine.url (from /etc/khz/khz.toml:2): a url has no user"),
            (
                "[engine]\nurl = \"http://vm\"\nbearer = \"/t\"",
                "engine.url (from /etc/khz/khz.toml:2): without TLS everybody",
            ),
            (
                "[engine]\nurl = \"http://vm\"\nheaders = { X-API-Key = \"s\" }",
                "engine.url (from /etc/khz/khz.toml:2): without TLS everybody",
            ),
            (
                "[engine]\nurl = \"htp://u:SECRET@vm/?t=SECRET\"",
                "engine.url (from /etc/khz/khz.toml:2): 'htp://vm/': there are http:// and https://",
            ),
            (
                "[engine]\nurl = \"http://vm\"\nheaders = { Cookie = \"\\u0001\" }",
                "engine.headers.Cookie (from /etc/khz/khz.toml:3): this header cannot be set",
            ),
            (
                "[engine]\nurl = \"http://vm\"\nmatch = \"x\"",
                "/etc/khz/khz.toml:3: no setting is called 'engine.match'",
            ),
            ("[[engine]]\nurl = \"http://vm\"", "/etc/khz/khz.toml:1: engine takes a table: [engine]"),
        ] {
            let got = plan(file).unwrap_err();
            assert!(got.starts_with(expected), "{file}: {got}");
        }
    }
}
