//! Large and small letters as Prometheus makes them. `toUpper` and `toLower` map each letter to one letter (the simple mappings of
//! Unicode). Rust's functions may give several, such as SS for ß. `title` uses the full mappings: Ss.

/// The large letter of this one.
pub fn upper(c: char) -> char {
    single(c.to_uppercase()).unwrap_or_else(|| with_iota(c).unwrap_or(c))
}

/// The small letter of this one.
pub fn lower(c: char) -> char {
    // Only this letter becomes two: i and a dot above.
    single(c.to_lowercase()).unwrap_or(if c == '\u{130}' { 'i' } else { c })
}

/// The title case of this letter, which may be several letters.
pub fn title(c: char) -> String {
    if let Some(both) = begins_word(c).or_else(|| with_iota(c)) {
        return both.into();
    }
    let mut large: Vec<char> = c.to_uppercase().collect();
    match large[..] {
        [one] => one.into(),
        // An n with an apostrophe before it.
        ['\u{2bc}', ..] => large.into_iter().collect(),
        _ => {
            // An iota that was below the letter stays there. The letters after the first one are small.
            if let Some(last) = large.last_mut().filter(|last| **last == '\u{399}') {
                *last = '\u{345}';
            }
            large
                .iter()
                .enumerate()
                .map(|(at, letter)| if at == 0 { *letter } else { lower(*letter) })
                .collect()
        }
    }
}

/// A letter that is large or small, or begins a word.
pub fn is_cased(c: char) -> bool {
    c.is_lowercase() || c.is_uppercase() || begins_word(c) == Some(c)
}

fn single(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next()?;
    letters.next().is_none().then_some(first)
}

/// The title-case form of a letter that combines two, with only the first one large. Greek and Georgian title-case letters stay as
/// they are.
fn begins_word(c: char) -> Option<char> {
    match c {
        '\u{1c4}'..='\u{1c6}' => Some('\u{1c5}'),
        '\u{1c7}'..='\u{1c9}' => Some('\u{1c8}'),
        '\u{1ca}'..='\u{1cc}' => Some('\u{1cb}'),
        '\u{1f1}'..='\u{1f3}' => Some('\u{1f2}'),
        '\u{1f88}'..='\u{1f8f}' | '\u{1f98}'..='\u{1f9f}' | '\u{1fa8}'..='\u{1faf}' => Some(c),
        '\u{1fbc}' | '\u{1fcc}' | '\u{1ffc}' | '\u{10d0}'..='\u{10fa}' | '\u{10fd}'..='\u{10ff}' => Some(c),
        _ => None,
    }
}

/// Greek small letters with an iota below, whose large form is also one letter.
fn with_iota(c: char) -> Option<char> {
    let ahead = match c {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => return None,
    };
    char::from_u32(u32::from(c) + ahead)
}
