//! The latest readings as a table, as JSON or as a Java property file.

use std::io::Write;

use khz_ask::{Answer, NodeAnswer, SeriesAnswer, State};
use khz_model::{Nanos, moment};
use serde_json::{Map, Value, json};

use super::{Format, properties};
use crate::show::matrix::Matrix;
use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Side, Table, json_line, printable};
use crate::show::{misses, quantities};

/// Prints the answer; `width` is that of the terminal, where stdout is one. Of a past moment the table has how old each
/// reading was then. Remarks go to `remarks` (stderr).
pub fn print(
    answer: &Answer,
    format: Format,
    at: Option<Nanos>,
    width: Option<usize>,
    out: &mut impl Write,
    remarks: &mut impl Write,
) -> Outcome {
    match format {
        Format::Table => {
            let across = if at.is_none() { across(answer, width) } else { None };
            let table = across.unwrap_or_else(|| table(answer, at));
            out.write_all(table.render(width).as_bytes())?;
        }
        Format::Json => {
            for (node, series) in each(answer) {
                writeln!(out, "{}", json_line(&object(node, series)))?;
            }
        }
        Format::Properties => {
            let left_out = write_properties(answer, out)?;
            if left_out > 0 {
                let are = if left_out == 1 { "series is" } else { "series are" };
                writeln!(remarks, "khz: {left_out} {are} left out: absent or failed, see the comments")?;
            }
        }
    }
    out.flush()?;
    let misses = answer.misses();
    for sentence in misses.sentences() {
        writeln!(remarks, "khz: {}", printable(&sentence))?;
    }
    match answer.missing.as_slice() {
        [] => misses::partly(&misses, Ok(Done::Wholly)),
        missing => Ok(Done::Partly { missing: missing.to_vec() }),
    }
}

fn each(answer: &Answer) -> impl Iterator<Item = (&NodeAnswer, &SeriesAnswer)> {
    answer.nodes.iter().flat_map(|node| node.series.iter().map(move |series| (node, series)))
}

/// The series' name, with its node where there are several.
fn name(answer: &Answer, node: &NodeAnswer, series: &SeriesAnswer) -> String {
    match answer.nodes.len() {
        1 => series.series(),
        _ => format!("{}:{}", node.node, series.series()),
    }
}

/// Several nodes as rows of one table, where it fits; also where several were asked and only one answers.
fn across(answer: &Answer, width: Option<usize>) -> Option<Table> {
    if answer.nodes.len() + answer.missing.len() < 2 {
        return None;
    }
    if each(answer).any(|(_, series)| matches!(series.state(), State::Info(_))) {
        // A description does not fit into a cell.
        return None;
    }
    let mut matrix = Matrix::default();
    for node in &answer.nodes {
        let cell = |series: &SeriesAnswer| match series.state() {
            State::Present(value) => quantities::of_value(value, &series.unit),
            State::Info(labels) => labels.to_string(),
            State::Absent(_) => "absent".to_owned(),
            State::Failed(_) => "FAILED".to_owned(),
        };
        matrix.node(&node.node, node.series.iter().map(|series| (series.series(), cell(series))));
    }
    matrix.table(width)
}

/// One series below the other. A series without a value has the reason; one that is labels has them below it.
fn table(answer: &Answer, at: Option<Nanos>) -> Table {
    let mut columns = vec![("SERIES", Side::Left), ("VALUE", Side::Right), ("READS", Side::Left)];
    columns.extend(at.map(|_| ("AGE", Side::Right)));
    let mut table = Table::new(&columns, 0);
    let old = |series: &SeriesAnswer| at.map_or_else(String::new, |at| format!(", {} old", age(series, at)));
    for (node, series) in each(answer) {
        let name = name(answer, node, series);
        match series.state() {
            State::Present(value) => {
                let cells = [name, value.to_owned(), reads(value, &series.unit)];
                table.row(cells.into_iter().chain(at.map(|at| age(series, at))));
            }
            State::Info(labels) => table.description(name, labels),
            State::Absent(why) => table.remark(name, &format!("absent: {why}{}", old(series))),
            State::Failed(fault) => table.remark(name, &format!("FAILED: {fault}{}", old(series))),
        }
    }
    table
}

