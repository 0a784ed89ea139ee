//! A hub, agents and mounts as separate processes, in their own folder. Each may run in a raised scheduling
//! class, as an administrator could set it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::agent::build_agent;
use crate::error::BenchError;
use crate::hub::cluster::Hub;
use crate::program::{build_directory, failed};
use crate::watched::Watched;

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// How processes are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The default class.
    Normal,
    /// SCHED_RR at the lowest real-time priority.
    Raised,
}

impl Class {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Class::Normal => "normal",
            Class::Raised => "raised",
        }
    }

    /// A command that runs this program in this class.
    pub fn command(self, program: &Path) -> Command {
        match self {
            Class::Normal => Command::new(program),
            Class::Raised => {
                let mut command = Command::new("chrt");
                command.args(["--rr", "1"]).arg(program);
                command
            }
        }
    }
}

/// A folder, and the processes that run in it.
pub struct Site {
    /// The program.
    pub program: PathBuf,
    class: Class,
    folder: PathBuf,
    mounts: Vec<(PathBuf, Watched)>,
    agents: Vec<Watched>,
    hub: Option<Hub>,
}

impl Site {
    /// Starts a hub, and nothing else.
    pub fn start(class: Class) -> Result<Self, BenchError> {
        let program = build_agent()?;
        let folder = build_directory()?.join(format!("bench-mount-{}", std::process::id()));
        for part in ["run", "rings"] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(BenchError::file(&path))?;
        }
        let mut site = Site { program, class, folder, mounts: Vec::new(), agents: Vec::new(), hub: None };
        let run = site.folder.join("run");
        // Each agent has its own run directory, as on a machine of its own, so names are believed.
        let more = ["--history", "0MiB", "--insecure", "--run-dir", text(&run)?];
        site.hub = Some(Hub::start_by(class.command(&site.program), "127.0.0.1:0", "127.0.0.1:0", &more)?);
        Ok(site)
    }

    /// Its folder, for other files of a section.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The hub.
    pub fn hub(&self) -> Result<&Hub, BenchError> {
        self.hub.as_ref().ok_or_else(|| failed("khz hub", "it has ended"))
    }

    /// Starts an agent with this name; programs publish at the socket in [`Site::agent_dir`].
    pub fn agent(&mut self, name: &str, more: &[&str]) -> Result<(), BenchError> {
        let run = self.agent_dir(name);
        fs::create_dir_all(&run).map_err(BenchError::file(&run))?;
        let link = self.hub()?.link.to_string();
        let mut command = self.class.command(&self.program);
        command
            .args(["agent", "--quiet", "--log", "error", "--node", name, "--hub", &link, "--ring", "4MiB"]);
        command.args(["--listen", "127.0.0.1:0"]);
        command.arg("--run-dir").arg(&run).arg("--ring-dir").arg(self.folder.join("rings")).args(more);
        let process = started(command, "khz agent")?;
        self.agents.push(process);
        Ok(())
    }

    /// The process number of an agent, by its index.
    pub fn agent_pid(&self, agent: usize) -> Result<i32, BenchError> {
        let agent = self.agents.get(agent).ok_or_else(|| failed("khz agent", "there is none"))?;
        i32::try_from(agent.pid()).map_err(|error| failed("khz agent", error))
    }

    /// The run directory of an agent.
    pub fn agent_dir(&self, name: &str) -> PathBuf {
        self.folder.join(format!("run-{name}"))
    }

    /// The snapshot of an agent.
    pub fn snapshot(&self, name: &str) -> PathBuf {
        self.folder.join("rings").join(name).join("snapshot")
    }

    /// The process of a mount, by its index.
    pub fn mounted(&self, mount: usize) -> Result<&Watched, BenchError> {
        self.mounts.get(mount).map(|(_, process)| process).ok_or_else(|| failed("khz mount", "there is none"))
    }

    /// Starts a mount; returns its directory.
    pub fn mount(&mut self) -> Result<PathBuf, BenchError> {
        self.mount_with(&[])
    }

    /// The same with further arguments.
    pub fn mount_with(&mut self, words: &[&str]) -> Result<PathBuf, BenchError> {
        let directory = self.folder.join(format!("mount{}", self.mounts.len()));
        fs::create_dir_all(&directory).map_err(BenchError::file(&directory))?;
        let mut command = self.class.command(&self.program);
        command.args(["mount", "--foreground"]).arg(&directory).args(words);
        command.env("KHZ_RUN_DIR", self.folder.join("run")).env("KHZ_STATE_DIR", "none");
        let process = started(command, "khz mount")?;
        self.mounts.push((directory.clone(), process));
        Ok(directory)
    }

    /// Waits until a file can be read.
    pub fn wait_for(&self, file: &Path) -> Result<(), BenchError> {
        let start = Instant::now();
        loop {
            match fs::read(file) {
                Ok(_) => return Ok(()),
                Err(e) if start.elapsed() > PATIENCE => return Err(BenchError::file(file)(e)),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for (directory, process) in self.mounts.drain(..) {
            khz_mount::detach(&directory);
            drop(process);
        }
        self.agents.clear();
        self.hub = None;
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Starts a khz that reports when it is ready.
fn started(mut command: Command, what: &str) -> Result<Watched, BenchError> {
    let mut process = Watched::start(command.stderr(Stdio::inherit()))?;
    let mut line = String::new();
    BufReader::new(process.output()?).read_line(&mut line).map_err(|e| failed(what, e))?;
    match line.starts_with("Kilohertz") {
        true => Ok(process),
        false => Err(failed(what, "it ended before it was ready")),
    }
}

fn text(path: &Path) -> Result<&str, BenchError> {
    path.to_str().ok_or_else(|| failed("the build directory", "its name is not UTF-8"))
}
