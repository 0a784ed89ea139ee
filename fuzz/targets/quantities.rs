//! Rates, durations and sizes as people write them: what is read prints as something that reads the same.

#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use khz_model::{ByteSize, Nanos, Rate};

libfuzzer_sys::fuzz_target!(|text: &str| {
    prints_what_it_reads::<Rate>(text);
    prints_what_it_reads::<Nanos>(text);
    prints_what_it_reads::<ByteSize>(text);
});

fn prints_what_it_reads<Q: FromStr<Err: Debug + Display> + Display + PartialEq + Debug>(text: &str) {
    let quantity: Q = match text.parse() {
        Ok(quantity) => quantity,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let shown = quantity.to_string();
    // "every 5s" is a sentence about a rate; what follows the first word is the rate.
    let again: Q = match shown.trim_start_matches("every ").parse() {
        Ok(again) => again,
        Err(error) => panic!("{text:?} prints as {shown:?}, which is refused: {error}"),
    };
    assert_eq!(again, quantity, "{text:?} prints as {shown:?}");
}
