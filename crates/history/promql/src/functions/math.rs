//! Functions of one value.

/// The function of this name.
pub(super) fn named(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" => f64::abs,
        "acos" => f64::acos,
        "acosh" => f64::acosh,
        "asin" => f64::asin,
        "asinh" => f64::asinh,
        "atan" => f64::atan,
        "atanh" => f64::atanh,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "deg" => |value| value * (180.0 / std::f64::consts::PI),
        "exp" => f64::exp,
        "floor" => f64::floor,
        "ln" => f64::ln,
        "log10" => f64::log10,
        "log2" => f64::log2,
        "rad" => |value| value * (std::f64::consts::PI / 180.0),
        "sgn" => sign,
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return None,
    })
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

/// To the nearest multiple; halves go up. As in Prometheus, the inverse is used: 0.1 has no exact double, 10 has.
pub(crate) fn round(value: f64, to: f64) -> f64 {
    let inverse = 1.0 / to;
    (value * inverse + 0.5).floor() / inverse
}

/// At least `low` and at most `high`.
pub(crate) fn clamp(value: f64, low: f64, high: f64) -> f64 {
    at_least(at_most(value, high), low)
}

/// The larger; NaN if one of them is, and the other is not infinite anyway.
pub(crate) fn at_least(value: f64, low: f64) -> f64 {
    let unknown = (value.is_nan() || low.is_nan()) && value != f64::INFINITY && low != f64::INFINITY;
    if unknown { f64::NAN } else { value.max(low) }
}

/// The smaller; NaN if one of them is, and the other is not infinite anyway.
pub(crate) fn at_most(value: f64, high: f64) -> f64 {
    let unknown =
        (value.is_nan() || high.is_nan()) && value != f64::NEG_INFINITY && high != f64::NEG_INFINITY;
    if unknown { f64::NAN } else { value.min(high) }
}
