//! The daemon's options, sockets and signals.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../rrd/tests/oracle/mod.rs"]
mod oracle;
mod served;

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use served::{Client, Daemon, check, create, last_on_disk, update};

fn ours() -> Command {
    Command::new(env!("CARGO_BIN_EXE_khz-rrdcached"))
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn each_socket_has_its_commands_its_mode_and_its_group() {
    let dir = oracle::directory("sockets");
    let gid = dir.metadata().unwrap().gid();
    let group: &str = &gid.to_string();
    let (port, flush) = (free_port(), dir.join("flush"));
    let (tcp, unix) = (format!("127.0.0.1:{port}"), format!("unix:{}", flush.display()));
    let daemon = Daemon::ours(
        &dir,
        &[
            "-P",
            "FLUSH,PENDING",
            "-m",
            "0620",
            "-l",
            &unix,
            "-P",
            "UPDATE,BATCH",
            "-s",
            group,
            "-l",
            &tcp,
            "-P",
            "CREATE",
        ],
    );
    let allowed = |mut client: Client| -> Vec<&str> {
        let commands =
            ["PING", "CREATE x", "UPDATE x", "BATCH", "FLUSH x", "PENDING x", "HELP", "STATS", "FOO"];
        commands
            .into_iter()
            .filter(|command| {
                let answer = client.ask(command).remove(0);
                if answer.starts_with("0 Go ahead") {
                    client.ask(".");
                }
                answer != "-1 Permission denied."
            })
            .collect()
    };
    // An unknown command is unknown to everybody.
    assert_eq!(allowed(Client::unix(&flush)), ["FLUSH x", "PENDING x", "HELP", "FOO"]);
    assert_eq!(allowed(Client::tcp(&tcp)), ["UPDATE x", "BATCH", "HELP", "FOO"]);
    assert_eq!(allowed(daemon.client()), ["CREATE x", "HELP", "FOO"]);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&flush), 0o620);
    assert_eq!((mode(&daemon.socket), daemon.socket.metadata().unwrap().gid()), (0o620, gid));
}

#[test]
fn a_group_alone_may_use_its_socket() {
    let dir = oracle::directory("group");
    let gid = dir.metadata().unwrap().gid();
    let daemon = Daemon::ours(&dir, &["-s", &gid.to_string()]);
    let socket = daemon.socket.metadata().unwrap();
    assert_eq!((socket.permissions().mode() & 0o777, socket.gid()), (0o760, gid));
}

