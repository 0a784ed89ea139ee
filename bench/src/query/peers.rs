//! Prometheus and VictoriaMetrics: Debian's packages, each on one core, fed by remote write.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::BenchError;
use crate::http;
use crate::place::Pinned;
use crate::program::failed;
use crate::watched::Watched;

/// It must answer by then.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program of others that stores samples and answers queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prometheus,
    VictoriaMetrics,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Prometheus, Kind::VictoriaMetrics];

    /// The name of Debian's program and package.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Prometheus => "prometheus",
            Kind::VictoriaMetrics => "victoria-metrics",
        }
    }

    pub fn is_installed(self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|place| place.join(self.name()).is_file())
    }

    const fn health(self) -> &'static str {
        match self {
            Kind::Prometheus => "/-/ready",
            Kind::VictoriaMetrics => "/health",
        }
    }

    const fn write(self) -> &'static str {
        "/api/v1/write"
    }

    /// Parameters that keep it from answering out of what it remembers of the last query.
    pub const fn parameters(self) -> &'static str {
        match self {
            Kind::Prometheus => "",
            Kind::VictoriaMetrics => "&nocache=1",
        }
    }
}

/// One that runs.
pub struct Peer {
    pub kind: Kind,
    pub address: SocketAddr,
    pub process: Watched,
    folder: PathBuf,
}

impl Peer {
    /// Starts it in a folder, on one core.
    pub fn start(kind: Kind, folder: &Path) -> Result<Self, BenchError> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| failed(kind.name(), error))?;
        std::fs::create_dir_all(folder).map_err(BenchError::file(folder))?;
        let mut command = Command::new(kind.name());
        match kind {
            Kind::Prometheus => {
                let config = folder.join("prometheus.yml");
                std::fs::write(&config, "global: {}\n").map_err(BenchError::file(&config))?;
                command.arg(format!("--config.file={}", config.display()));
                command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
                command.arg(format!("--web.listen-address={address}"));
                command.args(["--web.enable-remote-write-receiver", "--storage.tsdb.retention.time=100y"]);
            }
            Kind::VictoriaMetrics => {
                command.arg(format!("-storageDataPath={}", folder.join("data").display()));
                command.arg(format!("-httpListenAddr={address}"));
                command.args(["-retentionPeriod=100y", "-search.latencyOffset=0"]);
                command.args(["-search.maxQueryDuration=120s", "-search.maxPointsPerTimeseries=100000"]);
            }
        }
        let _pinned = Pinned::here()?;
        let process = Watched::start(command.stderr(Stdio::null()))?;
        let peer = Peer { kind, address, process, folder: folder.to_owned() };
        http::wait_for(address, kind.health(), PATIENCE)?;
        Ok(peer)
    }

    /// Hands it a request of remote write.
    pub fn write(&self, body: &[u8]) -> Result<(), BenchError> {
        let wrong = |error: std::io::Error| failed(self.kind.name(), error);
        let mut stream = TcpStream::connect(self.address).map_err(wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Encoding: snappy\r\nContent-Type: \
             application/x-protobuf\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\nContent-Length: {}\r\n\r\n",
            self.kind.write(),
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).map_err(wrong)?;
        let (mut answer, mut line, mut rest) = (BufReader::new(stream), String::new(), String::new());
        answer.read_line(&mut line).map_err(wrong)?;
        answer.read_to_string(&mut rest).map_err(wrong)?;
        match line.split(' ').nth(1) {
            Some("204" | "200") => Ok(()),
            _ => Err(failed(self.kind.name(), format!("refused samples: {} {rest}", line.trim()))),
        }
    }

    /// Ends it; what it has stays in its folder.
    pub fn end(mut self) -> Result<PathBuf, BenchError> {
        if self.kind == Kind::VictoriaMetrics {
            http::get(self.address, "/internal/force_flush")?;
        }
        let output = self.process.output()?;
        self.process.end(output)?;
        Ok(self.folder)
    }
}
