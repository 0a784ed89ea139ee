//! A hub with rules in its own folder, and a receiver of alerts that speaks as much of Alertmanager's API as the hub needs. It notes when
//! each alert came first.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use khz_model::{Nanos, moment};
use serde_json::Value;

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::{build_directory, failed};
use crate::watched::Watched;

/// Bytes of a request that is read: the hub sends some hundred alerts at a time.
const REQUEST_MAX: usize = 4 << 20;

/// A hub, its folder, and perhaps agents.
pub struct Site {
    /// The program.
    pub program: PathBuf,
    /// The hub.
    pub hub: Watched,
    /// Its link door.
    pub link: SocketAddr,
    /// Its HTTP door.
    pub http: SocketAddr,
    folder: PathBuf,
    agents: Vec<Watched>,
    // Kept open and not read: they write no more.
    _outputs: Vec<BufReader<ChildStdout>>,
}

impl Site {
    /// Starts a hub with these rules; an empty text: without any. `receiver`: who gets its alerts.
    pub fn start(rules: &str, receiver: Option<SocketAddr>, more: &[&str]) -> Result<Self, BenchError> {
        let program = build_agent()?;
        let folder = build_directory()?.join(format!("bench-rules-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(BenchError::file(&path))
        };
        fs::create_dir_all(&folder).map_err(BenchError::file(&folder))?;
        write("rules.yml", rules)?;
        let notify = receiver.map(|at| format!("[[notify.alertmanager]]\nurl = \"http://{at}\"\n"));
        write("khz.toml", &notify.unwrap_or_default())?;
        let (link, http) = (free()?, free()?);
        let mut command = Command::new(&program);
        command.args(["hub", "--quiet", "--log", "error", "--node", "khz-bench-hub", "--insecure"]);
        command.arg("--config").arg(folder.join("khz.toml")).arg("--run-dir").arg(folder.join("run"));
        command.arg("--state-dir").arg(folder.join("state"));
        command.args(["--link-listen", &link.to_string(), "--listen", &http.to_string()]).args(more);
        if !rules.is_empty() {
            command.arg("--rules").arg(folder.join("rules.yml"));
        }
        let (hub, output) = started(command, "khz hub")?;
        Ok(Site { program, hub, link, http, folder, agents: Vec::new(), _outputs: vec![output] })
    }

    /// Starts an agent of this name.
    pub fn agent(&mut self, name: &str) -> Result<(), BenchError> {
        self.agent_on(name, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts an agent of this name with this HTTP door.
    pub fn agent_on(&mut self, name: &str, http: SocketAddr) -> Result<(), BenchError> {
        let mut command = Command::new(&self.program);
        command.args(["agent", "--quiet", "--log", "error", "--node", name, "--listen", &http.to_string()]);
        command.args(["--ring", "4MiB", "--hub", &self.link.to_string()]);
        command.arg("--run-dir").arg(self.folder.join(format!("run-{name}")));
        command.arg("--ring-dir").arg(self.folder.join("rings"));
        let (agent, output) = started(command, "khz agent")?;
        self.agents.push(agent);
        self._outputs.push(output);
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.agents.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that nobody has now.
pub fn free() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| failed("a free port", error))?;
    listener.local_addr().map_err(|error| failed("a free port", error))
}

/// Starts a khz that reports when it is ready.
fn started(mut command: Command, what: &str) -> Result<(Watched, BufReader<ChildStdout>), BenchError> {
    let mut process = Watched::start(command.stderr(Stdio::inherit()))?;
    let (mut output, mut line) = (BufReader::new(process.output()?), String::new());
    output.read_line(&mut line).map_err(|error| failed(what, error))?;
    match line.starts_with("Kilohertz") {
        true => Ok((process, output)),
        false => Err(failed(what, "it ended before it was ready")),
    }
}

/// An alert that has come for the first time, as firing or as resolved.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    /// It is over.
    pub is_resolved: bool,
    /// When it came.
    pub at: Nanos,
    /// How long it took since the row, in ms; rows have whole ones.
    pub took: f64,
}

/// Takes alerts as an Alertmanager does.
pub fn receiver() -> Result<(SocketAddr, Receiver<Came>), BenchError> {
    let wrong = |error| failed("the receiver", error);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(wrong)?;
    let at = listener.local_addr().map_err(wrong)?;
    let (out, came) = channel();
    // It ends with the program.
    std::thread::spawn(move || {
        let mut known = HashSet::new();
        for connection in listener.incoming().map_while(Result::ok) {
            // The hub has one connection at a time.
            let _ = serve(connection, &mut known, &out);
        }
    });
    Ok((at, came))
}

fn serve(
    connection: TcpStream,
    known: &mut HashSet<(String, bool)>,
    out: &Sender<Came>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut writer = connection;
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line)? > 0 && line != "\r\n" {
            let (name, value) = line.split_once(':').unwrap_or_default();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        if line.is_empty() {
            return Ok(());
        }
        let mut body = vec![0; length.min(REQUEST_MAX)];
        reader.read_exact(&mut body)?;
        let now = wall();
        writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
        let alerts: Vec<Value> = serde_json::from_slice(&body).unwrap_or_default();
        for alert in alerts {
            let time = |name: &str| {
                let text = alert.get(name)?.as_str()?;
                Some((text.to_owned(), moment::read(text, now, None).ok()?))
            };
            let (Some((began, starts)), ends) = (time("startsAt"), time("endsAt")) else { continue };
            // One that fires has an end in the future.
            let ended = ends.map(|(_, ends)| ends).filter(|ends| *ends <= now);
            if known.insert((began, ended.is_some())) {
                let took = now.0 as f64 - ended.unwrap_or(starts).0 as f64;
                let _ = out.send(Came { is_resolved: ended.is_some(), at: now, took: took / 1e6 });
            }
        }
    }
}

/// The clock.
pub fn wall() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
