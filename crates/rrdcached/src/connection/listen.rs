//! Sockets and the threads behind them: bytes in, bytes out; each line is answered by [`crate::protocol`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::session::{LINE_MAX, Next, Rules, Session};
use crate::cache::Cache;
use khz_rrd::client::{PORT, host_and_port};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// Bytes read at once, and so taken together: a few hundred updates share their system calls, and what they need on the
/// way stays small.
const READ: usize = 1 << 14;
/// Connections served at once if nothing else is said; each has a thread, and rrdcached serves as many.
pub const CONNECTIONS: usize = 10_000;
/// Connections that may wait to be accepted; as rrdcached has it.
const BACKLOG: i32 = 511;

/// Without a free file descriptor accepting fails at once, as long as somebody waits: it is tried again after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Between two messages about that.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Connections that a socket could not accept, told once a minute; the other doors' `AcceptFailures` for a crate that stands
/// alone.
#[derive(Default)]
struct Failures {
    told: Option<Instant>,
    untold: u64,
}

impl Failures {
    /// It failed once more: what to tell, where it is time.
    fn happened(&mut self, now: Instant, error: &io::Error) -> Option<String> {
        self.untold += 1;
        let since = self.told.map(|told| now.duration_since(told));
        if since.is_some_and(|since| since < TOLD_EVERY) {
            return None;
        }
        self.told = Some(now);
        let times = std::mem::take(&mut self.untold);
        let since = since
            .map_or_else(String::new, |since| format!(", {times} times in the last {} s", since.as_secs()));
        Some(format!("cannot accept connections: {error}{since}"))
    }
}

/// A socket to be opened.
#[derive(Debug, Clone)]
pub struct Address {
    /// `unix:PATH`, `/PATH`, `HOST`, `HOST:PORT`, `[HOST]:PORT`, `:PORT`; empty for every interface.
    pub address: String,
    /// What its clients may do.
    pub rules: Rules,
    /// The file's mode, for a unix socket.
    pub mode: Option<u32>,
    /// The file's group, for a unix socket.
    pub group: Option<u32>,
}

/// An open socket.
pub struct Socket {
    kind: Kind,
    rules: Rules,
    /// The file to remove at the end.
    path: Option<PathBuf>,
}

enum Kind {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Opens the sockets of an address: one, or one for each kind of internet address.
///
/// # Errors
/// The address is none, is taken, or cannot be had.
pub fn open(address: &Address) -> Result<Vec<Socket>> {
    let text = address.address.as_str();
    match text.strip_prefix("unix:").or(Some(text).filter(|text| text.starts_with('/'))) {
        Some(path) => Ok(vec![open_unix(&text::path(path), address)?]),
        None => open_tcp(text, address.rules),
    }
}

/// Nobody can connect before group and mode are what they are to be: the kernel refuses until the socket listens.
fn open_unix(path: &Path, address: &Address) -> Result<Socket> {
    remove_dead(path)?;
    let failed = |error| Error::io("listening on", path, error);
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed(error.into()))?;
    let name = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    net::bind(&socket, &name).map_err(|error| failed(error.into()))?;
    restrict(path, address).map_err(|error| Error::io("setting the group and mode of", path, error))?;
    net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
    // The directory may be another after a change of place.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    Ok(Socket { kind: Kind::Unix(socket.into()), rules: address.rules, path: Some(path) })
}

fn restrict(path: &Path, address: &Address) -> io::Result<()> {
    if address.group.is_some() {
        std::os::unix::fs::chown(path, None, address.group)?;
    }
    // rrdcached gives the group its share where no mode says otherwise.
    match address.mode.or(address.group.map(|_| 0o760)) {
        Some(mode) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

fn open_tcp(text: &str, rules: Rules) -> Result<Vec<Socket>> {
    let (host, port) = match text.strip_prefix(':') {
        _ if text.is_empty() => (String::new(), PORT),
        Some(port) => match port.parse() {
            Ok(port) => (String::new(), port),
            Err(_) => return refused(format!("'{text}' is no address")),
        },
        None => host_and_port(text)?,
    };
    let failed = |error| Error::io("listening on", text, error);
    if host.is_empty() {
        // IPv6 takes IPv4 along, unless the machine has only the latter.
        let listener = TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
        return Ok(vec![Socket { kind: Kind::Tcp(listener.map_err(failed)?), rules, path: None }]);
    }
    let addresses: Vec<SocketAddr> = (host.as_str(), port).to_socket_addrs().map_err(failed)?.collect();
    let mut sockets = vec![];
    let mut wrong = None;
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => sockets.push(Socket { kind: Kind::Tcp(listener), rules, path: None }),
            Err(error) => wrong = Some(error),
        }
    }
    match wrong {
        Some(error) if sockets.is_empty() => Err(failed(error)),
        _ => Ok(sockets),
    }
}

