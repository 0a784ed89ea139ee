//! The part of a URL after the `?`: known names only, percent-decoded, and turned into patterns, rates and
//! durations. Refuses unknown names, so that a misspelt one is not silently ignored.

use khz_model::{Nanos, Pattern, Rate, moment};

use crate::collect::COLLECT;
use crate::limits::PATTERNS_MAX;
use crate::refusal::Refusal;

/// Parameters that may be given more than once.
const REPEATABLE: &[&str] = &["match", "of", "except", COLLECT];

/// The decoded parameters of one request, in the order written.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads `query`; accepts only `known` names, and only patterns more than once.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Refusal> {
        let mut params: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or("").split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&name.as_str()) {
                return Err(Refusal::bad_request(unknown(&name, known)));
            }
            if !REPEATABLE.contains(&name.as_str()) && params.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::bad_request(format!("parameter '{name}' is given twice")));
            }
            params.push((name, value));
        }
        Ok(Params(params))
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter that may be given more than once.
    pub(crate) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The patterns of every `match`; without one, the pattern for everything.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, Refusal> {
        let patterns = self.all("match")?;
        Ok(if patterns.is_empty() { vec![Pattern::everything()] } else { patterns })
    }

    /// Every pattern that the parameter `name` gives.
    pub(crate) fn all(&self, name: &str) -> Result<Vec<Pattern>, Refusal> {
        if self.texts(name).count() > PATTERNS_MAX {
            return Err(Refusal::bad_request(format!(
                "one request takes at most {PATTERNS_MAX} '{name}' parameters; use globs, as {name}=cpu.*"
            )));
        }
        Ok(self.texts(name).map(Pattern::new).collect::<Result<Vec<_>, _>>()?)
    }

    /// A hostlist, as the pattern of everything on its nodes.
    pub(crate) fn hostlist(&self, name: &str) -> Result<Option<Pattern>, Refusal> {
        Ok(self.get(name).map(Pattern::of_nodes).transpose()?)
    }

    /// A duration with its unit.
    pub(crate) fn duration(&self, name: &str, default: Nanos) -> Result<Nanos, Refusal> {
        Ok(self.get(name).map(str::parse).transpose()?.unwrap_or(default))
    }

    /// A moment; a date must say its zone.
    pub(crate) fn moment(&self, name: &str, now: Nanos, default: &str) -> Result<Nanos, Refusal> {
        let text = self.get(name).unwrap_or(default);
        moment::read(text, now, None).map_err(|error| Refusal::bad_request(format!("{name}: {error}")))
    }

    /// A rate.
    pub(crate) fn rate(&self, name: &str, default: Rate) -> Result<Rate, Refusal> {
        Ok(self.get(name).map(str::parse).transpose()?.unwrap_or(default))
    }

    /// A switch: `1` or `true`, `0` or `false`.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, Refusal> {
        match self.get(name) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(Refusal::bad_request(format!("{name} is 0 or 1, not '{other}'"))),
        }
    }

    /// A whole number of 1..=`max`.
    pub(crate) fn count(&self, name: &str, default: usize, max: usize) -> Result<usize, Refusal> {
        let Some(text) = self.get(name) else { return Ok(default) };
        match text.parse() {
            Ok(n) if (1..=max).contains(&n) => Ok(n),
            _ => Err(Refusal::bad_request(format!("{name} is a number from 1 to {max}, not '{text}'"))),
        }
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    match known {
        [] => format!("this path takes no parameters, but '{name}' is given"),
        _ => format!("unknown parameter '{name}'; this path takes {}", known.join(", ")),
    }
}

/// Undoes percent-encoding; `+` is a space, as forms write it.
pub(crate) fn decode(text: &str) -> Result<String, Refusal> {
    let malformed = || {
        Refusal::bad_request("a '%' in the URL needs two hex digits after it, and the bytes must be UTF-8")
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(malformed)?;
                rest = after;
                hex(digits[0]).zip(hex(digits[1])).map(|(high, low)| high << 4 | low).ok_or_else(malformed)?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|n| u8::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::Instance;
    use proptest::prelude::*;

    #[test]
    fn patterns_are_decoded_once() {
        let params = Params::parse(Some("match=net.rx_bytes%5Ba%252A%5D&match=cpu.*"), &["match"]).unwrap();
        let patterns = params.patterns().unwrap();
        assert!(patterns[0].matches_series("net.rx_bytes", Some(&Instance::from_kernel(b"a*"))));
        assert!(!patterns[0].matches_series("net.rx_bytes", Some(&Instance::from_kernel(b"ab"))));
        assert!(patterns[1].matches_series("cpu.user", Some(&Instance::from_kernel(b"0"))));
    }

    #[test]
    fn misspelt_doubled_and_malformed_parameters_are_refused() {
        for (query, expected) in [
            ("macth=x", "unknown parameter 'macth'; this path takes match, age"),
            ("age=1s&age=2s", "parameter 'age' is given twice"),
            ("match=%4", "a '%' in the URL needs two hex digits after it, and the bytes must be UTF-8"),
            ("match=%ff", "a '%' in the URL needs two hex digits after it, and the bytes must be UTF-8"),
            ("match=%+1", "a '%' in the URL needs two hex digits after it, and the bytes must be UTF-8"),
        ] {
            assert_eq!(Params::parse(Some(query), &["match", "age"]).unwrap_err().error, expected, "{query}");
        }
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_column() {
        let params = Params::parse(Some("match=n:Mem"), &["match"]).unwrap();
        let (column, shown) = params.patterns().unwrap_err().column.unwrap();
        assert_eq!(column, 3);
        assert!(shown.ends_with("  n:Mem\n    ^"), "{shown}");
    }

    #[test]
    fn patterns_are_limited_in_number() {
        let query = vec!["match=a"; PATTERNS_MAX + 1].join("&");
        assert!(Params::parse(Some(&query), &["match"]).unwrap().patterns().is_err());
    }

    proptest! {
        #[test]
        fn no_query_makes_the_reader_panic(query in "[%&=+a-f0-9é\\PC]{0,60}") {
            let _ = Params::parse(Some(&query), &["match", "a"]).map(|p| p.patterns().is_ok());
        }
    }
}
