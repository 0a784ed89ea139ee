//! How a name from outside is written where marks have a meaning: `%XX` for each byte of such a character.

use std::fmt;

use crate::name::NameError;
use crate::printable::is_hidden;

/// Characters with a meaning in a series name, a pattern, a path or a shell word, and hidden ones, which would
/// make a name look like another one.
fn is_escaped(c: char) -> bool {
    matches!(c, '%' | '[' | ']' | ':' | '*' | '?' | '/' | '\\' | ',' | '=' | '"' | '\'')
        || c.is_control()
        || c.is_whitespace()
        || is_hidden(c)
}

/// Writes `name` escaped.
pub(crate) fn escape(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // As file names, "." and ".." would be directories.
    if name == "." || name == ".." {
        return f.write_str(&name.replace('.', "%2E"));
    }
    for c in name.chars() {
        if is_escaped(c) {
            let mut utf8 = [0; 4];
            c.encode_utf8(&mut utf8).bytes().try_for_each(|b| write!(f, "%{b:02X}"))?;
        } else {
            fmt::Write::write_char(f, c)?;
        }
    }
    Ok(())
}

/// Undoes [`escape`] for `text`, which begins at byte `at` of `whole` (for the error's column). Globs pass
/// unchanged.
pub(crate) fn unescape(text: &str, at: usize, whole: &str) -> Result<String, NameError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes().enumerate();
    while let Some((i, b)) = rest.next() {
        if b != b'%' {
            bytes.push(b);
            continue;
        }
        let digits = text.as_bytes().get(i + 1..i + 3).and_then(|d| std::str::from_utf8(d).ok());
        let byte = digits
            .filter(|d| d.bytes().all(|d| d.is_ascii_hexdigit()))
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        let byte = byte.ok_or_else(|| {
            NameError::new(whole, at + i, "'%' needs two hex digits after it; '%' itself is %25")
        })?;
        bytes.push(byte);
        rest.nth(1);
    }
    String::from_utf8(bytes).map_err(|_| NameError::new(whole, at, "the escaped bytes are not UTF-8"))
}
