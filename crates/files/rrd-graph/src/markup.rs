//! Pango's markup (`--pango-markup`): the letters that it shows. Khz has one font, so bold and large letters look as others.

/// The tags of Pango's markup; `span` alone has attributes.
const TAGS: [&str; 11] = ["b", "big", "i", "markup", "s", "small", "span", "sub", "sup", "tt", "u"];

/// The most tags in each other.
const DEPTH_MAX: usize = 100;

/// The letters of a text with markup. Wrong markup is shown as it is; rrdtool shows the text before it in its place.
pub fn shown(text: &str) -> String {
    letters(text).unwrap_or_else(|| text.to_owned())
}

fn letters(text: &str) -> Option<String> {
    let (mut all, mut rest, mut open) = (String::new(), text, Vec::new());
    while let Some(at) = rest.find(['<', '&']) {
        all.push_str(&rest[..at]);
        let is_tag = rest[at..].starts_with('<');
        let (inner, after) = rest[at + 1..].split_once(if is_tag { '>' } else { ';' })?;
        match is_tag {
            true => tag(inner, &mut open)?,
            false => all.push(entity(inner)?),
        }
        rest = after;
    }
    all.push_str(rest);
    open.is_empty().then_some(all)
}

/// Opens or closes what a tag says.
fn tag<'a>(inner: &'a str, open: &mut Vec<&'a str>) -> Option<()> {
    if let Some(name) = inner.strip_prefix('/') {
        return (open.pop()? == name.trim_end()).then_some(());
    }
    let (inner, is_empty) = match inner.strip_suffix('/') {
        Some(inner) => (inner, true),
        None => (inner, false),
    };
    let (name, attributes) = inner.split_once(char::is_whitespace).unwrap_or((inner, ""));
    let may_have = name == "span" || attributes.trim().is_empty();
    if !TAGS.contains(&name) || !may_have || !are_attributes(attributes) || open.len() == DEPTH_MAX {
        return None;
    }
    if !is_empty {
        open.push(name);
    }
    Some(())
}

/// True for `NAME="VALUE"` or `NAME='VALUE'`, as often as they come.
fn are_attributes(text: &str) -> bool {
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else { return false };
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            return false;
        };
        let Some((_, after)) = after[1..].split_once(quote) else { return false };
        if name.trim().is_empty() || name.trim().contains(char::is_whitespace) {
            return false;
        }
        rest = after.trim_start();
    }
    true
}

/// The letter of `&NAME;`.
fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => {}
    }
    let number = name.strip_prefix('#')?;
    let code = match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    code.ok().and_then(char::from_u32).filter(|letter| *letter != '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_shows_its_letters_and_wrong_markup_is_shown_as_it_is() {
        for (text, letters) in [
            ("plain", "plain"),
            ("<b>bold</b> and <span foreground='red' size=\"x-small\">red</span>", "bold and red"),
            ("a &lt; b &amp; c &#62; &#x3a9;", "a < b & c > Ω"),
            ("<i><b>x</b></i>", "x"),
        ] {
            assert_eq!(shown(text), letters, "{text}");
        }
        let wrong = [
            "<b>x",
            "<b><i>x</b></i>",
            "<blink>x</blink>",
            "<b size='1'>x</b>",
            "<>",
            "a & b",
            "a < b",
            "&nbsp;",
        ];
        for text in wrong {
            assert_eq!(shown(text), text);
        }
    }
}
