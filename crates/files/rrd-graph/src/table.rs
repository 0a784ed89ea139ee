//! The rows of what is drawn and exported, in formats for programs.

use khz_rrd::error::{Result, refused};
use khz_rrd::number::{UNKNOWN, scaled_text};
use khz_rrd::xport::{Plan, check_rows};

use crate::element::{Action, Element, Kind, Subject};
use crate::options::Output;
use crate::prints::Values;

struct Table {
    start: i64,
    end: i64,
    step: u64,
    legends: Vec<String>,
    columns: Vec<Vec<f64>>,
    /// Kind and text of each legend.
    texts: Vec<(&'static str, String)>,
    prints: Vec<String>,
}

/// The table as text.
///
/// # Errors
/// There is no column.
pub fn table(
    elements: &[Element],
    prints: &[String],
    values: &Values<'_>,
    plan: &Plan,
    output: Output,
) -> Result<String> {
    let table = built(elements, prints, values, plan)?;
    Ok(match output {
        Output::Json { times } => table.json(times),
        Output::Xml { numbered } => table.xml(numbered),
        Output::Csv(separator) => table.csv(separator),
        Output::Png | Output::Svg => table.csv(','),
    })
}

fn built(elements: &[Element], prints: &[String], values: &Values<'_>, plan: &Plan) -> Result<Table> {
    let (mut of, mut legends, mut texts) = (vec![], vec![], vec![]);
    for element in elements {
        let text = without_control(&element.legend);
        match &element.action {
            Action::Curve { of: subject, kind, .. } => {
                texts.push((if matches!(kind, Kind::Line(_)) { "line" } else { "area" }, text.clone()));
                (of.push(*subject), legends.push(text)).0
            }
            Action::Export { of: subject } => (of.push(*subject), legends.push(text)).0,
            Action::Print { is_legend: true, .. } => texts.push(("gprint", text)),
            Action::Comment => texts.push(("comment", text)),
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
    let rows = ((end - start) / signed).max(1);
    check_rows(rows.saturating_mul(of.len() as i64))?;
    let column = |subject: &Subject| match subject {
        Subject::Number(value) => vec![*value; rows as usize],
        Subject::Named(index) => {
            let column = &values.columns[*index];
            (0..rows).map(|row| column.at(start + (row + 1) * signed)).collect()
        }
    };
    let columns = of.iter().map(column).collect();
    Ok(Table { start: start + signed, end, step, legends, columns, texts, prints: prints.to_vec() })
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

/// A legend without the control letter at its end.
fn without_control(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next_back(), letters.next_back()) {
        (Some(_), Some('\\')) => letters.as_str().into(),
        _ => text.into(),
    }
}

impl Table {
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
        let quoted = |text: &str| format!("{separator}\"{}\"", text.replace('"', "\"\""));
        let mut out = String::from("\"time\"");
        self.legends.iter().for_each(|legend| out.push_str(&quoted(legend)));
        out.push_str("\r\n");
        for row in 0..self.rows() {
            out.push_str(&self.time(row).to_string());
            self.values(row).for_each(|value| out.push_str(&quoted(&scaled_text(value))));
            out.push_str("\r\n");
        }
        out
    }

    fn xml(&self, numbered: bool) -> String {
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n\n<xport>\n  <meta>\n");
        out.push_str(&format!("    <start>{}</start>\n    <end>{}</end>\n", self.start, self.end));
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
            out.push_str(&format!("    <row><t>{}</t>", self.time(row)));
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
        out.push_str(&format!("    \"start\": {},\n    \"end\": {},\n", self.start, self.end));
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
            let time = if times { format!("\"{}\",", self.time(row)) } else { String::new() };
            format!("    [ {time}{} ]", values.join(", "))
        };
        out.push_str(&(0..self.rows()).map(row).collect::<Vec<_>>().join(",\n"));
        out.push_str("\n  ]\n}\n");
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
