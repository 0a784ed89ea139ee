//! The programs of `examples/handlers`, as their authors compile them, over made-up rows.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use khz_model::{Absence, Kind, Metric, Nanos, Reading, Series, Stamp, Unit};
use khz_program::{Column, Input, Instance, Limits, Program, ProgramError};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/handlers")
}

/// Compiles an example with the command that its header names; `None`: there is no clang for it.
fn compiled(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::temp_dir().join(format!("khz-program-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let module = folder.join("program.wasm");
    let words =
        ["--target=wasm32", "-O2", "-nostdlib", "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry", "-o"];
    let source = examples().join(name).with_extension("c");
    let made = match Command::new("clang").args(words).arg(&module).arg(source).output() {
        Ok(made) => made,
        Err(error) => {
            khz_skip::skip(format!("no clang ({error}): Debian has it in the packages clang and lld"));
            return None;
        }
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let bytes = std::fs::read(module).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    Some(bytes)
}

fn column(name: &str, kind: Kind) -> Column {
    let metric = Metric::plain(name.to_owned(), name.to_owned(), kind, Unit::Count);
    Column::of(&Series { metric: Arc::new(metric), instance: None })
}

fn begun(module: &[u8], columns: Vec<Column>) -> Result<Instance, ProgramError> {
    let mut instance = Instance::start(&Program::new(module)?, Limits::default())?;
    instance.begin(columns)?;
    Ok(instance)
}

/// Gives the rows of a second each; the seconds of those that came out, with their values.
fn out(instance: &mut Instance, rows: impl Iterator<Item = Vec<Reading>>) -> Vec<(u64, Vec<f64>)> {
    let mut out = Vec::new();
    for (second, row) in (1..).zip(rows) {
        let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 1_700_000_000_000_000_000 };
        if instance.row(Input { stamp, lost: 0 }, row.into_iter()).unwrap() {
            out.push((second, instance.values().to_vec()));
        }
    }
    out
}

#[test]
fn the_mean_is_that_of_the_present_values() {
    let Some(module) = compiled("mean") else { return };
    let columns = (0..3).map(|at| column(&format!("job.x{at}"), Kind::Gauge)).collect();
    let mut instance = begun(&module, columns).unwrap();
    assert_eq!(instance.names(), ["mean", "count"]);
    let rows = [
        vec![Reading::Present(1), Reading::Present(2), Reading::Present(6)],
        vec![Reading::Present(1), Reading::Absent(Absence::NotYet), Reading::Present(6)],
        vec![Reading::Absent(Absence::NotYet); 3],
    ];
    let out = out(&mut instance, rows.into_iter());
    assert_eq!(out[..2], [(1, vec![3.0, 3.0]), (2, vec![3.5, 2.0])]);
    assert!(out[2].1[0].is_nan() && out[2].1[1] == 0.0);
    assert_eq!(begun(&module, Vec::new()).err(), Some(ProgramError::Refuses(1)));
}

#[test]
fn the_outlier_filter_sends_the_row_in_which_a_series_leaps_and_says_which() {
    let Some(module) = compiled("outliers") else { return };
    let columns = vec![column("job.calm", Kind::Gauge), column("job.sent", Kind::Counter)];
    let mut instance = begun(&module, columns).unwrap();
    let mut sent = 0;
    let rows = (0..200_u64).map(|row| {
        sent += if row == 150 { 5_000 } else { 100 + row % 7 };
        let calm = if row == 100 { 90 } else { 50 + row % 3 };
        vec![Reading::Present(calm), Reading::Present(sent)]
    });
    let found: Vec<(u64, f64)> =
        out(&mut instance, rows).into_iter().map(|(second, values)| (second, values[0])).collect();
    assert_eq!(found, [(101, 0.0), (151, 1.0)]);
}

#[test]
fn the_phase_detector_says_where_a_program_waits_and_how_long_the_phase_before_took() {
    let Some(module) = compiled("phases") else { return };
    assert!(begun(&module, vec![column("job.x", Kind::Gauge)]).is_err(), "no counter");
    let mut instance = begun(&module, vec![column("job.cpu", Kind::Counter)]).unwrap();
    let mut used = 0;
    // Three processors for 60 s, waiting for 40 s with a short start in between, and then again.
    let rows = (0..160_u64).map(|row| {
        used += match row {
            60..100 if row != 75 => 0,
            _ => 3,
        };
        vec![Reading::Present(used)]
    });
    let found = out(&mut instance, rows);
    let phases: Vec<(f64, f64)> = found.iter().map(|(_, values)| (values[0].round(), values[2])).collect();
    assert_eq!(phases, [(3.0, 1.0), (0.0, 2.0), (3.0, 3.0)]);
    assert!((58.0..62.0).contains(&found[1].1[1]) && (38.0..42.0).contains(&found[2].1[1]), "{found:?}");
}

#[test]
fn the_sampler_sends_what_has_moved_and_every_hundredth_row() {
    let module = wat::parse_file(examples().join("sampler.wat")).unwrap();
    let mut instance = begun(&module, vec![column("job.x", Kind::Gauge)]).unwrap();
    let rows = (0..300_u64).map(|row| vec![Reading::Present(if row < 150 { 1_000 } else { 1_100 })]);
    let found: Vec<(u64, f64)> =
        out(&mut instance, rows).into_iter().map(|(second, values)| (second, values[0])).collect();
    assert_eq!(found, [(1, 1_000.0), (101, 1_000.0), (151, 1_100.0), (251, 1_100.0)]);
}