/// Removes a socket nobody answers on, left by a daemon that was killed.
fn remove_dead(path: &Path) -> Result<()> {
    if path.exists() && UnixStream::connect(path).is_ok() {
        return refused(format!("another daemon answers on {}", text::name(path)));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("removing", path, error)),
        _ => Ok(()),
    }
}

impl Socket {
    /// The file to remove when the daemon ends.
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// Serves clients in threads of their own, for as long as the process lives.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn serve(self, cache: Arc<Cache>, places: Arc<Places>) -> Result<()> {
        if let Kind::Tcp(listener) = &self.kind {
            let _ = net::listen(listener, BACKLOG);
        }
        let (kind, rules) = (self.kind, self.rules);
        let accept = move || {
            let mut failures = Failures::default();
            loop {
                let accepted = match &kind {
                    Kind::Unix(listener) => {
                        listener.accept().map(|(stream, _)| meet(stream, &cache, rules, &places))
                    }
                    Kind::Tcp(listener) => listener.accept().map(|(stream, _)| {
                        let _ = stream.set_nodelay(true);
                        meet(stream, &cache, rules, &places);
                    }),
                };
                // A connection that ended before it was accepted, or no descriptor left: the next may do better.
                if let Err(error) = accepted {
                    if let Some(line) = failures.happened(Instant::now(), &error) {
                        cache.report(&Error::Refused(line));
                    }
                    std::thread::sleep(ACCEPT_RETRY);
                }
            }
        };
        crate::daemon::spawn("khz-rrd-accept", accept).map(|_| ())
    }
}

fn meet<S>(stream: S, cache: &Arc<Cache>, rules: Rules, places: &Arc<Places>)
where
    S: Send + 'static,
    for<'a> &'a S: Read + Write,
{
    if !places.take() {
        // Whoever asks one too many gets a word instead of silence.
        let most = places.most;
        let _ =
            (&stream).write_all(format!("-1 too many connections: {most} are served at once\n").as_bytes());
        return;
    }
    let (cache, counted) = (cache.clone(), places.clone());
    let started = crate::daemon::spawn("khz-rrd-client", move || {
        let _ = converse(&mut &stream, &mut &stream, &cache, rules);
        counted.give();
    });
    if started.is_err() {
        places.give();
    }
}

/// How many connections may be served, and are.
pub struct Places {
    most: usize,
    busy: AtomicUsize,
}

impl Places {
    /// Places for `most` connections.
    pub fn new(most: usize) -> Self {
        Self { most, busy: AtomicUsize::new(0) }
    }

    fn take(&self) -> bool {
        let free = self.busy.fetch_add(1, Ordering::Relaxed) < self.most;
        if !free {
            self.give();
        }
        free
    }

    fn give(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads lines and answers them until the client is gone.
fn converse(reader: &mut impl Read, writer: &mut impl Write, cache: &Cache, rules: Rules) -> io::Result<()> {
    let mut session = Session::new(cache, rules);
    // Grows to what a busy client sends at once; a silent one costs little.
    let (mut bytes, mut held, mut out) = (vec![0; 4096], 0, vec![]);
    loop {
        let read = reader.read(&mut bytes[held..])?;
        if read == 0 {
            return Ok(());
        }
        held += read;
        let full = held == bytes.len();
        let whole = bytes[..held].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut answered = 0;
        let mut next = Next::Read;
        while next == Next::Read && answered < whole {
            let (length, then) = session.answer(&bytes[answered..whole], &mut out);
            (answered, next) = (answered + length, then);
            writer.write_all(&out)?;
            out.clear();
        }
        bytes.copy_within(whole..held, 0);
        held -= whole;
        if held > LINE_MAX {
            out.extend(format!("-1 a line of more than {LINE_MAX} bytes\n").bytes());
            return writer.write_all(&out);
        }
        if next == Next::HangUp {
            return writer.flush();
        }
        out.shrink_to(READ);
        if full {
            bytes.resize((2 * bytes.len()).min(READ).max(held + 4096), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_cannot_accept_says_so_once_a_minute() {
        let (mut failures, begin) = (Failures::default(), Instant::now());
        let error = io::Error::from_raw_os_error(24);
        let told = |failures: &mut Failures, tenths: u64| {
            failures.happened(begin + Duration::from_millis(100 * tenths), &error)
        };
        let lines: Vec<String> = (0..1_300).filter_map(|tenths| told(&mut failures, tenths)).collect();
        assert_eq!(
            lines,
            [
                "cannot accept connections: Too many open files (os error 24)",
                "cannot accept connections: Too many open files (os error 24), 600 times in the last 60 s",
                "cannot accept connections: Too many open files (os error 24), 600 times in the last 60 s"
            ]
        );
    }
}
