//! Where something stands in a text, for people: the line and the column. It reads no texts.

/// Line and column of a byte, both from 1; the column counts characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at.min(text.len()))];
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_from_one() {
        let text = "ä=1\n\nb";
        let places = [0, 1, 2, 3, 4, 5, 6, 7, 99].map(|at| line_and_column(text, at));
        // Byte 1 is inside the first character, byte 4 the first newline.
        assert_eq!(places, [(1, 1), (1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (3, 1), (3, 2), (3, 2)]);
    }
}
