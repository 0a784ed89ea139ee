//! Remote write over TLS, with certificates that `khz certs` makes: to Prometheus, which wants a certificate of its clients, and to
//! VictoriaMetrics, which wants a password. What is wrong loses no samples, and is said in the log.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use khz_judges::{Kind, find};

use crate::process::{code, err, run, until};
use crate::remote_write::{PATIENCE, Place, count_of};
use crate::text::free_port;

/// A receiver that ends with the test.
struct Receiver(Child);

impl Receiver {
    fn start(program: &Path, words: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Receiver(command.spawn().unwrap())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A CA in a folder of its own, with a certificate for 127.0.0.1 and one for a client.
fn site(place: &Place, name: &str) -> String {
    let folder = place.0.join(name).to_str().unwrap().to_owned();
    for words in [&["init"][..], &["hub", "receiver", "127.0.0.1"], &["reader", "sender"]] {
        let output = run(&[&["certs"], words, &["--dir", &folder]].concat());
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
    folder
}

#[test]
fn prometheus_that_wants_a_certificate_gets_samples_and_a_wrong_one_loses_none() {
    let program = match find(Kind::DebianPrometheus) {
        Ok(program) => program,
        Err(lacking) => return khz_skip::skip(lacking),
    };
    let place = Place::new("mutual");
    let (ours, strange) = (site(&place, "ours"), site(&place, "strange"));
    let web = format!(
        "tls_server_config:\n  cert_file: {ours}/hub-receiver.pem\n  key_file: {ours}/hub-receiver.key\n  \
         client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {ours}/ca.pem\n"
    );
    let address = free_port();
    let _receiver = Receiver::start(
        &program,
        &[
            format!("--config.file={}", place.file("prometheus.yml", "global: { scrape_interval: 1h }\n")),
            format!("--storage.tsdb.path={}", place.0.join("data").display()),
            format!("--web.config.file={}", place.file("web.yml", &web)),
            format!("--web.listen-address={address}"),
            "--web.enable-remote-write-receiver".to_owned(),
        ],
    );
    let table = |name: &str, ca: &str, pair: &str| {
        let pair = match pair {
            "" => String::new(),
            folder => {
                format!("cert = \"{folder}/reader-sender.pem\"\nkey = \"{folder}/reader-sender.key\"\n")
            }
        };
        format!(
            "[[remote_write]]\nname = \"{name}\"\nurl = \"https://{address}/api/v1/write\"\nbatch = \"2s\"\n\
             ca = \"{ca}/ca.pem\"\n{pair}"
        )
    };
    let config = [
        table("right", &ours, &ours),
        table("strange-ca", &strange, &ours),
        table("no-certificate", &ours, ""),
        table("strange-certificate", &ours, &strange),
    ];
    let link = free_port();
    let hub = place.hub(&link, &config.concat());
    let agent = place.agent(&link, "n1");
    let wrong = ["strange-ca", "no-certificate", "strange-certificate"];
    until(PATIENCE, "samples come where all is right", || {
        count_of(&hub, "right", "khz_remote_write_samples_total") > 100.0
    });
    until(PATIENCE, "the others have tried, too", || {
        wrong.iter().all(|name| count_of(&hub, name, "khz_remote_write_retries_total") > 1.0)
    });
    for name in wrong {
        for lost in ["khz_remote_write_refused_total", "khz_remote_write_samples_total"] {
            assert_eq!(count_of(&hub, name, lost), 0.0, "{name}");
        }
    }
    assert_eq!(agent.end("TERM").0, Some(0));
    let (code, said) = hub.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    for (name, problem) in
        [("strange-ca", "CA"), ("no-certificate", "certificate"), ("strange-certificate", "certificate")]
    {
        let line = said.lines().find(|line| line.contains(&format!("'{name}'")));
        assert!(line.is_some_and(|line| line.contains(problem)), "{name}: {said}");
    }
    assert!(!said.contains("'right'"), "{said}");
}

#[test]
fn victoria_metrics_with_a_password_gets_everything_when_the_right_one_is_in_the_file() {
    let program = match find(Kind::Victoria) {
        Ok(program) => program,
        Err(lacking) => return khz_skip::skip(lacking),
    };
    let place = Place::new("password");
    let ours = site(&place, "ours");
    let address = free_port();
    let _receiver = Receiver::start(
        &program,
        &[
            format!("-storageDataPath={}", place.0.join("data").display()),
            format!("-httpListenAddr={address}"),
            "-tls".to_owned(),
            format!("-tlsCertFile={ours}/hub-receiver.pem"),
            format!("-tlsKeyFile={ours}/hub-receiver.key"),
            "-httpAuth.username=khz".to_owned(),
            "-httpAuth.password=right".to_owned(),
        ],
    );
    let password = place.file("password", "wrong\n");
    let config = format!(
        "[[remote_write]]\nname = \"vm\"\nurl = \"https://{address}/api/v1/write\"\nbatch = \"2s\"\nca = \"{ours}/ca.pem\"\n\
         user = \"khz\"\npassword = \"{password}\"\n"
    );
    let link = free_port();
    let hub = place.hub(&link, &config);
    let agent = place.agent(&link, "n1");
    let count = |name: &str| count_of(&hub, "vm", name);
    until(PATIENCE, "it was refused twice", || count("khz_remote_write_retries_total") > 1.0);
    assert_eq!(count("khz_remote_write_samples_total"), 0.0);
    place.file("password", "right\n");
    until(PATIENCE, "samples come", || count("khz_remote_write_samples_total") > 100.0);
    assert_eq!(count("khz_remote_write_refused_total"), 0.0, "a wrong password loses no samples");
    assert_eq!(agent.end("TERM").0, Some(0));
    let (code, said) = hub.end("TERM");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("status 401") && said.contains("check bearer, user and password"), "{said}");
}
