//! `khz certs` and TLS as a user meets them, judged by openssl where openssl can judge.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Running, code, err, khz, out, run};
use crate::tmux::Tmux;

/// A folder with a CA and a cluster key; it is removed after the test.
struct Site(PathBuf);

impl Site {
    fn new() -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("certs-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let site = Site(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name));
        site.certs(&["init"]);
        site
    }

    fn certs(&self, words: &[&str]) -> String {
        let output = self.try_certs(words);
        assert_eq!(code(&output), 0, "{words:?}: {}", err(&output));
        out(&output)
    }

    fn try_certs(&self, words: &[&str]) -> Output {
        run(&[&["certs"], words, &["--dir", self.0.to_str().unwrap()]].concat())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A node whose door speaks TLS, with a hub's certificate for 127.0.0.1.
    fn door(&self) -> Running {
        self.certs(&["hub", "h1", "127.0.0.1"]);
        let files = self.files("hub-h1");
        let flags: Vec<&str> = files.iter().map(String::as_str).collect();
        Running::start(&[&flags[..], &["--cluster-key", &self.path("cluster.key")]].concat())
    }

    /// The flags that name a certificate, its key and the CA.
    fn files(&self, stem: &str) -> [String; 6] {
        let flag = |name: &str| name.to_owned();
        let path = |end: &str| self.path(&format!("{stem}.{end}"));
        [
            flag("--tls-cert"),
            path("pem"),
            flag("--tls-key"),
            path("key"),
            flag("--tls-ca"),
            self.path("ca.pem"),
        ]
    }

    /// A file with the token of a role.
    fn token(&self, role: &str) -> String {
        let path = self.path(&format!("{role}.token"));
        std::fs::write(&path, self.certs(&["token", role, "someone"])).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs openssl with these words; `None` where it is not installed. `cargo xtask test` installs it.
fn openssl(words: &[&str]) -> Option<Output> {
    match Command::new("openssl").args(words).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            khz_skip::skip("there is no openssl");
            None
        }
        output => Some(output.unwrap()),
    }
}

fn mode(path: &str) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Watches at a rate, over TLS, with these credentials. Returns the exit code and stderr.
fn watch(site: &Site, url: &str, rate: &str, shown: &[&str]) -> (i32, String) {
    let ca = site.path("ca.pem");
    let mut words =
        vec!["watch", "uptime*", "--rate", rate, "--exact", "--count", "3", "--server", url, "--tls-ca", &ca];
    words.extend(shown);
    let output = run(&words);
    (code(&output), err(&output))
}

#[test]
fn openssl_accepts_what_khz_signs_for_what_it_is_made_for() {
    let site = Site::new();
    site.certs(&["hub", "h1", "h1.example", "10.0.0.1", "2001:db8::1"]);
    site.certs(&["node", "n1"]);
    site.certs(&["reader", "bob"]);
    site.certs(&["operator", "alice"]);
    let ca = site.path("ca.pem");
    let verify = |more: &[&str], file: &str| {
        let file = site.path(file);
        let words = [&["verify", "-x509_strict", "-CAfile", &ca], more, &[file.as_str()]].concat();
        openssl(&words).map(|output| output.status.success())
    };
    for stem in ["hub-h1", "node-n1", "reader-bob", "operator-alice"] {
        let Some(is_client) = verify(&["-purpose", "sslclient"], &format!("{stem}.pem")) else { return };
        assert!(is_client, "{stem}");
        let is_server = verify(&["-purpose", "sslserver"], &format!("{stem}.pem")).unwrap();
        assert_eq!(is_server, stem == "hub-h1", "{stem}");
    }
    for (flag, host, expected) in [
        ("-verify_hostname", "h1.example", true),
        ("-verify_ip", "10.0.0.1", true),
        ("-verify_ip", "2001:db8::1", true),
        ("-verify_hostname", "h2.example", false),
    ] {
        assert_eq!(verify(&[flag, host], "hub-h1.pem"), Some(expected), "{host}");
    }
    let other = Site::new();
    other.certs(&["node", "n1"]);
    assert_eq!(verify(&[], &other.path("node-n1.pem")), Some(false), "another CA's");
}

#[test]
fn keys_are_for_their_owner_and_nothing_is_overwritten_without_force() {
    let site = Site::new();
    site.certs(&["node", "n1"]);
    for (file, expected) in [
        ("ca.key", 0o600),
        ("cluster.key", 0o600),
        ("node-n1.key", 0o600),
        ("ca.pem", 0o644),
        ("node-n1.pem", 0o644),
    ] {
        assert_eq!(mode(&site.path(file)), expected, "{file}");
    }
    let read = |file: &str| std::fs::read(site.path(file)).unwrap();
    let before =
        [read("ca.pem"), read("ca.key"), read("cluster.key"), read("node-n1.pem"), read("node-n1.key")];
    for words in [&["init"][..], &["node", "n1"]] {
        let output = site.try_certs(words);
        assert_eq!(code(&output), 1);
        assert!(err(&output).contains("is there already; --force overwrites it"), "{}", err(&output));
    }
    let after =
        [read("ca.pem"), read("ca.key"), read("cluster.key"), read("node-n1.pem"), read("node-n1.key")];
    assert_eq!(before, after);
    site.certs(&["node", "n1", "--force"]);
    assert_ne!(before[3], read("node-n1.pem"));
    assert_eq!(before[0], read("ca.pem"));
}

#[test]
fn nothing_is_signed_without_a_ca_and_the_error_says_how_to_make_one() {
    let output = run(&["certs", "node", "n1", "--dir", "/nonexistent"]);
    assert_eq!(code(&output), 1);
    assert!(err(&output).contains("`khz certs init` makes it"), "{}", err(&output));
    let output = run(&["certs", "node", "../n1"]);
    assert_eq!(code(&output), 2, "{}", err(&output));
}

#[test]
fn show_lists_who_and_until_when() {
    let site = Site::new();
    site.certs(&["hub", "h1", "h1.example"]);
    site.certs(&["node", "n1", "--days", "3650"]);
    let shown = site.certs(&["show", "--json"]);
    let lines: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap();
    assert_eq!((of("h1")["role"].as_str(), &of("h1")["hosts"][0]), (Some("hub"), &"h1.example".into()));
    let days = of("h1")["days_left"].as_u64().unwrap();
    assert!((729..=730).contains(&days), "two years, begun a moment ago: {days}");
    let ca = lines.iter().find(|line| line["role"].is_null()).unwrap();
    assert!(of("n1")["until"].as_str() <= ca["until"].as_str(), "nothing outlives its CA");
    let table = site.certs(&["show"]);
    assert!(
        table.contains("hub h1") && table.contains("node n1") && table.contains("Kilohertz CA "),
        "{table}"
    );
}

#[test]
fn https_is_spoken_with_our_ca_and_with_no_other() {
    let (site, other) = (Site::new(), Site::new());
    let door = site.door();
    assert!(door.url.starts_with("https://127.0.0.1:"), "{}", door.line);
    let get = |url: &str, more: &[&str]| run(&[&["get", "mem.free", "--server", url], more].concat());
    let ca = site.path("ca.pem");
    let answered = get(&door.url, &["--tls-ca", &ca]);
    assert_eq!(code(&answered), 0, "{}", err(&answered));
    let without = get(&door.url, &[]);
    assert_eq!(code(&without), 2);
    assert!(err(&without).contains("--tls-ca FILE"), "{}", err(&without));
    let foreign = get(&door.url, &["--tls-ca", &other.path("ca.pem")]);
    assert_eq!(code(&foreign), 1);
    assert!(err(&foreign).contains("was not signed by our CA"), "{}", err(&foreign));
    let renamed = get(&door.url.replace("127.0.0.1", "localhost"), &["--tls-ca", &ca]);
    assert_eq!(code(&renamed), 1);
    assert!(err(&renamed).contains("is for 127.0.0.1, not for localhost"), "{}", err(&renamed));
    let plain = get(&door.url.replace("https", "http"), &[]);
    assert_eq!(code(&plain), 0, "from this machine plain text is understood: {}", err(&plain));
}

#[test]
fn openssl_speaks_tls_with_the_door_and_nothing_older_than_1_2() {
    let site = Site::new();
    let door = site.door();
    let address = door.url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let ca = site.path("ca.pem");
    let client = |version: &str| {
        let words =
            ["s_client", "-connect", &address, "-CAfile", &ca, "-verify_return_error", "-brief", version];
        openssl(&words).map(|output| (output.status.success(), err(&output)))
    };
    for (version, name) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
        let Some((is_connected, message)) = client(version) else { return };
        assert!(is_connected && message.contains(name) && message.contains("Verification: OK"), "{message}");
    }
    assert!(!client("-tls1_1").unwrap().0);
}

