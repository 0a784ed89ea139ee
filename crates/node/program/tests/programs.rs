//! Programs in the text form of WebAssembly: what they get and give, and everything that a hostile one may try.

#![allow(clippy::unwrap_used)]

use khz_model::{Absence, Fault as NoReading, Kind, Metric, Nanos, Reading, Series, Stamp, Unit};
use khz_program::{Column, Fault, Input, Instance, Limits, Program, ProgramError};

/// What every program has: a memory, room for eight series at 1,024, and its exports.
const FRAME: &str = r#"
(memory (export "memory") 1)
(data (i32.const 0) "\00\04\00\00\80\04\00\00\08\00\00\00")
(func (export "khz_version") (result i32) (i32.const 1))
(func (export "khz_room") (result i32) (i32.const 0))
"#;

fn module(imports: &str, rest: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {imports} {FRAME} {rest})")).unwrap()
}

const PUT: &str = r#"
(import "khz" "output" (func $output (param i32 i32) (result i32)))
(import "khz" "put" (func $put (param i32 f64)))"#;
const NAMES_ONE: &str = r#"
(data (i32.const 2048) "sum")
(func (export "khz_begin") (param i32) (result i32)
  (drop (call $output (i32.const 2048) (i32.const 3))) (i32.const 0))"#;
const BEGINS: &str = r#"(func (export "khz_begin") (param i32) (result i32) (i32.const 0))"#;
const SILENT: &str = r#"(func (export "khz_row") (result i32) (i32.const 0))"#;

fn column(name: &str) -> Column {
    let metric = Metric::plain(name.to_owned(), name.to_owned(), Kind::Gauge, Unit::Count);
    Column::of(&Series { metric: std::sync::Arc::new(metric), instance: None })
}

fn columns(count: usize) -> Vec<Column> {
    (0..count).map(|number| column(&format!("job.x{number}"))).collect()
}

fn started(module: &[u8]) -> Instance {
    Instance::start(&Program::new(module).unwrap(), Limits::default()).unwrap()
}

fn begun(module: &[u8], series: usize) -> Instance {
    let mut instance = started(module);
    instance.begin(columns(series)).unwrap();
    instance
}

fn input(seconds: u64) -> Input {
    Input { stamp: Stamp { boot: Nanos::from_secs(seconds), real_offset: 1_000_000_000_000 }, lost: 0 }
}

fn present(values: &[u64]) -> impl Iterator<Item = Reading> + '_ {
    values.iter().map(|value| Reading::Present(*value))
}

/// A program that gives the sum of present values, and sends it if it is more than 10.
fn sum() -> Vec<u8> {
    module(
        PUT,
        &format!(
            r#"{NAMES_ONE}
(func (export "khz_row") (result i32)
  (local $at i32) (local $sum f64)
  (loop $next
    (if (i32.eqz (i32.load8_u (i32.add (i32.const 1152) (local.get $at))))
      (then (local.set $sum (f64.add (local.get $sum)
        (f64.load (i32.add (i32.const 1024) (i32.mul (local.get $at) (i32.const 8))))))))
    (local.set $at (i32.add (local.get $at) (i32.const 1)))
    (br_if $next (i32.lt_u (local.get $at) (i32.load (i32.const 12)))))
  (call $put (i32.const 0) (local.get $sum))
  (f64.gt (local.get $sum) (f64.const 10)))"#
        ),
    )
}

#[test]
fn a_program_gets_rows_and_gives_values_or_is_silent() {
    let mut instance = begun(&sum(), 3);
    assert_eq!(instance.names(), ["sum"]);
    assert_eq!(instance.row(input(1), present(&[1, 2, 3])), Ok(false));
    assert_eq!(instance.row(input(2), present(&[10, 20, 30])), Ok(true));
    assert_eq!(instance.values(), [60.0]);
    // Absent and failed readings are no values.
    let cells = [
        Reading::Present(11),
        Reading::Absent(Absence::InstanceGone),
        Reading::Failed(NoReading::Unreadable),
    ];
    assert_eq!(instance.row(input(3), cells.into_iter()), Ok(true));
    assert_eq!(instance.values(), [11.0]);
    let spent = instance.spent();
    assert_eq!((spent.rows_in, spent.rows_out, spent.memory_bytes), (3, 2, 65_536));
    assert!(spent.fuel_most > 0 && spent.fuel >= spent.fuel_most);
}

#[test]
fn other_series_begin_again_and_the_memory_stays() {
    let counts = module(
        PUT,
        &format!(
            r#"{NAMES_ONE} (global $rows (mut f64) (f64.const 0))
(func (export "khz_row") (result i32)
  (global.set $rows (f64.add (global.get $rows) (f64.const 1)))
  (call $put (i32.const 0) (global.get $rows)) (i32.const 1))"#
        ),
    );
    let mut instance = begun(&counts, 1);
    (1..=3).for_each(|_| assert_eq!(instance.row(input(1), present(&[1])), Ok(true)));
    instance.begin(columns(5)).unwrap();
    assert_eq!(instance.row(input(2), present(&[1; 5])), Ok(true));
    assert_eq!(instance.values(), [4.0]);
    // No room for nine.
    assert_eq!(instance.begin(columns(9)), Err(ProgramError::TooManySeries { room: 8, series: 9 }));
    assert_eq!(instance.row(input(3), present(&[1; 5])), Err(Fault::Dead));
}

