//! E-mail to a server of SMTP in the test: plain, with STARTTLS and a password, and one that misbehaves.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use khz_notify::{EmailSettings, Notifier, Settings, SmtpTls};

use super::*;

/// What the server does with a connection.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Take,
    /// It refuses every recipient for good.
    Refuse,
    /// It is busy.
    Busy,
    /// It says a line without end.
    Babble,
    /// It takes the mail, says so to the test, and never answers.
    Swallow,
    /// It lets nobody in, and quotes what it was shown.
    Quote,
    /// It closes after its greeting.
    Close,
}

/// A server that has an answer of its own to each command, by its first words, and none but its usual ones else.
#[derive(Clone)]
struct Answers(Vec<(&'static str, &'static str)>);

/// Starts one: plain, and one connection after the other. Gives the port, and of each connection all that the client said.
fn server_that(answers: Answers) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (ended, dialogues) = channel();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut said = String::new();
            let _ = answers.converse(&mut socket, &mut said);
            let _ = ended.send(said);
        }
    });
    (port, dialogues)
}

impl Answers {
    /// The answer to a line, without its end. As a server, it takes what it is told for commands, unless it waits for the text.
    fn to(&self, line: &str) -> String {
        let own = self.0.iter().find(|(begin, _)| line.starts_with(begin));
        let usual = match line.split([' ', '\r']).next().unwrap_or_default() {
            "(connected)" => "220 test",
            "EHLO" => "250-test\r\n250 AUTH LOGIN",
            "AUTH" => "334 VXNlcm5hbWU6",
            "a2h6" => "334 UGFzc3dvcmQ6",
            "czNjcmV0" => "235 ok",
            "MAIL" | "RCPT" | "RSET" => "250 ok",
            "DATA" => "354 go",
            "(text)" => "250 queued",
            "QUIT" => "221 bye",
            _ => "500 what?",
        };
        own.map_or(usual, |(_, answer)| answer).to_owned()
    }

    fn converse(&self, socket: &mut TcpStream, said: &mut String) -> std::io::Result<()> {
        let mut answer = self.to("(connected)");
        loop {
            socket.write_all(format!("{answer}\r\n").as_bytes())?;
            if answer.starts_with("354") {
                let mut text = String::new();
                while !text.ends_with("\r\n.\r\n") {
                    text.push_str(&line(socket)?);
                }
                said.push_str(&format!("(text)\n{text}"));
                answer = self.to("(text)");
                continue;
            }
            let words = line(socket)?;
            said.push_str(&words);
            answer = self.to(&words);
        }
    }
}

/// Starts it; `tls` has its certificate. Gives the port, and of each mail all that the client said.
fn server(manners: Vec<Manner>, tls: Option<Arc<rustls::ServerConfig>>) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (taken, mails) = channel();
    std::thread::spawn(move || {
        let mut manners = manners.into_iter();
        while let Ok((socket, _)) = listener.accept() {
            let manner = manners.next().unwrap_or(Manner::Take);
            let _ = talk(socket, manner, tls.as_ref(), &taken);
        }
    });
    (port, mails)
}

fn talk(
    mut socket: TcpStream,
    manner: Manner,
    tls: Option<&Arc<rustls::ServerConfig>>,
    taken: &Sender<String>,
) -> std::io::Result<()> {
    socket.write_all(b"220 test\r\n")?;
    match manner {
        Manner::Close => return Ok(()),
        Manner::Babble => loop {
            socket.write_all(&[b'x'; 1_000])?;
        },
        _ => {}
    }
    let mut said = String::new();
    if let Some(config) = tls {
        // A byte at a time: what follows STARTTLS is not ours to read.
        loop {
            let line = line(&mut socket)?;
            if line.starts_with("STARTTLS") {
                break;
            }
            socket.write_all(b"250-test\r\n250 STARTTLS\r\n")?;
        }
        socket.write_all(b"220 go\r\n")?;
        let session = rustls::ServerConnection::new(config.clone()).unwrap();
        let mut stream = rustls::StreamOwned::new(session, socket);
        said.push_str("(TLS)\n");
        converse(&mut stream, manner, &mut said)?;
    } else {
        converse(&mut socket, manner, &mut said)?;
    }
    let _ = taken.send(said);
    Ok(())
}

fn line(stream: &mut impl Read) -> std::io::Result<String> {
    let (mut line, mut byte) = (String::new(), [0]);
    while !line.ends_with('\n') {
        stream.read_exact(&mut byte)?;
        line.push(char::from(byte[0]));
    }
    Ok(line)
}

