//! Prometheus' engine in a process of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use khz_promql::LabelSet;

use crate::made_up::Store;
use crate::queries::Query;

/// The engine that judges us.
const MODULE: &str = "module beside\n\ngo 1.25.0\n\nrequire github.com/prometheus/prometheus v0.316.0\n";

/// What a query gave.
#[derive(Debug, Default)]
pub struct Said {
    pub error: Option<String>,
    pub series: BTreeMap<LabelSet, Vec<(i64, f64)>>,
    pub warnings: Vec<String>,
    pub infos: Vec<String>,
    /// The query, written evenly; `None`: it cannot be parsed.
    pub formatted: Option<String>,
}

pub struct Prometheus {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Builds the program; with a reason if that is not possible here.
fn build(folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir_all(folder).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/beside/main.go");
    std::fs::copy(&here, folder.join("main.go")).unwrap();
    std::fs::write(folder.join("go.mod"), MODULE).unwrap();
    let output = Command::new("go")
        .args(["build", "-mod=mod", "-o", "beside", "."])
        .current_dir(folder)
        .output()
        .map_err(|error| format!("the Go tool does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "Prometheus' engine cannot be built: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(folder.join("beside"))
}

impl Prometheus {
    pub fn start(store: &Store) -> Result<Self, String> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("beside");
        let program = build(&folder)?;
        let mut text = String::new();
        for (labels, samples) in &store.series {
            let others: Vec<String> = labels
                .iter()
                .filter(|(name, _)| ***name != *"__name__")
                .map(|(name, value)| format!("{name}={value:?}"))
                .collect();
            write!(text, "{}{{{}}}\t", labels.get("__name__"), others.join(",")).unwrap();
            for (time, value) in samples {
                write!(text, "{time}:{:016x} ", value.to_bits()).unwrap();
            }
            text.push('\n');
        }
        let series = folder.join(format!("series-{}", std::process::id()));
        std::fs::write(&series, text).unwrap();
        let mut child = Command::new(program)
            .arg(&series)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("Prometheus' engine does not start: {error}"))?;
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Ok(Prometheus { child, input, output })
    }

    pub fn ask(&mut self, query: &Query) -> Said {
        writeln!(self.input, "{}\t{}\t{}\t{}", query.start, query.end, query.step, query.text).unwrap();
        let mut said = Said::default();
        let mut labels = LabelSet::default();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "Prometheus' engine ended at {query:?}");
            let line = line.trim_end();
            let (kind, rest) = line.split_at(1);
            match kind {
                "." => return said,
                "E" => said.error = Some(rest.replace("\\\"", "\"").trim_matches('"').to_owned()),
                "S" => {
                    let map: BTreeMap<String, String> = serde_json::from_str(rest).unwrap();
                    labels = LabelSet::new(map);
                    said.series.insert(labels.clone(), Vec::new());
                }
                "V" => {
                    let (time, bits) = rest.split_once(':').unwrap();
                    let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
                    said.series.get_mut(&labels).unwrap().push((time.parse().unwrap(), value));
                }
                "F" => said.formatted = Some(serde_json::from_str(rest).unwrap()),
                "W" => said.warnings.push(rest.to_owned()),
                "I" => said.infos.push(rest.to_owned()),
                _ => {}
            }
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
