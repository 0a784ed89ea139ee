//! The finished table of an export, as XML and as JSON.

use crate::number::{UNKNOWN, scaled_text};

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The end of the first row.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) step: u64,
    pub(super) legends: Vec<String>,
    pub(super) columns: Vec<Vec<f64>>,
}

impl Table {
    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// The end of row `index`.
    fn time(&self, index: usize) -> i64 {
        self.start + index as i64 * self.step as i64
    }

    fn value(&self, column: usize, row: usize) -> f64 {
        self.columns[column].get(row).copied().unwrap_or(UNKNOWN)
    }

    /// As XML; `times` adds a `<t>` to each row, `numbered` counts the value elements.
    pub fn xml(&self, times: bool, numbered: bool) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n\n<xport>\n  <meta>\n");
        let rows = self.rows();
        text.push_str(&format!("    <start>{}</start>\n    <end>{}</end>\n", self.start, self.end));
        text.push_str(&format!("    <step>{}</step>\n    <rows>{rows}</rows>\n", self.step));
        text.push_str(&format!("    <columns>{}</columns>\n    <legend>\n", self.columns.len()));
        for legend in &self.legends {
            let legend = legend.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            text.push_str(&format!("      <entry>{legend}</entry>\n"));
        }
        text.push_str("    </legend>\n  </meta>\n  <data>\n");
        for row in 0..rows {
            text.push_str("    <row>");
            if times {
                text.push_str(&format!("<t>{}</t>", self.time(row)));
            }
            for column in 0..self.columns.len() {
                let tag = if numbered { format!("v{column}") } else { "v".into() };
                text.push_str(&format!("<{tag}>{}</{tag}>", scaled_text(self.value(column, row))));
            }
            text.push_str("</row>\n");
        }
        text.push_str("  </data>\n</xport>\n");
        text
    }

    /// As JSON; `times` puts the time before each row.
    pub fn json(&self, times: bool) -> String {
        let mut text = String::from("{ \"about\": \"RRDtool graph JSON output\",\n  \"meta\": {\n");
        text.push_str(&format!("    \"start\": {},\n    \"end\": {},\n", self.start, self.end));
        text.push_str(&format!("    \"step\": {},\n    \"legend\": [\n", self.step));
        let quoted = |text: &String| format!("      \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        text.push_str(&self.legends.iter().map(quoted).collect::<Vec<_>>().join(",\n"));
        text.push_str("\n          ]\n     },\n  \"data\": [\n");
        let lines: Vec<String> = (0..self.rows())
            .map(|row| {
                let value = |column| match self.value(column, row) {
                    value if !value.is_finite() => "null".into(),
                    value => scaled_text(value),
                };
                let values: Vec<String> = (0..self.columns.len()).map(value).collect();
                let time = if times { format!("\"{}\",", self.time(row)) } else { String::new() };
                format!("    [ {time}{} ]", values.join(", "))
            })
            .collect();
        text.push_str(&lines.join(",\n"));
        text.push_str(if lines.is_empty() { "  ]\n}\n" } else { "\n  ]\n}\n" });
        text
    }
}
