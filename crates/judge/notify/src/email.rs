//! A message as an e-mail, and the way to an SMTP server. The server's sentences are foreign text.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use khz_model::printable::{printable, printable_lines};
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Message as Mail, SmtpTransport, Transport};

use crate::alert::{Alert, Labels, with_external};
use crate::answer::{Answer, cut};
use crate::body::{status, time_for_people};
use crate::digest::Job;
use crate::door::Door;
use crate::error::NotifyError;
use crate::message::Message;
use crate::settings::{EmailSettings, SmtpTls};

/// Statuses by which a server says that it does not let us in: somebody mends that, so the message waits.
const NOT_LET_IN: [u16; 5] = [454, 530, 534, 535, 538];

/// E-mail to some people.
pub(crate) struct Email {
    settings: EmailSettings,
    from: Mailbox,
    to: Mailboxes,
    external: Arc<Labels>,
}

impl Email {
    /// Checks the addresses, and that the secrets and the CA are there.
    pub fn new(name: &str, settings: &EmailSettings, external: &Arc<Labels>) -> Result<Self, NotifyError> {
        let failed = |problem| NotifyError::Way { name: name.to_owned(), problem };
        let from = mailbox(&settings.from).map_err(failed)?;
        let to = settings.to.iter().map(|text| mailbox(text));
        let to: Mailboxes = to.collect::<Result<Vec<_>, _>>().map_err(failed)?.into();
        let email = Email { settings: settings.clone(), from, to, external: external.clone() };
        email.transport().map_err(failed)?;
        Ok(email)
    }

    /// The server as it is now: files of secrets and certificates are read again.
    fn transport(&self) -> Result<SmtpTransport, String> {
        let EmailSettings { host, port, timeout, .. } = &self.settings;
        let tls = match &self.settings.tls {
            SmtpTls::Nothing => Tls::None,
            SmtpTls::Start(ca) => Tls::Required(trust(host, ca)?),
            SmtpTls::Whole(ca) => Tls::Wrapper(trust(host, ca)?),
        };
        let name = rustix::system::uname();
        let hello = name.nodename().to_string_lossy().into_owned();
        let builder = SmtpTransport::builder_dangerous(host)
            .port(*port)
            .tls(tls)
            .hello_name(ClientId::Domain(hello))
            .timeout(Some(*timeout));
        Ok(match &self.settings.login {
            None => builder.build(),
            Some((user, file)) => {
                builder.credentials(Credentials::new(user.clone(), khz_ask::secret(file)?)).build()
            }
        })
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
        let transport = match self.transport() {
            Ok(transport) => transport,
            Err(problem) => return Answer::Later(problem, None),
        };
        match transport.send(&mail) {
            Ok(response) => {
                let words: Vec<&str> = response.message().collect();
                Answer::Taken(
                    cut(printable(&format!("{} {}", response.code(), words.join(" "))).into_owned()),
                )
            }
            Err(error) => {
                let status = error.status().map(u16::from);
                let problem = cut(printable(&khz_ask::sentence(&error)).into_owned());
                match status.is_some_and(|status| status >= 500 && !NOT_LET_IN.contains(&status)) {
                    true => Answer::Refused(problem),
                    false => Answer::Later(problem, None),
                }
            }
        }
    }
}

/// Checks an address, as `khz <khz@example.org>`.
///
/// # Errors
/// Returns what is wrong with it, as a sentence.
pub fn check_address(text: &str) -> Result<(), String> {
    mailbox(text).map(|_| ())
}

fn mailbox(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|error| format!("'{}' is no address of e-mail: {error}", printable(text)))
}

fn trust(host: &str, ca: &std::path::Path) -> Result<TlsParameters, String> {
    let bytes = khz_trust::read_public(ca).map_err(|error| khz_ask::sentence(&error))?;
    let wrong = |error| format!("{}: {}", ca.display(), khz_ask::sentence(&error));
    let certificate = Certificate::from_pem(&bytes).map_err(wrong)?;
    let trusted = TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::None);
    trusted.add_root_certificate(certificate).build().map_err(wrong)
}

/// The text of a mail: foreign texts stay texts, whatever they are made of.
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
