//! Foreign bytes: a damaged file must never cause a panic or a write beyond itself, and files of other machines must be
//! read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use khz_rrd::content::Content;
use khz_rrd::create::{self, Plan};
use khz_rrd::dump::{self, Prologue};
use khz_rrd::file::{self, Access, Rrd};
use khz_rrd::import::{self, Machine};
use khz_rrd::rra::Function;
use khz_rrd::sample::Stamp;
use khz_rrd::update::{Failure, Options};
use khz_rrd::{fetch, restore};
use proptest::prelude::*;

const STAMP: Stamp = Stamp { seconds: 1_000_100_000, usec: 0 };

fn options(failure: Failure) -> Options<'static> {
    Options { name: "t.rrd", template: None, skip_past: false, now: STAMP, failure, record: true }
}

/// A file with every kind of source and archive and some history.
fn rich(path: &Path) -> Vec<u8> {
    let mut plan = Plan::default();
    for source in ["a:GAUGE:600:U:U", "b:COUNTER:600:0:U", "c:COMPUTE:a,b,+,3,*", "d:DERIVE:600:U:U"] {
        plan.source(source).unwrap();
    }
    for archive in ["AVERAGE:0.5:1:9", "MAX:0.5:3:5", "LAST:0.2:2:4", "HWPREDICT:12:0.1:0.2:6"] {
        plan.archive(archive, 300, 12_345).unwrap();
    }
    let header = create::header(plan.definition(300).unwrap(), 1_000_000_000, |rra, _| rra as u64).unwrap();
    file::create(path, &header, std::iter::empty(), true).unwrap();
    let mut rrd = Rrd::open(path, Access::Write).unwrap();
    let samples: Vec<String> = (1..40u64)
        .map(|n| format!("{}:{}.5:{}:{}", 1_000_000_000 + 301 * n, n % 7, n * 1000, n * 77))
        .collect();
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    rrd.update(&samples, &options(Failure::ChangesNothing)).unwrap();
    std::fs::read(path).unwrap()
}

