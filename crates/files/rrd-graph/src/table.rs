//! The rows of what is drawn and exported, in formats for programs.

use khz_rrd::error::{Result, refused};
use khz_rrd::number::{UNKNOWN, scaled_text};
use khz_rrd::xport::{Plan, check_rows};

use crate::element::{Action, Element, Kind, Subject};
use crate::options::{Options, Output};
use crate::prints::{self, Values};

/// A table.
pub struct Table {
    /// The end of the first row.
    pub start: i64,
    /// The end of the last row.
    pub end: i64,
    /// Seconds of a row.
    pub step: u64,
    legends: Vec<String>,
    columns: Vec<Vec<f64>>,
    /// Kind and text of each legend.
    texts: Vec<(&'static str, String)>,
    prints: Vec<String>,
    /// The format of the times; without it they are seconds.
    times: Option<String>,
}

/// The table of what is drawn and exported.
///
/// # Errors
/// There is no column.
pub fn table(
    elements: &[Element],
    prints: &[String],
    values: &Values<'_>,
    plan: &Plan,
    options: &Options,
) -> Result<Table> {
    let (mut of, mut legends, mut texts) = (vec![], vec![], vec![]);
    for element in elements {
        // Control letters stay. As in rrdtool, blanks before a column's name do not, but an area keeps them and those of its box.
        let text = &element.legend;
        let name = text.trim_start_matches(' ').to_string();
        match &element.action {
            Action::Curve { of: subject, kind, .. } => {
                texts.push(match kind {
                    Kind::Line(_) => ("line", name.clone()),
                    Kind::Area(_) if text.is_empty() => ("area", String::new()),
                    Kind::Area(_) => ("area", format!("  {text}")),
                });
                (of.push(*subject), legends.push(name)).0
            }
            Action::Export { of: subject } => (of.push(*subject), legends.push(name)).0,
            Action::Print { is_legend: true, .. } => texts.push(("gprint", text.clone())),
            Action::Comment => texts.push(("comment", text.clone())),
            Action::Align(align) => texts.push(("align", align.name().into())),
            _ => {}
        }
    }
    if of.is_empty() {
        return refused("no XPORT found, nothing to do");
    }
    let steps = of.iter().filter_map(|subject| match subject {
        Subject::Named(index) => Some(values.columns[*index].step),
        Subject::Number(_) => None,
    });
    let step = steps.reduce(common).unwrap_or_else(|| plan.step.max(1)).max(1);
    let signed = step as i64;
    let start = plan.start - plan.start.rem_euclid(signed);
    let end = plan.end + (signed - 1) - (plan.end + signed - 1).rem_euclid(signed);
    let rows = ((end - start) / signed).max(0);
    check_rows(rows.saturating_mul(of.len() as i64))?;
    let column = |subject: &Subject| match subject {
        Subject::Number(value) => vec![*value; rows as usize],
        Subject::Named(index) => {
            let column = &values.columns[*index];
            (0..rows).map(|row| column.at(start + (row + 1) * signed)).collect()
        }
    };
    let columns = of.iter().map(column).collect();
    let (prints, times) = (prints.to_vec(), options.table_times.clone());
    Ok(Table { start: start + signed, end, step, legends, columns, texts, prints, times })
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

impl Table {
    /// The table in the format that the options want.
    pub fn text(&self, options: &Options) -> String {
        match options.output {
            Output::Json { times } => self.json(times),
            Output::Xml { numbered } => self.xml(numbered),
            Output::Csv(separator) => self.csv(separator),
            Output::Png | Output::Svg => self.csv(','),
        }
    }

    /// A time in the format of the times.
    fn shown(&self, time: i64) -> String {
        match &self.times {
            Some(format) => prints::at(time, format),
            None => time.to_string(),
        }
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    fn time(&self, row: usize) -> i64 {
        self.start + row as i64 * self.step as i64
    }

    fn values(&self, row: usize) -> impl Iterator<Item = f64> + '_ {
        self.columns.iter().map(move |column| column.get(row).copied().unwrap_or(UNKNOWN))
    }

    fn csv(&self, separator: char) -> String {
        let in_quotes = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let time = |time: i64| match self.shown(time) {
            text if text.contains([separator, '"', '\r', '\n']) => in_quotes(&text),
            text => text,
        };
        let quoted = |text: &str| format!("{separator}{}", in_quotes(text));
        let mut out = String::from("\"time\"");
        self.legends.iter().for_each(|legend| out.push_str(&quoted(legend)));
        out.push_str("\r\n");
        for row in 0..self.rows() {
            out.push_str(&time(self.time(row)));
            self.values(row).for_each(|value| out.push_str(&quoted(&scaled_text(value))));
            out.push_str("\r\n");
        }
        out
    }

    fn xml(&self, numbered: bool) -> String {
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n\n<xport>\n  <meta>\n");
        let shown = |time: i64| escaped(&self.shown(time));
        let (start, end) = (shown(self.start), shown(self.end));
        out.push_str(&format!("    <start>{start}</start>\n    <end>{end}</end>\n"));
        out.push_str(&format!("    <step>{}</step>\n    <rows>{}</rows>\n", self.step, self.rows()));
        out.push_str(&format!("    <columns>{}</columns>\n    <legend>\n", self.columns.len()));
        self.legends
            .iter()
            .for_each(|legend| out.push_str(&format!("      <entry>{}</entry>\n", escaped(legend))));
        out.push_str("    </legend>\n");
        if !self.prints.is_empty() {
            out.push_str("    <prints>\n");
            self.prints
                .iter()
                .for_each(|print| out.push_str(&format!("        <print>{}</print>\n", escaped(print))));
            out.push_str("    </prints>\n");
        }
        if !self.texts.is_empty() {
            out.push_str("    <gprints>\n");
            let line = |(tag, text): &(&str, String)| format!("        <{tag}>{}</{tag}>\n", escaped(text));
            out.extend(self.texts.iter().map(line));
            out.push_str("    </gprints>\n");
        }
        out.push_str("  </meta>\n  <data>\n");
        for row in 0..self.rows() {
            out.push_str(&format!("    <row><t>{}</t>", shown(self.time(row))));
            for (column, value) in self.values(row).enumerate() {
                let tag = if numbered { format!("v{column}") } else { "v".into() };
                out.push_str(&format!("<{tag}>{}</{tag}>", scaled_text(value)));
            }
            out.push_str("</row>\n");
        }
        out.push_str("  </data>\n</xport>\n");
        out
    }

    fn json(&self, times: bool) -> String {
        let mut out = String::from("{ \"about\": \"RRDtool graph JSON output\",\n  \"meta\": {\n");
        let shown =
            |time: i64| if self.times.is_some() { json_text(&self.shown(time)) } else { time.to_string() };
        let (start, end) = (shown(self.start), shown(self.end));
        out.push_str(&format!("    \"start\": {start},\n    \"end\": {end},\n"));
        out.push_str(&format!("    \"step\": {},\n    \"legend\": [\n", self.step));
        let legends: Vec<String> =
            self.legends.iter().map(|text| format!("      {}", json_text(text))).collect();
        out.push_str(&legends.join(",\n"));
        out.push_str("\n          ]\n");
        let list = |name: &str, entries: Vec<String>| match entries.is_empty() {
            true => String::new(),
            false => format!("    ,\"{name}\": [\n{}\n        ]\n", entries.join(",\n")),
        };
        let entry = |tag: &str, text: &str| format!("        {{ \"{tag}\": {} }}", json_text(text));
        out.push_str(&list("prints", self.prints.iter().map(|print| entry("print", print)).collect()));
        out.push_str(&list("gprints", self.texts.iter().map(|(tag, text)| entry(tag, text)).collect()));
        out.push_str("     },\n  \"data\": [\n");
        let row = |row: usize| {
            let value = |value: f64| if value.is_finite() { scaled_text(value) } else { "null".into() };
            let values: Vec<String> = self.values(row).map(value).collect();
            let time = if times { json_text(&self.shown(self.time(row))) + "," } else { String::new() };
            format!("    [ {time}{} ]", values.join(", "))
        };
        let rows: Vec<String> = (0..self.rows()).map(row).collect();
        out.push_str(&rows.join(",\n"));
        out.push_str(if rows.is_empty() { "  ]\n}\n" } else { "\n  ]\n}\n" });
        out
    }
}

/// A text in quotes, every special character escaped.
fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}
