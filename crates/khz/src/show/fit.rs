//! Text in the columns of a terminal: how many it takes, and the same text shortened or broken to fit. A column is a cell of
//! the terminal's grid: a Chinese character takes two, a combining accent none. Knows nothing of tables and colours.

use unicode_width::UnicodeWidthChar;

/// In place of what was cut.
pub const ELLIPSIS: char = '…';

/// How many columns a terminal uses for this text. Terminals place character after character, so it is the sum.
pub fn columns(text: &str) -> usize {
    text.chars().map(of_char).sum()
}

/// Control characters take no column; [`printable`](super::table::printable) has replaced them.
fn of_char(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// `text` in at most `width` columns; `…` replaces its end.
pub fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        _ => format!("{}{ELLIPSIS}", head(text, width - 1)),
    }
}

/// `text` in at most `width` columns; `…` replaces its beginning.
pub fn cut_front(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        _ => format!("{ELLIPSIS}{}", tail(text, width - 1)),
    }
}

/// `text` in at most `width` columns; `…` replaces its middle. Names of nodes and series differ at both ends.
pub fn cut_middle(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let Some(room) = width.checked_sub(1) else { return String::new() };
    let tail = tail(text, room / 2);
    let head = head(text, room - columns(tail));
    format!("{head}{ELLIPSIS}{tail}")
}

/// The longest beginning of at most `width` columns. A combining character stays with the one before it.
fn head(text: &str, width: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += of_char(*c);
        used > width
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// The longest end of at most `width` columns. It begins with no combining character.
fn tail(text: &str, width: usize) -> &str {
    let (mut used, mut start) = (0, text.len());
    for (at, c) in text.char_indices().rev() {
        used += of_char(c);
        if used > width {
            break;
        }
        if of_char(c) > 0 {
            start = at;
        }
    }
    &text[start..]
}

/// `text` in lines of at most `width` columns, broken at blanks where there are any, and inside words that are longer than a line.
/// At least one line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut lines, mut used) = (vec![String::new()], 0);
    for word in text.split_whitespace() {
        let size = columns(word);
        let mut rest = word;
        if used > 0 && used + 1 + size <= width {
            push(&mut lines, " ");
            used += 1;
        } else if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        while used + columns(rest) > width {
            // A character that is wider than a line has a line of its own.
            let first = rest.chars().next().map_or(0, char::len_utf8);
            let (line, more) = rest.split_at(head(rest, width).len().max(first));
            push(&mut lines, line);
            if more.is_empty() {
                used = columns(line);
                rest = more;
                break;
            }
            lines.push(String::new());
            rest = more;
        }
        push(&mut lines, rest);
        used += columns(rest);
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 6] =
        ["", "node017:net.rx_bytes[eth0]", "名前:ディスク", "e\u{301}te\u{301}", "a名b", "\u{301}"];

    #[test]
    fn wide_characters_take_two_columns_and_combining_ones_none() {
        assert_eq!(TEXTS.map(columns), [0, 26, 13, 3, 4, 0]);
    }

    #[test]
    fn no_cut_is_wider_than_it_may_be_and_none_is_made_where_the_text_fits() {
        for text in TEXTS {
            for width in 0..30 {
                for cut in [cut(text, width), cut_middle(text, width)] {
                    assert!(columns(&cut) <= width, "{text:?} in {width}: {cut:?}");
                    assert!(columns(text) > width || cut == text, "{text:?} in {width}: {cut:?}");
                }
            }
        }
    }

    #[test]
    fn a_name_keeps_both_ends_and_a_sentence_its_beginning() {
        assert_eq!(cut_middle("node017:net.rx_bytes[eth0]", 13), "node01…[eth0]");
        assert_eq!(cut("memory nobody uses", 10), "memory no…");
        assert_eq!(cut_front("gpu-rack-a-node1", 8), "…a-node1");
        assert_eq!(cut_middle("名前:ディスク", 8), "名前:…ク", "no character is halved");
        assert_eq!(cut("e\u{301}te\u{301}s", 3), "e\u{301}t…", "an accent stays at its letter");
    }

    #[test]
    fn lines_are_broken_at_blanks_and_long_words_inside() {
        assert_eq!(wrapped("memory nobody uses at all", 13), ["memory nobody", "uses at all"]);
        assert_eq!(wrapped("a khz.hub.rows_awaited b", 8), ["a", "khz.hub.", "rows_awa", "ited b"]);
        assert_eq!(wrapped("", 8), [""]);
        for text in TEXTS {
            for width in 0..9 {
                let lines = wrapped(text, width);
                let all: String = lines.concat();
                assert_eq!(all.replace(' ', ""), text.replace(' ', ""), "{width}");
                assert!(lines.iter().all(|line| columns(line) <= width.max(2)), "{lines:?} in {width}");
            }
        }
    }
}
