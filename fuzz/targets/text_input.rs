//! Bytes from anywhere at the text door: whatever comes, and however it is cut, is the same commands or refused, and
//! little of it is kept.

#![no_main]

use khz_text::{Command, Input, Unusable};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let whole = all(&mut Input::default(), bytes);
    let (mut input, mut commands) = (Input::default(), Vec::new());
    for piece in bytes.chunks(3) {
        match all(&mut input, piece) {
            Ok(more) => commands.extend(more),
            Err(unusable) => return assert_eq!(whole, Err(unusable)),
        }
        assert!(input.kept() <= khz_text::limits::MASK_DIGITS_MAX + khz_text::limits::LINE_BYTES_MAX);
    }
    assert_eq!(whole, Ok(commands));
});

fn all(input: &mut Input, mut bytes: &[u8]) -> Result<Vec<Command>, Unusable> {
    let mut commands = Vec::new();
    while let Some(command) = input.next(&mut bytes)? {
        commands.push(command);
    }
    Ok(commands)
}
