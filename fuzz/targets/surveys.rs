//! Texts of surveys one after the other, see [`khz_fuzz::texts`]; the first byte says of which. The same bytes as a list of
//! mounts.

#![no_main]

use khz_parse::{clock, edac, filesystem, mountinfo, net_class, throttle};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for mount in mountinfo::chosen(bytes) {
        assert!(!mount.place.is_empty() && !mount.fs_type.is_empty());
    }
    let Some((first, texts)) = bytes.split_first() else { return };
    let files = [&filesystem::FILE, &net_class::FILE, &throttle::FILE, &edac::FILE, &clock::FILE];
    khz_fuzz::texts(files[usize::from(*first) % files.len()], texts);
});
