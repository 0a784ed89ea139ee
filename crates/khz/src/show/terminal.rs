//! The terminal that stdout or stderr goes to, if it is one: its size, and what it understands.

use std::io::IsTerminal;

/// No terminal is wider or higher; a larger number in COLUMNS is a mistake, and would cost memory for each line.
const CELLS_MAX: usize = 4_096;
/// A terminal that does not know its size.
const USUAL: (usize, usize) = (80, 24);

/// Columns and lines of the terminal that stdout goes to; `None` when it is a file or a pipe.
pub fn size() -> Option<(usize, usize)> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let (columns, lines) = match rustix::termios::tcgetwinsize(&stdout) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => USUAL,
    };
    let wanted = number_of(std::env::var("COLUMNS").ok().as_deref());
    Some((wanted.unwrap_or(columns).min(CELLS_MAX), lines.min(CELLS_MAX)))
}

/// Columns of the terminal that stderr goes to.
pub fn stderr_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Columns of the terminal that stdout goes to.
pub fn width() -> Option<usize> {
    size().map(|(columns, _)| columns)
}

/// The terminal obeys escape sequences: it has colours, and its cursor can go up. TERM names no such terminal if it is unset
/// or `dumb`.
pub fn obeys_escapes() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// The locale says that the terminal shows UTF-8.
pub fn has_unicode() -> bool {
    is_utf8(|name| std::env::var(name).ok())
}

/// As setlocale(3): the first of these variables that is not empty decides.
fn is_utf8(value: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(value).find(|text| !text.is_empty());
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// The columns that somebody wants by COLUMNS. `ps`, `ls` and `man` take it, too.
fn number_of(text: Option<&str>) -> Option<usize> {
    text?.parse().ok().filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides_about_utf_8() {
        let of = |set: &'static [(&str, &str)]| {
            is_utf8(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        };
        assert!(of(&[("LANG", "en_US.UTF-8")]) && of(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!of(&[]) && !of(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]) && !of(&[("LANG", "POSIX")]));
    }

    #[test]
    fn columns_that_are_no_number_do_not_count() {
        for (text, number) in
            [(Some("40"), Some(40)), (Some("0"), None), (Some("-1"), None), (Some("x"), None), (None, None)]
        {
            assert_eq!(number_of(text), number);
        }
    }
}
