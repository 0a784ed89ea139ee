//! Programs: any bytes are refused, or are a program; and whatever a program does with its rows ends. It never reaches beyond its memory.

#![no_main]

use khz_model::{Absence, Nanos, Reading, Stamp};
use khz_program::{Column, Input, Instance, Limits, Program};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(program) = Program::new(bytes) else { return };
    let limits = Limits { memory_bytes: 1 << 20, fuel_of_a_row: 20_000, fuel_to_begin: 20_000 };
    let Ok(mut instance) = Instance::start(&program, limits) else { return };
    let columns = |count: usize| vec![Column::made_up(); count];
    for count in [3, 0, 5] {
        if instance.begin(columns(count)).is_err() {
            return;
        }
        for second in 0..3 {
            let stamp = Stamp { boot: Nanos::from_secs(second), real_offset: 0 };
            let cells = (0..count).map(|at| match at {
                0 => Reading::Absent(Absence::NotYet),
                at => Reading::Present(at as u64 * second),
            });
            if instance.row(Input { stamp, lost: second }, cells).is_err() {
                return;
            }
            assert_eq!(instance.names().len(), instance.values().len());
            assert!(instance.said().iter().all(|line| !line.chars().any(char::is_control)));
        }
    }
    assert!(instance.spent().memory_bytes <= limits.memory_bytes as u64);
});
