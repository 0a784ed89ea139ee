//! What the writer of an unreadable name probably meant: the same name, with its special characters
//! escaped.

use khz_model::labels::is_label_name;
use khz_model::{Instance, Labels, SeriesName};

/// A name that can be read, in place of `spelled`, which cannot; `None` if the brackets are not what is wrong.
///
/// A part between commas that is no label belongs to the previous part: `[a,b]` was one name until instances had
/// labels. After labels without a name, it is the name.
pub(super) fn corrected(spelled: &str) -> Option<String> {
    let (metric, rest) = spelled.split_once('[')?;
    let inside = rest.strip_suffix(']')?;
    let mut name = String::new();
    let mut labels: Vec<(&str, String)> = Vec::new();
    for (number, part) in inside.split(',').enumerate() {
        match part.split_once('=') {
            // A label without a value is none.
            Some((label, "")) if is_label_name(label) => {}
            Some((label, value)) if is_label_name(label) => labels.push((label, unescaped(value))),
            // The name came after the labels.
            _ if number > 0 && name.is_empty() => name = unescaped(part),
            _ => {
                let before = labels.last_mut().map_or(&mut name, |(_, value)| value);
                if number > 0 {
                    before.push(',');
                }
                before.push_str(&unescaped(part));
            }
        }
    }
    let labels = Labels::new(labels.iter().map(|(name, value)| (*name, value.as_str()))).ok()?;
    let corrected = format!("{metric}[{}]", Instance::from_text(&name)?.with_labels(&labels));
    SeriesName::parse(&corrected).ok().map(|_| corrected)
}

/// Without `%XX`, if all of them can be read; a text that has a '%' of its own stays as it is.
fn unescaped(text: &str) -> String {
    // '=' and ',' would begin labels here.
    let text_alone = text.replace('=', "%3D");
    match Instance::parse(&text_alone) {
        Ok(instance) => instance.name().to_owned(),
        Err(_) => text.to_owned(),
    }
}
