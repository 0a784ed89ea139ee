//! Explains an error of TLS or of the socket below it: whose certificate is wrong, and since when. Makes no
//! guesses, and drops links to the manual of a library.

use std::fmt;
use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

use crate::moment::Moment;

/// One sentence about a failed handshake, for the log or the terminal.
pub fn explain(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(problem) => certificate(problem),
        Error::NoCertificatesPresented => "the other side showed no certificate".into(),
        Error::AlertReceived(alert) => alert_text(*alert),
        Error::InvalidMessage(_) => "the other side does not speak TLS".into(),
        Error::PeerIncompatible(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig)
        | Error::PeerIncompatible(PeerIncompatible::SupportedVersionsExtensionRequired)
        | Error::PeerIncompatible(PeerIncompatible::Tls12NotOfferedOrEnabled) => {
            "the other side speaks no TLS newer than 1.1".into()
        }
        Error::NoApplicationProtocol => "the other side came for another door".into(),
        other => in_our_words(other),
    }
}

/// One sentence about a connection that failed, for the log or the terminal.
pub fn explain_io(error: &io::Error) -> String {
    let inner = error.get_ref();
    if let Some(inner) = inner.and_then(|inner| inner.downcast_ref::<io::Error>()) {
        return explain_io(inner);
    }
    match (inner.and_then(|inner| inner.downcast_ref::<Error>()), error.kind()) {
        (Some(tls), _) => explain(tls),
        (None, io::ErrorKind::UnexpectedEof) => {
            "the other side ended the connection without a word; it may have been killed, something between has cut it, or this side has read too slowly"
                .into()
        }
        (None, _) => in_our_words(error),
    }
}

/// A library's error text, without the address of its manual.
pub fn in_our_words(error: &(impl fmt::Display + ?Sized)) -> String {
    let said = error.to_string();
    let manual = ["https://", "http://"].iter().filter_map(|scheme| said.find(scheme)).min();
    match manual {
        Some(at) => said[..at].trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned(),
        None => said,
    }
}

fn certificate(problem: &CertificateError) -> String {
    let moment = |time: &UnixTime| Moment(i64::try_from(time.as_secs()).unwrap_or(i64::MAX));
    match problem {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the other side's certificate expired on {}", moment(not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the other side's certificate is valid from {} on, and it is {} here",
            moment(not_before),
            moment(time)
        ),
        CertificateError::UnknownIssuer => "the other side's certificate was not signed by our CA".into(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let hosts: Vec<&str> = presented.iter().filter_map(|name| host(name)).collect();
            let presented = if hosts.is_empty() { "no host".into() } else { hosts.join(", ") };
            format!("the other side's certificate is for {presented}, not for {}", expected.to_str())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the other side's certificate is not made for its side of a connection: a hub's serves, a node's calls"
                .into()
        }
        CertificateError::BadSignature => {
            "the other side's certificate was signed by another CA of the same name, or changed".into()
        },
        other => format!("the other side's certificate is not accepted: {}", in_our_words(other)),
    }
}

/// The host in a name as rustls prints it: `a` in `DnsName("a")`; a URI names none.
fn host(name: &str) -> Option<&str> {
    let (kind, inner) = name.split_once('(').unwrap_or(("", name));
    let is_host = kind != "UniformResourceIdentifier";
    is_host.then(|| inner.trim_end_matches(')').trim_matches('"'))
}

fn alert_text(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => "the other side says that our certificate has expired".into(),
        AlertDescription::UnknownCA => {
            "the other side says that our certificate was not signed by its CA".into()
        }
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "the other side wants a certificate, and we showed none".into()
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => "the other side does not accept our certificate".into(),
        AlertDescription::NoApplicationProtocol => "this is another door: the port is wrong".into(),
        AlertDescription::ProtocolVersion => "the other side speaks another version of TLS".into(),
        other => format!("the other side ended it with the alert {other:?}"),
    }
}
