//! One remembered node as a line of JSON, and the file's first line. Foreign bytes give an error, never a panic; keys
//! of a newer version are skipped.

use khz_model::NodeName;
use serde::Serialize;
use serde_json::{Map, Value};

/// The format's version.
const VERSION: u64 = 1;

/// Bytes of a program's version, and of an address: longer ones are cut before they are written.
const TEXT_MAX: usize = 96;

/// Bytes of a node's line: its name, two escaped texts, two times.
pub(crate) const LINE_BYTES_MAX: usize = 2 << 10;

/// How the node was when the line was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Connected.
    Up,
    /// Not connected.
    Down,
    /// Not connected, after a goodbye.
    Left,
}

/// A node that was once heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub node: NodeName,
    pub state: State,
    /// When it was last heard, ns since 1970.
    pub heard: i64,
    /// When it came or went.
    pub since: i64,
    /// Where it came from; empty: not known.
    pub address: String,
    /// The version of its program.
    pub version: String,
}

#[derive(Serialize)]
struct Head<'a> {
    khz_roster: u64,
    hub: &'a str,
    written: String,
    nodes: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    node: &'a str,
    state: &'a str,
    heard: String,
    since: String,
    address: &'a str,
    version: &'a str,
}

/// The first line: the format, and how many nodes follow.
pub(crate) fn head(hub: &str, written: i64, nodes: usize) -> String {
    line(&Head { khz_roster: VERSION, hub: cut(hub), written: seconds(written), nodes })
}

/// Texts and numbers are always JSON.
fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).map(|line| line + "\n").unwrap_or_default()
}

/// Reads the first line: how many nodes follow.
pub(crate) fn read_head(line: &str) -> Result<u64, String> {
    let head = object(line)?;
    match head.get("khz_roster").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(newer) => return Err(format!("it has version {newer}; this khz reads version {VERSION}")),
        None => return Err("it does not begin with {\"khz_roster\": 1, ...}: this is no roster".into()),
    }
    head.get("nodes").and_then(Value::as_u64).ok_or_else(|| "it does not say how many nodes follow".into())
}

impl Entry {
    /// The node's line.
    pub fn line(&self) -> String {
        let state = match self.state {
            State::Up => "up",
            State::Down => "down",
            State::Left => "left",
        };
        line(&Line {
            node: self.node.as_str(),
            state,
            heard: seconds(self.heard),
            since: seconds(self.since),
            address: cut(&self.address),
            version: cut(&self.version),
        })
    }

    /// Reads it.
    pub fn read(line: &str) -> Result<Self, String> {
        let line = object(line)?;
        let text = |key: &str| match line.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(format!("'{key}' is not text in quotes")),
            None => Err(format!("'{key}' is missing")),
        };
        let time = |key: &str| text(key).and_then(|text| nanos(text).ok_or(format!("'{key}' is no time")));
        Ok(Entry {
            node: NodeName::new(text("node")?).map_err(|error| format!("'node': {}", error.problem))?,
            state: match text("state")? {
                "up" => State::Up,
                "down" => State::Down,
                "left" => State::Left,
                other => return Err(format!("'state' is '{}', not up, down or left", cut(other))),
            },
            heard: time("heard")?,
            since: time("since")?,
            address: cut(text("address").unwrap_or_default()).to_owned(),
            version: cut(text("version").unwrap_or_default()).to_owned(),
        })
    }
}

fn object(line: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("it is no JSON object".into()),
        Err(error) => Err(format!("it is no JSON (column {})", error.column())),
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_MAX)]
}

/// Seconds since 1970 with nine places, as everywhere.
fn seconds(nanos: i64) -> String {
    let nanos = nanos.max(0);
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn nanos(seconds: &str) -> Option<i64> {
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let part: i64 = format!("{part:0<9}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> Entry {
        Entry {
            node: NodeName::new("node7").unwrap(),
            state: State::Left,
            heard: 1_763_690_000_500_000_000,
            since: 1_763_690_001_000_000_000,
            address: "192.0.2.7:40000".into(),
            version: "0.1.0".into(),
        }
    }

    #[test]
    fn a_line_reads_as_a_person_would_write_it() {
        assert_eq!(
            entry().line(),
            "{\"node\":\"node7\",\"state\":\"left\",\"heard\":\"1763690000.500000000\",\
             \"since\":\"1763690001.000000000\",\"address\":\"192.0.2.7:40000\",\"version\":\"0.1.0\"}\n"
        );
        assert_eq!(Entry::read(entry().line().trim_end()), Ok(entry()));
        assert_eq!(read_head(head("hub1", 5, 7).trim_end()), Ok(7));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, problem) in [
            ("", "it is no JSON (column 0)"),
            ("[]", "it is no JSON object"),
            ("{}", "'node' is missing"),
            (r#"{"node":"../x"}"#, "'node': a node name starts with"),
            (r#"{"node":"n1","state":"asleep"}"#, "'state' is 'asleep', not up, down or left"),
            (r#"{"node":"n1","state":"up","heard":"-5"}"#, "'heard' is no time"),
            (r#"{"node":"n1","state":"up","heard":7}"#, "'heard' is not text in quotes"),
        ] {
            let found = Entry::read(line).unwrap_err();
            assert!(found.starts_with(problem), "{line}: {found}");
        }
        assert!(read_head(r#"{"khz_roster":2,"nodes":0}"#).unwrap_err().contains("version 2"));
    }

    proptest! {
        #[test]
        fn any_node_survives_its_line(
            name in "[a-z0-9][a-zA-Z0-9._-]{0,60}", address in "\\PC{0,40}", heard in 0..i64::MAX, since in 0..i64::MAX
        ) {
            let entry = Entry {
                node: NodeName::new(&name).unwrap(), heard, since, address: cut(&address).to_owned(), ..entry()
            };
            let line = entry.line();
            prop_assert!(line.len() <= LINE_BYTES_MAX);
            prop_assert_eq!(Entry::read(line.trim_end()), Ok(entry));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
            let _ = (Entry::read(&text), read_head(&text));
        }
    }
}
