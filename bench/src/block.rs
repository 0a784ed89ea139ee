//! The block compared with the text that the ancestors recommended: bytes and CPU per row and per value,
//! plain and compressed, on recorded workloads at 100 Hz and at 1 Hz. All forms get the same rows in the same
//! groups.

mod forms;
mod packing;
pub mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use khz_block::{Decoder, RowScanner, Step};

use crate::error::BenchError;
use crate::pairs::{Batch, Contender, Turns, interleave, thread_cpu_ns};
use crate::place::Pinned;
use crate::program::failed;
use crate::record::{Bound, Record};
use crate::spread::{Spread, ratios};
use crate::table::{Table, figure};
use forms::{Form, Present};
use packing::{Packing, train};
use workload::Workload;

pub use packing::write_dictionary;

/// Bytes per value to reach, counting all slots and headers: at 100 Hz and at 1 Hz.
const BYTES_AT_100_HZ: f64 = 0.5;
const BYTES_AT_1_HZ: f64 = 2.0;
/// Nanoseconds per value, counting all slots.
const NANOS: f64 = 5.0;

/// Every form, plain and packed.
const CASES: [(Form, Packing); 13] = [
    (Form::Block, Packing::None),
    (Form::Block, Packing::Gzip),
    (Form::Block, Packing::Zstd),
    (Form::Block, Packing::Trained),
    (Form::Block, Packing::First),
    (Form::Changes, Packing::None),
    (Form::Changes, Packing::Gzip),
    (Form::Changes, Packing::Zstd),
    (Form::Changes, Packing::Trained),
    (Form::Lines, Packing::None),
    (Form::Lines, Packing::Gzip),
    (Form::Lines, Packing::Zstd),
    (Form::Lines, Packing::Trained),
];

/// The recorded workloads.
pub fn traces() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/workloads")
}

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    let workloads = workload::all(&traces())?;
    let _pinned = Pinned::here()?;
    record.say(
        "Groups of rows are those of the blocks; what a growing schema cut short is left out. gzip is -1, zstd is 1, each\n\
         group packed alone. dict: zstd with a dictionary for that form, trained on every other group of all workloads\n\
         and measured on the rest, which are the groups of all cases. first: the dictionary that comes with the program.\n",
    );
    let trained = train(&workloads)?;
    for workload in &workloads {
        one_workload(record, workload, &trained)?;
    }
    Ok(())
}

/// The bytes of one case: one buffer for each group.
struct Made {
    name: String,
    form: Form,
    packing: Packing,
    groups: Vec<Vec<u8>>,
}

fn one_workload(
    record: &mut Record,
    workload: &Workload,
    trained: &packing::Trained,
) -> Result<(), BenchError> {
    let mut made = Vec::new();
    for (form, packing) in CASES {
        let name = format!("{} {}", form.name(), packing.name()).trim_end().to_owned();
        let mut packer = packing.packer(form, trained)?;
        let groups = workload.measured().map(|group| {
            let mut bytes = Vec::new();
            form.encode(workload, group, &mut Vec::new(), &mut bytes);
            packer.pack(bytes)
        });
        made.push(Made { name, form, packing, groups: groups.collect::<Result<_, _>>()? });
    }
    check(workload, &made, trained)?;
    let pairs = record.effort.pairs();
    let span = Duration::from_millis(record.effort.of(20, 10));
    let encoded = encode_turns(workload, &made, trained, pairs, span)?;
    let decoded = decode_turns(workload, &made, trained, pairs, span)?;
    let scanned = scan_turns(workload, &made[0], pairs, span)?;
    for (what, turns) in [("encode", &encoded), ("decode", &decoded), ("scan", &scanned)] {
        record.turns("block", &format!("{} {what}", workload.name), turns);
    }
    show(record, workload, &made, &encoded, &decoded, &scanned);
    Ok(())
}

/// Checks that every case returns the rows that went in, so that all cases carry the same content.
fn check(workload: &Workload, made: &[Made], trained: &packing::Trained) -> Result<(), BenchError> {
    for case in made {
        let mut unpacker = case.packing.unpacker(case.form, trained)?;
        let (mut present, mut bytes) = (Present::new(workload), Vec::new());
        let mut expected = Present::new(workload);
        for (group, packed) in workload.measured().zip(&case.groups) {
            bytes.clear();
            unpacker.unpack(packed, &mut bytes)?;
            case.form.decode(&bytes, &mut present)?;
            for &(slot, cell) in group.iter().flat_map(|row| &row.changes) {
                expected.cells[slot as usize] = cell;
            }
            if present.cells != expected.cells {
                return Err(failed(&case.name, "the last row came back as another"));
            }
        }
    }
    Ok(())
}

fn encode_turns(
    workload: &Workload,
    made: &[Made],
    trained: &packing::Trained,
    pairs: usize,
    span: Duration,
) -> Result<Vec<Turns>, BenchError> {
    let mut contenders = Vec::new();
    for case in made {
        let (form, name) = (case.form, &case.name);
        let mut packer = case.packing.packer(form, trained)?;
        let (mut groups, mut bytes, mut cells) = (workload.measured().cycle(), Vec::new(), Vec::new());
        contenders.push(Contender::foreign(name.clone(), move |span| {
            rows_for(span, || {
                let Some(group) = groups.next() else { return Ok(0) };
                bytes.clear();
                form.encode(workload, group, &mut cells, &mut bytes);
                bytes = packer.pack(std::mem::take(&mut bytes))?;
                Ok(group.len())
            })
        }));
    }
    interleave(&mut contenders, pairs, span)
}

