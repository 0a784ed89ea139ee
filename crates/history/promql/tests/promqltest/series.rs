//! The notation of series in Prometheus' tests: `name{label="value"} 1 2+3x4 _ stale`.

use khz_promql::{LabelSet, METRIC_NAME, stale};

/// A series and its values, one for each step of a load or of an evaluation.
pub struct Series {
    pub labels: LabelSet,
    pub values: Vec<Point>,
    /// The values are the start times of samples, which are experimental.
    pub start_times: bool,
}

/// A value of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    None,
    Value(f64),
    /// A native histogram.
    Histogram,
}

/// Reads a line; `None` if it is no series.
pub fn series(line: &str) -> Option<Series> {
    let (labels, rest) = labels(line)?;
    let start_times = rest.starts_with('@');
    let rest =
        if start_times { rest.split_once(char::is_whitespace).map_or("", |(_, rest)| rest) } else { rest };
    if start_times {
        return Some(Series { labels, values: Vec::new(), start_times });
    }
    Some(Series { labels, values: values(rest), start_times })
}

/// The labels at the beginning of a line, and what follows.
pub fn labels(line: &str) -> Option<(LabelSet, &str)> {
    let name_end = line.find(|c: char| c == '{' || c == '@' || c.is_whitespace()).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(name_end);
    let mut all: Vec<(String, String)> = Vec::new();
    if !name.is_empty() {
        all.push((METRIC_NAME.to_owned(), name.to_owned()));
    }
    if let Some(inner) = rest.trim_start().strip_prefix('{').filter(|inner| !inner.starts_with('{')) {
        let mut inner = inner.trim_start();
        loop {
            inner = inner.trim_start_matches([',', ' ', '\t']);
            if let Some(after) = inner.strip_prefix('}') {
                rest = after;
                break;
            }
            let quoted_name = inner.starts_with(['"', '\'', '`']);
            let (name, after) = if quoted_name {
                quoted(inner)?
            } else {
                let end = inner.find(|c: char| c == '=' || c.is_whitespace())?;
                (inner[..end].to_owned(), &inner[end..])
            };
            match after.trim_start().strip_prefix('=') {
                Some(after) => {
                    let (value, after) = quoted(after.trim_start())?;
                    all.push((name, value));
                    inner = after;
                }
                None if quoted_name => {
                    all.push((METRIC_NAME.to_owned(), name));
                    inner = after;
                }
                None => return None,
            }
        }
    } else if name.is_empty() {
        return None;
    }
    Some((LabelSet::new(all), rest.trim_start()))
}

/// A text in quotes, and what follows it.
pub fn quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|quote| ['"', '\'', '`'].contains(quote))?;
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, c)) = characters.next() {
        if c == quote {
            return Some((value, &text[at + 1..]));
        }
        if c == '\\' && quote != '`' {
            match characters.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'u' => {
                    let code: String =
                        (0..4).filter_map(|_| characters.next()).map(|(_, digit)| digit).collect();
                    value.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
                }
                other => value.push(other),
            }
        } else {
            value.push(c);
        }
    }
    None
}

/// All values of a series.
pub fn values(text: &str) -> Vec<Point> {
    let mut all = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if rest.starts_with("{{") {
            let end = rest.find("}}").map_or(rest.len(), |at| at + 2);
            let after = rest[end..]
                .split_whitespace()
                .next()
                .filter(|_| !rest[end..].starts_with(char::is_whitespace));
            // `{{…}}+{{…}}x3` and `{{…}}x3`
            let mut word_end = end + after.map_or(0, str::len);
            if let Some(inner) = rest[end..].find("}}").filter(|_| rest[end..].starts_with(['+', '-'])) {
                let tail = end + inner + 2;
                word_end = tail + rest[tail..].find(char::is_whitespace).unwrap_or(rest.len() - tail);
            }
            let times = rest[..word_end].rsplit_once('x').and_then(|(_, n)| n.parse().ok()).unwrap_or(0);
            all.extend(std::iter::repeat_n(Point::Histogram, times + 1));
            rest = rest[word_end.min(rest.len())..].trim_start();
            continue;
        }
        let (word, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        push(word, &mut all);
        rest = after.trim_start();
    }
    all
}

/// A word: `1`, `1x3`, `1+2x3`, `_`, `_x3`, `stale`.
fn push(word: &str, all: &mut Vec<Point>) {
    let repeated =
        word.rsplit_once('x').and_then(|(value, times)| Some((value, times.parse::<usize>().ok()?)));
    let (value, times) = repeated.unwrap_or((word, 0));
    if value == "_" {
        all.extend(std::iter::repeat_n(Point::None, times.max(1)));
        return;
    }
    if value == "stale" {
        all.extend(std::iter::repeat_n(Point::Value(stale()), times + 1));
        return;
    }
    // A sign between two numbers, but not that of an exponent.
    let sign = value.char_indices().skip(1).find(|&(at, c)| {
        (c == '+' || c == '-') && !(value[..at].ends_with(['e', 'E']) && value[..at].len() > 1)
    });
    let read = |text: &str| number(text).unwrap_or_else(|| panic!("{word}"));
    let (mut now, step) = match sign {
        Some((at, _)) => (read(&value[..at]), read(&value[at..])),
        None => (read(value), 0.0),
    };
    for _ in 0..=times {
        all.push(Point::Value(now));
        now += step;
    }
}

/// A number as Go reads it.
pub fn number(text: &str) -> Option<f64> {
    let plain = text.trim_start_matches(['+', '-']);
    let negative = text.starts_with('-');
    let value = match plain.to_ascii_lowercase().as_str() {
        "inf" => f64::INFINITY,
        "nan" => f64::NAN,
        word => match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok()? as f64,
            None => word.parse().ok()?,
        },
    };
    Some(if negative { -value } else { value })
}
