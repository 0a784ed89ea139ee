//! A server of somebody else, such as a receiver of remote write or another engine: its address, its TLS, and what it means
//! when it does not answer. It follows no redirect: whoever answers at the address is whom a person has chosen. Knows nothing
//! of what is sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use khz_trust::{ClientFiles, Protocol, TlsClient, explain_io, in_our_words};
use ureq::Timeout;
use ureq::config::{Config, ConfigBuilder};
use ureq::typestate::AgentScope;
use ureq::unversioned::resolver::DefaultResolver;

use crate::AskError;
use crate::address::Address;
use crate::secrets::Secrets;
use crate::transport::{Route, TlsFailed};

/// How long connecting may take.
pub(crate) const CONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// A server of somebody else.
pub(crate) struct Foreign {
    /// Its address, with the path below which it is asked.
    pub url: String,
    /// The same for errors and logs: what follows a '?' is often a secret.
    pub shown: String,
    /// True where nobody between us and the server can read what we send.
    pub is_private: bool,
    tls: Option<TlsClient>,
    config: Config,
    /// Keeps its connections open between two requests.
    agent: Mutex<ureq::Agent>,
}

impl Foreign {
    /// The server at this address, whose path is appended as it is. `wait` sets the times that an answer may take.
    pub fn new(
        address: Address,
        path: &str,
        files: Option<ClientFiles>,
        wait: impl FnOnce(ConfigBuilder<AgentScope>) -> ConfigBuilder<AgentScope>,
    ) -> Result<Self, AskError> {
        let tls = match (address.is_tls, files) {
            (false, _) => None,
            (true, None) => return Err(AskError::NoCa),
            (true, Some(files)) => Some(TlsClient::load(files, Protocol::Http)?),
        };
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_WAIT_MAX))
            .user_agent(concat!("khz/", env!("CARGO_PKG_VERSION")));
        let config = wait(config).build();
        let agent = match &tls {
            None => ureq::Agent::new_with_config(config.clone()),
            Some(tls) => over_tls(&config, tls),
        };
        let is_private = address.is_tls || address.is_loopback();
        let url = format!("{}{path}", address.url);
        Ok(Foreign {
            shown: url.split('?').next().unwrap_or_default().to_owned(),
            url,
            is_private,
            tls,
            config,
            agent: Mutex::new(agent),
        })
    }

    /// What sends a request. Certificates may have been renewed: they are read again where they have changed.
    pub fn agent(&self) -> ureq::Agent {
        let mut agent = self.agent.lock().unwrap_or_else(PoisonError::into_inner);
        // If they cannot be read, the old ones go on.
        if let Some(tls) = self.tls.as_ref().filter(|tls| tls.refresh().unwrap_or(false)) {
            *agent = over_tls(&self.config, tls);
        }
        agent.clone()
    }

    /// True where the request may have arrived whole, though no answer came: only a failure that comes before the request is
    /// sent says that it has not.
    pub fn may_have_arrived(error: &ureq::Error) -> bool {
        use std::io::ErrorKind;
        if TlsFailed::problem(error).is_some() {
            return false;
        }
        match error {
            ureq::Error::Timeout(of) => !matches!(of, Timeout::Resolve | Timeout::Connect),
            ureq::Error::Io(error) => !matches!(
                error.kind(),
                ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
            ),
            ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed
            | ureq::Error::BadUri(_)
            | ureq::Error::Http(_) => false,
            _ => true,
        }
    }

    /// Why there is no answer.
    pub fn unanswered(&self, error: ureq::Error) -> AskError {
        let url = self.shown.clone();
        if let Some(problem) = TlsFailed::problem(&error) {
            return AskError::Tls { url, problem };
        }
        let reason = match error {
            ureq::Error::Io(error) => explain_io(&error),
            ureq::Error::Timeout(of) => return AskError::Late { url, seconds: self.waited(of).as_secs() },
            other => in_our_words(&other).to_string(),
        };
        AskError::Unanswered { url, reason }
    }
}

impl Foreign {
    /// How long it waited until this time was over.
    fn waited(&self, of: Timeout) -> Duration {
        let times = self.config.timeouts();
        let most = match of {
            Timeout::Resolve | Timeout::Connect => times.connect,
            Timeout::RecvBody => times.recv_body,
            _ => times.global.or(times.recv_response),
        };
        most.unwrap_or_default()
    }
}

/// An agent whose connections have these certificates.
fn over_tls(config: &Config, tls: &TlsClient) -> ureq::Agent {
    let route = Route::Tls(Arc::clone(&tls.config()), None);
    ureq::Agent::with_parts(config.clone(), route, DefaultResolver::default())
}

/// True for headers that say who we are, by their names: nobody is shown their values.
pub fn is_secret_header(name: &str) -> bool {
    const PARTS: [&str; 7] = ["auth", "token", "key", "secret", "pass", "cookie", "credential"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

/// What a server says, without the secrets that it was shown in this URL and these headers: some servers quote them in their
/// errors.
pub(crate) fn without_secrets(text: &str, url: &str, headers: &[(&str, &str)]) -> String {
    let mut secrets = Secrets::default();
    secrets.add_url(url);
    let shown = headers.iter().filter(|(name, _)| is_secret_header(name));
    shown.for_each(|(_, value)| secrets.add(value));
    secrets.hide(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_a_server_quotes_are_not_passed_on() {
        let headers = [
            ("X-API-Key", "k-77"),
            ("Authorization", "Bearer t0k"),
            ("X-Scope-OrgID", "hpc"),
            ("Cookie", ""),
        ];
        for (said, expected) in [
            ("bad token t0k", "bad token (a secret)"),
            ("got Bearer t0k, k-77 of hpc", "got (a secret), (a secret) of hpc"),
            ("POST /?token=urltoken", "POST /?(a secret)"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_secrets(said, "http://hook/?token=urltoken", &headers), expected);
        }
    }
}
