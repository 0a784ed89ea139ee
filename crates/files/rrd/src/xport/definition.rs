//! A `DEF:` argument: the rows of a file, and their consolidation. It opens nothing.

use super::Plan;
use super::argument::{Argument, Name};
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
    /// Whether the argument itself says the step.
    pub has_own_step: bool,
    pub start: i64,
    pub end: i64,
    /// The address of its own daemon.
    pub daemon: Option<String>,
}

/// The name of a definition and what it reads, of the words after `DEF`. `is_taken` says whether a name is used.
pub(super) fn parse(
    argument: &mut Argument<'_>,
    plan: &Plan,
    is_taken: impl Fn(&str) -> bool,
) -> Result<(String, Definition)> {
    let whole = argument.text;
    let missing = |what: &str| Error::Refused(format!("No argument for definition of {what} in {whole}"));
    let reduce = argument.keyed("reduce").map(|text| {
        Function::from_name(&text).ok_or_else(|| Error::Refused(format!("bad reduce CF: {text}")))
    });
    let reduce = reduce.transpose()?;
    let own_step = argument.keyed("step");
    let has_own_step = own_step.is_some();
    let step = match own_step {
        Some(text) => match text.parse() {
            Ok(seconds) if seconds > 0 => seconds,
            _ => return refused(format!("Bad step value: {text}")),
        },
        None => plan.step,
    };
    let mut when = |key: &str, otherwise: i64| match argument.keyed(key) {
        Some(text) => {
            When::parse(&text, plan.now).map_err(|error| Error::Refused(format!("{key} time: {error}")))
        }
        None => Ok(When::at(otherwise)),
    };
    let (start, end) = (when("start", plan.start)?, when("end", plan.end)?);
    let (start, end) = When::range(&start, &end, plan.now).map_err(Error::Refused)?;
    if end < start {
        return refused(format!("start ({start}) should be less than end ({end})"));
    }
    let daemon = argument.keyed("daemon").filter(|address| !address.is_empty());
    let (source, function) = (argument.keyed("ds"), argument.keyed("cf"));
    let Name { name, value: path } = argument.name()?;
    let source = source.or_else(|| argument.next_value()).ok_or_else(|| missing("DS"))?;
    let function = function.or_else(|| argument.next_value()).ok_or_else(|| missing("CF"))?;
    let Some(function) = Function::from_name(&function) else {
        return refused(match name {
            Some(name) if is_taken(&name) => format!("trying to reuse vname {name}"),
            _ => format!("bad CF: {function}"),
        });
    };
    argument.end()?;
    let Some(name) = name else {
        return refused(format!("no name in {whole}; write DEF:NAME=FILE:SOURCE:FUNCTION"));
    };
    let reduce = reduce.unwrap_or(function);
    Ok((name, Definition { path, source, function, reduce, step, has_own_step, start, end, daemon }))
}