#[test]
fn two_daemons_do_not_share_a_pid_file_or_a_socket() {
    let dir = oracle::directory("pid");
    let pid = dir.join("pid");
    let mut daemon = Daemon::ours(&dir, &["-p", pid.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", daemon.child.id()));
    let second = |arguments: &[&str]| {
        let output = ours().args(["rrdcached", "-g"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let other = format!("unix:{}", dir.join("other").display());
    let error = second(&["-p", pid.to_str().unwrap(), "-l", &other]);
    assert!(error.contains(&format!("another rrdcached runs as process {}", daemon.child.id())), "{error}");
    let error = second(&["-l", &daemon.address()]);
    assert!(error.contains("another daemon answers on"), "{error}");
    assert!(daemon.end("TERM").success());
    assert!(!pid.exists() && !daemon.socket.exists());
    // One left by a daemon that was killed is no obstacle.
    let mut daemon = Daemon::ours(&dir, &["-p", pid.to_str().unwrap()]);
    daemon.kill();
    let daemon = Daemon::ours(&dir, &["-p", pid.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&pid).unwrap(), format!("{}\n", daemon.child.id()));
}

#[test]
fn in_the_background_the_command_returns_when_the_daemon_can_be_used() {
    let dir = oracle::directory("background");
    let (socket, pid) = (dir.join("s"), dir.join("pid"));
    let started = ours()
        .args(["rrdcached", "-l"])
        .arg(&socket)
        .args(["-b".as_ref(), dir.as_os_str(), "-p".as_ref(), pid.as_os_str()])
        .status()
        .unwrap();
    assert!(started.success());
    let mut client = Client::unix(&socket);
    assert_eq!(client.ask("PING"), ["0 PONG"]);
    // The number is written before the first answer.
    let number = std::fs::read_to_string(&pid).unwrap();
    assert!(Command::new("kill").arg(number.trim()).status().unwrap().success());
    assert_eq!(client.rest(), b"");
}

#[test]
fn signals_end_it_as_the_manual_says() {
    // Arguments, signal, whether the file has the value afterwards, whether the log has.
    let cases: [(&[&str], &str, bool, bool); 6] = [
        (&[], "TERM", true, false),
        (&[], "USR2", false, false),
        (&["-j", "log"], "INT", false, true),
        (&["-j", "log", "-F"], "TERM", true, true),
        (&["-j", "log"], "USR1", true, true),
        (&["-j", "log"], "USR2", false, true),
    ];
    for (arguments, signal, written, survives) in cases {
        let dir = oracle::directory("signals");
        let file = dir.join("t.rrd");
        let mut daemon = Daemon::ours(&dir, arguments);
        let mut client = daemon.client();
        create(&mut client, "t.rrd");
        client.order(&update("t.rrd", 1_000_000_001));
        assert!(daemon.end(signal).success(), "{arguments:?} {signal}");
        let found = last_on_disk(&file) == 1_000_000_001;
        assert_eq!(found, written, "{arguments:?} {signal}");
        let mut again = Daemon::ours(&dir, arguments);
        again.client().ask("FLUSH t.rrd");
        assert_eq!(last_on_disk(&file) == 1_000_000_001, written || survives, "{arguments:?} {signal}");
        again.kill();
    }
}

#[test]
fn it_ends_although_a_file_cannot_be_written_and_the_log_keeps_its_values() {
    let dir = oracle::directory("cannot");
    let (file, away) = (dir.join("t.rrd"), dir.join("away"));
    // Without a wait each value is due as soon as it comes.
    let arguments = ["-w", "0", "-j", "log", "-F"];
    let mut daemon = Daemon::ours(&dir, &arguments);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", 1_000_000_001));
    client.order("FLUSH t.rrd");
    std::fs::rename(&file, &away).unwrap();
    client.order(&update("t.rrd", 1_000_000_002));
    assert!(daemon.end("TERM").success());
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(last_on_disk(&file), 1_000_000_001);
    let daemon = Daemon::ours(&dir, &arguments);
    daemon.client().ask("FLUSH t.rrd");
    assert_eq!(last_on_disk(&file), 1_000_000_002);
}

#[test]
fn tcp_and_unix_see_the_same_values() {
    let dir = oracle::directory("tcp");
    let tcp = format!("127.0.0.1:{}", free_port());
    let daemon = Daemon::ours(&dir, &["-l", &tcp]);
    let (mut unix, mut tcp) = (daemon.client(), Client::tcp(&tcp));
    create(&mut tcp, "t.rrd");
    unix.order(&update("t.rrd", 1_000_000_001));
    tcp.order(&update("t.rrd", 1_000_000_002));
    assert_eq!(unix.ask("PENDING t.rrd").len(), 3);
    assert_eq!(tcp.ask("LAST t.rrd"), ["0 1000000002"]);
    tcp.order("FLUSH t.rrd");
    check(&dir.join("t.rrd"), &[1_000_000_001, 1_000_000_002]);
}

#[test]
fn values_are_written_when_they_have_waited_and_not_before() {
    let dir = oracle::directory("timeout");
    let daemon = Daemon::ours(&dir, &["-w", "1", "-f", "1", "-z", "1"]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", 1_000_000_001));
    // No client asks for it: the sweep for silent files finds it.
    client.wait_for("UpdatesWritten", |written| written == 1);
    check(&dir.join("t.rrd"), &[1_000_000_001]);
    let daemon = Daemon::ours(&dir, &["-w", "3600"]);
    let mut client = daemon.client();
    client.order(&update("t.rrd", 1_000_000_002));
    assert_eq!((client.stat("UpdatesPending"), client.stat("QueueLength")), (1, 0));
}

#[test]
fn creating_is_allowed_as_the_options_say() {
    let dir = oracle::directory("create");
    let arguments = "DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5";
    let plain = Daemon::ours(&dir, &[]);
    let mut client = plain.client();
    client.order(&format!("CREATE a.rrd {arguments}"));
    client.order(&format!("CREATE a.rrd {arguments}"));
    assert!(client.ask(&format!("CREATE a.rrd -O {arguments}"))[0].ends_with("File exists"));
    assert!(
        client.ask(&format!("CREATE new/a.rrd {arguments}"))[0]
            .contains("No permission to recursively create")
    );
    drop(plain);
    let strict = Daemon::ours(&dir, &["-O", "-B", "-R"]);
    let mut client = strict.client();
    assert!(client.ask(&format!("CREATE a.rrd {arguments}"))[0].ends_with("File exists"));
    client.order(&format!("CREATE new/deep/a.rrd {arguments}"));
    assert!(dir.join("new/deep/a.rrd").exists());
    // A file that is made again gets nothing that was meant for the old one.
    let plain = Daemon::ours(&dir, &["-j", "log"]);
    let mut client = plain.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", 1_000_000_005));
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", 1_000_000_001));
    client.order("FLUSH t.rrd");
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_001);
}

#[test]
fn as_another_user_it_can_do_what_that_user_can() {
    let dir = oracle::directory("user");
    let root = dir.metadata().unwrap().uid() == 0;
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let daemon = Daemon::ours(&dir, &["-U", "nobody", "-G", "nogroup"]);
    let mut client = daemon.client();
    create(&mut client, "t.rrd");
    let owner = dir.join("t.rrd").metadata().unwrap().uid();
    // A process that is not root keeps its user.
    assert_eq!(owner, if root { 65_534 } else { dir.metadata().unwrap().uid() });
}

#[test]
fn it_does_not_start_over_a_journal_of_rrdcacheds() {
    let dir = oracle::directory("journal");
    let log = dir.join("log");
    std::fs::create_dir(&log).unwrap();
    let log = log.to_str().unwrap();
    let mut theirs = Daemon::debians(&dir, &["-j", log]);
    let mut client = theirs.client();
    create(&mut client, "t.rrd");
    client.order(&update("t.rrd", 1_000_000_001));
    assert!(theirs.end("TERM").success());
    let socket = format!("unix:{}", dir.join("other").display());
    let output = ours().args(["rrdcached", "-g", "-l", &socket, "-j", log]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("is a journal of rrdcached"), "{error}");
    // Once its own daemon has written it, it is no obstacle any more.
    assert!(Daemon::debians(&dir, &["-j", log]).end("USR1").success());
    assert_eq!(last_on_disk(&dir.join("t.rrd")), 1_000_000_001);
    Daemon::ours(&dir, &["-j", log]);
}

/// Raises this process's limit of open files; returns whether that worked.
fn open_files(wanted: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.is_none_or(|current| current >= wanted)
}

#[test]
fn ten_thousand_clients_are_served_at_once() {
    if !open_files(10_500) {
        return khz_skip::skip("this process may not have 10,500 files open");
    }
    let dir = oracle::directory("clients");
    let daemon = Daemon::ours(&dir, &[]);
    let mut clients: Vec<Client> = (0..10_000).map(|_| daemon.client()).collect();
    for client in &mut clients {
        client.send("PING\n");
    }
    assert!(clients.iter_mut().all(|client| client.answer().is_some_and(|answer| answer == ["0 PONG"])));
    let refused = daemon.client().answer().unwrap();
    assert_eq!(refused, ["-1 too many connections: 10000 are served at once"]);
}

#[test]
fn how_many_clients_are_served_can_be_set() {
    let dir = oracle::directory("few-clients");
    let daemon = Daemon::ours(&dir, &["--connections", "2"]);
    // The connection that waited for the daemon may still count for a moment.
    let served = |daemon: &Daemon| {
        let started = std::time::Instant::now();
        loop {
            let mut client = daemon.client();
            if client.try_ask("PING").is_some_and(|answer| answer == ["0 PONG"]) {
                return client;
            }
            assert!(started.elapsed() < served::PATIENCE, "nobody is served");
        }
    };
    let mut clients = vec![served(&daemon), served(&daemon)];
    assert_eq!(daemon.client().answer().unwrap(), ["-1 too many connections: 2 are served at once"]);
    drop(clients.pop());
    // The place is free as soon as the daemon sees that the client is gone.
    served(&daemon);
}

#[test]
fn links_within_a_confining_base_are_followed_however_they_begin() {
    let dir = oracle::directory("links").canonicalize().unwrap();
    let daemon = Daemon::ours(&dir, &["-B", "-R", "-j", "log"]);
    let mut client = daemon.client();
    std::fs::create_dir(dir.join("real")).unwrap();
    create(&mut client, "real/t.rrd");
    let link = |from: &str, to: &Path| std::os::unix::fs::symlink(to, dir.join(from)).unwrap();
    link("file.rrd", &dir.join("real/t.rrd"));
    link("way", &dir.join("real"));
    link("near", Path::new("real"));
    link("out", Path::new("/etc"));
    link("passwd.rrd", Path::new("/etc/passwd"));
    for (index, name) in ["file.rrd", "way/t.rrd", "near/t.rrd"].into_iter().enumerate() {
        let time = 1_000_000_001 + index as i64;
        client.order(&update(name, time));
        client.order(&format!("FLUSH {name}"));
        assert_eq!(last_on_disk(&dir.join("real/t.rrd")), time, "{name}");
        client.order(&format!("INFO {name}"));
    }
    create(&mut client, "way/new.rrd");
    assert!(dir.join("real/new.rrd").exists());
    for outside in [
        "INFO passwd.rrd",
        "INFO out/passwd",
        "UPDATE passwd.rrd 1:1",
        "CREATE out/t.rrd DS:x:GAUGE:60:U:U RRA:LAST:0.5:1:5",
    ] {
        let answer = client.ask(outside).remove(0);
        assert!(answer.starts_with("-1 ") && answer.contains("Permission denied"), "{outside}: {answer}");
    }
}
