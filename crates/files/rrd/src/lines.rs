//! Text in lines of 80 columns; a word is never cut.

/// Columns of a line.
pub const WIDTH: usize = 80;

/// `first` and `text`, broken between words; each further line begins with `next`. Ends with a line break.
pub fn wrapped(first: &str, next: &str, text: &str) -> String {
    let (mut lines, mut line, mut is_bare) = (String::new(), first.to_string(), true);
    for word in text.split_whitespace() {
        let width = line.chars().count() + usize::from(!is_bare) + word.chars().count();
        if width > WIDTH && !is_bare {
            lines.push_str(&line);
            lines.push('\n');
            (line, is_bare) = (next.to_string(), true);
        }
        if !is_bare {
            line.push(' ');
        }
        line.push_str(word);
        is_bare = false;
    }
    lines + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_at_80_columns() {
        let text = wrapped("- ", "  ", &"word ".repeat(20));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, [format!("- {}word", "word ".repeat(14)), format!("  {}word", "word ".repeat(4))]);
    }

    #[test]
    fn a_word_too_long_for_a_line_has_its_own() {
        let path = "/".repeat(90);
        assert_eq!(wrapped("", "  ", &format!("in {path} now")), format!("in\n  {path}\n  now\n"));
    }
}
