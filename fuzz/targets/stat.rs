//! Texts of `/proc/stat` one after the other: see [`khz_fuzz::texts`].

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| khz_fuzz::texts(&khz_parse::stat::FILE, bytes));
