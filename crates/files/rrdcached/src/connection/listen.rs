//! Sockets: opens them, and accepts connections; reads nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::session::Rules;
use khz_rrd::client::{PORT, host_and_port};
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// Connections that may wait to be accepted, as in rrdcached.
const BACKLOG: i32 = 511;

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
/// The text is not an address, or the address is taken or not of this machine.
pub fn open(address: &Address) -> Result<Vec<Socket>> {
    let text = address.address.as_str();
    match text.strip_prefix("unix:").or(Some(text).filter(|text| text.starts_with('/'))) {
        Some(path) => Ok(vec![open_unix(&text::path(path), address)?]),
        None => open_tcp(text, address.rules),
    }
}

/// Sets group and mode before the socket listens, because the kernel refuses every client until then.
fn open_unix(path: &Path, address: &Address) -> Result<Socket> {
    remove_dead(path)?;
    let failed = |error| Error::io("listening on", path, error);
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|error| failed(error.into()))?;
    let name = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    net::bind(&socket, &name).map_err(|error| failed(error.into()))?;
    restrict(path, address).map_err(|error| Error::io("setting the group and mode of", path, error))?;
    net::listen(&socket, BACKLOG).map_err(|error| failed(error.into()))?;
    // Absolute, because the daemon changes its working directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    Ok(Socket { kind: Kind::Unix(socket.into()), rules: address.rules, path: Some(path) })
}

fn restrict(path: &Path, address: &Address) -> io::Result<()> {
    if address.group.is_some() {
        std::os::unix::fs::chown(path, None, address.group)?;
    }
    // Without a mode rrdcached lets the group in.
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
            Err(_) => return refused(format!("'{text}' is not an address")),
        },
        None => host_and_port(text)?,
    };
    let failed = |error| Error::io("listening on", text, error);
    if host.is_empty() {
        // An IPv6 socket takes IPv4 clients too. A machine may have IPv4 only.
        let listener = TcpListener::bind(("::", port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)));
        return Ok(vec![Socket::tcp(listener.map_err(failed)?, rules)]);
    }
    let addresses: Vec<SocketAddr> = (host.as_str(), port).to_socket_addrs().map_err(failed)?.collect();
    let mut sockets = vec![];
    let mut wrong = None;
    for address in addresses {
        match TcpListener::bind(address) {
            Ok(listener) => sockets.push(Socket::tcp(listener, rules)),
            Err(error) => wrong = Some(error),
        }
    }
    match wrong {
        Some(error) if sockets.is_empty() => Err(failed(error)),
        _ => Ok(sockets),
    }
}

/// Removes a socket on which nobody answers: a killed daemon left it.
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
    fn tcp(listener: TcpListener, rules: Rules) -> Self {
        // The standard library lets fewer wait; the socket works with either number.
        let _ = net::listen(&listener, BACKLOG);
        Self { kind: Kind::Tcp(listener), rules, path: None }
    }

    /// The file to remove when the daemon ends.
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// What clients of this socket may do.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Waits for a client.
    ///
    /// # Errors
    /// The system's error. The next client may have more success.
    pub fn accept(&self) -> io::Result<Box<dyn Connection>> {
        match &self.kind {
            Kind::Unix(listener) => Ok(Box::new(listener.accept()?.0)),
            Kind::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                let _ = stream.set_nodelay(true);
                Ok(Box::new(stream))
            }
        }
    }
}

/// A connection to a client.
pub trait Connection: Read + Write + Send {}
impl Connection for UnixStream {}
impl Connection for TcpStream {}
