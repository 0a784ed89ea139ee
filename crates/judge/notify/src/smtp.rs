//! A dialogue with an SMTP server: greeting, TLS, login, one mail. The server's replies are foreign text, so each has a limit in
//! bytes and in time. Does not know what is in the mail.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use khz_model::printable::printable;
use khz_trust::{TlsClient, explain_io};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::answer::cut;
use crate::limits::SMTP_REPLY_BYTES_MAX;
use crate::settings::SmtpTls;

/// Statuses by which a server refuses our login. A person must fix this, and the message waits.
const NOT_LET_IN: [u16; 5] = [454, 530, 534, 535, 538];

/// Why a mail did not go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SmtpError {
    /// The connection failed.
    #[error("{what}: {reason}")]
    Connection {
        /// What was tried.
        what: &'static str,
        /// The reason.
        reason: String,
    },
    /// The server says no.
    #[error("to {to} the server says {status}: {text}")]
    Refused {
        /// The command.
        to: &'static str,
        /// Its status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// The server's answer does not fit this step of the dialogue.
    #[error("to {to} the server says {status}, which is no answer to that: {text}")]
    OutOfStep {
        /// The command.
        to: &'static str,
        /// Its status.
        status: u16,
        /// Its words.
        text: String,
    },
    /// The server got the whole mail, but its answer did not come.
    #[error("the server got the mail, and whether it has taken it is not known: {0}")]
    Unknown(String),
    /// The server cannot do what the configuration asks for.
    #[error("{0}")]
    Unable(&'static str),
}

impl SmtpError {
    /// True if the server refuses now, but may accept later.
    pub fn is_for_now(&self) -> bool {
        matches!(self, SmtpError::Refused { status, .. } if *status < 500 || NOT_LET_IN.contains(status))
    }
}

/// Sender, recipients and mail. All of it is ASCII.
pub(crate) struct Envelope<'a> {
    pub from: &'a str,
    pub to: Vec<&'a str>,
    pub mail: &'a [u8],
}

/// The result of a mail that the server has accepted.
pub(crate) struct Taken {
    /// The server's last words.
    pub said: String,
    /// The recipients that it has refused, each with its words.
    pub refused: Vec<(String, SmtpError)>,
}

/// A server, as the settings name it.
pub(crate) struct Server<'a> {
    pub host: &'a str,
    pub port: u16,
    pub tls: &'a SmtpTls,
    /// TLS with the CA of the settings.
    pub config: Option<Arc<ClientConfig>>,
    pub login: Option<(&'a str, String)>,
    /// How long each step may take.
    pub timeout: Duration,
    /// Our name.
    pub hello: &'a str,
}

