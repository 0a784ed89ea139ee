//! Kernel texts from anywhere: pieces are taken or refused and no more is held than a text may have, a text that was
//! packed arrives as it was, and a line of a list that names something names a path.

#![no_main]

use khz_link::limits::{FRAME_MAX, TEXT_BYTES_MAX};
use khz_link::texts::{ListedAs, PackedText, TextFault, TextIntake, TextSender, is_text_path, lines, pack};
use khz_link::{Frame, frame};
use khz_model::Stamp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else { return };
    match how % 3 {
        0 => pieces(rest),
        1 => texts(rest),
        _ => list(rest),
    }
});

/// Frames as a hostile node says them.
fn pieces(bytes: &[u8]) {
    let (mut intake, mut rest) = (TextIntake::default(), bytes);
    while let Ok(Some(raw)) = frame::split(rest, FRAME_MAX) {
        if let Ok(Frame::Text(piece)) = Frame::decode(raw.kind, raw.body) {
            match intake.take(&piece) {
                Ok(true) => assert_eq!(intake.text().map(|(text, _)| text.len()), Some(piece.length as usize)),
                Ok(false) | Err(TextFault::Protocol(_)) => {}
                Err(TextFault::TooLong { bytes }) => assert!(bytes as usize > TEXT_BYTES_MAX),
            }
            assert!(intake.held() <= 3 * TEXT_BYTES_MAX);
        }
        rest = &rest[raw.length..];
    }
}

/// Texts, one after the other, each packed against the one before.
fn texts(bytes: &[u8]) {
    let (mut intake, mut before): (_, &[u8]) = (TextIntake::default(), &[]);
    for (at, text) in bytes.split(|&byte| byte == b'|').take(50).enumerate() {
        let packed = pack(text, before).expect("there is memory");
        let (version, base, length) = (at as u32 + 1, at as u32, text.len() as u32);
        let packed = PackedText { version, base, stamp: Stamp::default(), length, bytes: packed.into() };
        let (mut sender, mut out) = (TextSender::new(1, packed), Vec::new());
        while sender.say(&mut out) {}
        let mut rest = &out[..];
        while let Ok(Some(raw)) = frame::split(rest, FRAME_MAX) {
            let Ok(Frame::Text(piece)) = Frame::decode(raw.kind, raw.body) else { panic!("no Text") };
            intake.take(&piece).expect("what was packed is unpacked");
            rest = &rest[raw.length..];
        }
        assert_eq!(intake.text().map(|(text, _)| &text[..]), Some(text));
        before = text;
    }
}

fn list(bytes: &[u8]) {
    for line in lines(bytes).flatten() {
        assert!(is_text_path(line.path) && !line.path.split('/').any(|name| name == ".." || name.is_empty()));
        if let ListedAs::Link(target) = line.listed {
            assert!(is_text_path(target) && !target.starts_with('/') && !target.split('/').any(|name| name == ".."));
        }
    }
}
