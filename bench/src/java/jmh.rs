//! The benchmarks of `java/bench` as JMH runs them, in JVMs of its own. Its figures are kept beside the samples.

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

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let jvm = Jvm::build(record)?;
    let file = std::env::temp_dir().join(format!("khz-bench-jmh-{}.json", std::process::id()));
    record.progress("JMH");
    let output = jvm
        .java()
        .arg("-jar")
        .arg(jvm.jar())
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
    record.store("jmh.json", &text)?;
    let mut table = Table::new(&["benchmark", "ns", "error", "bytes"]);
    for result in results(&text)? {
        table.row(result);
    }
    record.show("## JMH: nanoseconds per call, and bytes that a call allocates", &table);
    Ok(())
}

/// A row for each benchmark.
fn results(text: &str) -> Result<Vec<[String; 4]>, BenchError> {
    let unexpected = |problem: String| BenchError::Reply(format!("JMH's file: {problem}"));
    let results: Vec<Value> = serde_json::from_str(text).map_err(|e| unexpected(e.to_string()))?;
    let row = |result: &Value| {
        let name = result["benchmark"].as_str()?.rsplit('.').take(2).collect::<Vec<_>>();
        let parameters = result["params"].as_object().into_iter().flatten();
        let parameters: Vec<&str> = parameters.filter_map(|(_, value)| value.as_str()).collect();
        let metric = &result["primaryMetric"];
        let allocated = result["secondaryMetrics"][ALLOCATED]["score"].as_f64();
        Some([
            format!("{}.{} {}", name.get(1)?, name.first()?, parameters.join(" ")),
            figure(metric["score"].as_f64()?),
            // With two iterations there is no error: JMH writes "NaN".
            metric["scoreError"].as_f64().map_or(String::new(), figure),
            allocated.map_or(String::new(), |bytes| thousands(bytes.round())),
        ])
    };
    results.iter().map(|one| row(one).ok_or_else(|| unexpected(format!("no figure in {one}")))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_name_parameters_figure_and_bytes() {
        let text = r#"[{"benchmark":"dev.x.FiveBench.load","params":{"file":"stat"},"primaryMetric":{"score":12.5,
            "scoreError":"NaN"},"secondaryMetrics":{"gc.alloc.rate.norm":{"score":0.04}}}]"#;
        assert_eq!(results(text).unwrap(), [["FiveBench.load stat", "12.5", "", "0"].map(String::from)]);
        assert!(results("[{}]").is_err() && results("{").is_err());
    }
}
