//! The C header and the Python module read what the writer wrote. They need a C compiler and Python on the
//! machine; `cargo xtask test` checks that they exist.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use khz_model::{Kind, Nanos, Stamp, ValueFormat, ValueType};
use khz_ring::{SlotName, SnapshotLabel, SnapshotWriter};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples")
}

fn name(group: u8, places: u8, name: &str) -> SlotName {
    typed(group, ValueType::Unsigned, places, name)
}

fn typed(group: u8, value_type: ValueType, places: u8, name: &str) -> SlotName {
    let format = ValueFormat { value_type, places };
    SlotName { group, kind: Kind::Gauge, format, unit: "bytes".into(), name: name.into() }
}

/// A snapshot with a whole number, one with places, and one that is absent.
fn snapshot(place: &Path) -> SnapshotWriter {
    let label = SnapshotLabel { node: "n1".into(), machine: [1; 16], boot: [2; 16], epoch: 3, created: 4 };
    let mut writer = SnapshotWriter::create(place, &label).expect("a snapshot");
    let names = [
        name(0, 2, "load.1m"),
        name(1, 0, "mem.free"),
        name(1, 0, "net.rx_bytes[eth0]"),
        name(1, 9, "gone"),
        typed(1, ValueType::Signed, 3, "temperature[mlx5_0,port=1]"),
        typed(1, ValueType::Float, 0, "mean"),
        typed(1, ValueType::Labels, 0, "uname"),
    ];
    writer.append(&names).expect("room");
    writer.write(0, Stamp { boot: Nanos(7), real_offset: 0 }, [(0, 0, 52)].into_iter());
    let below = (-1_005i64).cast_unsigned();
    let values = [
        (1, 0, u64::MAX),
        (2, 0, 5_000_000_007),
        (3, 3, 0),
        (4, 0, below),
        (5, 0, (-0.25f64).to_bits()),
        (6, 64, 77),
    ];
    writer.write(1, Stamp { boot: Nanos(8), real_offset: -1 }, values.into_iter());
    writer
}

fn words<'a>(file: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[file], more].concat()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks what a program of any language reads.
fn reads_what_was_written(program: impl Fn(&[&str]) -> Output, place: &Path) {
    let file = place.join("snapshot");
    let _writer = snapshot(&file);
    let file = file.to_str().expect("a path");
    let names = ["load.1m", "mem.free", "net.rx_bytes[eth0]", "temperature[mlx5_0,port=1]", "mean"];
    let all = program(&words(file, &names));
    let expected = "load.1m 0.52\nmem.free 18446744073709551615\nnet.rx_bytes[eth0] 5000000007\n\
                    temperature[mlx5_0,port=1] -1.005\nmean -0.25\n";
    assert_eq!(said(&all), (Some(0), expected.to_owned()), "{}", String::from_utf8_lossy(&all.stderr));
    assert_eq!(
        said(&program(&words(file, &["gone", "uname", "never"]))),
        (Some(3), "gone unknown\nuname unknown\nnever unknown\n".to_owned())
    );
    let stranger = place.join("stranger");
    std::fs::write(&stranger, b"khzM").expect("a file");
    let refused = program(&words(stranger.to_str().expect("a path"), &["x"]));
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stderr));
    std::fs::remove_dir_all(place).expect("ours");
}

fn place(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    place
}

#[test]
fn the_c_header_reads_what_was_written() {
    let place = place("c");
    let (program, source) = (place.join("khz_read"), examples().join("c/khz_read.c"));
    let flags = ["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"];
    let built = Command::new("cc").args(flags).arg(&program).arg(source).output().expect("a C compiler");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    reads_what_was_written(|words| Command::new(&program).args(words).output().expect("it runs"), &place);
}

#[test]
fn the_python_module_reads_what_was_written() {
    let script = examples().join("python/khz_shm.py");
    let run = |words: &[&str]| Command::new("python3").arg(&script).args(words).output().expect("python3");
    reads_what_was_written(run, &place("python"));
}
