//! Functions of one value.

/// A function and its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of {
    pub(crate) name: &'static str,
    pub(crate) compute: fn(f64) -> f64,
}

/// All of them.
const ALL: [Of; 23] = [
    Of { name: "abs", compute: f64::abs },
    Of { name: "acos", compute: f64::acos },
    Of { name: "acosh", compute: f64::acosh },
    Of { name: "asin", compute: f64::asin },
    Of { name: "asinh", compute: f64::asinh },
    Of { name: "atan", compute: f64::atan },
    Of { name: "atanh", compute: f64::atanh },
    Of { name: "ceil", compute: f64::ceil },
    Of { name: "cos", compute: f64::cos },
    Of { name: "cosh", compute: f64::cosh },
    Of { name: "deg", compute: |value| value * (180.0 / std::f64::consts::PI) },
    Of { name: "exp", compute: f64::exp },
    Of { name: "floor", compute: f64::floor },
    Of { name: "ln", compute: f64::ln },
    Of { name: "log10", compute: f64::log10 },
    Of { name: "log2", compute: f64::log2 },
    Of { name: "rad", compute: |value| value * (std::f64::consts::PI / 180.0) },
    Of { name: "sgn", compute: sign },
    Of { name: "sin", compute: f64::sin },
    Of { name: "sinh", compute: f64::sinh },
    Of { name: "sqrt", compute: f64::sqrt },
    Of { name: "tan", compute: f64::tan },
    Of { name: "tanh", compute: f64::tanh },
];

/// The function of this name.
pub(super) fn named(name: &str) -> Option<Of> {
    ALL.into_iter().find(|function| function.name == name)
}

/// 1, -1, or the value itself: zero and NaN have no sign.
fn sign(value: f64) -> f64 {
    if value > 0.0 {
        1.0
    } else if value < 0.0 {
        -1.0
    } else {
        value
    }
}
