//! Who may come in as what at a real link door: every way in, as every role. Other users are threads with another user's
//! number; other machines are an address of a network namespace that is not loopback.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod fake;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use fake::Hub;
use khz_link::{Frame, Hello, Reason, Role};
use khz_model::NodeName;
use khz_trust::{ClusterKey, RunKeyFile};
use rustix::thread::{Gid, Uid};

const ROOT: u32 = 0;
/// The hub's own user, and another one.
const DAEMON: u32 = 65_533;
const NOBODY: u32 = 65_534;

/// In the order of [`ROLES`].
const ROLES: [Role; 4] = [Role::Node, Role::Reader, Role::Operator, Role::Hub];
const ANYBODY: [bool; 4] = [true; 4];
const REFUSED: [bool; 4] = [false; 4];
const READER: [bool; 4] = [false, true, false, false];
const NAMED: [bool; 4] = [true, true, false, false];

/// Does it as this user; threads have users of their own. Only root can.
fn as_user<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if user != ROOT {
                let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
                rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            }
            act()
        });
        thread.join().unwrap()
    })
}

#[track_caller]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        khz_skip::skip("only root can be several users");
    }
    is_root
}

/// A run directory of the daemon's own.
struct RunDir(PathBuf);

impl RunDir {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("khz-roles-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(DAEMON), Some(DAEMON)).unwrap();
        RunDir(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("hub-link.sock")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the hub is given.
#[derive(Clone, Copy)]
struct Given {
    listen: &'static str,
    key: Option<[u8; 32]>,
    insecure: bool,
}

/// A hub that runs as the daemon's user.
fn hub(run_dir: &RunDir, given: Given) -> Hub {
    as_user(DAEMON, || {
        let local = UnixListener::bind(run_dir.socket()).unwrap();
        local.set_nonblocking(true).unwrap();
        std::fs::set_permissions(run_dir.socket(), std::os::unix::fs::PermissionsExt::from_mode(0o666))
            .unwrap();
        Hub::with(1 << 20, |door| {
            door.listen = vec![given.listen.parse().unwrap()];
            door.local = Some(local);
            door.run = Some((run_dir.0.clone(), None));
            door.key = given.key.map(ClusterKey::from_bytes);
            door.insecure = given.insecure;
        })
    })
}

/// Says Hello, with the token that follows from a key, and tells whether that was welcome, or else why not.
fn comes(
    socket: &mut (impl Read + Write),
    role: Role,
    key: Option<&ClusterKey>,
) -> Result<(), (Reason, String)> {
    let name = NodeName::new("n1").unwrap();
    let known = khz_trust::Role::from_byte(role.byte()).unwrap();
    let nonce = read_frame(socket, |frame| match frame {
        Frame::Greeting(greeting) => greeting.nonce,
        other => panic!("{other:?}"),
    });
    let mut out = Vec::new();
    Hello {
        version: 1,
        role,
        name: name.as_str(),
        machine: [1; 16],
        boot: [2; 16],
        started: 1_000,
        start_nonce: 1,
        program: "test",
        proof: key.map(|key| key.token(known, &name).proof(&nonce)),
        abilities: 0,
    }
    .put(&mut out);
    socket.write_all(&out).unwrap();
    read_frame(socket, |frame| match frame {
        Frame::Welcome(_) => Ok(()),
        Frame::Refuse { reason, text } => Err((reason, text.to_owned())),
        other => panic!("{other:?}"),
    })
}

fn read_frame<T>(socket: &mut impl Read, take: impl FnOnce(Frame<'_>) -> T) -> T {
    let mut length = [0; 4];
    socket.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut frame).unwrap();
    take(Frame::decode(frame[0], &frame[1..]).unwrap())
}

/// Which roles are welcome over TCP.
fn over_tcp(address: SocketAddr, key: Option<&ClusterKey>) -> [bool; 4] {
    ROLES.map(|role| comes(&mut TcpStream::connect(address).unwrap(), role, key).is_ok())
}

/// The key of the run, as this user finds it.
fn run_key(run_dir: &RunDir, user: u32, address: SocketAddr) -> Option<ClusterKey> {
    as_user(user, || RunKeyFile::find(std::slice::from_ref(&run_dir.0), address)).map(|found| found.key)
}

/// Which are by the local socket, as this user.
fn by_socket(run_dir: &RunDir, user: u32) -> [bool; 4] {
    ROLES.map(|role| {
        let mut socket = as_user(user, || UnixStream::connect(run_dir.socket()).unwrap());
        comes(&mut socket, role, None).is_ok()
    })
}

const LOOPBACK: Given = Given { listen: "127.0.0.1:0", key: None, insecure: false };

#[test]
fn by_the_local_socket_owners_have_any_role_and_others_read() {
    if !is_root() {
        return;
    }
    for (key, insecure) in [(None, false), (Some([7; 32]), false), (None, true)] {
        let run_dir = RunDir::new();
        let _hub = hub(&run_dir, Given { key, insecure, ..LOOPBACK });
        for (user, expected) in [(ROOT, ANYBODY), (DAEMON, ANYBODY), (NOBODY, READER)] {
            assert_eq!(by_socket(&run_dir, user), expected, "user {user}, {insecure}");
        }
    }
}

#[test]
fn over_loopback_owners_prove_themselves_with_the_run_key_and_others_read() {
    if !is_root() {
        return;
    }
    for (key, insecure, nothing) in [
        (None, false, READER),
        (Some([7; 32]), false, READER),
        (None, true, NAMED),
        (Some([7; 32]), true, READER),
    ] {
        let run_dir = RunDir::new();
        let hub = hub(&run_dir, Given { key, insecure, ..LOOPBACK });
        let address = hub.address();
        assert_eq!(over_tcp(address, None), nothing, "{insecure}");
        for user in [ROOT, DAEMON] {
            let key = run_key(&run_dir, user, address);
            assert!(key.is_some(), "user {user}");
            assert_eq!(over_tcp(address, key.as_ref()), ANYBODY, "user {user}");
        }
        assert!(run_key(&run_dir, NOBODY, address).is_none(), "nobody else reads the key");
    }
}

#[test]
fn a_token_is_worth_what_it_says_where_it_counts_and_nothing_elsewhere() {
    let (ours, foreign) = (ClusterKey::from_bytes([7; 32]), ClusterKey::from_bytes([8; 32]));
    let with_key = Hub::with(1 << 20, |door| door.key = Some(ClusterKey::from_bytes([7; 32])));
    assert_eq!(over_tcp(with_key.address(), Some(&ours)), ANYBODY);
    assert_eq!(over_tcp(with_key.address(), Some(&foreign)), REFUSED, "of another cluster");
    let without = Hub::with(1 << 20, |door| door.insecure = false);
    assert_eq!(over_tcp(without.address(), Some(&ours)), READER, "as with nothing");
}

#[test]
fn from_elsewhere_the_run_key_is_worth_nothing_and_insecure_believes_names_of_nodes_alone() {
    if !is_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: nothing in this thread depends on the network namespace that it had.
            if unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }.is_err() {
                return khz_skip::skip("no network namespace can be made here");
            }
            for words in [&["link", "set", "lo", "up"][..], &["address", "add", "10.9.9.9/32", "dev", "lo"]] {
                assert!(std::process::Command::new("ip").args(words).status().unwrap().success());
            }
            for (key, nothing) in [(None, NAMED), (Some([7; 32]), REFUSED)] {
                let run_dir = RunDir::new();
                let hub = hub(&run_dir, Given { listen: "0.0.0.0:0", key, insecure: true });
                let port = hub.address().port();
                let [here, there]: [SocketAddr; 2] =
                    [([127, 0, 0, 1], port).into(), ([10, 9, 9, 9], port).into()];
                assert_eq!(over_tcp(there, None), nothing);
                let token = key.map(ClusterKey::from_bytes);
                if token.is_some() {
                    assert_eq!(over_tcp(there, token.as_ref()), ANYBODY);
                }
                assert!(run_key(&run_dir, ROOT, there).is_none(), "it is for loopback");
                let stolen = run_key(&run_dir, ROOT, here);
                assert!(stolen.is_some(), "a hub at all addresses has one");
                let expected = if key.is_some() { REFUSED } else { nothing };
                assert_eq!(over_tcp(there, stolen.as_ref()), expected);
            }
        });
    });
}

#[test]
fn a_refused_peer_hears_the_ways_out_and_a_believed_name_is_marked() {
    use khz_model::Query;
    let strict = Hub::with(1 << 20, |door| door.insecure = false);
    let refused = |hub: &Hub, role| {
        let mut socket = TcpStream::connect(hub.address()).unwrap();
        comes(&mut socket, role, None).unwrap_err()
    };
    let (reason, text) = refused(&strict, Role::Node);
    assert_eq!(reason, Reason::Proof);
    for way in ["node n1 comes from this machine", "run it as", "khz certs token node n1", "--insecure"] {
        assert!(text.contains(way), "{way}: {text}");
    }
    assert!(!refused(&strict, Role::Operator).1.contains("--insecure"), "that would not help");
    let open = Hub::new();
    let mut socket = TcpStream::connect(open.address()).unwrap();
    assert_eq!(comes(&mut socket, Role::Node, None), Ok(()));
    fake::until("it is marked", || open.query.status().iter().any(|node| node.believed));
}
