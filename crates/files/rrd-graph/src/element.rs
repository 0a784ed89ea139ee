//! The arguments that print or draw something: text to what is wanted. Knows the names of definitions, not their rows.

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::number::{self, Reading};
use khz_rrd::xport::{Argument, Script};

use crate::format::Format;
use crate::legend::Align;
use crate::options::{Colour, colour};

/// Elements of one command.
pub const ELEMENTS_MAX: usize = 4000;
/// Lengths of one pattern of dashes.
const DASHES_MAX: usize = 64;

/// A number, or a definition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Subject {
    /// A number.
    Number(f64),
    /// The definition with this index.
    Named(usize),
}

/// Lengths of dashes and gaps, and where the pattern begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Dashes {
    /// On, off, on and so on.
    pub lengths: Vec<f64>,
    /// Where it begins.
    pub offset: f64,
}

/// What a curve is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A line of this width.
    Line(f64),
    /// Filled down to 0 or to what it is stacked on; perhaps a second colour and the height over which it changes.
    Area(Option<(Colour, f64)>),
}

/// Old functions of `PRINT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is its own name in rrdtool's documentation")]
pub enum Function {
    Average,
    Min,
    Max,
    Last,
}

/// What is printed of a definition.
#[derive(Debug, Clone, PartialEq)]
pub enum Print {
    /// A function of a series.
    Of(Function, Format),
    /// The time of the command: what rrdtool prints as the time of a function.
    Now(String),
    /// A function whose value is a time.
    TimeOf(Function, String),
    /// A function whose value is a duration in milliseconds.
    DurationOf(Function, String),
    /// A value.
    Value(Format),
    /// The time of a value.
    Time(String),
    /// A value that is a time.
    ValueTime(String),
    /// A value that is a duration in milliseconds.
    Duration(String),
}

/// What an element does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// `PRINT`, or `GPRINT` if `is_legend`.
    Print {
        of: usize,
        print: Print,
        is_legend: bool,
    },
    Comment,
    Align(Align),
    Curve {
        of: Subject,
        kind: Kind,
        colour: Option<Colour>,
        is_stacked: bool,
        skips_scale: bool,
        dashes: Option<Dashes>,
    },
    Tick {
        of: Subject,
        colour: Option<Colour>,
        fraction: f64,
    },
    Level {
        of: Subject,
        colour: Option<Colour>,
        dashes: Option<Dashes>,
    },
    Moment {
        of: Subject,
        colour: Option<Colour>,
        dashes: Option<Dashes>,
    },
    /// `XPORT`: a column of tables, nothing in a picture.
    Export {
        of: Subject,
    },
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// What it does.
    pub action: Action,
    /// Its text in the legend, with rrdtool's control letters.
    pub legend: String,
}

impl Element {
    /// Whether the legend has a coloured box before its text.
    pub fn has_box(&self) -> bool {
        matches!(self.action, Action::Curve { .. } | Action::Level { .. } | Action::Moment { .. })
    }

    /// Whether it makes a picture necessary.
    pub fn draws(&self) -> bool {
        !matches!(
            self.action,
            Action::Print { is_legend: false, .. }
                | Action::Comment
                | Action::Align(_)
                | Action::Export { .. }
        )
    }
}

/// Parses an argument that defines nothing. `before` are the elements so far.
pub fn parse(argument: &mut Argument<'_>, script: &Script, before: &[Element]) -> Result<Element> {
    if before.len() >= ELEMENTS_MAX {
        return refused(format!("more than {ELEMENTS_MAX} elements"));
    }
    let text = argument.text;
    let command = argument.command.clone();
    let element = match command.as_str() {
        "PRINT" | "GPRINT" => print(argument, script, command == "GPRINT")?,
        "COMMENT" => comment(argument)?,
        "TEXTALIGN" => align(argument)?,
        "AREA" => curve(argument, script, Kind::Area(None), false)?,
        "STACK" => stack(argument, script, before)?,
        "TICK" => tick(argument, script)?,
        "HRULE" | "VRULE" => rule(argument, script, command == "HRULE")?,
        "XPORT" => export(argument, script)?,
        name => match name.strip_prefix("LINE") {
            Some(width) => curve(argument, script, Kind::Line(line_width(width)?), false)?,
            None => return refused(format!("'{name}' is not a valid function name in {text}")),
        },
    };
    argument.end()?;
    Ok(element)
}

fn comment(argument: &mut Argument<'_>) -> Result<Element> {
    let legend = argument.keyed("legend").or_else(|| argument.next_word());
    let legend = legend.ok_or_else(|| Error::Refused("No positional CF/FORMAT".into()))?;
    Ok(Element { action: Action::Comment, legend })
}

