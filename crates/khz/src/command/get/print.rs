//! The latest readings as a table, as JSON or as a Java property file.

use std::io::Write;

use khz_ask::{Answer, NodeAnswer, SeriesAnswer, State};
use khz_model::{Nanos, moment};
use serde_json::{Map, Value, json};

use super::{Format, Way, properties};
use crate::show::look::Tone;
use crate::show::matrix::Matrix;
use crate::show::order::{Key, Order};
use crate::show::outcome::{Done, Outcome};
use crate::show::table::{Cell, Side, Table, json_line, printable};
use crate::show::{misses, quantities};

/// Prints the answer. Of a past moment the table has how old each reading was then. Remarks go to `remarks` (stderr).
pub fn print(
    answer: &Answer,
    way: Way,
    at: Option<Nanos>,
    out: &mut impl Write,
    remarks: &mut impl Write,
) -> Outcome {
    match way.format {
        Format::Table => {
            let is_free = at.is_none() && !way.order.is_wanted();
            let across = if is_free { across(answer, way.look.width) } else { None };
            let table = across.unwrap_or_else(|| table(answer, way.order, at));
            out.write_all(table.draw(&way.look).as_bytes())?;
        }
        Format::Json => {
            for (node, series) in each(answer, way.order) {
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

/// The readings in their order.
fn each(answer: &Answer, order: Order) -> Vec<(&NodeAnswer, &SeriesAnswer)> {
    let named = answer.nodes.iter().flat_map(|node| {
        node.series.iter().map(move |series| {
            ((node, series), if order.is_wanted() { series.series() } else { String::new() })
        })
    });
    let mut named: Vec<_> = named.collect();
    order.arrange(&mut named, |((node, reading), series)| {
        let value = match reading.state() {
            State::Present(value) => value.parse().ok(),
            State::Info(_) | State::Absent(_) | State::Failed(_) => None,
        };
        Key { node: &node.node, series, value }
    });
    named.into_iter().map(|(reading, _)| reading).collect()
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
    let mut all = answer.nodes.iter().flat_map(|node| &node.series);
    if all.any(|series| matches!(series.state(), State::Info(_))) {
        // A description does not fit into a cell.
        return None;
    }
    let mut matrix = Matrix::default();
    for node in &answer.nodes {
        let cell = |series: &SeriesAnswer| match series.state() {
            State::Present(value) => Cell::new(quantities::of_value(value, &series.unit), Tone::Quantity),
            State::Info(labels) => Cell::new(labels.to_string(), Tone::Faint),
            State::Absent(_) => Cell::new("absent", Tone::Faint),
            State::Failed(_) => Cell::new("FAILED", Tone::Bad),
        };
        matrix.node(
            &node.node,
            node.node.clone().into(),
            node.series.iter().map(|series| (series.series(), cell(series))),
        );
    }
    matrix.table(width)
}

/// One series below the other. A series without a value has the reason; one that is labels has them below it.
fn table(answer: &Answer, order: Order, at: Option<Nanos>) -> Table {
    let mut columns = vec![("SERIES", Side::Left), ("VALUE", Side::Right), ("READS", Side::Left)];
    columns.extend(at.map(|_| ("AGE", Side::Right)));
    let mut table = Table::new(&columns, 0).leaving(&[2, 3]);
    let old = |series: &SeriesAnswer| at.map_or_else(String::new, |at| format!(", {} old", age(series, at)));
    for (node, series) in each(answer, order) {
        let name = name(answer, node, series);
        match series.state() {
            State::Present(value) => {
                let reads = reads(value, &series.unit);
                // A unit alone belongs to the value beside it.
                let tone = if reads.contains(' ') { Tone::Quantity } else { Tone::Faint };
                let cells = [name.into(), value.to_owned().into(), Cell::new(reads, tone)];
                table.row(cells.into_iter().chain(at.map(|at| age(series, at).into())));
            }
            State::Info(labels) => table.description(name, labels),
            State::Absent(why) => {
                table.remark_in(name, &format!("absent: {why}{}", old(series)), Tone::Faint);
            }
            State::Failed(fault) => {
                table.remark_in(name, &format!("FAILED: {fault}{}", old(series)), Tone::Bad);
            }
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
    use crate::show::look::Look;
    use crate::show::order::Sort;

    fn way(format: Format, width: Option<usize>) -> Way {
        Way { format, order: Order::default(), look: Look::plain(width) }
    }

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
        assert_eq!(print(&answer(), way(format, None), None, &mut out, &mut remarks).unwrap(), Done::Wholly);
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
        print(&answer(), way(Format::Table, None), at, &mut out, &mut Vec::new()).unwrap();
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
            print(&answer, way(Format::Table, width), None, &mut out, &mut Vec::new()).unwrap();
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
        let done = print(&answer, way(Format::Properties, None), None, &mut out, &mut Vec::new()).unwrap();
        assert_eq!(done, Done::Partly { missing: vec!["n3".to_owned()] });
        assert!(String::from_utf8(out).unwrap().contains("\nn2\\:mem.free=16479993856\n"));
    }

    #[test]
    fn an_order_puts_what_has_no_value_last_in_tables_and_in_json() {
        let mut answer = answer();
        let mut other = NodeAnswer { node: "n2".to_owned(), ..answer.nodes[0].clone() };
        other.series[0] = serde_json::from_str(
            r#"{"name": "mem.free", "kind": "gauge", "unit": "bytes", "stamp": "1763690000.5", "value": "26479993856"}"#,
        )
        .unwrap();
        answer.nodes.push(other);
        let of = |format, top| {
            let mut out = Vec::new();
            let order = Order { sort: Some(Sort::Value), top };
            let way = Way { order, ..way(format, None) };
            print(&answer, way, None, &mut out, &mut Vec::new()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            of(Format::Table, Some(3)),
            "SERIES                   VALUE  READS\n\
             n2:mem.free        26479993856  24.7 GiB\n\
             n1:mem.free        16479993856  15.3 GiB\n\
             n1:mem.high_total  absent: this kernel does not print it\n"
        );
        let json = of(Format::Json, None);
        assert_eq!(json.lines().count(), 6);
        assert!(json.starts_with(r#"{"node":"n2","name":"mem.free""#), "{json}");
    }

    #[test]
    fn a_terminal_has_colours_for_what_failed_and_faint_units() {
        let mut out = Vec::new();
        let look = Look { has_color: true, ..Look::plain(Some(80)) };
        print(&answer(), Way { look, ..way(Format::Table, None) }, None, &mut out, &mut Vec::new()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("\x1b[1mSERIES\x1b[0m "), "{text:?}");
        assert!(text.contains("\x1b[31mFAILED: malformed text\x1b[0m\n"), "{text:?}");
        assert!(text.contains("16479993856  15.3 \x1b[2mGiB\x1b[0m\n"), "{text:?}");
    }
}
