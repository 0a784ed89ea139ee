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

/// The options of a definition.
const KEYS: [&str; 5] = ["step", "start", "end", "reduce", "daemon"];

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
    let words = words(text);
    // Options may stand anywhere. Of another word with a key only the value counts.
    let (options, placed): (Vec<_>, Vec<_>) =
        words.iter().partition(|word| word.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key)));
    let value = |word: &String| word.split_once('=').map_or(word.as_str(), |(_, value)| value).to_string();
    let Some((name, path)) = placed.first().and_then(|word| word.split_once('=')) else {
        return Err(missing("DS"));
    };
    let Some(source) = placed.get(1).copied().map(value) else { return Err(missing("DS")) };
    let Some(function) = placed.get(2).copied().map(value) else { return Err(missing("CF")) };
    let (mut step, mut reduce) = (plan.step, None);
    let (mut start, mut end) = (When::at(plan.start), When::at(plan.end));
    for (key, value) in options.iter().filter_map(|option| option.split_once('=')) {
        let when = |what: &str, text: &str| {
            When::parse(text, plan.now).map_err(|error| Error::Refused(format!("{what} time: {error}")))
        };
        match key {
            "step" => match value.parse() {
                Ok(seconds) if seconds > 0 => step = seconds,
                _ => return refused(format!("Bad step value: {value}")),
            },
            "start" => start = when("start", value)?,
            "end" => end = when("end", value)?,
            "reduce" => {
                let function = Function::from_name(value);
                reduce = Some(function.ok_or_else(|| Error::Refused(format!("bad reduce CF: {value}")))?);
            }
            _ => {}
        }
    }
    let Some(function) = Function::from_name(&function) else {
        return refused(match is_taken(name) {
            true => format!("trying to reuse vname {name}"),
            false => format!("bad CF: {function}"),
        });
    };
    if placed.len() > 3 {
        let left: Vec<String> = placed[3..].iter().map(|word| (*word).clone()).collect();
        return unused(&left, argument);
    }
    let reduce = reduce.unwrap_or(function);
    let (start, end) = When::range(&start, &end, plan.now).map_err(Error::Refused)?;
    Ok((name.into(), Definition { path: path.into(), source, function, reduce, step, start, end }))
}