fn line_width(text: &str) -> Result<f64> {
    if text.is_empty() {
        return Ok(1.0);
    }
    match number::read(text) {
        Reading::Whole(width) if width.is_finite() && width >= 0.0 => Ok(width),
        _ => refused(format!("Bad line width: {text}")),
    }
}

fn print(argument: &mut Argument<'_>, script: &Script, is_legend: bool) -> Result<Element> {
    let text = argument.text;
    let format = argument.keyed("format");
    let (is_time, is_value_time, is_duration) =
        (argument.flag("strftime"), argument.flag("valstrftime"), argument.flag("valstrfduration"));
    let function = argument.keyed("cf");
    let Some(name) = argument.keyed("vname").or_else(|| argument.next_value()) else {
        return refused("No positional VNAME");
    };
    let Some(of) = script.find(&name) else { return refused(format!("undefined vname {name}")) };
    let is_value = script.is_value(of);
    let mut next = || argument.next_word();
    let print = if is_value {
        let Some(format) = format.or_else(&mut next) else { return refused("No positional CF/FORMAT") };
        argument.end()?;
        match (is_time, is_value_time, is_duration) {
            (true, _, _) => Print::Time(format),
            (_, true, _) => Print::ValueTime(format),
            (_, _, true) => Print::Duration(format),
            _ => Print::Value(Format::parse(&format)?),
        }
    } else {
        let Some(function) = function.or_else(&mut next) else { return refused("No positional CDEF") };
        let Some(format) = format.or_else(&mut next) else {
            return refused(match known(&function) {
                Some(_) => "No positional CF/FORMAT".into(),
                None => format!("bad CF for DEF/CDEF: {function}"),
            });
        };
        let Some(known) = known(&function) else {
            return refused(format!("bad CF for DEF/CDEF: {function}"));
        };
        argument.end()?;
        match (is_time, is_value_time, is_duration) {
            (true, _, _) => Print::Now(format),
            (_, true, _) => Print::TimeOf(known, format),
            (_, _, true) => Print::DurationOf(known, format),
            _ => Print::Of(known, Format::parse(&format)?),
        }
    };
    let _ = text;
    Ok(Element { action: Action::Print { of, print, is_legend }, legend: String::new() })
}

fn known(function: &str) -> Option<Function> {
    Some(match function {
        // As in rrdtool, those of forecasts are summed up as averages.
        "AVERAGE" | "HWPREDICT" | "MHWPREDICT" | "SEASONAL" | "DEVPREDICT" | "DEVSEASONAL" => {
            Function::Average
        }
        "MIN" => Function::Min,
        "MAX" | "FAILURES" => Function::Max,
        "LAST" => Function::Last,
        _ => return None,
    })
}

fn align(argument: &mut Argument<'_>) -> Result<Element> {
    let Some(word) = argument.keyed("align").or_else(|| argument.next_word()) else {
        return refused("No alignment given");
    };
    let align = match word.as_str() {
        "left" => Align::Left,
        "right" => Align::Right,
        "justified" => Align::Justified,
        "center" => Align::Center,
        _ => return refused(format!("Unknown alignment type '{word}'")),
    };
    Ok(Element { action: Action::Align(align), legend: String::new() })
}

/// A name or number with a colour after it.
struct Coloured {
    name: String,
    colour: Option<Colour>,
    second: Option<Colour>,
    /// A colour that is none: then rrdtool shows no legend.
    is_wrong: bool,
}

impl Coloured {
    fn parse(word: &str) -> Self {
        let mut parts = word.split('#');
        let name = parts.next().unwrap_or("").to_string();
        let first = parts.next();
        let colour = first.and_then(colour);
        let second = parts.next().and_then(crate::options::colour);
        Self { name, colour, second, is_wrong: first.is_some() && colour.is_none() }
    }
}

fn subject(name: &str, script: &Script) -> Result<Subject> {
    if let Some(index) = script.find(name) {
        return Ok(Subject::Named(index));
    }
    match number::read(name) {
        Reading::Whole(value) => Ok(Subject::Number(value)),
        _ => refused(format!("{name} is not a vname nor a number")),
    }
}

fn dashes(argument: &mut Argument<'_>) -> Result<Option<Dashes>> {
    let offset = match argument.keyed("dash-offset") {
        Some(text) => match number::read(&text) {
            Reading::Whole(offset) if offset.is_finite() => offset,
            _ => return refused(format!("Could not parse dash-offset: {text}")),
        },
        None => 0.0,
    };
    let lengths = match argument.keyed("dashes") {
        Some(text) => {
            let mut lengths = vec![];
            for part in text.split(',') {
                match number::read(part) {
                    Reading::Whole(length) if length.is_finite() && length >= 0.0 => lengths.push(length),
                    _ => return refused(format!("Could not parse number: {part}")),
                }
            }
            if lengths.len() > DASHES_MAX {
                return refused(format!("more than {DASHES_MAX} lengths of dashes"));
            }
            // One length is that of the gap too.
            if lengths.len() % 2 == 1 {
                lengths.extend(lengths.clone());
            }
            lengths
        }
        None if argument.flag("dashes") => vec![5.0, 5.0],
        None => return Ok(None),
    };
    Ok(Some(Dashes { lengths, offset }).filter(|dashes| dashes.lengths.iter().sum::<f64>() > 0.0))
}

