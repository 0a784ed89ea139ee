//! Expressions that people type: parsed or refused, evaluated or refused, and the same again after the file.

#![no_main]

use khz_rrd::rpn::{Moment, Program, Series};

const NAMES: [&str; 3] = ["x", "y", "z"];

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some(program) = Program::parse(text, |name| NAMES.iter().position(|known| *known == name)) else {
        return;
    };
    let variables = [3.5, f64::NAN, -1e300];
    let columns = variables.map(|value| vec![value, 1.0, 2.0, f64::INFINITY]);
    let alone = Moment { variables: &variables, now: 1_700_000_000, series: None };
    for row in 0..4 {
        let series = Series { time: 1_700_000_000, offset: 3600, step: 300, row, previous: 5.0, columns: &columns };
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