#[test]
fn a_program_learns_its_series_and_says_something() {
    let asks = module(
        r#"(import "khz" "name" (func $name (param i32 i32 i32) (result i32)))
(import "khz" "unit" (func $unit (param i32 i32 i32) (result i32)))
(import "khz" "is_counter" (func $counter (param i32) (result i32)))
(import "khz" "say" (func $say (param i32 i32)))"#,
        &format!(
            r#"{SILENT} (func (export "khz_begin") (param i32) (result i32)
  (call $say (i32.const 3000) (call $name (i32.const 1) (i32.const 3000) (i32.const 100)))
  (call $say (i32.const 3000) (call $unit (i32.const 0) (i32.const 3000) (i32.const 100)))
  ;; There is room for three bytes only, and the length is the whole one.
  (call $say (i32.const 4000) (i32.sub (call $name (i32.const 1) (i32.const 4000) (i32.const 3)) (i32.const 3)))
  (call $counter (i32.const 0)))"#
        ),
    );
    let mut instance = started(&asks);
    instance.begin(columns(2)).unwrap();
    assert_eq!(instance.said(), ["job.x1", "count", "job"]);
    assert_eq!(instance.said(), [""; 0]);
}

/// How a row of a program ends.
fn row_of(imports: &str, row: &str) -> Result<bool, Fault> {
    let module = module(imports, &format!("{BEGINS} (func (export \"khz_row\") (result i32) {row})"));
    let mut instance = begun(&module, 1);
    let answer = instance.row(input(1), present(&[1]));
    if answer.is_err() {
        assert_eq!(instance.row(input(2), present(&[1])), Err(Fault::Dead), "nobody executes it again");
    }
    answer
}