/// How old a reading was at a moment: `0.4 s`.
fn age(series: &SeriesAnswer, at: Nanos) -> String {
    match moment::read(&series.stamp, at, None) {
        Ok(time) if at.since(time) < Nanos::from_secs(60) => format!("{:.1} s", at.since(time).as_secs_f64()),
        Ok(time) => quantities::of_span(at.since(time).as_secs_f64()),
        Err(_) => "unknown".to_owned(),
    }
}

/// How a person reads the value: `15.3 GiB`; only the unit where the number is the same.
fn reads(value: &str, unit: &str) -> String {
    let reads = quantities::of_value(value, unit);
    match reads.strip_prefix(value) {
        Some(sign) => sign.trim_start().to_owned(),
        None => reads,
    }
}

fn object(node: &NodeAnswer, series: &SeriesAnswer) -> Value {
    let mut object = Map::new();
    object.insert("node".to_owned(), json!(node.node));
    object.insert("name".to_owned(), json!(series.name));
    if let Some(instance) = &series.instance {
        object.insert("instance".to_owned(), json!(instance));
    }
    if !series.labels.0.is_empty() {
        object.insert("labels".to_owned(), quantities::labels_json(&series.labels.0));
    }
    object.insert("kind".to_owned(), json!(series.kind));
    object.insert("unit".to_owned(), json!(series.unit));
    object.insert("stamp".to_owned(), json!(series.stamp));
    let (key, value) = match series.state() {
        State::Present(value) => ("value", json!(value)),
        State::Info(labels) => ("info", quantities::labels_json(labels)),
        State::Absent(why) => ("absent", json!(why)),
        State::Failed(fault) => ("failed", json!(fault)),
    };
    object.insert(key.to_owned(), value);
    Value::Object(object)
}

