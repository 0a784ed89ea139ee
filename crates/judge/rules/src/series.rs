//! The notation of series in tests of rules: `up{job="node"}` and `0 1+2x3 _x2 stale`, one value for each interval.

use khz_promql::{LabelSet, METRIC_NAME, Operator, selector, stale};

use crate::limits::SERIES_VALUES_MAX;

/// Reads the labels of a series.
pub(crate) fn labels(text: &str) -> Result<LabelSet, String> {
    if text.trim() == "{}" {
        return Ok(LabelSet::default());
    }
    let matchers = selector(text).map_err(|error| error.to_string())?;
    let mut names: Vec<&str> = matchers.iter().map(|matcher| &*matcher.name).collect();
    names.sort_unstable();
    if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
        let noun = if two[0] == METRIC_NAME { "its name" } else { two[0] };
        return Err(format!("the series {text:?} has {noun} twice"));
    }
    if matchers.iter().any(|matcher| !matches!(matcher.operator, Operator::Equal)) {
        return Err(format!("the series {text:?} has a condition: write LABEL=\"VALUE\""));
    }
    Ok(LabelSet::new(matchers.iter().map(|matcher| (&*matcher.name, &*matcher.value))))
}

/// Reads the values of a series: one for each interval, `None` where there is none. The error has its byte position.
pub(crate) fn values(text: &str) -> Result<Vec<Option<f64>>, (usize, String)> {
    let mut all = Vec::new();
    let mut from = 0;
    for word in text.split([' ', '\t', '\n', '\r']) {
        let at = from;
        from += word.len() + 1;
        if word.is_empty() {
            continue;
        }
        if word.starts_with("{{") {
            return Err((at, String::from("native histograms are not there")));
        }
        item(word, &mut all).map_err(|problem| (at, problem))?;
    }
    Ok(all)
}

/// Reads `1`, `1x3`, `1+2x3`, `_`, `_x3` or `stale`.
fn item(word: &str, all: &mut Vec<Option<f64>>) -> Result<(), String> {
    // There are no hexadecimal numbers here: 0x4 means 0 and four repeats.
    let (value, times) = match word.rsplit_once('x') {
        Some((value, times)) => {
            let times = times.parse::<usize>();
            (value, Some(times.map_err(|_| format!("'{word}' has no number of times after its x"))?))
        }
        None => (word, None),
    };
    // `1x3` means a value and three repeats, `_x3` means three gaps.
    let count = times.map_or(1, |times| times.saturating_add(usize::from(value != "_")));
    if all.len().saturating_add(count) > SERIES_VALUES_MAX {
        return Err(format!("the series has more than {SERIES_VALUES_MAX} values"));
    }
    match value {
        "_" => all.extend(std::iter::repeat_n(None, count)),
        "stale" => all.extend(std::iter::repeat_n(Some(stale()), count)),
        _ => {
            let advice = || format!("'{word}' is no value: write 1, 1x3, 1+2x3, _, _x3 or stale");
            let is_sign =
                |&(at, c): &(usize, char)| matches!(c, '+' | '-') && !value[..at].ends_with(['e', 'E']);
            let sign = value.char_indices().skip(1).find(is_sign);
            let (begin, step) = match sign {
                Some((at, _)) if times.is_some() => (number(&value[..at]), number(&value[at..])),
                Some(_) => (None, None),
                None => (number(value), Some(0.0)),
            };
            let (Some(mut now), Some(step)) = (begin, step) else { return Err(advice()) };
            for _ in 0..count {
                all.push(Some(now));
                now += step;
            }
        }
    }
    Ok(())
}

/// A number as PromQL has it.
fn number(text: &str) -> Option<f64> {
    let (is_negative, plain) = match text.strip_prefix(['+', '-']) {
        Some(plain) => (text.starts_with('-'), plain),
        None => (false, text),
    };
    let value = match plain.to_ascii_lowercase().as_str() {
        "inf" => f64::INFINITY,
        "nan" => f64::NAN,
        word if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') => word.parse().ok()?,
        _ => return None,
    };
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_promql::is_stale;

    #[test]
    fn values_are_those_of_promtool() {
        let plain = |text: &str| -> Vec<Option<f64>> { values(text).unwrap() };
        let of = |numbers: &[f64]| -> Vec<Option<f64>> { numbers.iter().copied().map(Some).collect() };
        assert_eq!(plain("1 -2 +3 1e3 0x1"), of(&[1.0, -2.0, 3.0, 1000.0, 0.0, 0.0]));
        assert_eq!(plain("1x2"), of(&[1.0, 1.0, 1.0]));
        assert_eq!(plain("1+2x2 10-5x2"), of(&[1.0, 3.0, 5.0, 10.0, 5.0, 0.0]));
        assert_eq!(plain("-2+1e1x1 1x0"), of(&[-2.0, 8.0, 1.0]));
        assert_eq!(plain(" _  _x2\n5 "), [None, None, None, Some(5.0)]);
        assert_eq!(plain("Inf -Inf +inf"), of(&[f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY]));
        assert!(plain("stale stalex1").into_iter().all(|value| value.is_some_and(is_stale)));
        assert!(plain("NaN")[0].unwrap().is_nan() && !is_stale(plain("NaN")[0].unwrap()));
        for (text, at) in [
            ("1 2y", 2),
            ("1+2", 0),
            ("1 x3", 2),
            ("1xx3", 0),
            ("1x-3", 0),
            ("_ {{count:1}}", 2),
            ("1x999999999999", 0),
            ("infinity", 0),
            ("1x3 ü", 4),
        ] {
            assert_eq!(values(text).unwrap_err().0, at, "{text}");
        }
    }

    #[test]
    fn labels_are_those_of_a_series_without_conditions() {
        let text = |text: &str| labels(text).map(|labels| khz_promql::label_text(&labels));
        assert_eq!(text("up{a='b', c=\"d\"}").unwrap(), "{__name__=\"up\", a=\"b\", c=\"d\"}");
        assert_eq!(
            (text("{}").unwrap(), text("{\"net.rx\", a=\"\"}").unwrap()),
            ("{}".into(), "{__name__=\"net.rx\"}".into())
        );
        for wrong in ["up{a!=\"b\"}", "up{", "up{a=\"b\",a=\"c\"}", "up[5m]", "1"] {
            assert!(labels(wrong).is_err(), "{wrong}");
        }
    }
}
