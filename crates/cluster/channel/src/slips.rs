//! What people write who know another language: `=<`, `&&`, `AND`, `or`. Says what to write instead, and at which column.

/// Words of other languages, and what to write in a simple condition and in PromQL.
const WORDS: &[(&str, &str)] = &[("=<", "<="), ("=>", ">="), ("&&", "and"), ("||", "or")];

/// Where `piece`, which is a part of `text`, begins: `column 7`.
pub(crate) fn column(text: &str, piece: &str) -> String {
    let at = (piece.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    let before = text.char_indices().take_while(|(start, _)| *start < at).count();
    format!("column {}", before + 1)
}

/// The text with everything between brackets, braces and quotes made invisible: these are names.
fn without_names(text: &str) -> String {
    let (mut depth, mut quote) = (0u32, None);
    let visible = |c: char| {
        let is_hidden = depth > 0 || quote.is_some();
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        // As many bytes as it had, so that places stay.
        if is_hidden { "_".repeat(c.len_utf8()) } else { c.to_string() }
    };
    text.chars().map(visible).collect()
}

fn instead(text: &str, at: usize, word: &str, right: &str) -> String {
    format!("write '{right}' instead of '{word}' ({})", column(text, &text[at..]))
}

/// What is wrong with a simple condition (`khz wait`), if it has such a word.
pub(crate) fn of_condition(text: &str) -> Option<String> {
    let shown = without_names(text);
    let find = |word: &str| shown.to_ascii_lowercase().find(word);
    if let Some(at) = find(" or ").map(|at| at + 1).or_else(|| find("||")) {
        let word = text.get(at..at + 2).unwrap_or("or");
        let place = column(text, &text[at..]);
        return Some(format!(
            "'{word}' is not for simple conditions: wait for each part by itself, or write the whole in PromQL (--expr) ({place})"
        ));
    }
    let known = WORDS.iter().find_map(|(word, right)| Some(instead(text, find(word)?, word, right)));
    let and = || {
        let at = find(" and ").filter(|at| text.get(at + 1..at + 4).is_some_and(|word| word != "and"))? + 1;
        Some(instead(text, at, &text[at..at + 3], "and"))
    };
    let single = || {
        let bytes = shown.as_bytes();
        let is_alone = |at: &usize| {
            let beside = [at.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(at + 1)];
            bytes[*at] == b'=' && !beside.iter().flatten().any(|byte| b"=<>!".contains(byte))
        };
        let at = (0..bytes.len()).find(is_alone)?;
        Some(instead(text, at, "=", "=="))
    };
    known.or_else(and).or_else(single)
}

/// What to write instead in an expression in PromQL that cannot be read, if it has such a word.
pub(crate) fn of_expression(text: &str) -> Option<String> {
    let shown = without_names(text);
    WORDS.iter().find_map(|(word, right)| Some(instead(text, shown.find(word)?, word, right)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_no_slips() {
        for text in ["net.rx_bytes[a or b] > 1", "job.done[x=1,y=2] == 3", "load.1m != 1 and load.5m >= 2"] {
            assert_eq!(of_condition(text), None, "{text}");
        }
        assert_eq!(of_expression("{device=\"a||b\"} > 1"), None);
        assert_eq!(
            of_expression("a > 1 && b > 2").as_deref(),
            Some("write 'and' instead of '&&' (column 7)")
        );
        assert_eq!(of_expression("{x=\"é\"} =< 1").as_deref(), Some("write '<=' instead of '=<' (column 9)"));
    }

    proptest! {
        #[test]
        fn any_text_has_a_slip_or_none(text in "[a-zé\\[\\]{}\"'=<>&| ANDORandor.0-9]{0,40}") {
            let _ = (of_condition(&text), of_expression(&text));
        }
    }
}