#[test]
fn whatever_a_row_does_it_ends_and_the_reason_is_told() {
    let fuel = Limits::default().fuel_of_a_row;
    assert_eq!(row_of("", "(loop $for_ever (br $for_ever)) (unreachable)"), Err(Fault::Fuel(fuel)));
    for (row, word) in [
        ("(unreachable)", "unreachable"),
        ("(i32.div_s (i32.const 1) (i32.const 0))", "divi"),
        ("(i32.load (i32.const -1))", "memory"),
        ("(i32.store (i32.const 65533) (i32.const 1)) (i32.const 0)", "memory"),
        ("(i32.trunc_f64_s (f64.const nan))", "integer"),
    ] {
        match row_of("", row) {
            Err(Fault::Trap(text)) => assert!(text.contains(word), "{row}: {text}"),
            other => panic!("{row}: {other:?}"),
        }
    }
    let calls_itself =
        module("", &format!(r#"{BEGINS} (func $row (export "khz_row") (result i32) (call $row))"#));
    assert!(matches!(begun(&calls_itself, 1).row(input(1), present(&[1])), Err(Fault::Trap(_))));
    // A billion values: each call costs fuel.
    let floods = "(loop $more (call $put (i32.const 0) (f64.const 1)) (br $more)) (unreachable)";
    let named = module(PUT, &format!(r#"{NAMES_ONE} (func (export "khz_row") (result i32) {floods})"#));
    assert_eq!(begun(&named, 1).row(input(1), present(&[1])), Err(Fault::Fuel(fuel)));
}

#[test]
fn memory_that_grows_beyond_its_limit_is_refused_to_the_program() {
    // -1: it did not grow. 64 pages are 4 MiB.
    assert_eq!(row_of("", "(i32.eq (memory.grow (i32.const 64)) (i32.const -1))"), Ok(true));
    assert_eq!(row_of("", "(i32.eq (memory.grow (i32.const 63)) (i32.const -1))"), Ok(false));
    let large = wat::parse_str(format!(
        "(module {} {BEGINS} {SILENT})",
        FRAME.replace("(memory (export \"memory\") 1)", "(memory (export \"memory\") 65)")
    ));
    let program = Program::new(&large.unwrap()).unwrap();
    assert!(matches!(Instance::start(&program, Limits::default()), Err(ProgramError::Fault(_))));
}

#[test]
fn wild_pointers_and_numbers_end_the_program() {
    let imports = r#"(import "khz" "output" (func $output (param i32 i32) (result i32)))
(import "khz" "put" (func $put (param i32 f64)))
(import "khz" "name" (func $name (param i32 i32 i32) (result i32)))
(import "khz" "say" (func $say (param i32 i32)))"#;
    for (row, expected) in [
        ("(call $say (i32.const 65530) (i32.const 100)) (i32.const 0)", Fault::Address { call: "say" }),
        ("(call $say (i32.const -4) (i32.const 100)) (i32.const 0)", Fault::Address { call: "say" }),
        ("(call $say (i32.const 0) (i32.const -1)) (i32.const 0)", Fault::Number { call: "say" }),
        ("(call $name (i32.const 0) (i32.const 65535) (i32.const 99))", Fault::Address { call: "name" }),
        ("(call $name (i32.const 1) (i32.const 0) (i32.const 99))", Fault::Number { call: "name" }),
        ("(call $name (i32.const -1) (i32.const 0) (i32.const 99))", Fault::Number { call: "name" }),
        ("(call $name (i32.const 0) (i32.const 0) (i32.const -1))", Fault::Number { call: "name" }),
        ("(call $put (i32.const 0) (f64.const 1)) (i32.const 0)", Fault::Number { call: "put" }),
        ("(call $put (i32.const -1) (f64.const 1)) (i32.const 0)", Fault::Number { call: "put" }),
        ("(call $output (i32.const 0) (i32.const 1))", Fault::Late),
    ] {
        assert_eq!(row_of(imports, row), Err(expected), "{row}");
    }
    for room in ["(i32.const -1)", "(i32.const 65530)"] {
        let frame = FRAME.replace(
            r#"(export "khz_room") (result i32) (i32.const 0)"#,
            &format!(r#"(export "khz_room") (result i32) {room}"#),
        );
        let module = wat::parse_str(format!("(module {frame} {BEGINS} {SILENT})")).unwrap();
        assert_eq!(started(&module).begin(columns(1)), Err(ProgramError::Fault(Fault::Room)), "{room}");
    }
}

#[test]
fn a_module_that_is_no_program_is_refused_with_what_is_missing() {
    let refused = |module: &[u8]| Program::new(module).unwrap_err().to_string();
    assert!(refused(b"").contains("no WebAssembly module"), "{}", refused(b""));
    assert!(refused(b"\0asm\x02\0\0\0").contains("no WebAssembly module"));
    assert!(refused(&vec![0; khz_program::limits::MODULE_BYTES_MAX + 1]).contains("1048577 bytes"));
    assert!(refused(&wat::parse_str("(module)").unwrap()).contains("its memory"));
    for lacks in ["khz_version", "khz_room", "khz_begin", "khz_row"] {
        let text = format!("(module {FRAME} {BEGINS} {SILENT})").replace(lacks, "other");
        assert!(refused(&wat::parse_str(text).unwrap()).contains(&format!("the function {lacks}")));
    }
    for (import, named) in [
        (
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
            "wasi_snapshot_preview1.fd_write",
        ),
        (r#"(import "khz" "open" (func (param i32) (result i32)))"#, "khz.open"),
    ] {
        let text = refused(&module(import, &format!("{BEGINS} {SILENT}")));
        assert!(text.contains(named), "{text}");
    }
    // A function of another type than the call has.
    let other = module(r#"(import "khz" "put" (func (param i32)))"#, &format!("{BEGINS} {SILENT}"));
    assert!(Instance::start(&Program::new(&other).unwrap(), Limits::default()).is_err());
    let newer = wat::parse_str(format!(
        "(module {} {BEGINS} {SILENT})",
        FRAME.replace("(result i32) (i32.const 1)", "(result i32) (i32.const 2)")
    ));
    let started = Instance::start(&Program::new(&newer.unwrap()).unwrap(), Limits::default());
    assert_eq!(started.err(), Some(ProgramError::Version { version: 2 }));
    let refuses = module(
        "",
        &format!(r#"{SILENT} (func (export "khz_begin") (param i32) (result i32) (i32.const 7))"#),
    );
    assert_eq!(begin_of(&refuses), Err(ProgramError::Refuses(7)));
    // A module that does something before it is asked.
    let starts = module("", &format!("(func $first) (start $first) {BEGINS} {SILENT}"));
    assert!(
        Program::new(&starts).is_err()
            || Instance::start(&Program::new(&starts).unwrap(), Limits::default()).is_err()
    );
}

fn begin_of(module: &[u8]) -> Result<(), ProgramError> {
    started(module).begin(columns(1))
}

proptest::proptest! {
    /// Any change of a few bytes of a good module: it is refused, or whatever it does ends.
    #[test]
    fn a_damaged_module_never_panics(changes in proptest::collection::vec((0..2_000usize, proptest::num::u8::ANY), 1..4)) {
        let mut module = sum();
        for (at, byte) in changes {
            let at = at % module.len();
            module[at] = byte;
        }
        let Ok(program) = Program::new(&module) else { return Ok(()) };
        let Ok(mut instance) = Instance::start(&program, Limits { fuel_of_a_row: 10_000, fuel_to_begin: 10_000, ..Limits::default() }) else { return Ok(()) };
        if instance.begin(columns(3)).is_ok() {
            let _ = instance.row(input(1), present(&[1, 2, 3]));
        }
    }
}
