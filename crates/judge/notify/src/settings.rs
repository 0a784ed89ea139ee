//! The recipients of the configuration. The program checks the texts; here they are typed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use khz_ask::ForeignServer;

use crate::alert::Labels;
use crate::digest::Pace;
use crate::error::NotifyError;
use crate::limits::WAYS_MAX;

/// Everybody who is told.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Labels that every alert gets, unless it has them.
    pub labels: Labels,
    /// All Alertmanagers. Each gets all alerts.
    pub alertmanagers: Vec<AlertmanagerSettings>,
    /// People by e-mail.
    pub email: Option<EmailSettings>,
    /// Webhooks.
    pub webhooks: Vec<WebhookSettings>,
    /// Programs.
    pub execs: Vec<ExecSettings>,
}

/// The name of the only way by e-mail.
pub(crate) const EMAIL: &str = "email";

impl Settings {
    /// The names of the ways, in their order: Alertmanagers, e-mail, webhooks, programs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let alertmanagers = self.alertmanagers.iter().map(|way| way.name.as_str());
        let email = self.email.iter().map(|_| EMAIL);
        let webhooks = self.webhooks.iter().map(|way| way.name.as_str());
        let execs = self.execs.iter().map(|way| way.name.as_str());
        alertmanagers.chain(email).chain(webhooks).chain(execs)
    }

    /// Checks the ways against each other.
    ///
    /// # Errors
    /// Returns that there are too many, or two with one name.
    pub fn check(&self) -> Result<(), NotifyError> {
        if self.ways() > WAYS_MAX {
            return Err(NotifyError::TooMany(self.ways()));
        }
        let mut known = BTreeSet::new();
        match self.names().find(|name| !known.insert(*name)) {
            Some(name) => Err(NotifyError::Twice(name.to_owned())),
            None => Ok(()),
        }
    }

    /// How many ways there are.
    pub fn ways(&self) -> usize {
        self.alertmanagers.len() + usize::from(self.email.is_some()) + self.webhooks.len() + self.execs.len()
    }
}

/// An Alertmanager.
#[derive(Clone, Debug)]
pub struct AlertmanagerSettings {
    /// Its name in counts and logs.
    pub name: String,
    /// Where it is; the URL without `/api/v2/alerts`.
    pub server: ForeignServer,
    /// The time between two sendings of an alert that fires.
    pub resend: Duration,
}

/// A webhook.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Its name in counts and logs.
    pub name: String,
    /// Where it is.
    pub server: ForeignServer,
    /// When it is told.
    pub pace: Pace,
}

/// A program.
#[derive(Clone, Debug)]
pub struct ExecSettings {
    /// Its name in counts and logs.
    pub name: String,
    /// The program and its arguments, as the kernel gets them: there is no shell.
    pub command: Vec<String>,
    /// How long it may run.
    pub timeout: Duration,
    /// When it is run.
    pub pace: Pace,
}

/// E-mail.
#[derive(Clone, Debug)]
pub struct EmailSettings {
    /// The host of the SMTP server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is kept private.
    pub tls: SmtpTls,
    /// Who sends.
    pub from: String,
    /// Who gets it.
    pub to: Vec<String>,
    /// The user's name, and the file of its password.
    pub login: Option<(String, PathBuf)>,
    /// How long each step may take.
    pub timeout: Duration,
    /// When people are told.
    pub pace: Pace,
}

/// How a connection to an SMTP server is kept private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SmtpTls {
    /// It is not.
    Nothing,
    /// By STARTTLS, and not at all without it; the file of the CA.
    Start(PathBuf),
    /// From the first byte on; the file of the CA.
    Whole(PathBuf),
}
