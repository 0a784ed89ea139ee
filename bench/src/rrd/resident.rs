//! Pages of a file in memory after one ordinary update of files that had none, and the bytes that the disk
//! had to read for it. rrdtool and ours, each with its advice to the page cache and without; the paper has 27
//! against 8.

use std::fs;
use std::path::PathBuf;

use super::pipe::Pipe;
use super::tree::{START, STEP, Tree, rrd, sample};
use crate::agent::build_agent;
use crate::error::BenchError;
use crate::program::compile;
use crate::record::Record;
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let tree = Tree::fresh(record, record.effort.of(2_000, 200))?;
    let (ours, no_advice): (PathBuf, PathBuf) = (build_agent()?, compile("no_advice")?);
    let ours = [ours.as_os_str(), "rrd".as_ref(), "-".as_ref()];
    let theirs = ["rrdtool".as_ref(), "-".as_ref()];
    let cases = [
        ("ours", ours.to_vec()),
        ("ours without advice", [&[no_advice.as_os_str()], &ours[..]].concat()),
        ("rrdtool", theirs.to_vec()),
        ("rrdtool without advice", [&[no_advice.as_os_str()], &theirs[..]].concat()),
    ];
    let mut table = Table::new(&["one update", "resident pages a file", "quartiles", "kB read a file"]);
    for (number, (name, words)) in cases.iter().enumerate() {
        record.progress(name);
        rustix::fs::sync();
        tree.paths().iter().try_for_each(|path| rrd(khz_rrd::page_cache::drop_pages(path)))?;
        let read = update_all(Pipe::start(words)?, &tree, number)?;
        let paths = tree.paths();
        let pages =
            paths.iter().map(|path| khz_rrd::page_cache::residency(path).map(|seen| seen.count() as f64));
        let pages: Vec<f64> = rrd(pages.collect::<khz_rrd::Result<_>>())?;
        let mean = pages.iter().sum::<f64>() / pages.len() as f64;
        record.sample(["resident", &tree.files.to_string(), name], 0, "pages", mean);
        let Some(spread) = Spread::of(pages) else { continue };
        table.row([
            (*name).into(),
            figure(mean),
            format!("{}..{}", figure(spread.lower), figure(spread.upper)),
            figure(read as f64 / 1e3 / (tree.files - 1) as f64),
        ]);
    }
    let readahead = fs::read_to_string("/sys/block/vda/queue/read_ahead_kb").unwrap_or_default();
    record.show(
        &format!("## Resident pages after one update, of 24 (readahead {} kB)", readahead.trim()),
        &table,
    );
    Ok(())
}

/// Updates every file through a pipe. Returns the bytes that the disk read for all files but the first,
/// during which the program itself may still be loaded.
fn update_all(mut pipe: Pipe, tree: &Tree, number: usize) -> Result<u64, BenchError> {
    let sample = sample(START + (number as i64 + 1) * STEP);
    let mut before = None;
    for path in tree.paths() {
        pipe.update(&path, &sample)?;
        if before.is_none() {
            before = Some(pipe.bytes_read()?);
        }
    }
    let after = pipe.bytes_read()?;
    Ok(after - before.unwrap_or(after))
}
