//! A function of a window of each series, as people write it: `mean 1s`, `quantile 0.99 10s`. Gives what nodes take.

use std::str::FromStr;

use khz_model::Nanos;
use khz_plan::limits::WINDOW_MAX;
use khz_plan::{Over, Values};

/// The functions, by their names.
const FUNCTIONS: &[(&str, Over)] = &[
    ("mean", Over::Avg),
    ("min", Over::Min),
    ("max", Over::Max),
    ("sum", Over::Sum),
    ("count", Over::Count),
    ("first", Over::First),
    ("last", Over::Last),
    ("rate", Over::Rate),
    ("increase", Over::Increase),
    ("delta", Over::Delta),
    ("deriv", Over::Deriv),
    ("changes", Over::Changes),
    ("resets", Over::Resets),
    ("stddev", Over::Stddev),
];

/// How the samples of each series are spread.
const HISTOGRAM: &str = "histogram";

/// Reads a function and its window.
///
/// # Errors
/// Returns what is wrong, and what to write instead.
pub(crate) fn read(text: &str) -> Result<Values, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (function, span) = match words[..] {
        [HISTOGRAM, span] => (None, span),
        ["quantile", share, span] => match share.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => (Some(Over::Quantile(share)), span),
            _ => return Err(format!("'{share}' is no share from 0 to 1, as in 'quantile 0.99 10s'")),
        },
        ["quantile", one] if one.parse::<f64>().is_ok() => {
            return Err(format!("'{text}' lacks its window: write 'quantile {one} 10s'"));
        }
        ["quantile", span] => {
            return Err(format!(
                "'{text}' lacks its share, a number from 0 to 1: write 'quantile 0.99 {span}' for what 99 % of the samples do not exceed"
            ));
        }
        [name, span] => match FUNCTIONS.iter().find(|(known, _)| *known == name) {
            Some((_, over)) => (Some(*over), span),
            None => {
                let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "'{name}' is no function: there are {}, quantile, {HISTOGRAM}",
                    names.join(", ")
                ));
            }
        },
        _ => {
            return Err(format!(
                "'{text}' is no function with a window: write 'mean 1s' or 'quantile 0.99 10s'"
            ));
        }
    };
    let length = Nanos::from_str(span).map_err(|error| error.to_string())?;
    if length.0 == 0 || length > WINDOW_MAX || !length.0.is_multiple_of(1_000_000) {
        return Err(format!("a window is whole milliseconds, and at most 5 minutes; this is {length}"));
    }
    Ok(match function {
        Some(over) => Values::Each { over, length },
        None => Values::Histogram { length },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names_and_windows() {
        for (text, over, millis) in [
            ("mean 1s", Over::Avg, 1_000),
            ("rate 500ms", Over::Rate, 500),
            ("quantile 0.99 10s", Over::Quantile(0.99), 10_000),
        ] {
            assert_eq!(read(text), Ok(Values::Each { over, length: Nanos::from_millis(millis) }), "{text}");
        }
        assert_eq!(read("histogram 10s"), Ok(Values::Histogram { length: Nanos::from_secs(10) }));
        for (text, problem) in [
            ("histogram", "write 'mean 1s'"),
            ("histogram 6m", "at most 5 minutes"),
            ("mean", "write 'mean 1s'"),
            ("average 1s", "there are mean, min"),
            ("mean 6m", "at most 5 minutes"),
            ("mean 0s", "whole milliseconds"),
            ("mean 1us", "whole milliseconds"),
            ("mean 1", "not a duration"),
            ("quantile 2 1s", "from 0 to 1"),
            ("quantile 1s", "'quantile 1s' lacks its share, a number from 0 to 1: write 'quantile 0.99 1s'"),
            ("quantile 0.5", "'quantile 0.5' lacks its window: write 'quantile 0.5 10s'"),
            ("quantile", "or 'quantile 0.99 10s'"),
            ("quantile x 1s", "'x' is no share from 0 to 1"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
