//! What goes over slow lines: scripts, style sheets and pages without comments, indents and empty lines. It refuses to change
//! anything else: a name stays what it is, and what stands within a text of several lines too.

/// The kinds of files that can be shortened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Script,
    Style,
    Page,
}

/// The text without the lines that are only a comment, without empty lines, and without indents.
pub fn shorter(text: &str, kind: Kind) -> Result<String, String> {
    let mut shorter = String::with_capacity(text.len());
    let (mut is_comment, mut is_text) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if !is_text && kind != Kind::Page {
            let is_begun = is_comment || trimmed.starts_with("/*");
            is_comment = is_begun && !trimmed.contains("*/");
            // Something behind the end of a comment stays.
            if is_begun && (is_comment || trimmed.ends_with("*/"))
                || kind == Kind::Script && trimmed.starts_with("//")
            {
                continue;
            }
        }
        if is_text {
            shorter.push_str(line);
        } else if trimmed.is_empty() {
            continue;
        } else {
            shorter.push_str(line.trim_start());
        }
        shorter.push('\n');
        is_text ^= kind == Kind::Script && line.matches('`').count() % 2 == 1;
    }
    if is_comment || is_text {
        return Err("a comment or a text does not end".to_owned());
    }
    Ok(shorter)
}
