//! What the targets for kernel texts share: the promise that each of them checks.

use khz_model::Reading;
use khz_parse::{FAULTS_MAX, KernelFile, Parser};

/// Texts that follow each other are separated by this line.
pub const NEXT: &[u8] = b"=== next\n";

/// Gives one long-lived parser all texts in `bytes`. After each of them it must say what a parser says that
/// has seen only this text, and what it said of its changes must be enough to follow it.
pub fn texts(file: &'static KernelFile, bytes: &[u8]) {
    let mut parser = Parser::new(file);
    let mut copy = Vec::new();
    // As in the agent, the room holds whatever was read into it before, and is at times just large enough.
    let mut room = Vec::new();
    for text in split(bytes) {
        if room.len() < text.len() {
            room.resize(text.len(), b'7');
        }
        room[..text.len()].copy_from_slice(text);
        parser.advance(&mut room, text.len());
        if has_names_that_are_one(text) {
            return;
        }
        agrees_with_a_fresh_one(&parser, text);
        follow(&mut copy, &parser);
    }
}

fn split(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(NEXT.len()).position(|window| window == NEXT);
        rest = end.map(|end| &text[end + NEXT.len()..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Names that no kernel gives: so long that they are cut, or written like bytes that are no text. Two of them
/// can become one instance, which the first of them has; and who was first only the long-lived parser knows.
fn has_names_that_are_one(text: &[u8]) -> bool {
    let mut words = text.split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b':'));
    words.any(|word| word.len() > khz_model::name::INSTANCE_MAX)
        || text.windows(2).any(|pair| pair == b"\\x")
        || text.windows(4).any(|four| four == b"\\134")
}

fn agrees_with_a_fresh_one(long_lived: &Parser, text: &[u8]) {
    let mut fresh = Parser::new(long_lived.file());
    fresh.advance_with(text);
    for (slot, series) in long_lived.schema().series().iter().enumerate() {
        let kept = long_lived.reading(slot);
        match fresh.schema().slot(&series.metric.name, series.instance.as_ref()) {
            Some(new) => assert_eq!(kept, fresh.reading(new as usize), "{series}"),
            None => assert!(!matches!(kept, Some(Reading::Present(_))), "{series} outlived its instance"),
        }
    }
    assert!(fresh.schema().len() <= long_lived.schema().len());
    // A fault has a note, and a note a line of this text.
    let failed =
        (0..fresh.schema().len()).any(|slot| matches!(fresh.reading(slot), Some(Reading::Failed(_))));
    assert!(!failed || !fresh.faults().is_empty(), "something failed and nobody says why");
    assert!(fresh.faults().len() <= FAULTS_MAX);
    let lines = 1 + text.iter().filter(|&&byte| byte == b'\n').count();
    assert!(fresh.faults().iter().all(|fault| fault.line as usize <= lines));
}

fn follow(copy: &mut Vec<Option<Reading>>, parser: &Parser) {
    copy.resize(parser.schema().len(), Some(Reading::Absent(khz_model::Absence::NotYet)));
    for &slot in parser.changed() {
        copy[slot as usize] = parser.reading(slot as usize);
    }
    for (slot, kept) in copy.iter().enumerate() {
        assert_eq!(*kept, parser.reading(slot), "slot {slot} changed unsaid");
    }
}
