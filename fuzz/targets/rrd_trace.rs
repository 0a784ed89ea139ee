//! Traces of updates of .rrd files: refused with a line and a byte, or read; what is read is written as it was read.

#![no_main]

use khz_rrd_scale::simulate::trace::Trace;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    match Trace::decode(bytes, "t") {
        Ok(trace) => {
            let again = Trace::decode(&trace.encode(), "t");
            assert_eq!(again.expect("what was written is read"), trace);
        }
        Err(error) => {
            let told = error.to_string();
            assert!(told.starts_with("t: line ") && told.contains("(byte "), "{told}");
        }
    }
});
