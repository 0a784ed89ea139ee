//! Whether the files have everything that was acknowledged: every five minutes' average of each file.

use std::path::PathBuf;

use khz_rrd::fetch::fetch;
use khz_rrd::file::{Access, Rrd};
use khz_rrd::rra::Function;

use super::side_by_side::side_by_side;
use super::tree::{RATES, START, STEP, Tree, rrd};
use crate::error::BenchError;

/// Threads that read files.
const READERS: usize = 4;

/// How many values of five minutes are missing, or wrong, in the files of a tree that were updated for each five minutes until
/// `time`.
pub fn missing(tree: &Tree, time: i64) -> Result<u64, BenchError> {
    let paths = tree.paths();
    let parts = paths.chunks(paths.len().div_ceil(READERS).max(1));
    Ok(side_by_side(parts.map(|part| move || of_files(part, time)))?.into_iter().sum())
}

fn of_files(paths: &[PathBuf], time: i64) -> Result<u64, BenchError> {
    paths.iter().map(|path| rrd(Rrd::open(path, Access::Read).and_then(|file| of_file(&file, time)))).sum()
}

/// The first five minutes have no rate: a counter needs two readings.
fn of_file(file: &Rrd, time: i64) -> khz_rrd::Result<u64> {
    let there = fetch(file, Function::Average, START + STEP, time, STEP as u64)?;
    // Fetch gives a row more than was asked for.
    let wanted = ((time - START - STEP) / STEP) as usize * RATES.len();
    let is_right = |(place, value): (usize, &f64)| (value - RATES[place % RATES.len()]).abs() < 1e-6;
    let right = there.values.iter().take(wanted).enumerate().filter(|one| is_right(*one)).count();
    Ok((wanted - right) as u64)
}

/// How many of `sample` files, spread over the tree, were last written more than `seconds` before `time`.
pub fn older(tree: &Tree, sample: usize, time: i64, seconds: i64) -> Result<u64, BenchError> {
    let step = (tree.files / sample.max(1)).max(1);
    let mut old = 0;
    for index in (0..tree.files).step_by(step) {
        let path = tree.path(index);
        let file = rrd(Rrd::open(&path, Access::Read))?;
        old += u64::from(file.header.last_update() < time - seconds);
    }
    Ok(old)
}
