//! Descriptions: sources whose reading is a set of labels, not a number. It makes labels from any bytes of the
//! kernel. Each source decides which labels there are.

use std::collections::BTreeMap;

use khz_model::Labels;
use khz_model::instance::kernel_text;

use crate::sink::Sink;

/// The longest value of a label in bytes; the rest is cut off, and "…" says so. Twenty labels, as firmware has them,
/// then fit into [`khz_model::labels::LABELS_BYTES_MAX`] whatever the firmware wrote.
pub const DESCRIPTION_VALUE_MAX: usize = 180;

/// The longest label `path` of a survey: as long as the name of an instance. That of a container of Kubernetes has 190 bytes.
pub const DESCRIPTION_PATH_MAX: usize = khz_model::instance::INSTANCE_MAX;

/// The end of a value that was cut.
const CUT: char = '…';

/// Reads lines `label=value` ([`crate::Pieces::Folder`]) into the labels of the file's only metric.
pub fn parse(sink: &mut Sink<'_>) {
    let text = sink.text();
    let mut found = BTreeMap::new();
    sink.lines(|_, line| {
        if let Some((label, value)) = split(&text[line]) {
            found.insert(label, value);
        }
    });
    describe(sink, found);
}

/// Splits `name=value`.
pub(crate) fn split(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(|&byte| byte == b'=')?;
    Some((std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]))
}

/// Reports these labels as the reading of the file's only metric. Without any, the text is faulty.
pub(crate) fn describe<'a>(
    sink: &mut Sink<'_>,
    found: impl IntoIterator<Item = (&'a str, impl AsRef<[u8]>)>,
) {
    let values: Vec<(&str, String)> = found
        .into_iter()
        .map(|(label, value)| (label, shortened(label, kernel_text(value.as_ref()))))
        .collect();
    let labels = Labels::new(values.iter().map(|(label, value)| (*label, value.as_str())));
    match labels {
        Ok(labels) if labels.is_empty() => {}
        Ok(labels) => sink.describe(0, labels),
        Err(_) => sink.note(String::from("the text"), "these are no labels"),
    }
}

/// The value of this label; of one that is longer than [`DESCRIPTION_VALUE_MAX`], only the beginning and a mark.
pub(crate) fn shortened(label: &str, mut text: String) -> String {
    let most = if label == "path" { DESCRIPTION_PATH_MAX } else { DESCRIPTION_VALUE_MAX };
    if text.len() > most {
        let end = text.floor_char_boundary(most - CUT.len_utf8());
        text.truncate(end);
        text.push(CUT);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{KernelFile, Outcome, Parser};
    use khz_model::labels::LABELS_BYTES_MAX;
    use khz_model::{Fault, Reading};

    /// The labels of the only metric of a file, as a text.
    pub(crate) fn labels(parser: &Parser) -> String {
        parser.reading(0).unwrap().labels().unwrap().to_string()
    }

    /// What a text means as this file.
    pub(crate) fn read(file: &'static KernelFile, text: impl AsRef<[u8]>) -> String {
        let mut parser = Parser::new(file);
        parser.advance_with(text.as_ref());
        assert_eq!(parser.faults(), []);
        labels(&parser)
    }

    #[test]
    fn an_equal_text_is_no_new_reading_and_another_text_is_one_in_the_same_slot() {
        let mut parser = Parser::new(&crate::uname::FILE);
        assert_eq!(parser.advance_with(b"nodename=a\nrelease=6.18\n"), Outcome::Full);
        assert_eq!((parser.changed(), labels(&parser).as_str()), (&[0][..], "nodename=a,release=6.18"));
        assert_eq!(parser.advance_with(b"nodename=a\nrelease=6.18\n"), Outcome::InPlace);
        assert_eq!(parser.changed(), [0; 0]);
        // As long as the last text, and longer.
        for (text, found) in
            [("nodename=b\nrelease=6.18\n", "nodename=b,release=6.18"), ("nodename=c1\n", "nodename=c1")]
        {
            parser.advance_with(text.as_bytes());
            assert_eq!((parser.changed(), labels(&parser).as_str()), (&[0][..], found));
        }
        assert_eq!(parser.schema().len(), 1);
    }

    #[test]
    fn bytes_of_any_kind_become_labels() {
        let read = |text: &[u8]| read(&crate::dmi::FILE, text);
        assert_eq!(read(b"board_name=a=b,\"c\"\n"), "board_name=a%3Db%2C%22c%22");
        assert_eq!(read(b"board_name=\xff\x00\x1b[2J\n"), "board_name=%5CxFF%5Cx00%1B%5B2J");
        assert_eq!(read(b"board_name=\xc3\xa9\nboard_name=second\n"), "board_name=second");
    }

    #[test]
    fn the_longest_values_of_all_labels_fit_together() {
        let crate::Pieces::Folder(files) = crate::dmi::FILE.pieces else { panic!() };
        for value in ["x".repeat(4_000).into_bytes(), vec![0xff; 4_000], "é".repeat(2_000).into_bytes()] {
            let lines = files.iter().map(|file| [file.label.as_bytes(), b"=", &value, b"\n"].concat());
            let mut parser = Parser::new(&crate::dmi::FILE);
            parser.advance_with(&lines.collect::<Vec<_>>().concat());
            let labels = parser.reading(0).unwrap().labels().unwrap();
            assert_eq!(labels.iter().count(), files.len());
            assert!(labels.bytes() <= LABELS_BYTES_MAX);
            assert!(
                labels.iter().all(|(_, value)| value.ends_with('…') && value.len() <= DESCRIPTION_VALUE_MAX)
            );
        }
    }

    #[test]
    fn a_text_without_a_label_is_faulty() {
        for text in ["", "\n", "no sign\n", "=x\n", "a b=x\n", "nodename=a"] {
            let mut parser = Parser::new(&crate::uname::FILE);
            parser.advance_with(text.as_bytes());
            assert_eq!(parser.reading(0), Some(Reading::Failed(Fault::Malformed)), "{text:?}");
            assert!(!parser.faults().is_empty());
        }
    }
}
