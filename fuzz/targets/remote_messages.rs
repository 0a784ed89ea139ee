//! A message of remote write or remote read from anywhere: as it comes, and packed first, which no fuzzer would find. It is
//! decoded or refused, and what is decoded comes back when it is packed again.

#![no_main]

use khz_remote::message::{ReadRequest, ReadResponse, WriteRequest};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let packed = khz_remote::pack(bytes).expect("snappy packs everything");
    for packed in [bytes, &packed] {
        if let Ok(written) = WriteRequest::unpack(packed) {
            let again = WriteRequest::unpack(&written.pack().expect("it was unpacked")).expect("it was valid");
            assert_eq!(again.timeseries.len(), written.timeseries.len());
        }
        if let Ok(asked) = ReadRequest::unpack(packed) {
            assert_eq!(ReadRequest::unpack(&asked.pack().expect("it was unpacked")).expect("it was valid"), asked);
        }
        if let Ok(answer) = ReadResponse::unpack(packed) {
            let again = ReadResponse::unpack(&answer.pack().expect("it was unpacked")).expect("it was valid");
            assert_eq!(again.results.len(), answer.results.len());
        }
    }
});
