//! VictoriaMetrics with the same samples: Debian's package, fed as it imports its own exports, and ended. Its files are
//! measured when it has merged them.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use khz_model::Series;

use crate::columns::Rows;
use crate::error::BenchError;
use crate::http;
use crate::program::failed;
use crate::store::folder;
use crate::watched::Watched;

/// The name of Debian's program and package.
pub const NAME: &str = "victoria-metrics";
/// Text of one import.
const IMPORT_BYTES: usize = 8 << 20;
/// It must answer, and have merged, by then.
const PATIENCE: Duration = Duration::from_secs(120);
/// Its files have been merged when they stay as they are for this long.
const CALM: Duration = Duration::from_secs(4);

/// A VictoriaMetrics that runs.
pub struct Victoria {
    process: Watched,
    address: SocketAddr,
    folder: PathBuf,
    samples: u64,
    /// The text that waits for the next import.
    text: String,
}

/// What it has on disk after its end.
pub struct Stored {
    pub samples: u64,
    pub data: u64,
    pub index: u64,
}

impl Victoria {
    /// Starts it in a folder; `None`: it is not installed.
    pub fn start(folder: &Path) -> Result<Option<Self>, BenchError> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| failed(NAME, error))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|place| place.join(NAME).is_file()) {
            return Ok(None);
        }
        let mut command = Command::new(NAME);
        command.arg(format!("-storageDataPath={}", folder.display()));
        command.arg(format!("-httpListenAddr={address}"));
        command.args(["-retentionPeriod=100y", "-search.latencyOffset=0"]).stderr(Stdio::null());
        let process = Watched::start(&mut command)?;
        let victoria =
            Victoria { process, address, folder: folder.to_owned(), samples: 0, text: String::new() };
        http::wait_for(address, "/health", PATIENCE)?;
        Ok(Some(victoria))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// CPU time that it has taken.
    pub fn cpu_ns(&self) -> Result<u64, BenchError> {
        Ok(self.process.counted()?.cpu_ns)
    }

    /// Imports the numbers of these rows. Times are in ms, as it keeps them.
    pub fn take(&mut self, node: &str, rows: &Rows) -> Result<(), BenchError> {
        // Rows with the same columns, series by series.
        for rows in rows.chunk_by(|one, next| Arc::ptr_eq(&one.1, &next.1)) {
            for (slot, series) in rows[0].1.iter().enumerate() {
                let format = series.metric.format();
                let number = |row: &(_, _, Vec<u8>, Vec<u64>)| match row.2.get(slot) {
                    Some(0) => format.number(*row.3.get(slot)?),
                    _ => None,
                };
                let (mut values, mut times) = (String::new(), String::new());
                for row in rows {
                    let Some(value) = number(row) else { continue };
                    let comma = if values.is_empty() { "" } else { "," };
                    // Text cannot be refused.
                    let _ = write!(values, "{comma}{value}");
                    let _ = write!(times, "{comma}{}", row.0.real().0 / 1_000_000);
                    self.samples += 1;
                }
                if values.is_empty() {
                    continue;
                }
                let labels = labels(node, series);
                let _ = writeln!(
                    self.text,
                    "{{\"metric\":{labels},\"values\":[{values}],\"timestamps\":[{times}]}}"
                );
                if self.text.len() > IMPORT_BYTES {
                    self.import()?;
                }
            }
        }
        self.import()
    }

    fn import(&mut self) -> Result<(), BenchError> {
        let text = std::mem::take(&mut self.text);
        let wrong = |error: std::io::Error| failed(NAME, error);
        let mut stream = TcpStream::connect(self.address).map_err(wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        let head = format!(
            "POST /api/v1/import HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(text.as_bytes())).map_err(wrong)?;
        let (mut answer, mut line) = (BufReader::new(stream), String::new());
        answer.read_line(&mut line).map_err(wrong)?;
        answer.read_to_end(&mut Vec::new()).map_err(wrong)?;
        match line.split(' ').nth(1) {
            Some("204" | "200") => Ok(()),
            _ => Err(failed(NAME, format!("refused an import: {}", line.trim()))),
        }
    }

    /// Waits until it has merged its files, ends it, and measures them.
    pub fn end(mut self) -> Result<Stored, BenchError> {
        http::get(self.address, "/internal/force_flush")?;
        http::get(self.address, "/internal/force_merge")?;
        let (data, start) = (self.folder.join("data"), Instant::now());
        let (mut bytes, mut since) = (folder_bytes(&data), Instant::now());
        while since.elapsed() < CALM && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(200));
            let now = folder_bytes(&data);
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
        }
        let output = self.process.output()?;
        self.process.end(output)?;
        let index = folder::bytes(&self.folder.join("indexdb"))?;
        Ok(Stored { samples: self.samples, data: folder::bytes(&data)?, index })
    }
}

/// Bytes of a folder whose files may come and go.
fn folder_bytes(path: &Path) -> Option<u64> {
    folder::bytes(path).ok()
}

fn labels(node: &str, series: &Series) -> String {
    let name = series.metric.name.replace(['.', ' '], "_");
    let instance = series.instance.as_ref().map(ToString::to_string);
    let mut labels = serde_json::json!({ "__name__": name, "node": node });
    if let Some(instance) = instance {
        labels["instance"] = instance.into();
    }
    labels.to_string()
}
