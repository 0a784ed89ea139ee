//! YAML as values with places. It knows the structure only: what keys mean is known by those who ask. Aliases and merge keys
//! (`<<`) are followed; the limits count what they stand for.

mod build;
mod locate;

use std::sync::Arc;

use saphyr_parser::ScalarStyle;

pub(crate) use build::parse;
pub(crate) use locate::Source;

use crate::finding::Place;

/// A value.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub kind: Kind,
    pub place: Place,
    /// How many values it has in it, itself counted, aliases at each use.
    size: usize,
    depth: usize,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Arc<[Value]>),
    /// Keys are scalars; each is there once.
    Map(Arc<[(Key, Value)]>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub text: Arc<str>,
    pub place: Place,
}

/// A text, or what is written as one.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub text: Arc<str>,
    pub style: ScalarStyle,
    /// It has a tag that makes it a text.
    is_text: bool,
}

/// What is wrong with a file as YAML.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub place: Option<Place>,
    pub problem: String,
}

impl Scalar {
    /// True for nothing at all, `~` and `null`.
    pub fn is_null(&self) -> bool {
        let plain = self.style == ScalarStyle::Plain && !self.is_text;
        plain && matches!(&*self.text, "" | "~" | "null" | "Null" | "NULL")
    }

    /// The same without its text: null stands for an empty one.
    pub fn emptied(&self) -> Self {
        Scalar { text: Arc::from(""), ..self.clone() }
    }

    /// True if it is written without quotes, so that it may be a number.
    pub fn is_plain(&self) -> bool {
        self.style == ScalarStyle::Plain && !self.is_text
    }
}

impl Value {
    /// True for a scalar that is null.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_null())
    }

    /// What it is, for an error.
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar(_) => "a single value",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        parse(text).unwrap().value.unwrap()
    }

    fn get<'a>(value: &'a Value, key: &str) -> &'a Value {
        let Kind::Map(entries) = &value.kind else { panic!("{value:?}") };
        &entries.iter().find(|(known, _)| &*known.text == key).unwrap().1
    }

    fn text(value: &Value) -> &str {
        let Kind::Scalar(scalar) = &value.kind else { panic!("{value:?}") };
        &scalar.text
    }

    /// What stands in the file where the character `wanted` of the scalar `a` is said to be.
    fn found(file: &str, wanted: &str) -> String {
        let value = value(file);
        let scalar_value = get(&value, "a");
        let Kind::Scalar(scalar) = &scalar_value.kind else { panic!("{value:?}") };
        let place = Source::new(file).place_in(scalar, scalar_value.place, scalar.text.find(wanted).unwrap());
        file.lines().nth(place.line - 1).unwrap_or_default().chars().skip(place.column - 1).collect()
    }

    #[test]
    fn a_character_of_a_text_is_found_in_the_file_however_the_text_is_written() {
        for file in [
            "a: x + Ywith\nb: 1",
            "a:   x\n   + Ywith",
            "a: |\n    x +\n      Ywith\n",
            "a: >-  # comment\n\n    x +\n\n    Ywith\n",
            "a: |2\n   x\n   + Ywith\n",
            "a: 'it''s + Ywith'",
            "a: \"x \\u00e4\\n\\t+ \\\\ Ywith\"",
            "a: \"x\\\n   Ywith\"",
            "{b: 1, a: x + Ywith}",
            "b: &z x + Ywith\na: *z",
            "a: äöü Ywith",
            "a: !!str Ywith",
            "a: &x Ywith",
            "a: &x !!str 'x Ywith'",
            "a: &x |\n  x\n  Ywith",
            "a: |\n  &x\n  Ywith",
        ] {
            let seen = found(file, "Y");
            assert!(seen.starts_with("Ywith"), "{file:?}: {seen:?}");
        }
    }

    #[test]
    fn the_end_of_a_text_is_after_its_last_character() {
        let file = "a: |\n  x + \nb: 1";
        let value = value(file);
        let scalar_value = get(&value, "a");
        let Kind::Scalar(scalar) = &scalar_value.kind else { panic!() };
        let place = Source::new(file).place_in(scalar, scalar_value.place, 3);
        assert_eq!(place, Place { line: 2, column: 6 });
    }

    #[test]
    fn aliases_and_merged_maps_are_followed() {
        let value = value("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\nz: *x\nl: {<<: [{a: 4}, *x]}");
        assert_eq!((text(get(get(&value, "y"), "a")), text(get(get(&value, "y"), "b"))), ("1", "3"));
        assert_eq!((text(get(get(&value, "z"), "b")), text(get(get(&value, "l"), "a"))), ("2", "4"));
    }

    #[test]
    fn what_would_take_the_memory_or_the_stack_is_refused_with_its_place() {
        let mut laughs = String::from("a: &a [x, x, x, x, x, x, x, x, x, x]\n");
        for (one, two) in "abcdefgh".chars().zip("bcdefghi".chars()) {
            laughs += &format!("{two}: &{two} [{}]\n", vec![format!("*{one}"); 10].join(", "));
        }
        let fault = parse(&laughs).err().unwrap();
        assert!(fault.problem.contains("more than 1000000 values") && fault.place.is_some(), "{fault:?}");
        for deep in ["[".repeat(5_000), "a: ".repeat(10) + &"{a: ".repeat(5_000), "- ".repeat(5_000)] {
            let fault = parse(&deep).err().unwrap();
            assert!(fault.place.is_some(), "{fault:?}");
        }
        for (text, problem) in [
            ("a: 1\nb: 2\na: 3", "'a' is there twice (first at 1:1)"),
            ("a: &a [*a]", "cannot stand within"),
            ("? [a]\n: b", "a key must be a single value, and this is a list"),
            ("a: *b", "this is no YAML"),
            ("a: b: c", "this is no YAML"),
            ("<<: 3", "only a map"),
        ] {
            let fault = parse(text).err().unwrap();
            assert!(fault.problem.contains(problem) && fault.place.is_some(), "{text}: {fault:?}");
        }
        assert!(parse("").unwrap().value.is_none());
        assert_eq!(parse("a: 1\n---\nb: 2").unwrap().more.unwrap().line, 2);
    }
}