#[test]
fn each_role_has_its_rate_and_says_so() {
    let site = Site::new();
    let door = site.door();
    for (role, slow, fast) in [("node", 2, 2), ("reader", 0, 2), ("operator", 0, 0), ("hub", 0, 0)] {
        site.certs(&[role, "someone"]);
        let [cert_flag, cert, key_flag, key, ..] = site.files(&format!("{role}-someone"));
        let token = site.token(role);
        for shown in [&[&*cert_flag, &cert, &key_flag, &key][..], &["--token", &token]] {
            let (at_slow, message) = watch(&site, &door.url, "100Hz", shown);
            assert_eq!(at_slow, slow, "{role}: {message}");
            let (at_fast, message) = watch(&site, &door.url, "200Hz", shown);
            assert_eq!(at_fast, fast, "{role}: {message}");
            if role == "reader" {
                assert!(
                    message.starts_with(
                        "khz: 200Hz is for operators: readers have at most 100Hz, and you are reader someone"
                    ),
                    "{message}"
                );
            }
        }
    }
}

#[test]
fn khz_top_tells_a_reader_which_rate_it_gets_in_place_of_a_refused_one() {
    let site = Site::new();
    let door = site.door();
    let (token, ca) = (site.token("reader"), site.path("ca.pem"));
    let program = env!("CARGO_BIN_EXE_khz");
    let words = [program, "top", "--server", &door.url, "--tls-ca", &ca, "--token", &token];
    let Some(tmux) = Tmux::start((140, 24), &[], &words) else { return };
    tmux.shows(&["live 10Hz"]);
    tmux.keys(&["4"]);
    tmux.shows(&["now 100 Hz: 1000 Hz is refused", "readers have at most 100Hz"]);
    tmux.shows(&["live 100Hz"]);
}