fn curve(argument: &mut Argument<'_>, script: &Script, kind: Kind, is_stack: bool) -> Result<Element> {
    let own_colour = argument.keyed("color");
    let legend = argument.keyed("legend");
    let dashes = if matches!(kind, Kind::Line(_)) { dashes(argument)? } else { None };
    let height = argument.keyed("gradheight").filter(|_| matches!(kind, Kind::Area(_)));
    let skips_scale = argument.flag("skipscale");
    let Some(word) = argument.keyed("value").or_else(|| argument.next_value()) else {
        return refused("No positional VNAME");
    };
    let Coloured { name, mut colour, second, is_wrong } = Coloured::parse(&word);
    if let Some(own) = own_colour {
        colour = crate::options::colour(own.trim_start_matches('#')).or(colour);
    }
    let of = subject(&name, script)?;
    let legend = legend.or_else(|| argument.next_word()).filter(|_| !is_wrong).unwrap_or_default();
    let is_stacked = argument.flag("STACK") || is_stack;
    let height = match height {
        Some(text) => match number::read(&text) {
            Reading::Whole(height) if height.is_finite() => height,
            _ => return refused(format!("Bad gradheight: {text}")),
        },
        None => 50.0,
    };
    let kind = match kind {
        Kind::Area(_) => Kind::Area(second.map(|second| (second, height))),
        line => line,
    };
    Ok(Element { action: Action::Curve { of, kind, colour, is_stacked, skips_scale, dashes }, legend })
}

/// The old `STACK`: the kind of the curve before it, on top of that.
fn stack(argument: &mut Argument<'_>, script: &Script, before: &[Element]) -> Result<Element> {
    let last = before.iter().rev().find_map(|element| match &element.action {
        Action::Curve { kind, .. } => Some(kind.clone()),
        _ => None,
    });
    match last {
        Some(kind) => curve(argument, script, kind, true),
        None => refused(format!("No previous LINE or AREA found for {}", argument.text)),
    }
}

fn tick(argument: &mut Argument<'_>, script: &Script) -> Result<Element> {
    let (fraction, legend) = (argument.keyed("fraction"), argument.keyed("legend"));
    let Some(word) = argument.keyed("vname").or_else(|| argument.next_value()) else {
        return refused("No positional VNAME");
    };
    let Coloured { name, colour, is_wrong, .. } = Coloured::parse(&word);
    let of = subject(&name, script)?;
    let Some(text) = fraction.or_else(|| argument.next_word()) else {
        return refused("No positional FRACTION");
    };
    let Reading::Whole(fraction) = number::read(&text) else {
        return refused(format!("error parsing number {name}"));
    };
    let legend = legend.or_else(|| argument.next_word()).filter(|_| !is_wrong).unwrap_or_default();
    Ok(Element { action: Action::Tick { of, colour, fraction }, legend })
}

fn rule(argument: &mut Argument<'_>, script: &Script, is_level: bool) -> Result<Element> {
    let text = argument.text;
    let legend = argument.keyed("legend");
    let dashes = dashes(argument)?;
    let Some(word) = argument.keyed("value").or_else(|| argument.next_value()) else {
        return refused("No positional VNAME");
    };
    let Coloured { name, colour, is_wrong, .. } = Coloured::parse(&word);
    let of = subject(&name, script)?;
    if matches!(of, Subject::Named(index) if !script.is_value(index)) {
        return refused(format!("Using vname {name} of wrong type in line {text}"));
    }
    let legend = legend.or_else(|| argument.next_word()).filter(|_| !is_wrong).unwrap_or_default();
    let action = match is_level {
        true => Action::Level { of, colour, dashes },
        false => Action::Moment { of, colour, dashes },
    };
    Ok(Element { action, legend })
}

fn export(argument: &mut Argument<'_>, script: &Script) -> Result<Element> {
    let legend = argument.keyed("legend");
    let Some(word) = argument.keyed("vname").or_else(|| argument.next_value()) else {
        return refused("No positional VNAME");
    };
    let name = Coloured::parse(&word).name;
    let of = subject(&name, script)?;
    let legend = legend.or_else(|| argument.next_word()).unwrap_or_default();
    Ok(Element { action: Action::Export { of }, legend })
}