impl Server<'_> {
    /// Sends a mail to all recipients that the server does not refuse. It is an error if the server refuses all of them.
    pub fn send(&self, envelope: &Envelope<'_>) -> Result<Taken, SmtpError> {
        let mut talk = Talk { stream: Some(self.connect()?), timeout: self.timeout, left: Vec::new() };
        talk.expect("the connection", DONE)?;
        let mut able = talk.command("EHLO", &format!("EHLO {}", self.hello))?;
        if matches!(self.tls, SmtpTls::Start(_)) {
            if !has(&able, "STARTTLS") {
                return Err(SmtpError::Unable("the server offers no STARTTLS: check port and tls"));
            }
            talk.command("STARTTLS", "STARTTLS")?;
            talk.begin_tls(self)?;
            able = talk.command("EHLO", &format!("EHLO {}", self.hello))?;
        }
        self.log_in(&mut talk, &able)?;
        talk.command("MAIL", &format!("MAIL FROM:<{}>", envelope.from))?;
        let refused = talk.name_recipients(&envelope.to)?;
        // Without this answer, the server would read the mail as commands.
        talk.ask("DATA", "DATA", GO_ON)?;
        talk.write(&stuffed(envelope.mail))?;
        let said = talk.expect("the mail", DONE).map_err(|error| match error {
            said @ SmtpError::Refused { .. } => said,
            other => SmtpError::Unknown(other.to_string()),
        })?;
        // The server has the mail, whatever it answers now.
        let _ = talk.command("QUIT", "QUIT");
        Ok(Taken { said, refused })
    }

    fn connect(&self) -> Result<Stream, SmtpError> {
        let failed = connection("cannot connect");
        let addresses = (self.host, self.port).to_socket_addrs().map_err(&failed)?;
        let mut problem = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(socket) if matches!(self.tls, SmtpTls::Whole(_)) => return self.tls(socket),
                Ok(socket) => return Ok(Stream::Plain(socket)),
                Err(error) => problem = error,
            }
        }
        Err(failed(problem))
    }

    /// TLS over a connection; the handshake happens with the first bytes.
    fn tls(&self, socket: TcpStream) -> Result<Stream, SmtpError> {
        let failed = |reason: String| SmtpError::Connection { what: "no TLS", reason };
        let config = self.config.clone().ok_or_else(|| failed("there is no CA".to_owned()))?;
        let name = TlsClient::server_name(self.host).map_err(|error| failed(error.to_string()))?;
        let session =
            ClientConnection::new(config, name).map_err(|error| failed(khz_trust::explain(&error)))?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    fn log_in(&self, talk: &mut Talk, able: &str) -> Result<(), SmtpError> {
        let Some((user, password)) = &self.login else { return Ok(()) };
        let coded = |text: &str| BASE64_STANDARD.encode(text);
        if has_login(able, "PLAIN") {
            talk.command("AUTH", &format!("AUTH PLAIN {}", coded(&format!("\0{user}\0{password}"))))?;
        } else if has_login(able, "LOGIN") {
            // After another answer, the server would read the name and the password as commands, and might log them.
            talk.ask("AUTH", "AUTH LOGIN", GO_ON)?;
            talk.ask("AUTH", &coded(user), GO_ON)?;
            talk.command("AUTH", &coded(password))?;
        } else {
            return Err(SmtpError::Unable(
                "the server takes no password by AUTH PLAIN or LOGIN: check port and tls",
            ));
        }
        Ok(())
    }
}

/// The first digits of statuses: it is done, or the server waits for what follows.
const DONE: u16 = 2;
const GO_ON: u16 = 3;

fn connection(what: &'static str) -> impl Fn(io::Error) -> SmtpError {
    move |error| SmtpError::Connection {
        what,
        reason: match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it took too long".to_owned(),
            _ => explain_io(&error),
        },
    }
}

/// True if one of the lines of a reply to EHLO begins with this word.
fn has(able: &str, word: &str) -> bool {
    able.lines().any(|line| line.split(' ').next().is_some_and(|first| first.eq_ignore_ascii_case(word)))
}

fn has_login(able: &str, way: &str) -> bool {
    let words = |line: &str| line.split([' ', '=']).any(|word| word.eq_ignore_ascii_case(way));
    able.lines()
        .any(|line| line.get(..4).is_some_and(|first| first.eq_ignore_ascii_case("AUTH")) && words(line))
}

/// A mail in the form of the protocol: lines end with CR LF, a dot at the start of a line is doubled, and a single dot ends the
/// mail.
fn stuffed(mail: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(mail.len() + 64);
    for line in mail.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.starts_with(b".") {
            out.push(b'.');
        }
        out.extend(line.iter().filter(|byte| **byte != b'\r'));
        out.extend(b"\r\n");
    }
    out.extend(b".\r\n");
    out
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }
}

/// A dialogue.
struct Talk {
    /// `None`: the start of TLS failed.
    stream: Option<Stream>,
    timeout: Duration,
    /// What the server has said beyond its last reply.
    left: Vec<u8>,
}

impl Talk {
    fn begin_tls(&mut self, server: &Server<'_>) -> Result<(), SmtpError> {
        // An attacker in between could have inserted this text before TLS began.
        if !self.left.is_empty() {
            return Err(SmtpError::Unable("the server speaks before its TLS begins"));
        }
        if let Some(Stream::Plain(socket)) = self.stream.take() {
            self.stream = Some(server.tls(socket)?);
        }
        Ok(())
    }