/// Returns how many series are only comments.
fn write_properties(answer: &Answer, out: &mut impl Write) -> std::io::Result<usize> {
    let mut left_out = 0;
    for node in &answer.nodes {
        let stamp = node.series.first().map_or("", |series| &series.stamp);
        out.write_all(properties::comment(&format!("{} at {stamp}", node.node)).as_bytes())?;
        for series in &node.series {
            let name = name(answer, node, series);
            let line = match series.state() {
                State::Present(value) => properties::line(&name, value),
                // A program looks up one label.
                State::Info(labels) => labels
                    .iter()
                    .map(|(label, value)| properties::line(&format!("{name}.{label}"), value))
                    .collect(),
                State::Absent(why) => properties::comment(&format!("{name} absent: {why}")),
                State::Failed(fault) => properties::comment(&format!("{name} failed: {fault}")),
            };
            left_out += usize::from(!matches!(series.state(), State::Present(_) | State::Info(_)));
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let text = r#"{"nodes": [{"node": "n1", "series": [
            {"name": "mem.free", "kind": "gauge", "unit": "bytes", "stamp": "1763690000.5", "value": "16479993856"},
            {"name": "mem.high_total", "kind": "gauge", "unit": "bytes", "stamp": "1763690000.5",
             "absent": "this kernel does not print it"},
            {"name": "net.rx_bytes", "instance": "eth0:1", "kind": "counter", "unit": "bytes",
             "stamp": "1763690000.5", "failed": "malformed text"}
        ]}], "missing": []}"#;
        serde_json::from_str(text).unwrap()
    }

    fn printed(format: Format) -> (String, String) {
        let (mut out, mut remarks) = (Vec::new(), Vec::new());
        assert_eq!(print(&answer(), format, None, None, &mut out, &mut remarks).unwrap(), Done::Wholly);
        (String::from_utf8(out).unwrap(), String::from_utf8(remarks).unwrap())
    }

    #[test]
    fn the_table_keeps_absent_and_failed_apart() {
        assert_eq!(
            printed(Format::Table).0,
            "SERIES                        VALUE  READS\n\
             mem.free                16479993856  15.3 GiB\n\
             mem.high_total          absent: this kernel does not print it\n\
             net.rx_bytes[eth0%3A1]  FAILED: malformed text\n"
        );
    }

    #[test]
    fn the_table_of_a_past_moment_has_ages() {
        let mut out = Vec::new();
        let at = Some(Nanos(1_763_690_090_500_000_000));
        print(&answer(), Format::Table, at, None, &mut out, &mut Vec::new()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "SERIES                        VALUE  READS     AGE\n\
             mem.free                16479993856  15.3 GiB   1m\n\
             mem.high_total          absent: this kernel does not print it, 1m old\n\
             net.rx_bytes[eth0%3A1]  FAILED: malformed text, 1m old\n"
        );
    }

    #[test]
    fn a_number_is_not_printed_twice() {
        for (value, unit, expected) in
            [("26", "bytes", "B"), ("5.00", "percent", "%"), ("1", "count", ""), ("1234", "count", "1,234")]
        {
            assert_eq!(reads(value, unit), expected);
        }
    }

    #[test]
    fn json_is_one_object_a_line_with_exact_values() {
        let (text, _) = printed(Format::Json);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            r#"{"node":"n1","name":"mem.free","kind":"gauge","unit":"bytes","stamp":"1763690000.5","value":"16479993856"}"#
        );
        assert!(lines[1].ends_with(r#""absent":"this kernel does not print it"}"#));
        assert!(lines[2].contains(r#""instance":"eth0:1""#));
        assert!(lines[2].ends_with(r#""failed":"malformed text"}"#));
    }

    #[test]
    fn properties_leave_out_what_has_no_value_and_say_so() {
        let (text, remarks) = printed(Format::Properties);
        assert_eq!(
            text,
            "# n1 at 1763690000.5\n\
             mem.free=16479993856\n\
             # mem.high_total absent: this kernel does not print it\n\
             # net.rx_bytes[eth0%3A1] failed: malformed text\n"
        );
        assert_eq!(remarks, "khz: 2 series are left out: absent or failed, see the comments\n");
    }

    #[test]
    fn several_nodes_are_rows_of_one_table_where_it_fits() {
        let mut answer = answer();
        answer.nodes[0].node = "n10".to_owned();
        let mut other = NodeAnswer { node: "n9".to_owned(), ..answer.nodes[0].clone() };
        other.series.remove(2);
        answer.nodes.push(other);
        let of = |width| {
            let mut out = Vec::new();
            print(&answer, Format::Table, None, width, &mut out, &mut Vec::new()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            of(Some(80)),
            "NODE  mem.free  mem.high_total  net.rx_bytes[eth0%3A1]\n\
             n9    15.3 GiB          absent                       -\n\
             n10   15.3 GiB          absent                  FAILED\n"
        );
        let narrow = of(Some(40));
        assert!(narrow.contains("n10:mem.free"), "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
    }

    #[test]
    fn several_nodes_have_their_names_and_missing_ones_are_reported() {
        let mut answer = answer();
        answer.nodes.push(NodeAnswer { node: "n2".to_owned(), ..answer.nodes[0].clone() });
        answer.missing.push("n3".to_owned());
        let mut out = Vec::new();
        let done = print(&answer, Format::Properties, None, None, &mut out, &mut Vec::new()).unwrap();
        assert_eq!(done, Done::Partly { missing: vec!["n3".to_owned()] });
        assert!(String::from_utf8(out).unwrap().contains("\nn2\\:mem.free=16479993856\n"));
    }
}
