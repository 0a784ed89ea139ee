//! Times as Prometheus writes them in JSON. (Values are written by `khz_promql::put_value`.)

use std::fmt::Write as _;

/// A time in ms since 1970, as seconds with three places, or none.
pub(crate) fn time(out: &mut String, ms: i64) {
    let sign = if ms < 0 { "-" } else { "" };
    let (seconds, rest) = (ms.unsigned_abs() / 1_000, ms.unsigned_abs() % 1_000);
    let _ = write!(out, "{sign}{seconds}");
    if rest > 0 {
        let _ = write!(out, ".{rest:03}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(put: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        put(&mut out);
        out
    }

    #[test]
    fn times_have_three_places_or_none() {
        for (ms, expected) in [
            (0, "0"),
            (1_000, "1"),
            (1_500, "1.500"),
            (1_763_690_000_007, "1763690000.007"),
            (-1_001, "-1.001"),
        ] {
            assert_eq!(shown(|out| time(out, ms)), expected);
        }
    }
}