fn converse(stream: &mut (impl Read + Write), manner: Manner, said: &mut String) -> std::io::Result<()> {
    loop {
        let mut words = line(stream)?;
        said.push_str(&words);
        words.make_ascii_uppercase();
        let quoted;
        let answer: &[u8] = match words.split([' ', '\r']).next().unwrap_or_default() {
            "EHLO" => b"250-test\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n",
            "AUTH" if manner == Manner::Quote => {
                quoted = format!("535 bad {}\r\n", said.lines().last().unwrap_or_default());
                quoted.as_bytes()
            }
            "AUTH" => b"235 ok\r\n",
            "RCPT" if manner == Manner::Refuse => b"550 no such user\r\n",
            "MAIL" if manner == Manner::Busy => b"451 busy\r\n",
            "DATA" => {
                stream.write_all(b"354 go\r\n")?;
                while !said.ends_with("\r\n.\r\n") {
                    said.push_str(&line(stream)?);
                }
                if manner == Manner::Swallow {
                    return Ok(());
                }
                b"250 queued as 77\r\n"
            }
            "QUIT" => {
                let _ = stream.write_all(b"221 bye\r\n");
                return Ok(());
            }
            _ => b"250 ok\r\n",
        };
        stream.write_all(answer)?;
        stream.flush()?;
        if answer.starts_with(b"250 queued") {
            return Ok(());
        }
    }
}

fn email(port: u16, tls: SmtpTls, login: Option<(String, PathBuf)>) -> Settings {
    let (from, to) =
        ("Kilohertz <khz@example.org>".into(), vec!["ops@example.org".into(), "boss@example.org".into()]);
    let timeout = Duration::from_secs(2);
    let host = "localhost".into();
    let email = EmailSettings { host, port, tls, from, to, login, timeout, pace: at_once() };
    Settings { email: Some(email), ..Settings::default() }
}

