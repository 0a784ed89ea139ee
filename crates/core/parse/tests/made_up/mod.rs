//! Made-up texts of surveys, from the descriptions of their sources: two instances of each kind, and a number for each entry, or
//! for some of them.

use std::fmt::Write;

use khz_model::ValueType;
use khz_parse::tree::word_of;
use khz_parse::{Entry, KernelFile, Pieces, Subject};

/// The text of a tree of small files; `None`: the source is of another kind.
pub fn tree_text(
    file: &KernelFile,
    entries_max: usize,
    is_wanted: impl Fn(&Entry) -> bool,
) -> Option<String> {
    let Pieces::Survey { subject: Subject::Tree(_) | Subject::Sensors, .. } = file.pieces else {
        return None;
    };
    let (mut text, mut number) = (String::new(), 100);
    for groups in file.groups.chunk_by(|a, b| a.line_kind() == b.line_kind()) {
        for instance in ["a", "b\\040c"] {
            let _ = write!(text, "{} {instance}", groups[0].line_kind());
            for label in groups[0].instance_labels {
                let _ = write!(text, " {label}=x{instance}");
            }
            // Some of all of them: sensors have 146.
            let entries = groups.iter().flat_map(|group| group.entries).filter(|entry| is_wanted(entry));
            let entries: Vec<&Entry> = entries.collect();
            for entry in entries.iter().step_by(entries.len().div_ceil(entries_max).max(1)) {
                number += 7;
                let _ = match entry.value_type {
                    ValueType::Labels => write!(text, " :label=d"),
                    _ if entry.max == Some(1) => write!(text, " {}=1", word_of(entry)),
                    _ => write!(text, " {}={number}", word_of(entry)),
                };
            }
            text.push('\n');
        }
    }
    Some(text)
}
