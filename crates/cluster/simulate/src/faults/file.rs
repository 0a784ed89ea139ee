//! The file of `khz simulate --faults`: TOML, a table `[[fault]]` for each fault. Each error has its line and column.

use std::ops::Range;
use std::path::Path;

use khz_model::text_place::line_and_column;
use khz_model::{Nanos, Pattern, suggest};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::{Fault, FaultEnd, FaultKind};
use crate::error::SimulateError;

/// Bytes of such a file: some thousand faults.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Faults of a file: each node with one writes its rows itself.
const FAULTS_MAX: usize = 4_096;

const KEYS: [&str; 7] = ["kind", "nodes", "begin", "lasts", "strength", "end", "back"];
const ENDS: [&str; 3] = ["heals", "stays", "down"];

type Item<'a> = Spanned<DeValue<'a>>;

/// Reads a file. Each fault comes with its place: FILE:LINE:COLUMN.
pub fn read(path: &Path) -> Result<Vec<(String, Fault)>, SimulateError> {
    let failed = |source| SimulateError::Read { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let problem = format!("it has {length} bytes, more than {FILE_BYTES_MAX}");
        return Err(failed(std::io::Error::other(problem)));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let faults = parse(&text).map_err(|(at, problem)| {
        let (line, column) = line_and_column(&text, at);
        SimulateError::Faults { path: path.to_owned(), line, column, problem }
    })?;
    let placed = |(at, fault): (usize, Fault)| {
        let (line, column) = line_and_column(&text, at);
        (format!("{}:{line}:{column}", path.display()), fault)
    };
    Ok(faults.into_iter().map(placed).collect())
}

/// What is wrong, and at which byte.
type Wrong = (usize, String);

/// Each fault, and the byte at which its nodes stand.
fn parse(text: &str) -> Result<Vec<(usize, Fault)>, Wrong> {
    let table = DeTable::parse(text)
        .map_err(|error| (error.span().unwrap_or(0..0).start, error.message().to_owned()))?;
    let mut faults = Vec::new();
    for (key, value) in table.get_ref().iter() {
        if key.get_ref().as_ref() != "fault" {
            return Err((
                key.span().start,
                format!("{}; faults are tables [[fault]]", unknown(key, ["fault"])),
            ));
        }
        let DeValue::Array(tables) = value.get_ref() else {
            return Err((value.span().start, String::from("faults are written [[fault]], in two brackets")));
        };
        for item in tables.iter() {
            match item.get_ref() {
                DeValue::Table(keys) => faults.push(fault(keys, item.span())?),
                _ => return Err((item.span().start, String::from("a fault is a table: [[fault]]"))),
            }
            if faults.len() > FAULTS_MAX {
                return Err((item.span().start, format!("there are more than {FAULTS_MAX} faults")));
            }
        }
    }
    if faults.is_empty() {
        return Err((0, String::from("there is no fault: write one as [[fault]]")));
    }
    Ok(faults)
}

fn fault(keys: &DeTable<'_>, whole: Range<usize>) -> Result<(usize, Fault), Wrong> {
    for (key, _) in keys.iter() {
        if !KEYS.contains(&key.get_ref().as_ref()) {
            return Err((key.span().start, unknown(key, KEYS)));
        }
    }
    let get =
        |name: &str| keys.iter().find(|(key, _)| key.get_ref().as_ref() == name).map(|(_, value)| value);
    let needed =
        |name: &str| get(name).ok_or_else(|| (whole.start, format!("a fault needs the key '{name}'")));
    let kind = word(needed("kind")?, "kind", FaultKind::ALL.map(FaultKind::as_str))?;
    let nodes = text(needed("nodes")?, "nodes", "\"node[03,07]\"")?;
    let lasts = duration(needed("lasts")?, "lasts")?;
    if lasts == Nanos(0) {
        return Err((needed("lasts")?.span().start, String::from("lasts: a fault takes some time")));
    }
    let end = get("end").map(|value| word(value, "end", ENDS).map(|end| ENDS[end])).transpose()?;
    let back = get("back").map(|value| duration(value, "back").map(|back| (back, value.span().start)));
    let end = match (end.unwrap_or("heals"), back.transpose()?) {
        ("down", back) => FaultEnd::Down(back.map(|(back, _)| back)),
        (_, Some((_, at))) => {
            return Err((at, String::from("back: only a node that goes down is back later: end = \"down\"")));
        }
        ("stays", None) => FaultEnd::Stays,
        _ => FaultEnd::Heals,
    };
    let pattern = Pattern::new(&format!("{nodes}:*"));
    let at_nodes = needed("nodes")?.span().start;
    let fault = Fault {
        kind: FaultKind::ALL[kind],
        nodes: pattern.map_err(|error| (at_nodes, format!("nodes: {error}")))?,
        begin: get("begin").map_or(Ok(Nanos(0)), |value| duration(value, "begin"))?,
        lasts,
        strength: get("strength").map_or(Ok(1.0), strength)?,
        end,
    };
    Ok((at_nodes, fault))
}

/// The number of a word among those that may stand here.
fn word<const N: usize>(value: &Item<'_>, key: &str, words: [&str; N]) -> Result<usize, Wrong> {
    let given = text(value, key, &format!("\"{}\"", words[0]))?;
    words.iter().position(|word| *word == given).ok_or_else(|| {
        let near = suggest::nearest(given, words).map(|near| format!(" (did you mean \"{near}\"?)"));
        let problem =
            format!("{key}: \"{given}\"{}; it is one of {}", near.unwrap_or_default(), words.join(", "));
        (value.span().start, problem)
    })
}

fn text<'a>(value: &'a Item<'_>, key: &str, example: &str) -> Result<&'a str, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.as_ref()),
        _ => Err((value.span().start, format!("{key}: a text in quotes is wanted: {key} = {example}"))),
    }
}