#[test]
fn tokens_of_another_cluster_are_refused_and_broken_ones_never_sent() {
    let (site, other) = (Site::new(), Site::new());
    let door = site.door();
    let (exit, message) = watch(&site, &door.url, "1Hz", &["--token", &other.token("operator")]);
    assert_eq!(exit, 2);
    assert_eq!(message, "khz: the token of operator someone was not made with this cluster's key\n");
    let path = site.token("reader");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (exit, message) = watch(&site, &door.url, "1Hz", &["--token", &path]);
    assert_eq!(exit, 2);
    assert!(message.contains("others can read it"), "{message}");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, "khz-reader-someone-12").unwrap();
    let (exit, message) = watch(&site, &door.url, "1Hz", &["--token", &path]);
    assert_eq!(exit, 2);
    assert!(message.contains("part of this one is missing"), "{message}");
}

#[test]
fn the_token_may_be_in_the_environment() {
    let site = Site::new();
    let door = site.door();
    let token = site.certs(&["token", "reader", "bob"]);
    let mut command = khz(&["watch", "uptime*", "--rate", "200", "--server", &door.url]);
    let output =
        command.env("KHZ_TOKEN", token.trim()).env("KHZ_TLS_CA", site.path("ca.pem")).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("you are reader bob"), "{}", err(&output));
}