fn decode_turns(
    workload: &Workload,
    made: &[Made],
    trained: &packing::Trained,
    pairs: usize,
    span: Duration,
) -> Result<Vec<Turns>, BenchError> {
    let mut contenders = Vec::new();
    for case in made {
        let form = case.form;
        let mut unpacker = case.packing.unpacker(form, trained)?;
        let (mut groups, mut bytes) = (workload.measured().zip(&case.groups).cycle(), Vec::new());
        let mut present = Present::new(workload);
        contenders.push(Contender::foreign(case.name.clone(), move |span| {
            rows_for(span, || {
                let Some((group, packed)) = groups.next() else { return Ok(0) };
                bytes.clear();
                unpacker.unpack(packed, &mut bytes)?;
                form.decode(&bytes, &mut present)?;
                Ok(group.len())
            })
        }));
    }
    interleave(&mut contenders, pairs, span)
}

/// What a hub does with rows: counts them, and decodes them without reading each value.
fn scan_turns(
    workload: &Workload,
    blocks: &Made,
    pairs: usize,
    span: Duration,
) -> Result<Vec<Turns>, BenchError> {
    let wrong = |e| failed("a block", e);
    let (mut scanner, mut decoder) = (RowScanner::new(), Decoder::new());
    let (mut to_scan, mut to_decode) = (blocks.groups.iter().cycle(), blocks.groups.iter().cycle());
    let rows = |block: &[u8]| workload.rows_of(block);
    let mut contenders = [
        Contender::foreign("scan", |span| {
            rows_for(span, || {
                let Some(block) = to_scan.next() else { return Ok(0) };
                scanner.feed(block).map(|rows| rows as usize).map_err(wrong)
            })
        }),
        Contender::foreign("catch up", |span| {
            rows_for(span, || {
                let Some(block) = to_decode.next() else { return Ok(0) };
                decoder.catch_up(block).map_err(wrong)?;
                Ok(rows(block))
            })
        }),
    ];
    interleave(&mut contenders, pairs, span)
}

/// Runs `group` for as long as `span`; it returns how many rows it handled.
fn rows_for(
    span: Duration,
    mut group: impl FnMut() -> Result<usize, BenchError>,
) -> Result<Batch, BenchError> {
    let (cpu, start) = (thread_cpu_ns(), Instant::now());
    let mut calls = 0;
    while start.elapsed() < span {
        calls += group()? as u64;
    }
    Ok(Batch { calls, wall_ns: start.elapsed().as_nanos() as u64, cpu_ns: thread_cpu_ns() - cpu })
}

fn show(
    record: &mut Record,
    workload: &Workload,
    made: &[Made],
    encoded: &[Turns],
    decoded: &[Turns],
    scanned: &[Turns],
) {
    let rows: usize = workload.measured().map(<[_]>::len).sum();
    let slots = workload.slots() as f64;
    let changes = workload.changes_per_row();
    let bytes_per_row = |case: &Made| case.groups.iter().map(Vec::len).sum::<usize>() as f64 / rows as f64;
    let nanos = |turns: &Turns| turns.map(|batch| batch.cpu_micros() * 1e3);
    let spread = |samples: Vec<f64>| Spread::of(samples).map_or(f64::NAN, |spread| spread.median);
    let mut table =
        Table::new(&["form", "B/row", "B/value", "enc ns/row", "dec ns/row", "x block", "x enc", "x dec"]);
    for (n, case) in made.iter().enumerate() {
        let times = |all: &[Turns]| spread(ratios(&nanos(&all[n]), &nanos(&all[0])));
        let bytes = bytes_per_row(case);
        record.sample(["block", &workload.name, &case.name], 0, "bytes_per_row", bytes);
        table.row([
            case.name.clone(),
            figure(bytes),
            format!("{:.3}", bytes / slots),
            figure(spread(nanos(&encoded[n]))),
            figure(spread(nanos(&decoded[n]))),
            figure(bytes / bytes_per_row(&made[0])),
            figure(times(encoded)),
            figure(times(decoded)),
        ]);
    }
    let title = format!(
        "## {}: {rows} rows of {slots} slots, of which {} change in a row",
        workload.name,
        figure(changes)
    );
    record.show(&title, &table);
    let value = |turns: &Turns, of: f64| Spread::of(nanos(turns).iter().map(|ns| ns / of));
    let per = |turns: &Turns, of: f64| value(turns, of).map_or(f64::NAN, |spread| spread.median);
    record.say(&format!(
        "Block, ns per changed value: encode {}, decode {}. A row counted without decoding: {} ns; decoded without\n\
         telling its changes: {} ns.\n",
        figure(per(&encoded[0], changes)),
        figure(per(&decoded[0], changes)),
        figure(per(&scanned[0], 1.0)),
        figure(per(&scanned[1], 1.0)),
    ));
    let name = &workload.name;
    let bytes = Spread::of([bytes_per_row(&made[0]) / slots]);
    let limit = if workload.every == 1 { BYTES_AT_100_HZ } else { BYTES_AT_1_HZ };
    record.verdict(&format!("{name}: bytes per value"), bytes, Bound::AtMost(limit));
    record.verdict(&format!("{name}: encode, ns per value"), value(&encoded[0], slots), Bound::AtMost(NANOS));
    record.verdict(&format!("{name}: decode, ns per value"), value(&decoded[0], slots), Bound::AtMost(NANOS));
}

/// Decodes a block row by row, and reads what each row changed.
fn decode_block(
    decoder: &mut Decoder,
    bytes: &[u8],
    mut row: impl FnMut(&Decoder),
) -> Result<(), BenchError> {
    let mut at = 0;
    loop {
        match decoder.step(&bytes[at..]).map_err(|e| failed("a block", e))? {
            Step::Header(length) => at += length,
            Step::Row(length) => {
                at += length;
                row(decoder);
            }
            Step::Incomplete => return Ok(()),
        }
    }
}