fn duration(value: &Item<'_>, key: &str) -> Result<Nanos, Wrong> {
    let given = text(value, key, "\"2h\"")?;
    given.parse().map_err(|error| (value.span().start, format!("{key}: {error}")))
}

fn strength(value: &Item<'_>) -> Result<f64, Wrong> {
    let number: Option<f64> = match value.get_ref() {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        DeValue::Integer(integer) => integer.as_str().replace('_', "").parse().ok(),
        _ => None,
    };
    let wrong =
        || (value.span().start, String::from("strength: a number above 0, at most 1: strength = 0.5"));
    number.filter(|number| *number > 0.0 && *number <= 1.0).ok_or_else(wrong)
}

fn unknown<'a>(key: &Spanned<DeString<'_>>, known: impl IntoIterator<Item = &'a str>) -> String {
    let name = key.get_ref().as_ref();
    let near = suggest::nearest(name, known).map(|near| format!(" (did you mean '{near}'?)"));
    format!("there is no key '{name}'{}", near.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[[fault]]
kind = \"leak\"
nodes = \"node[03,07]\"
begin = \"10m\"
lasts = \"2h\"
strength = 0.5
end = \"down\"
back = \"5m\"

[[fault]]
kind = \"dying-disk\"
nodes = \"node1*\"
lasts = \"1h\"
";

    #[test]
    fn a_file_says_which_nodes_have_which_fault_from_when_on() {
        let faults = parse(GOOD).unwrap();
        assert_eq!(faults.len(), 2);
        let (leak, disk) = (&faults[0].1, &faults[1].1);
        let places = [0, 1].map(|number| line_and_column(GOOD, faults[number].0));
        assert_eq!(places, [(3, 9), (12, 9)]);
        assert_eq!((leak.kind, leak.strength), (FaultKind::Leak, 0.5));
        assert!(leak.nodes.matches_node("node07") && !leak.nodes.matches_node("node04"));
        let minutes = |minutes: u64| Nanos::from_secs(minutes * 60);
        assert_eq!(leak.silence(), Some((minutes(130), minutes(135))));
        assert_eq!((disk.begin, disk.end, disk.silence()), (Nanos(0), FaultEnd::Heals, None));
    }

    #[test]
    fn what_is_wrong_has_its_line_and_column_and_says_what_to_write() {
        for (from, to, at, problem) in [
            ("\"leak\"", "\"leek\"", (2, 8), "did you mean \"leak\"?"),
            ("\"leak\"", "7", (2, 8), "a text in quotes is wanted"),
            ("lasts = \"2h\"", "last = \"2h\"", (5, 1), "did you mean 'lasts'?"),
            ("lasts = \"2h\"\n", "", (1, 1), "a fault needs the key 'lasts'"),
            ("\"2h\"", "\"2 weeks\"", (5, 9), "lasts: "),
            ("\"2h\"", "\"0s\"", (5, 9), "takes some time"),
            ("strength = 0.5", "strength = 2", (6, 12), "at most 1"),
            ("\"down\"", "\"heals\"", (8, 8), "end = \"down\""),
            ("node[03,07]", "node[03", (3, 9), "nodes: "),
            ("[[fault]]\nkind = \"dying", "[[faults]]\nkind = \"dying", (10, 3), "did you mean 'fault'?"),
            ("\"10m\"", "\"10m", (4, 9), ""),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let (byte, said) = parse(&text).unwrap_err();
            assert!(said.contains(problem), "{from} -> {to}: {said}");
            if !problem.is_empty() {
                assert_eq!(line_and_column(&text, byte), at, "{from} -> {to}: {said}");
            }
        }
        assert!(parse("").unwrap_err().1.contains("[[fault]]"));
        assert!(parse("fault = 3").unwrap_err().1.contains("two brackets"));
    }
}
