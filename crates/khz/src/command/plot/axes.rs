//! The axes of a plot: what each counts, which series are read at which, and their colours.

use khz_model::{Kind, RateUnit, Series, Unit};
use khz_record::Measure;
use khz_view::{Axis, Scale};

use crate::show::outcome::Failure;

/// Lines in a panel: as many as there are colours.
const LINES_MAX: usize = 8;

/// The axes and the legend.
pub struct Axes {
    /// How counters are drawn.
    pub measure: Measure,
    /// What is counted at each axis.
    units: Vec<Counted>,
    /// Series, each with its axis.
    pub legend: Vec<(Series, usize)>,
}

/// What the numbers of an axis are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counted {
    words: String,
    scale: Scale,
    /// A share, which is drawn as per cent.
    is_share: bool,
}

impl Axes {
    /// No axis yet.
    pub fn new(measure: Measure) -> Self {
        Axes { measure, units: Vec::new(), legend: Vec::new() }
    }

    /// The place of a series in the legend, and its axis.
    pub fn place(&mut self, series: &Series, is_right: bool) -> Result<(usize, usize), Failure> {
        let counted = counted(series, self.measure);
        if let Some(known) = self.legend.iter().position(|(known, _)| known == series) {
            return Ok((known, self.legend[known].1));
        }
        if self.legend.len() == LINES_MAX {
            return Err(Failure::usage(format!(
                "more than {LINES_MAX} series of a node match: a panel with more lines says nothing; narrow --match"
            )));
        }
        let known = self.units.iter().position(|unit| *unit == counted);
        let axis = match (is_right, known) {
            (true, _) if self.units.len() > 1 && self.units[1] != counted => {
                return Err(self.too_many(&counted));
            }
            (true, _) => 1,
            (false, Some(axis)) => axis,
            (false, None) if self.units.len() < 2 => self.units.len(),
            (false, None) => return Err(self.too_many(&counted)),
        };
        if axis == self.units.len() {
            self.units.push(counted);
        } else if self.units.is_empty() {
            return Err(Failure::usage("--right needs something on the left axis: give it with --match"));
        }
        self.legend.push((series.clone(), axis));
        Ok((self.legend.len() - 1, axis))
    }

    fn too_many(&self, third: &Counted) -> Failure {
        let words: Vec<&str> = self.units.iter().map(|unit| unit.words.as_str()).collect();
        Failure::usage(format!(
            "a plot has two axes, for {}; there is none left for {}",
            words.join(" and "),
            third.words
        ))
    }

    /// The factor for values at this axis.
    pub fn scale_of(&self, axis: usize) -> f64 {
        if self.units[axis].is_share { 100.0 } else { 1.0 }
    }

    /// The axes with their titles. Where only one series is read at an axis, the title names it.
    pub fn axes(&self) -> Vec<Axis> {
        let axis = |(number, unit): (usize, &Counted)| {
            let mut of_axis = self.legend.iter().filter(|(_, axis)| *axis == number);
            let title = match (of_axis.next(), of_axis.next()) {
                (Some((series, _)), None) => format!("{series}, {}", unit.words),
                _ => unit.words.clone(),
            };
            Axis { title, scale: unit.scale }
        };
        self.units.iter().enumerate().map(axis).collect()
    }

    /// The title of the plot.
    pub fn title(&self, panels: usize, whose: &str) -> String {
        let mut names: Vec<String> = self.legend.iter().map(|(series, _)| series.to_string()).collect();
        if names.len() > 3 {
            names.truncate(2);
            names.push(format!("{} more", self.legend.len() - 2));
        }
        let names = match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        };
        match panels {
            1 => names,
            panels => format!("{names} of {panels} {whose}"),
        }
    }
}

/// What a series counts, in words.
fn counted(series: &Series, measure: Measure) -> Counted {
    let unit = series.metric.unit;
    let is_counter = series.metric.kind == Kind::Counter;
    let rate = RateUnit::of(&series.metric.name, unit.as_str());
    let of = |words: &str, scale, is_share| Counted { words: words.to_owned(), scale, is_share };
    match (unit, is_counter, measure) {
        (Unit::Seconds, true, Measure::PerSecond) => match rate {
            RateUnit::ShareOfTime => of("% of the time", Scale::Percent, true),
            rate => of(&rate.name(), Scale::Plain, false),
        },
        (Unit::Seconds, true, Measure::PerSample) => of("ticks of 10 ms per sample", Scale::Plain, false),
        (Unit::Bytes, true, Measure::PerSecond) => of("bytes per second", Scale::Bytes, false),
        (Unit::Bytes, true, Measure::PerSample) => of("bytes per sample", Scale::Bytes, false),
        (Unit::Bytes, false, _) => of("bytes", Scale::Bytes, false),
        (Unit::Percent, false, _) => of("%", Scale::Percent, false),
        (Unit::Count, false, _) => of("number", Scale::Plain, false),
        (Unit::Count, true, Measure::PerSecond) => of("per second", Scale::Plain, false),
        (Unit::Count, true, Measure::PerSample) => of("per sample", Scale::Plain, false),
        (unit, false, _) => of(unit.as_str(), Scale::Plain, false),
        (unit, true, Measure::PerSecond) => of(&format!("{unit} per second"), Scale::Plain, false),
        (unit, true, Measure::PerSample) => of(&format!("{unit} per sample"), Scale::Plain, false),
    }
}
