//! Arguments of a graph that people type, one a line: refused with a reason, or drawn within the limits. No file is opened
//! but one that is not there.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let arguments: Vec<String> = text.lines().filter(|line| !line.contains('/')).map(str::to_string).collect();
    if let Err(error) = khz_rrd_graph::rehearse(&arguments, 1_700_000_000) {
        assert!(!error.to_string().is_empty());
    }
});
