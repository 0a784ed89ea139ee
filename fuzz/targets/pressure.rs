//! Texts of `/proc/pressure/*` one after the other: see [`khz_fuzz::texts`].

#![no_main]

use khz_parse::pressure::{CPU, IO, IRQ, MEMORY};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for file in [&CPU, &MEMORY, &IO, &IRQ] {
        khz_fuzz::texts(file, bytes);
    }
});
