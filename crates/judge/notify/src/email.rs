//! A message as an e-mail to some people. `smtp.rs` brings it to the server.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use khz_model::printable::{printable, printable_lines};
use khz_trust::{ClientFiles, Protocol, TlsClient};
use lettre::Message as Mail;
use lettre::address::AddressError;
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};

use crate::alert::{Alert, Labels, with_external};
use crate::answer::{Answer, cut};
use crate::body::{status, time_for_people};
use crate::digest::Job;
use crate::door::Door;
use crate::error::NotifyError;
use crate::message::Message;
use crate::settings::{EmailSettings, SmtpTls};
use crate::smtp::{Envelope, Server, SmtpError, Taken};

/// E-mail to some people.
pub(crate) struct Email {
    settings: EmailSettings,
    from: Mailbox,
    to: Mailboxes,
    tls: Option<TlsClient>,
    external: Arc<Labels>,
}

impl Email {
    /// Checks the addresses, and that the secrets and the CA are there.
    pub fn new(name: &str, settings: &EmailSettings, external: &Arc<Labels>) -> Result<Self, NotifyError> {
        let failed = |problem| NotifyError::Way { name: name.to_owned(), problem };
        let from = mailbox(&settings.from).map_err(failed)?;
        let to = settings.to.iter().map(|text| mailbox(text));
        let to: Mailboxes = to.collect::<Result<Vec<_>, _>>().map_err(failed)?.into();
        let tls = match &settings.tls {
            SmtpTls::Nothing => None,
            SmtpTls::Start(ca) | SmtpTls::Whole(ca) => {
                let files = ClientFiles { ca: ca.clone(), pair: None };
                // The handshake names no protocol: servers of mail know none.
                let tls = TlsClient::load(files, Protocol::Text);
                Some(tls.map_err(|error| failed(khz_ask::sentence(&error)))?)
            }
        };
        let email = Email { settings: settings.clone(), from, to, tls, external: external.clone() };
        email.password().map_err(failed)?;
        Ok(email)
    }

    /// User and password, as the file has it now.
    fn password(&self) -> Result<Option<(&str, String)>, String> {
        let login = self.settings.login.as_ref();
        login.map(|(user, file)| Ok((user.as_str(), khz_ask::secret("password", file)?))).transpose()
    }

    fn mail(&self, message: &Message) -> Result<Mail, String> {
        let at = UNIX_EPOCH + std::time::Duration::from_millis(u64::try_from(message.at).unwrap_or(0));
        let mut builder = Mail::builder()
            .from(self.from.clone())
            .subject(printable(&message.title()).into_owned())
            .date(at)
            .message_id(None)
            .header(ContentType::TEXT_PLAIN);
        for to in self.to.iter() {
            builder = builder.to(to.clone());
        }
        builder.body(text(message, &self.external)).map_err(|error| error.to_string())
    }
}

impl Door<Job> for Email {
    fn send(&mut self, job: &Job) -> Answer {
        let mail = match self.mail(&job.message) {
            Ok(mail) => mail,
            Err(problem) => return Answer::Refused(problem),
        };
        let login = match self.password() {
            Ok(login) => login,
            Err(problem) => return Answer::Later(problem, None),
        };
        // If the CA cannot be read again, the old one stays in use.
        let config = self.tls.as_ref().map(|tls| {
            let _ = tls.refresh();
            tls.config()
        });
        let name = rustix::system::uname();
        let hello: String =
            name.nodename().to_string_lossy().chars().filter(char::is_ascii_graphic).collect();
        let EmailSettings { host, port, tls, timeout, .. } = &self.settings;
        let server = Server { host, port: *port, tls, config, login, timeout: *timeout, hello: &hello };
        let to = self.to.iter().map(|to| to.email.as_ref()).collect();
        let envelope = Envelope { from: self.from.email.as_ref(), to, mail: &mail.formatted() };
        match server.send(&envelope) {
            Ok(taken) if taken.refused.is_empty() => Answer::Taken(taken.said),
            Ok(taken) => partly(&taken),
            Err(error @ SmtpError::Refused { .. }) if !error.is_for_now() => {
                Answer::Refused(error.to_string())
            }
            Err(error @ SmtpError::Unknown(_)) => Answer::Unknown(error.to_string(), None),
            Err(error) => Answer::Later(error.to_string(), None),
        }
    }
}

/// A mail that did not reach all recipients. Those who have it must not get it twice, so the others do not get it any more.
fn partly(taken: &Taken) -> Answer {
    let of_one = |(to, error): &(String, SmtpError)| format!("not to {}: {error}", printable(to));
    let all: Vec<String> = taken.refused.iter().map(of_one).collect();
    Answer::Partly { said: taken.said.clone(), refused: all.len() as u64, problem: cut(all.join("; ")) }
}

/// Checks an address, as `khz <khz@example.org>`.
///
/// # Errors
/// Returns what is wrong with it, as a sentence.
pub fn check_address(text: &str) -> Result<(), String> {
    mailbox(text).map(|_| ())
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    let wrong = |problem: &str| format!("'{}' is no address of e-mail: {problem}", printable(text));
    let mailbox: Mailbox = text.parse().map_err(|error: AddressError| wrong(&error.to_string()))?;
    match AsRef::<str>::as_ref(&mailbox.email).bytes().all(|byte| (b'!'..0x7f).contains(&byte)) {
        true => Ok(mailbox),
        false => Err(wrong("it has other characters than ASCII")),
    }
}

/// The text of a mail. Foreign texts are not interpreted, whatever they contain.
fn text(message: &Message, external: &Labels) -> String {
    let mut text = String::new();
    match (message.name.is_some(), message.is_repeat) {
        (false, _) => text.push_str(
            "There are more messages than may be sent in an hour. This one sums up what has happened:\r\n\r\n",
        ),
        (true, true) => text.push_str("Still firing.\r\n\r\n"),
        (true, false) => {}
    }
    message.alerts.iter().for_each(|alert| paragraph(alert, external, &mut text));
    if message.left_out > 0 {
        text.push_str(&format!("... and {} more.\r\n\r\n", message.left_out));
    }
    text.push_str(&format!(
        "In all {} firing, {} resolved. Sent by Kilohertz at {}.\r\n",
        message.firing,
        message.resolved,
        time_for_people(message.at)
    ));
    text
}

fn paragraph(alert: &Alert, external: &Labels, text: &mut String) {
    let labels = with_external(&alert.labels, external);
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut line = |words: &str| {
        let words = printable_lines(words).replace('\n', "\r\n    ");
        text.push_str(&words);
        text.push_str("\r\n");
    };
    line(&format!("{}: {}", status(alert.is_firing()), labels.join(", ")));
    for (name, value) in &alert.annotations {
        line(&format!("  {name}: {value}"));
    }
    line(&format!("  since {}", time_for_people(alert.starts_at)));
    if let Some(end) = alert.ends_at {
        line(&format!("  until {}", time_for_people(end)));
    }
    if !alert.generator_url.is_empty() {
        line(&format!("  {}", alert.generator_url));
    }
    line("");
}