fn directory(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("khz-rrd-foreign-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Every operation on a file; none may panic or change the file's length.
fn exercise(path: &Path) {
    let length = std::fs::metadata(path).unwrap().len();
    if let Ok(rrd) = Rrd::open(path, Access::Read) {
        let _ = khz_rrd::info::describe(&rrd.header, "t.rrd");
        let _ = dump::dump(&rrd, Prologue::Dtd, &mut std::io::sink());
        let _ = fetch::fetch(&rrd, Function::Average, 1_000_000_000, 1_000_010_000, 1);
        if let Ok(content) = Content::read(&rrd) {
            let _ = content.build(|_, rows| rows / 2);
        }
    }
    let _ = import::import(&std::fs::read(path).unwrap(), path);
    for (failure, at) in
        [(Failure::ChangesNothing, 1_000_020_000), (Failure::KeepsWhatWasDone, 1_000_020_300)]
    {
        if let Ok(mut rrd) = Rrd::open(path, Access::Write) {
            let samples =
                [format!("{at}:1:2:3"), format!("{}:4:5:6", at + 300), format!("{}:7:8:9", at + 90_000)];
            let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
            let _ = rrd.update(&samples, &options(failure));
        }
    }
    assert_eq!(std::fs::metadata(path).unwrap().len(), length, "an update changed the file's length");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic_nor_grow(
        changes in proptest::collection::vec((0usize..4000, any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, 0usize..4000),
        words in proptest::collection::vec((0usize..500, prop_oneof![Just(u64::MAX), Just(1 << 63), Just(0), any::<u64>()]), 0..2),
    ) {
        thread_local! {
            static GOOD: (std::path::PathBuf, Vec<u8>) = {
                let dir = directory("damaged");
                let bytes = rich(&dir.join("good.rrd"));
                (dir, bytes)
            };
        }
        GOOD.with(|(dir, good)| {
            let mut bytes = good.clone();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            for (at, word) in words {
                let at = (8 * at) % (bytes.len() / 8 * 8);
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            if let Some(cut) = cut {
                bytes.truncate(cut);
            }
            let path = dir.join("t.rrd");
            std::fs::write(&path, &bytes).unwrap();
            exercise(&path);
        });
    }

    #[test]
    fn damaged_dumps_never_panic(cuts in proptest::collection::vec((0usize..60_000, any::<char>()), 1..5)) {
        thread_local! {
            static TEXT: String = {
                let path = directory("dumps").join("good.rrd");
                rich(&path);
                let mut text = vec![];
                dump::dump(&Rrd::open(&path, Access::Read).unwrap(), Prologue::Dtd, &mut text).unwrap();
                String::from_utf8(text).unwrap()
            };
        }
        TEXT.with(|good| {
            let mut text: Vec<char> = good.chars().collect();
            for (at, letter) in &cuts {
                let at = at % text.len();
                text[at] = *letter;
            }
            let _ = restore::parse(&text.into_iter().collect::<String>(), true, |_, _| 0);
        });
    }

    #[test]
    fn expressions_and_times_never_panic(text in "[-0-9a-zA-Z,+*/.:@ ()_%]{0,40}") {
        let _ = khz_rrd::at::When::parse(&text, 1_700_000_000).map(|when| when.resolve(1_700_000_000));
        let _ = khz_rrd::spec::source(&text, &[]);
        let _ = khz_rrd::spec::archive(&text, 300, 1);
        if let Some(program) = khz_rrd::rpn::Program::parse(&text, |_| Some(0)) {
            let moment = khz_rrd::rpn::Moment { variables: &[1.5], now: 0, series: None };
            let _ = program.evaluate(&moment);
        }
    }
}

/// Writes `content` as `machine` would have: an encoder of its own, so that reader and writer check each other.
fn foreign(native: &Rrd, machine: Machine) -> Vec<u8> {
    let header = &native.header;
    let mut out: Vec<u8> = vec![];
    let align = |out: &mut Vec<u8>, to: usize| {
        while !out.len().is_multiple_of(to) {
            out.push(0)
        }
    };
    let word = |out: &mut Vec<u8>, value: u64| {
        out.extend(if machine.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
    };
    let integer = |out: &mut Vec<u8>, value: u64, size: usize| match (size, machine.big_endian) {
        (8, true) => out.extend(value.to_be_bytes()),
        (8, false) => out.extend(value.to_le_bytes()),
        (_, true) => out.extend((value as u32).to_be_bytes()),
        (_, false) => out.extend((value as u32).to_le_bytes()),
    };
    // A union of a long and a double: the long lies in its first bytes.
    let union = |out: &mut Vec<u8>, value: u64, is_count: bool| {
        if is_count && machine.long == 4 {
            integer(out, value, 4);
            out.extend([0; 4]);
        } else {
            word(out, value);
        }
    };
    let text = |out: &mut Vec<u8>, text: &[u8], size: usize| {
        let mut field = text.to_vec();
        field.resize(size, 0);
        out.extend(field);
    };
    text(&mut out, b"RRD", 4);
    text(&mut out, format!("{:04}", header.version()).as_bytes(), 5);
    align(&mut out, machine.align);
    word(&mut out, khz_rrd::layout::FLOAT_COOKIE.to_bits());
    for count in [header.sources().len() as u64, header.archives().len() as u64, header.step()] {
        integer(&mut out, count, machine.long);
    }
    align(&mut out, machine.align);
    out.extend([0; 80]);
    for source in header.sources() {
        text(&mut out, source.name.as_bytes(), 20);
        text(&mut out, source.kind.name().as_bytes(), 20);
        let mut native = [0u8; 120];
        source.encode(&mut native);
        if source.program.is_some() {
            let mut nodes = native[40..].to_vec();
            if machine.big_endian {
                nodes.chunks_exact_mut(4).for_each(|node| node.swap(2, 3));
            }
            out.extend(nodes);
        } else {
            union(&mut out, source.heartbeat, true);
            word(&mut out, source.min.to_bits());
            word(&mut out, source.max.to_bits());
            out.extend([0; 56]);
        }
    }
    for archive in header.archives() {
        text(&mut out, archive.function.name().as_bytes(), 20);
        align(&mut out, machine.long);
        integer(&mut out, archive.rows, machine.long);
        integer(&mut out, archive.points, machine.long);
        align(&mut out, machine.align);
        for (slot, value) in archive.par.iter().enumerate() {
            let forecast = archive.function.is_forecast();
            let is_count =
                !archive.function.is_plain() && (slot == 3 || slot == 5 || (slot == 4 && !forecast));
            union(&mut out, *value, is_count);
        }
    }
    integer(&mut out, header.last_update() as u64, machine.time);
    integer(&mut out, header.last_update_usec() as u64, machine.long);
    if machine.time == 8 && machine.long == 4 && machine.align == 8 {
        out.extend([0; 4]);
    }
    for ds in 0..header.sources().len() {
        text(&mut out, header.last_reading(ds), 30);
        out.extend(vec![0; 30usize.next_multiple_of(machine.align) - 30]);
        union(&mut out, header.unknown_seconds(ds), true);
        word(&mut out, header.point_value(ds).to_bits());
        out.extend([0; 64]);
    }
    for (rra, archive) in header.archives().iter().enumerate() {
        for ds in 0..header.sources().len() {
            if archive.function == Function::Failures {
                out.extend(&header.cdp_bytes(rra, ds)[..64]);
                word(&mut out, header.cdp(rra, ds, 8).to_bits());
                word(&mut out, header.cdp(rra, ds, 9).to_bits());
                continue;
            }
            for slot in 0..10 {
                let is_count = match archive.function {
                    Function::HwPredict | Function::MhwPredict => slot == 6 || slot == 7,
                    Function::Seasonal | Function::DevSeasonal => slot == 6,
                    _ => slot == 1,
                };
                union(&mut out, header.cdp_count(rra, ds, slot), is_count);
            }
        }
    }
    for rra in 0..header.archives().len() {
        integer(&mut out, header.current_row(rra), machine.long);
    }
    for rra in 0..header.archives().len() {
        for value in native.rows(rra, 0, header.archives()[rra].rows).unwrap() {
            word(&mut out, value.to_bits());
        }
    }
    out
}

#[test]
fn files_of_every_machine_are_recognised_and_imported_whole() {
    let path = directory("machines").join("t.rrd");
    let native = rich(&path);
    let rrd = Rrd::open(&path, Access::Read).unwrap();
    let dump_of = |rrd: &Rrd| {
        let mut text = vec![];
        dump::dump(rrd, Prologue::None, &mut text).unwrap();
        text
    };
    let wanted = dump_of(&rrd);
    for machine in Machine::ALL {
        let bytes = foreign(&rrd, machine);
        if machine == Machine::ALL[0] {
            assert_eq!(bytes, native);
        }
        let found =
            import::recognise(&bytes, &path).unwrap_or_else(|| panic!("{machine:?} is not recognised"));
        assert_eq!(found.big_endian, machine.big_endian, "{machine:?}");
        let content = import::import(&bytes, &path).unwrap();
        let (header, values) = content.build(|_, rows| rows - 1).unwrap();
        let made = path.with_extension("imported");
        file::create(&made, &header, values.into_iter(), true).unwrap();
        assert_eq!(dump_of(&Rrd::open(&made, Access::Read).unwrap()), wanted, "{machine:?}");
    }
}

#[test]
fn damage_that_rrdtool_does_not_check_is_told_with_the_file_and_its_part() {
    let dir = directory("named");
    let path = dir.join("t.rrd");
    let whole = rich(&path);
    let layout = Rrd::open(&path, Access::Read).unwrap().header.layout().clone();
    let cases: [(usize, &[u8], &str); 6] = [
        (layout.ds_def(1) + 20, &[0; 20], "data source 1 of '@': unknown data source type ''"),
        (layout.ds_def(2) + 40, &[99], "data source 2 of '@': unknown RPN operator 99"),
        (layout.rra_def(1), b"LOST", "archive 1 of '@': unknown consolidation function 'LOST'"),
        (layout.rra_def(2) + 24, &[0; 8], "archive 2 of '@': LAST with 0 rows of 2 points"),
        (layout.rra_def(0) + 32, &[255; 8], "archive 0 of '@' has rows of 18446744073709551615 points"),
        (layout.ptr(1), &[7], "archive 1 of '@' has 5 rows but its current row is 7"),
    ];
    for (at, bytes, wanted) in cases {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&path, damaged).unwrap();
        let error = Rrd::open(&path, Access::Read).map(drop).unwrap_err();
        assert_eq!(error.to_string(), wanted.replace('@', &path.display().to_string()));
    }
    std::fs::remove_dir_all(dir).unwrap();
}
