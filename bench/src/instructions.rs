//! Instructions per parse, counted by callgrind over captured texts: a figure that other load on the machine
//! cannot change. User space only, so it leaves out the read.

use std::path::Path;
use std::process::Command;

use crate::error::BenchError;
use crate::five::{FILES, Swing, read_frames};
use crate::ours::Replayed;
use crate::program::{compile, failed};
use crate::record::Record;
use crate::table::{Table, figure, thousands};

/// Parses in the two runs whose difference counts, which removes the start-up.
const PARSES: [u64; 2] = [1_000, 11_000];

/// Counts and shows the table; reports if valgrind is missing.
pub fn run(record: &mut Record, frames: &Path) -> Result<(), BenchError> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        record.say("No instruction counts: valgrind is missing (Debian package valgrind).\n");
        return Ok(());
    }
    let table_program = compile("table")?;
    let own = std::env::current_exe().map_err(BenchError::file("this program"))?;
    let frames_text = frames.display().to_string();
    let mut table = Table::new(&["file", "bytes", "C digits", "ours", "C / ours", "per byte, ours"]);
    for (number, name) in FILES.into_iter().enumerate() {
        let file = number.to_string();
        let bytes = read_frames(frames, number)?.first().map_or(0, Vec::len);
        let c = per_parse(&table_program, &[&frames_text, &file])?;
        let ours = per_parse(&own, &["replay", &frames_text, &file])?;
        record.sample(["instructions", name, "c parse"], 0, "instructions", c);
        record.sample(["instructions", name, "parse"], 0, "instructions", ours);
        table.row([
            format!("/proc/{name}"),
            bytes.to_string(),
            thousands(c),
            thousands(ours),
            figure(c / ours),
            figure(ours / bytes as f64),
        ]);
    }
    record.show("## Instructions per parse (callgrind, user space)", &table);
    record.say(
        "Ours copies each text into the parser's buffer first; in a gather the kernel writes it there.\n",
    );
    Ok(())
}

/// The process `replay FRAMES FILE N`: parses captured texts forth and back, N times.
pub fn replay(frames: &Path, file: usize, parses: u64) -> Result<(), BenchError> {
    let name = FILES.get(file).ok_or_else(|| BenchError::Usage(format!("FILE is 0..{}", FILES.len() - 1)))?;
    let frames = read_frames(frames, file)?;
    let mut ours = Replayed::new(name)?;
    let mut swing = Swing::new();
    for _ in 0..parses {
        ours.take(&frames[swing.next(frames.len())]);
    }
    Ok(())
}

/// Instructions of one parse: the program's last argument is the number of parses.
fn per_parse(program: &Path, arguments: &[&str]) -> Result<f64, BenchError> {
    let [few, many] = PARSES;
    let difference = count(program, arguments, many)?.saturating_sub(count(program, arguments, few)?);
    Ok(difference as f64 / (many - few) as f64)
}

fn count(program: &Path, arguments: &[&str], parses: u64) -> Result<u64, BenchError> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .arg(parses.to_string())
        .output()
        .map_err(|e| failed("valgrind", e))?;
    let report = String::from_utf8_lossy(&output.stderr);
    collected(&report).ok_or_else(|| failed(format!("valgrind {}", program.display()), report))
}

/// Reads `==12== Collected : 123456`.
fn collected(report: &str) -> Option<u64> {
    let line = report.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_callgrinds_report() {
        assert_eq!(collected("==12== Events    : Ir\n==12== Collected : 123456\n"), Some(123_456));
        assert_eq!(collected("==12== no such tool\n"), None);
    }
}