#[test]
fn a_mail_reaches_all_people_after_the_server_was_busy_babbled_and_closed_and_its_text_ends_nothing() {
    let (port, mails) = server(vec![Manner::Busy, Manner::Babble, Manner::Close], None);
    let notifier = Notifier::new(&email(port, SmtpTls::Nothing, None), None).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    let mail = until("a mail comes", || {
        Some(mails.recv_timeout(Duration::from_secs(120)).unwrap()).filter(|said| said.contains("DATA"))
    });
    for part in [
        "MAIL FROM:<khz@example.org>",
        "RCPT TO:<ops@example.org>",
        "RCPT TO:<boss@example.org>",
        "Subject: [FIRING: 1] Down",
    ] {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    assert!(!mail.contains("\r\nQUIT"), "the alert's text is no command: {mail}");
    until("it is counted", || (count(&notifier, |counts| &counts.requests) == 1).then_some(()));
    assert!(count(&notifier, |counts| &counts.failed) >= 3);
    assert_eq!(notifier.ways()[0].standing.said.as_deref(), Some("250 queued as 77"));
    notifier.tell(&[resolved(&down)]);
    let mail = mails.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(mail.contains("Subject: [RESOLVED: 1] Down"), "{mail}");
}

#[test]
fn a_server_that_refuses_people_for_good_is_told_once() {
    let (port, _mails) = server(vec![Manner::Refuse; 9], None);
    let notifier = Notifier::new(&email(port, SmtpTls::Nothing, None), None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    until("it is refused", || (count(&notifier, |counts| &counts.refused) == 1).then_some(()));
    let problem = notifier.ways()[0].standing.problem.clone().unwrap();
    assert!(problem.contains("no such user"), "{problem}");
    assert_eq!(count(&notifier, |counts| &counts.waiting), 0);
}

#[test]
fn with_starttls_the_password_goes_through_tls_and_a_foreign_certificate_gets_none() {
    let folder = Folder::new();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let ca = folder.file("ca.pem", &made.cert.pem(), 0o644);
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let other = folder.file("other.pem", &other.cert.pem(), 0o644);
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config =
        config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    let (port, mails) = server(Vec::new(), Some(Arc::new(config)));
    let login = Some(("khz".to_owned(), folder.file("password", "s3cret\n", 0o600)));
    let notifier = Notifier::new(&email(port, SmtpTls::Start(ca), login.clone()), None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    let mail = mails.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(mail.starts_with("(TLS)\n") && mail.contains("AUTH PLAIN AGtoegBzM2NyZXQ="), "{mail}");
    let notifier = Notifier::new(&email(port, SmtpTls::Start(other), login), None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    until("it fails", || (count(&notifier, |counts| &counts.failed) > 0).then_some(()));
    assert!(mails.try_recv().is_err(), "nobody was shown the password");
}

#[test]
fn a_server_that_takes_a_mail_and_closes_is_told_the_end_of_the_alert() {
    let (port, mails) = server(vec![Manner::Swallow; 2], None);
    let folder = Folder::new();
    let notifier = Notifier::new(&email(port, SmtpTls::Nothing, None), Some(&folder.0)).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    let subject = || mails.recv_timeout(Duration::from_secs(120)).unwrap();
    assert!(subject().contains("Subject: [FIRING: 1] Down"));
    notifier.tell(&[resolved(&down)]);
    until("its end is told", || subject().contains("Subject: [RESOLVED: 1] Down").then_some(()));
    until("all is told", || (count(&notifier, |counts| &counts.waiting) == 0).then_some(()));
}

#[test]
fn a_server_that_quotes_the_password_brings_no_form_of_it_into_the_log() {
    let folder = Folder::new();
    let login = Some(("khz".to_owned(), folder.file("password", "s3cret-of-khz\n", 0o600)));
    let (port, _mails) = server(vec![Manner::Quote; 100], None);
    let notifier = Notifier::new(&email(port, SmtpTls::Nothing, login), None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    let problem = || notifier.ways().remove(0).standing.problem;
    let problem = until("it is not let in", || problem().filter(|problem| problem.starts_with("to AUTH")));
    assert_eq!(problem, "to AUTH the server says 535: bad AUTH PLAIN (a secret)");
}

/// Sends a mail to two people through a server with these answers. Gives what came of it, what the way counts (taken, failed, refused),
/// and all that the client said in its first connection.
fn dialogue(answers: Vec<(&'static str, &'static str)>, folder: &Folder) -> (String, [u64; 3], String) {
    let (port, dialogues) = server_that(Answers(answers));
    let login = Some(("khz".to_owned(), folder.file("password", "s3cret", 0o600)));
    let notifier = Notifier::new(&email(port, SmtpTls::Nothing, login), None).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    let counts = || {
        [
            count(&notifier, |counts| &counts.requests),
            count(&notifier, |counts| &counts.failed),
            count(&notifier, |counts| &counts.refused),
        ]
    };
    until("something came of it", || (counts() != [0; 3]).then_some(()));
    let said = until("the server says so", || notifier.ways().remove(0).standing.said);
    let counts = counts();
    drop(notifier);
    (said, counts, dialogues.recv_timeout(Duration::from_secs(120)).unwrap())
}

/// The steps of a dialogue, each with what is there of it if it is the last one.
const STEPS: [&str; 9] =
    ["(connected)", "EHLO", "AUTH", "a2h6", "czNjcmV0", "MAIL", "RCPT", "DATA", "(text)"];

#[test]
fn whatever_step_is_refused_nothing_is_said_after_it_and_the_message_waits_or_is_refused() {
    let folder = Folder::new();
    for (at, step) in STEPS.into_iter().enumerate() {
        // An answer of another step, one for now, and one for good.
        let other = if ["AUTH", "a2h6", "DATA"].contains(&step) { "250 ok" } else { "354 go" };
        for answer in [other, "421 not now", "554 no"] {
            let (said, counts, dialogue) = dialogue(vec![(step, answer)], &folder);
            let told = format!("{step} {answer}: {said} {counts:?} {dialogue}");
            let is_for_good = answer.starts_with('5');
            assert_eq!(counts[0], 0, "it is not taken: {told}");
            assert_eq!((counts[1] > 0, counts[2] > 0), (!is_for_good, is_for_good), "{told}");
            assert!(said.contains(&answer[..3]), "{told}");
            let is_unknown = step == "(text)" && answer == other;
            assert_eq!(said.contains("the server got the mail"), is_unknown, "{told}");
            for later in STEPS.iter().skip(at + 1) {
                assert!(!dialogue.lines().any(|line| line.starts_with(later)), "{later} after {told}");
            }
            assert_eq!(dialogue.contains("Subject:"), step == "(text)", "{told}");
        }
    }
}

#[test]
fn who_is_refused_gets_nothing_and_the_others_get_the_message_once() {
    let folder = Folder::new();
    for (step, others) in [("RCPT TO:<ops@", "boss@"), ("RCPT TO:<boss@", "ops@")] {
        for answer in ["550 no such user", "452 mailbox full"] {
            let (said, counts, dialogue) = dialogue(vec![(step, answer)], &folder);
            assert_eq!(counts, [1, 0, 1], "{step} {answer}: {said}");
            let refused = step.strip_prefix("RCPT TO:<").unwrap();
            let words = format!("not to {refused}example.org: to RCPT the server says {}: ", &answer[..3]);
            assert_eq!(said, words + &answer[4..]);
            assert!(
                dialogue.contains(others) && dialogue.contains("Subject: [FIRING: 1] Down"),
                "{dialogue}"
            );
        }
    }
}

#[test]
fn a_message_that_all_refuse_waits_if_one_of_them_may_take_it_later() {
    let folder = Folder::new();
    let refusals = |ops, boss| vec![("RCPT TO:<ops@", ops), ("RCPT TO:<boss@", boss)];
    for (ops, boss, word) in
        [("550 a", "450 b", "450: b"), ("450 a", "550 b", "450: a"), ("550 a", "551 b", "550: a")]
    {
        let (said, counts, dialogue) = dialogue(refusals(ops, boss), &folder);
        let is_refused = word.starts_with('5');
        assert_eq!(
            (counts[0], counts[1] > 0, counts[2] > 0),
            (0, !is_refused, is_refused),
            "{ops} {boss}: {said}"
        );
        assert!(said.ends_with(word) && !dialogue.contains("DATA"), "{ops} {boss}: {said} {dialogue}");
    }
}
