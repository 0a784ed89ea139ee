//! The caching daemon: sockets and threads around the pending updates; each line is answered by
//! [`protocol::Session`].

pub mod log;
pub mod pending;
pub mod protocol;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::{PORT, host_and_port};
use crate::error::{Error, Result, refused};
use pending::Pending;
use protocol::{Base, Reply, Session};

/// Bytes a line may have.
const LINE_MAX: u64 = 1 << 16;
/// Connections served at once; each has a thread.
const CONNECTIONS_MAX: usize = 2000;

/// How to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Addresses to listen on: `unix:PATH`, `/PATH`, `HOST[:PORT]`.
    pub listen: Vec<String>,
    /// Where the log lies; without it updates do not survive the process.
    pub log: Option<PathBuf>,
    /// How long an acknowledged update may be unsynced; zero syncs before each answer.
    pub window: Duration,
    /// How long updates wait before they are written.
    pub timeout: Duration,
    /// Threads that write.
    pub writers: usize,
    /// Where relative names lie.
    pub base: Base,
}

/// Runs until the process is told to end.
///
/// # Errors
/// The log or an address cannot be opened.
pub fn serve(settings: Settings) -> Result<()> {
    let pending = Arc::new(Pending::open(settings.log.as_deref(), settings.window, settings.timeout)?);
    let base = Arc::new(settings.base);
    let busy = Arc::new(AtomicUsize::new(0));
    let mut threads = vec![];
    for _ in 0..settings.writers.max(1) {
        let pending = pending.clone();
        threads.push(spawn("khz-rrd-write", move || pending.work())?);
    }
    for address in &settings.listen {
        let server = Server { pending: pending.clone(), base: base.clone(), busy: busy.clone() };
        threads.push(listen(address, server)?);
    }
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

#[derive(Clone)]
struct Server {
    pending: Arc<Pending>,
    base: Arc<Base>,
    busy: Arc<AtomicUsize>,
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|error| Error::io("starting the thread", name, error))
}

fn listen(address: &str, server: Server) -> Result<std::thread::JoinHandle<()>> {
    let failed = |error| Error::io("listening on", address, error);
    let path = address.strip_prefix("unix:").or(Some(address).filter(|text| text.starts_with('/')));
    if let Some(path) = path {
        remove_dead_socket(Path::new(path))?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        return spawn("khz-rrd-unix", move || {
            for stream in listener.incoming().flatten() {
                let Ok(reader) = stream.try_clone() else { continue };
                server.accept(reader, stream);
            }
        });
    }
    let (host, port) =
        host_and_port(address).or_else(|_| refused(format!("'{address}' is no address; port {PORT}")))?;
    let listener = TcpListener::bind((host, port)).map_err(failed)?;
    spawn("khz-rrd-tcp", move || {
        for stream in listener.incoming().flatten() {
            let Ok(reader) = stream.try_clone() else { continue };
            server.accept(reader, stream);
        }
    })
}

/// Removes a socket nobody answers on, left by a daemon that was killed.
fn remove_dead_socket(path: &Path) -> Result<()> {
    if path.exists() && std::os::unix::net::UnixStream::connect(path).is_ok() {
        return refused(format!("another daemon answers on {}", path.display()));
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("removing", path, error)),
        _ => Ok(()),
    }
}

impl Server {
    fn accept(&self, reader: impl Read + Send + 'static, mut writer: impl Write + Send + 'static) {
        if self.busy.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            self.busy.fetch_sub(1, Ordering::Relaxed);
            // Whoever asks one too many gets a word instead of silence.
            let _ = writer.write_all(b"-1 too many connections\n");
            return;
        }
        let server = self.clone();
        let started = spawn("khz-rrd-client", move || {
            let _ = server.converse(BufReader::new(reader), &mut writer);
            server.busy.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            self.busy.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn converse(&self, mut reader: BufReader<impl Read>, writer: &mut impl Write) -> std::io::Result<()> {
        let mut session = Session::new(&self.pending, &self.base);
        let mut line = vec![];
        loop {
            line.clear();
            (&mut reader).take(LINE_MAX).read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                // The end, or a line nobody sends.
                return Ok(());
            }
            line.pop();
            match session.line(&String::from_utf8_lossy(&line)) {
                Reply::Text(text) => writer.write_all(text.as_bytes())?,
                Reply::Bytes(bytes) => writer.write_all(&bytes)?,
                Reply::Last(bytes) => return writer.write_all(&bytes).and_then(|()| writer.flush()),
                Reply::Silence => {}
                Reply::Quit => return Ok(()),
            }
        }
    }
}
