//! A `DEF:` argument: which rows of which file, and how they are consolidated; opens nothing.

use super::Plan;
use crate::at::When;
use crate::error::{Error, Result, refused};
use crate::rra::Function;

/// What is to be read.
pub(super) struct Definition {
    pub path: String,
    pub source: String,
    pub function: Function,
    /// How several rows that fall on one are consolidated.
    pub reduce: Function,
    /// Seconds a row has at least.
    pub step: u64,
    pub start: i64,
    pub end: i64,
}

/// The parts of an argument; a colon in one of them is written with a backslash.
pub(super) fn words(text: &str) -> Vec<String> {
    text.replace("\\:", "\u{0}").split(':').map(|word| word.replace('\u{0}', ":")).collect()
}

/// Refuses the words of an argument that have no meaning.
pub(super) fn unused<T>(words: &[String], argument: &str) -> Result<T> {
    refused(format!("Unused Arguments \"{}\" in command : {argument}", words.join(":")))
}

/// The name and the rest of `argument`, of which `text` comes after `DEF:`. `is_taken` says whether a name is used.
pub(super) fn parse(
    argument: &str,
    text: &str,
    plan: &Plan,
    is_taken: impl Fn(&str) -> bool,
) -> Result<(String, Definition)> {
    let missing = |what: &str| Error::Refused(format!("No argument for definition of {what} in {argument}"));
    let (name, rest) = text.split_once('=').ok_or_else(|| missing("DS"))?;
    let words = words(rest);
    let [path, source, rest @ ..] = words.as_slice() else { return Err(missing("DS")) };
    let [function, options @ ..] = rest else { return Err(missing("CF")) };
    let Some(function) = Function::from_name(function) else {
        return refused(match is_taken(name) {
            true => format!("trying to reuse vname {name}"),
            false => format!("bad CF: {function}"),
        });
    };
    let (mut step, mut reduce) = (plan.step, function);
    let (mut start, mut end) = (When::at(plan.start), When::at(plan.end));
    let mut left = vec![];
    for option in options {
        let when = |what: &str, text: &str| {
            When::parse(text, plan.now).map_err(|error| Error::Refused(format!("{what} time: {error}")))
        };
        match option.split_once('=') {
            Some(("step", value)) => match value.parse() {
                Ok(seconds) if seconds > 0 => step = seconds,
                _ => return refused(format!("Bad step value: {value}")),
            },
            Some(("start", value)) => start = when("start", value)?,
            Some(("end", value)) => end = when("end", value)?,
            Some(("daemon", _)) => {}
            Some(("reduce", value)) => {
                reduce = Function::from_name(value)
                    .ok_or_else(|| Error::Refused(format!("bad reduce CF: {value}")))?;
            }
            _ => left.push(option.clone()),
        }
    }
    if !left.is_empty() {
        return unused(&left, argument);
    }
    let (start, end) = When::range(&start, &end, plan.now).map_err(Error::Refused)?;
    let (path, source) = (path.clone(), source.clone());
    Ok((name.into(), Definition { path, source, function, reduce, step, start, end }))
}
