//! Texts in Prometheus' format: refused with a place and a reason, or read; what is read is written for the gather thread so that it is
//! read as the same.

#![no_main]

use khz_parse::exposition::families;
use khz_parse::{Parser, textfile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let found = match families(text) {
        Ok(found) => found,
        Err(error) => return assert!(error.line > 0 && error.column > 0 && !error.to_string().is_empty()),
    };
    let mut written = String::new();
    textfile::write_error(false, &mut written);
    found.iter().for_each(|family| textfile::write_family(family, &mut written));
    let mut parser = Parser::new(&textfile::FILE);
    parser.advance_with(written.as_bytes());
    for family in &found {
        for sample in &family.samples {
            let Ok(series) = textfile::series(family, sample) else { continue };
            let is_it = |known: &khz_model::Series| {
                known.metric.name == series.metric.name && known.instance == series.instance
            };
            assert!(parser.schema().series().iter().any(is_it), "{series} is missing of {written}");
        }
    }
});
