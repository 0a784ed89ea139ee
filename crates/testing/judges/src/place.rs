//! Where the judges are. Debian has VictoriaMetrics and an old Prometheus; the present one is built from its Go module, once,
//! into the folder of the build.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of Prometheus that is built. Its promqltest files are those that PromQL is judged by.
const MODULE: &str = "github.com/prometheus/prometheus/cmd/prometheus@v0.316.0";

/// A judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VictoriaMetrics, Debian's package victoria-metrics.
    Victoria,
    /// Debian's Prometheus.
    DebianPrometheus,
    /// Prometheus 3, built here.
    Prometheus,
}

/// Why there is no such judge on this machine.
#[derive(Debug)]
pub struct Lacking(String);

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a judge's program.
pub fn find(kind: Kind) -> Result<PathBuf, Lacking> {
    match kind {
        Kind::Victoria => on_path("victoria-metrics", "Debian's package victoria-metrics has it"),
        Kind::DebianPrometheus => on_path("prometheus", "Debian's package prometheus has it"),
        Kind::Prometheus => built(),
    }
}

fn on_path(name: &str, advice: &str) -> Result<PathBuf, Lacking> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Lacking(format!("{name} is not installed; {advice}")))
}

/// Builds Prometheus 3, which takes minutes, unless that was done before. Tests that run at the same time wait for the one that
/// builds.
fn built() -> Result<PathBuf, Lacking> {
    let folder = target().join("judges");
    let program = folder.join("prometheus");
    let failed = |what: &str, error: std::io::Error| Lacking(format!("cannot {what}: {error}"));
    fs::create_dir_all(&folder).map_err(|error| failed("make a folder for Prometheus", error))?;
    let lock = File::create(folder.join("lock")).map_err(|error| failed("make a lock", error))?;
    lock.lock().map_err(|error| failed("lock", error))?;
    if program.is_file() {
        return Ok(program);
    }
    let go = go()?;
    // Without the discovery of services in clouds, whose modules are most of it, and without symbols.
    let mut command = Command::new(go);
    command.args(["install", "-tags=remove_all_sd", "-ldflags=-s", MODULE]).env("GOBIN", &folder);
    let output = command.output().map_err(|error| failed("start go", error))?;
    match output.status.success() && program.is_file() {
        true => Ok(program),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or_default();
            Err(Lacking(format!("Prometheus 3 cannot be built from {MODULE}: {last}")))
        }
    }
}

/// The program `go`.
fn go() -> Result<PathBuf, Lacking> {
    on_path("go", "Prometheus 3 is built with it").or_else(|lacking| {
        Some(PathBuf::from("/usr/local/go/bin/go")).filter(|go| go.is_file()).ok_or(lacking)
    })
}

/// The folder with the files of a Go module, as `example.org/module@v1.2.3`: it is downloaded unless that was done before.
pub fn module(name: &str) -> Result<PathBuf, Lacking> {
    let mut command = Command::new(go()?);
    // Outside of any module: the answer is about this one alone.
    command.args(["mod", "download", "-json", name]).current_dir(std::env::temp_dir());
    let output = command.output().map_err(|error| Lacking(format!("cannot start go: {error}")))?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer["Dir"].as_str() {
        Some(folder) => Ok(folder.into()),
        None => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = answer["Error"].as_str().or(said.lines().last()).unwrap_or_default();
            Err(Lacking(format!("{name} cannot be downloaded: {why}")))
        }
    }
}

/// The folder of the build: that of the test that runs.
fn target() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // target/debug/deps/test-0123
    let target = test.ancestors().nth(3).map(Path::to_owned);
    target.filter(|path| path.is_absolute()).unwrap_or_else(std::env::temp_dir)
}