    /// Names all recipients, and returns those that the server refuses. If it refuses all, the error is one that may change later,
    /// if there is such a one.
    fn name_recipients(&mut self, all: &[&str]) -> Result<Vec<(String, SmtpError)>, SmtpError> {
        let mut refused = Vec::new();
        for to in all {
            match self.command("RCPT", &format!("RCPT TO:<{to}>")) {
                Ok(_) => {}
                Err(error @ SmtpError::Refused { .. }) => refused.push(((*to).to_owned(), error)),
                Err(error) => return Err(error),
            }
        }
        if refused.len() < all.len() {
            return Ok(refused);
        }
        let is_for_now = |(_, error): &(String, SmtpError)| error.is_for_now();
        let at = refused.iter().position(is_for_now).unwrap_or(0);
        let nobody = SmtpError::Unable("the mail has no recipient");
        Err(refused.into_iter().nth(at).map_or(nobody, |(_, error)| error))
    }

    /// Sends a command, and returns the lines of a positive answer.
    fn command(&mut self, name: &'static str, line: &str) -> Result<String, SmtpError> {
        self.ask(name, line, DONE)
    }

    /// The same for a command whose positive answer begins with this digit.
    fn ask(&mut self, name: &'static str, line: &str, good: u16) -> Result<String, SmtpError> {
        self.write(format!("{line}\r\n").as_bytes())?;
        self.expect(name, good)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), SmtpError> {
        let failed = connection("cannot write to the server");
        let stream = self.stream.as_mut().ok_or(SmtpError::Unable("TLS has not begun"))?;
        stream.socket().set_write_timeout(Some(self.timeout)).map_err(&failed)?;
        stream.socket().set_read_timeout(Some(self.timeout)).map_err(&failed)?;
        let written = match stream {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        };
        written.map_err(failed)
    }

    /// Reads a reply. `good`: the first digit of a positive one.
    fn expect(&mut self, to: &'static str, good: u16) -> Result<String, SmtpError> {
        let deadline = Instant::now() + self.timeout;
        let (mut text, mut bytes) = (String::new(), 0);
        loop {
            let line = self.line(deadline, &mut bytes)?;
            let status = line.get(..3).and_then(|digits| digits.parse::<u16>().ok());
            let Some(status) = status.filter(|status| (200..600).contains(status)) else {
                return Err(SmtpError::Unable("it does not speak SMTP: check server"));
            };
            text.push_str(line.get(4..).unwrap_or_default());
            if line.as_bytes().get(3) == Some(&b'-') {
                text.push('\n');
                continue;
            }
            let said = cut(printable(&text.replace('\n', " ")).into_owned());
            return match status {
                400.. => Err(SmtpError::Refused { to, status, text: said }),
                _ if status / 100 != good => Err(SmtpError::OutOfStep { to, status, text: said }),
                _ if to == "EHLO" => Ok(text),
                _ => Ok(format!("{status} {said}")),
            };
        }
    }

    /// The next line, without its end. `bytes` counts the bytes of the whole reply.
    fn line(&mut self, deadline: Instant, bytes: &mut usize) -> Result<String, SmtpError> {
        let failed = connection("no answer of the server");
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.left.drain(..=end).collect();
                *bytes += line.len();
                if *bytes <= SMTP_REPLY_BYTES_MAX {
                    return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
            }
            if *bytes + self.left.len() > SMTP_REPLY_BYTES_MAX {
                return Err(SmtpError::Unable("an answer of the server has no end"));
            }
            let wait = deadline.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
            let stream = self.stream.as_mut().ok_or(SmtpError::Unable("TLS has not begun"))?;
            stream.socket().set_read_timeout(Some(wait)).map_err(&failed)?;
            let mut room = [0; 2_048];
            let read = match stream {
                Stream::Plain(socket) => socket.read(&mut room),
                Stream::Tls(stream) => stream.read(&mut room),
            };
            match read {
                Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.left.extend(&room[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_mail_ends_it() {
        let mail = stuffed(b"a\r\n.\r\n..b\nc\rd\r\n");
        assert_eq!(String::from_utf8(mail).unwrap(), "a\r\n..\r\n...b\r\ncd\r\n\r\n.\r\n");
    }

    #[test]
    fn what_a_server_can_do_is_read_by_words() {
        let able = "mail.example.org\nSTARTTLSX\nAUTH=LOGIN\nauth CRAM-MD5 plain";
        assert!(!has(able, "STARTTLS") && has("x\nstarttls", "STARTTLS"));
        assert!(has_login(able, "LOGIN") && has_login(able, "PLAIN") && !has_login(able, "NTLM"));
    }
}
