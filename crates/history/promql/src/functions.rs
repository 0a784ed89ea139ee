//! The functions of the language: their names, arguments and results. Each family is in a file of its own.

pub(crate) mod absent;
pub(crate) mod dates;
pub(crate) mod histogram;
pub(crate) mod labels;
pub(crate) mod math;
pub(crate) mod sort;

use crate::fold::Over;
use crate::plan::{Gives, Kind, Node};
use dates::Part;

/// A function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    /// Functions of all samples of a range.
    Over(Over),
    AbsentOverTime,
    /// Of one value.
    Math(math::Of),
    /// A part of the date of a value.
    Date(Part),
    Round,
    Clamp,
    ClampMin,
    ClampMax,
    Absent,
    Sort {
        descending: bool,
    },
    LabelReplace,
    LabelJoin,
    HistogramQuantile,
    HistogramFraction,
    /// Functions of native histograms, which no series here has.
    OfNativeHistograms,
    Scalar,
    Vector,
    Time,
    Timestamp,
    Pi,
}

impl Function {
    /// The function of this name; `None` for those that are experimental in Prometheus.
    pub(crate) fn named(name: &str) -> Option<Self> {
        if let Some(over) = Over::named(name) {
            return Some(Function::Over(over));
        }
        if let Some(function) = math::named(name) {
            return Some(Function::Math(function));
        }
        if let Some(part) = Part::named(name) {
            return Some(Function::Date(part));
        }
        Some(match name {
            "absent_over_time" => Function::AbsentOverTime,
            "round" => Function::Round,
            "clamp" => Function::Clamp,
            "clamp_min" => Function::ClampMin,
            "clamp_max" => Function::ClampMax,
            "absent" => Function::Absent,
            "sort" => Function::Sort { descending: false },
            "sort_desc" => Function::Sort { descending: true },
            "label_replace" => Function::LabelReplace,
            "label_join" => Function::LabelJoin,
            "histogram_quantile" => Function::HistogramQuantile,
            "histogram_fraction" => Function::HistogramFraction,
            "histogram_avg" | "histogram_count" | "histogram_sum" | "histogram_stddev"
            | "histogram_stdvar" => Function::OfNativeHistograms,
            "scalar" => Function::Scalar,
            "vector" => Function::Vector,
            "time" => Function::Time,
            "timestamp" => Function::Timestamp,
            "pi" => Function::Pi,
            _ => return None,
        })
    }

    /// What it gives.
    pub(crate) fn gives(self) -> Gives {
        match self {
            Function::Scalar | Function::Time | Function::Pi => Gives::Scalar,
            _ => Gives::Vector,
        }
    }

    /// It depends on the time of the step, even if its arguments do not.
    pub(crate) fn needs_time(self, arguments: usize) -> bool {
        match self {
            Function::Time | Function::Timestamp => true,
            Function::Date(_) => arguments == 0,
            Function::Over(over) => over == Over::PredictLinear,
            _ => false,
        }
    }

    /// The types of its arguments; the last is repeated. The second number says how many arguments may be missing.
    fn takes(self) -> (&'static [Gives], usize) {
        use Gives::{Matrix, Scalar, Text, Vector};
        match self {
            Function::Over(Over::Quantile) => (&[Scalar, Matrix], 0),
            Function::Over(Over::PredictLinear) => (&[Matrix, Scalar], 0),
            Function::Over(_) | Function::AbsentOverTime => (&[Matrix], 0),
            Function::Math(_)
            | Function::Absent
            | Function::Sort { .. }
            | Function::OfNativeHistograms
            | Function::Scalar
            | Function::Timestamp => (&[Vector], 0),
            Function::Date(_) => (&[Vector], 1),
            Function::Round => (&[Vector, Scalar], 1),
            Function::Clamp => (&[Vector, Scalar, Scalar], 0),
            Function::ClampMin | Function::ClampMax => (&[Vector, Scalar], 0),
            Function::LabelReplace => (&[Vector, Text, Text, Text, Text], 0),
            Function::LabelJoin => (&[Vector, Text, Text, Text], 1),
            Function::HistogramQuantile => (&[Scalar, Vector], 0),
            Function::HistogramFraction => (&[Scalar, Scalar, Vector], 0),
            Function::Vector => (&[Scalar], 0),
            Function::Time | Function::Pi => (&[], 0),
        }
    }

    /// Fails if it cannot have these arguments.
    pub(crate) fn check(self, name: &str, arguments: &[Node]) -> Result<(), String> {
        let (types, optional) = self.takes();
        let least = types.len() - optional;
        if arguments.len() < least {
            return Err(format!("expected {least} argument(s) in call to {name:?}, got {}", arguments.len()));
        }
        if arguments.len() > types.len() && !matches!(self, Function::LabelJoin) {
            return Err(format!(
                "expected at most {} argument(s) in call to {name:?}, got {}",
                types.len(),
                arguments.len()
            ));
        }
        for (at, argument) in arguments.iter().enumerate() {
            let wanted = types[at.min(types.len() - 1)];
            if argument.gives != wanted {
                return Err(format!(
                    "expected type {} in call to function {name:?}, got {}",
                    wanted.name(),
                    argument.gives.name()
                ));
            }
        }
        Ok(())
    }
}

impl Gives {
    /// Its name in Prometheus.
    fn name(self) -> &'static str {
        match self {
            Gives::Scalar => "scalar",
            Gives::Text => "string",
            Gives::Vector => "instant vector",
            Gives::Matrix => "range vector",
        }
    }
}

/// The value of an argument that is a text.
pub(crate) fn text(arguments: &[Node], at: usize) -> &str {
    match arguments.get(at).map(|node| &node.kind) {
        Some(Kind::Text(text)) => text,
        _ => "",
    }
}