#[test]
fn a_door_does_not_start_with_files_that_do_not_fit() {
    let site = Site::new();
    site.certs(&["hub", "h1", "127.0.0.1"]);
    site.certs(&["hub", "h2", "127.0.0.1"]);
    std::fs::copy(site.path("hub-h2.key"), site.path("hub-h1.key")).unwrap();
    let files = site.files("hub-h1");
    let flags: Vec<&str> = files.iter().map(String::as_str).collect();
    let output = run(&[&["--listen", "127.0.0.1:0"], &flags[..]].concat());
    assert_eq!(code(&output), 2);
    assert!(err(&output).contains("hub-h1.key is not the key of "), "{}", err(&output));
}

#[test]
fn a_thousand_connections_that_say_nothing_do_not_hold_up_a_handshake() {
    let site = Site::new();
    let door = site.door();
    let address = door.url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let mut silent = Vec::new();
    for number in 0..1_000 {
        let mut socket = TcpStream::connect(&address).unwrap();
        // Half of them begin a handshake, and do not finish it.
        if number % 2 == 0 {
            socket.write_all(b"\x16\x03\x01\x02\x00").unwrap();
        }
        silent.push(socket);
    }
    let (exit, message) = watch(&site, &door.url, "100Hz", &[]);
    assert_eq!(exit, 0, "{message}");
    // Those that gave way, and the others once their time is over, are closed by the door.
    for mut socket in silent {
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let end = socket.read(&mut [0; 64]);
        assert!(
            matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
        );
    }
}

#[test]
fn the_error_about_a_killed_hub_is_our_own_and_has_no_address_of_a_library() {
    let site = Site::new();
    site.certs(&["hub", "h1", "127.0.0.1"]);
    let files = site.files("hub-h1");
    let flags: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut hub = Running::start_hub(&[&flags[..], &["--cluster-key", &site.path("cluster.key")]].concat());
    let link = hub.link();
    let (ca, token) = (site.path("ca.pem"), site.token("node"));
    let words =
        ["agent", "--node", "someone", "--hub", &link, "--tls-ca", &ca, "--token", &token, "--ring", "4MiB"];
    let mut agent = Running::of(khz(&words));
    let is_up = || {
        let nodes = run(&["nodes", "--server", &hub.url, "--tls-ca", &ca, "--json"]);
        out(&nodes).contains("\"up\":true")
    };
    let begun = std::time::Instant::now();
    while !is_up() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "the agent never came");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let watch = ["watch", "someone:uptime*", "--server", &hub.url, "--tls-ca", &ca, "--json"];
    let mut reader = khz(&watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(crate::process::first_line(reader.stdout.as_mut().unwrap()).contains("someone"));
    hub.child.kill().unwrap();
    let message = crate::process::first_line(agent.child.stderr.as_mut().unwrap());
    let expected = format!("hub {link}: the other side ended the connection without a word");
    assert!(message.contains(&expected), "{message}");
    let told = crate::process::first_line(reader.stderr.as_mut().unwrap());
    assert!(told.contains("khz asks again until it is back"), "{told}");
    reader.kill().unwrap();
    reader.wait().unwrap();
    for message in [message, told.replace(hub.url.trim_end_matches('/'), "")] {
        assert!(!message.contains("http") && !message.contains("docs.rs"), "{message}");
    }
}

#[test]
fn the_local_socket_is_found_and_knows_who_comes() {
    let run_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("local-{}", std::process::id()));
    let run_dir = run_dir.to_str().unwrap();
    let running = Running::start(&["--run-dir", run_dir]);
    let socket = format!("{run_dir}/khz.sock");
    assert_eq!(mode(&socket), 0o666);
    // This command finds n1, although no khz listens at the usual port that it knows.
    let found = run(&["get", "n1:mem.free", "--run-dir", run_dir]);
    assert_eq!(code(&found), 0, "{}", err(&found));
    let named = run(&["get", "n1:mem.free", "--server", &format!("unix:{socket}")]);
    assert_eq!(code(&named), 0, "{}", err(&named));
    assert_eq!(running.end("TERM").0, Some(0));
    assert!(!Path::new(&socket).exists(), "its file goes with it");
    let _ = std::fs::remove_dir(run_dir);
}
