//! Builds values out of the events of the crate saphyr-parser, within the limits.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, Span, StrInput, Tag};

use super::{Fault, Key, Kind, Scalar, Value};
use crate::finding::Place;
use crate::limits::{YAML_DEPTH_MAX, YAML_VALUES_MAX};

/// The first document of a text.
pub(crate) struct Document {
    /// Its value; `None`: there is no document.
    pub value: Option<Value>,
    /// There is another document, or something else, after it.
    pub more: Option<Place>,
}

/// Reads the first document.
pub(crate) fn parse(text: &str) -> Result<Document, Fault> {
    // The parser is foreign code: should it panic, then the file is refused, not the process.
    catch_unwind(AssertUnwindSafe(|| Builder::new(text).document()))
        .unwrap_or_else(|_| Err(Fault { place: None, problem: String::from("this YAML cannot be read") }))
}

fn place(marker: Marker) -> Place {
    Place { line: marker.line(), column: marker.col() + 1 }
}

/// A list or a map that is not complete.
enum Open {
    List {
        anchor: usize,
        at: Place,
        values: Vec<Value>,
    },
    Map {
        anchor: usize,
        at: Place,
        entries: Vec<(Key, Value)>,
        merged: Vec<Value>,
        keys: HashSet<Arc<str>>,
        key: Option<Key>,
    },
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Value>,
    /// Values so far, those of aliases counted.
    count: usize,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Builder { parser: Parser::new_from_str(text), open: Vec::new(), anchors: HashMap::new(), count: 0 }
    }

    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Fault> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(next)) => Ok(Some(next)),
            Some(Err(error)) => Err(Fault {
                place: Some(place(*error.marker())),
                problem: format!("this is no YAML: {}", error.info()),
            }),
        }
    }

    fn document(mut self) -> Result<Document, Fault> {
        let mut value = None;
        loop {
            let Some((event, span)) = self.next()? else { return Ok(Document { value, more: None }) };
            match event {
                Event::StreamEnd => return Ok(Document { value, more: None }),
                Event::DocumentEnd => break,
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
                event => {
                    if let Some(complete) = self.take(event, span)? {
                        value = Some(complete);
                    }
                }
            }
        }
        // What is wrong after the first document is not read by Prometheus either.
        let more = match self.parser.next_event() {
            None | Some(Ok((Event::StreamEnd, _))) => None,
            Some(Ok((_, span))) => Some(place(span.start)),
            Some(Err(error)) => Some(place(*error.marker())),
        };
        Ok(Document { value, more })
    }

    /// Takes an event; returns the value of the document when it is complete.
    fn take(&mut self, event: Event<'a>, span: Span) -> Result<Option<Value>, Fault> {
        let at = place(span.start);
        let is_alias = matches!(event, Event::Alias(_));
        let (anchor, value) = match event {
            Event::SequenceStart(anchor, _) => {
                self.begin(at, Open::List { anchor, at, values: Vec::new() })?;
                return Ok(None);
            }
            Event::MappingStart(anchor, _) => {
                let (entries, merged, keys) = (Vec::new(), Vec::new(), HashSet::new());
                self.begin(at, Open::Map { anchor, at, entries, merged, keys, key: None })?;
                return Ok(None);
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.as_deref().is_some_and(is_text);
                let scalar = Scalar { text: Arc::from(&*text), style, is_text };
                (anchor, Value { kind: Kind::Scalar(scalar), place: at, size: 1, depth: 1 })
            }
            Event::Alias(anchor) => {
                let problem = "an alias cannot stand within what it names";
                let known = self.anchors.get(&anchor).cloned();
                (0, known.ok_or_else(|| Fault { place: Some(at), problem: problem.to_owned() })?)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { anchor, at, values }) => (anchor, list(at, values)),
                Some(Open::Map { anchor, at, entries, merged, .. }) => (anchor, map(at, entries, &merged)?),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        // What is in a list or a map was counted when it came.
        self.count = self.count.saturating_add(if is_alias { value.size } else { 1 });
        if self.count > YAML_VALUES_MAX || value.size > YAML_VALUES_MAX {
            let problem = format!(
                "the file has more than {YAML_VALUES_MAX} values, those of aliases counted at each use"
            );
            return Err(Fault { place: Some(at), problem });
        }
        if self.open.len() + value.depth > YAML_DEPTH_MAX {
            return Err(too_deep(at));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        self.put(value, at)
    }

    fn begin(&mut self, at: Place, open: Open) -> Result<(), Fault> {
        if self.open.len() >= YAML_DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.open.push(open);
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, value: Value, at: Place) -> Result<Option<Value>, Fault> {
        let fault = |problem: String| Err(Fault { place: Some(at), problem });
        match self.open.last_mut() {
            None => return Ok(Some(value)),
            Some(Open::List { values, .. }) => values.push(value),
            Some(Open::Map { entries, merged, keys, key, .. }) => match key.take() {
                None => {
                    let Kind::Scalar(scalar) = &value.kind else {
                        return fault(format!("a key must be a single value, and this is {}", value.noun()));
                    };
                    if !keys.insert(scalar.text.clone()) {
                        let first = entries.iter().find(|(known, _)| known.text == scalar.text);
                        let first = first
                            .map_or_else(String::new, |(known, _)| format!(" (first at {})", known.place));
                        return fault(format!("the key '{}' is there twice{first}", scalar.text));
                    }
                    *key = Some(Key { text: scalar.text.clone(), place: at });
                }
                Some(key) if &*key.text == "<<" => merged.push(value),
                Some(key) => entries.push((key, value)),
            },
        }
        Ok(None)
    }
}

fn too_deep(at: Place) -> Fault {
    let problem = format!("lists and maps are nested deeper than {YAML_DEPTH_MAX}");
    Fault { place: Some(at), problem }
}

fn is_text(tag: &Tag) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == "str"
}

fn list(place: Place, values: Vec<Value>) -> Value {
    let size = values.iter().fold(1_usize, |sum, value| sum.saturating_add(value.size));
    let depth = 1 + values.iter().map(|value| value.depth).max().unwrap_or(0);
    Value { kind: Kind::List(values.into()), place, size, depth }
}

/// A map with its own entries, and those of merged maps whose keys it does not have.
fn map(place: Place, mut entries: Vec<(Key, Value)>, merged: &[Value]) -> Result<Value, Fault> {
    let mut known: HashSet<Arc<str>> = entries.iter().map(|(key, _)| key.text.clone()).collect();
    let mut merge = |value: &Value| match &value.kind {
        Kind::Map(others) => {
            for (key, value) in others.iter() {
                if known.insert(key.text.clone()) {
                    entries.push((key.clone(), value.clone()));
                }
            }
            Ok(())
        }
        _ => Err(Fault {
            place: Some(value.place),
            problem: String::from("only a map, or a list of maps, can be merged (<<)"),
        }),
    };
    for value in merged {
        match &value.kind {
            Kind::List(values) => values.iter().try_for_each(&mut merge)?,
            _ => merge(value)?,
        }
    }
    let size =
        entries.iter().fold(1_usize, |sum, (_, value)| sum.saturating_add(1).saturating_add(value.size));
    let depth = 1 + entries.iter().map(|(_, value)| value.depth).max().unwrap_or(0);
    Ok(Value { kind: Kind::Map(entries.into()), place, size, depth })
}
