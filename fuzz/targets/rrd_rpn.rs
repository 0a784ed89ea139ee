//! Expressions that people type: parsed or refused, evaluated or refused, and the same again after the file.

#![no_main]

use std::cell::Cell;

use khz_rrd::rpn::{Column, Moment, Program, Series};

const NAMES: [&str; 3] = ["x", "y", "z"];

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(program) = Program::parse(text, |name| NAMES.iter().position(|known| *known == name)) else {
        return;
    };
    let variables = [3.5, f64::NAN, -1e300];
    let values = variables.map(|value| vec![value, 1.0, 2.0, f64::INFINITY]);
    // The rows of the last one are longer.
    let (begin, steps) = (1_700_000_000 - 300, [300, 300, 700]);
    let mut columns: Vec<Column<'_>> =
        values.iter().zip(steps).map(|(values, step)| Column::new(values, begin, step)).collect();
    let looked = Cell::new(0);
    let alone = Moment { variables: &variables, now: 1_700_000_000, series: None };
    for row in 0..4 {
        let time = begin + 300 * (row as i64 + 1);
        columns.iter_mut().for_each(|column| column.advance(time));
        let (columns, looked) = (&columns, &looked);
        let series = Series { time, offset: 3600, step: 300, row, previous: 5.0, columns, looked };
        if let Err(error) = program.evaluate(&Moment { series: Some(series), ..alone }) {
            assert!(!error.is_empty());
        }
    }
    let value = program.evaluate(&alone);
    if program.storable().is_ok() {
        let mut bytes = [0; 80];
        program.encode(&mut bytes);
        let again = Program::decode(&bytes).expect("what was written is read");
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        match (value, again.evaluate(&alone)) {
            (Ok(a), Ok(b)) => assert!(same(a, b), "{text}: {a} and {b}"),
            (a, b) => assert_eq!(a.err(), b.err(), "{text}"),
        }
    }
});
