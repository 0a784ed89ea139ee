//! The benchmarks of `java/bench` as JMH runs them, in JVMs of its own. Its figures are kept beside the samples.

use std::path::Path;

use serde_json::Value;

use crate::error::BenchError;
use crate::java::jvm::Jvm;
use crate::program::failed;
use crate::record::Record;
use crate::table::{Table, figure, thousands};

/// Seconds and iterations of a quick run. A full run takes those that the benchmarks state.
const QUICK: [&str; 8] = ["-wi", "2", "-w", "500ms", "-i", "2", "-r", "500ms"];

/// The metric of JMH's profiler for bytes that a call allocates.
const ALLOCATED: &str = "gc.alloc.rate.norm";

/// The benchmarks that need an agent: section `snapshot` runs them.
const WITH_AGENT: &str = "SnapshotBench";

/// What JMH says of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Class and method, and parameters.
    pub name: String,
    /// Nanoseconds a call.
    pub ns: f64,
    /// JMH's error of this; with two iterations there is none.
    pub error: Option<f64>,
    /// Bytes that a call allocates.
    pub bytes: Option<f64>,
    /// Nanoseconds a call in each iteration.
    pub iterations: Vec<f64>,
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let jvm = Jvm::build(record)?;
    let figures = measure(record, &jvm, &["-e", WITH_AGENT], "jmh.json")?;
    show(record, "## JMH: nanoseconds per call, and bytes that a call allocates", &figures);
    Ok(())
}

/// Those that read the shared memory of an agent, whose file this is.
pub fn of_snapshot(record: &mut Record, page: &Path) -> Result<Vec<Figures>, BenchError> {
    let jvm = Jvm::build(record)?;
    let page = format!("page={}", page.display());
    measure(record, &jvm, &[WITH_AGENT, "-p", &page], "jmh-snapshot.json")
}

/// Runs JMH with these arguments, and keeps its file under this name.
fn measure(record: &Record, jvm: &Jvm, arguments: &[&str], kept: &str) -> Result<Vec<Figures>, BenchError> {
    let file = std::env::temp_dir().join(format!("khz-bench-jmh-{}.json", std::process::id()));
    record.progress("JMH");
    let output = jvm
        .java()
        .arg("-jar")
        .arg(jvm.jar())
        .args(arguments)
        .args(["-prof", "gc", "-foe", "true", "-rf", "json", "-rff"])
        .arg(&file)
        .args(record.effort.of(&[][..], &QUICK[..]))
        .output()
        .map_err(|e| failed("JMH", e))?;
    if !output.status.success() {
        return Err(failed("JMH", String::from_utf8_lossy(&output.stdout)));
    }
    let text = std::fs::read_to_string(&file).map_err(BenchError::file(&file))?;
    let _ = std::fs::remove_file(&file);
    record.store(kept, &text)?;
    results(&text)
}

/// A table of them.
pub fn show(record: &mut Record, title: &str, figures: &[Figures]) {
    let mut table = Table::new(&["benchmark", "ns", "error", "bytes"]);
    for one in figures {
        table.row([
            one.name.clone(),
            figure(one.ns),
            one.error.map_or(String::new(), figure),
            one.bytes.map_or(String::new(), |bytes| thousands(bytes.round())),
        ]);
    }
    record.show(title, &table);
}

fn results(text: &str) -> Result<Vec<Figures>, BenchError> {
    let unexpected = |problem: String| BenchError::Reply(format!("JMH's file: {problem}"));
    let results: Vec<Value> = serde_json::from_str(text).map_err(|e| unexpected(e.to_string()))?;
    let one = |result: &Value| {
        let name = result["benchmark"].as_str()?.rsplit('.').take(2).collect::<Vec<_>>();
        let parameters = result["params"].as_object().into_iter().flatten();
        let parameters: Vec<&str> =
            parameters.filter(|(name, _)| *name != "page").filter_map(|(_, value)| value.as_str()).collect();
        let metric = &result["primaryMetric"];
        let iterations = metric["rawData"].as_array().into_iter().flatten().filter_map(Value::as_array);
        Some(Figures {
            name: format!("{}.{} {}", name.get(1)?, name.first()?, parameters.join(" "))
                .trim_end()
                .to_owned(),
            ns: metric["score"].as_f64()?,
            // With two iterations JMH writes "NaN".
            error: metric["scoreError"].as_f64(),
            bytes: result["secondaryMetrics"][ALLOCATED]["score"].as_f64(),
            iterations: iterations.flatten().filter_map(Value::as_f64).collect(),
        })
    };
    results
        .iter()
        .map(|result| one(result).ok_or_else(|| unexpected(format!("no figure in {result}"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_has_name_parameters_figures_and_bytes() {
        let text = r#"[{"benchmark":"dev.x.FiveBench.load","params":{"file":"stat","page":"/x"},"primaryMetric":{"score":12.5,
            "scoreError":"NaN","rawData":[[12.0,13.0]]},"secondaryMetrics":{"gc.alloc.rate.norm":{"score":0.04}}}]"#;
        let expected = Figures {
            name: "FiveBench.load stat".into(),
            ns: 12.5,
            error: None,
            bytes: Some(0.04),
            iterations: vec![12.0, 13.0],
        };
        assert_eq!(results(text).unwrap(), [expected]);
        assert!(results("[{}]").is_err() && results("{").is_err());
    }
}
