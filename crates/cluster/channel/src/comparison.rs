//! Conditions on the latest values, in khz's own names and units: `mem.available > 1GiB and load.1m < 64`. Pure: it is given values.

use khz_model::Pattern;

use crate::waited::{About, is_rate, number, split};
use crate::{slips, waited};

/// A comparison of the latest value of a series with a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The series, without nodes. It may be several: then each must hold.
    pub pattern: Pattern,
    /// What stood there.
    pub text: String,
    operator: &'static str,
    bound: f64,
}

impl Comparison {
    /// Reads `SERIES OP VALUE`, several with `and`.
    ///
    /// # Errors
    /// Returns what is wrong, and what to write instead. A rate cannot be compared: it needs more than the latest value.
    pub fn read(text: &str, about: impl Fn(&str) -> Option<About>) -> Result<Vec<Self>, String> {
        if let Some(slip) = slips::of_condition(text) {
            return Err(slip);
        }
        text.split(" and ").map(|part| Self::one(part.trim(), &about)).collect()
    }

    fn one(part: &str, about: impl Fn(&str) -> Option<About>) -> Result<Self, String> {
        let (series, operator, value) = split(part)?;
        let pattern = Pattern::new(series).map_err(|error| error.to_string())?;
        if pattern.nodes().is_some() {
            return Err(format!("'{part}' names a node: only this node is looked at"));
        }
        let about = about(pattern.metric());
        waited::check_metric(&pattern)?;
        waited::check_number(&pattern, about.as_ref())?;
        if is_rate(value, about.as_ref()) {
            return Err(format!("'{part}' compares a rate: only the latest values are looked at"));
        }
        let bound = number(&pattern, value, about.as_ref())?;
        Ok(Comparison { pattern, text: part.to_owned(), operator, bound })
    }

    /// Whether it is true of this value.
    pub fn holds(&self, value: f64) -> bool {
        match self.operator {
            "<" => value < self.bound,
            "<=" => value <= self.bound,
            ">" => value > self.bound,
            ">=" => value >= self.bound,
            "==" => value == self.bound,
            _ => value != self.bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_model::{Kind, Unit};

    use super::*;

    fn about(metric: &str) -> Option<About> {
        let unit = if metric.starts_with("mem") { Unit::Bytes } else { Unit::Count };
        (!metric.starts_with("new")).then_some(About {
            unit,
            kind: Kind::Gauge,
            instances: None,
            is_labels: metric == "host.uname",
        })
    }

    #[test]
    fn each_comparison_means_what_is_written() {
        let read = |text| Comparison::read(text, about).unwrap();
        let [memory, load] = &read("mem.available >= 1GiB and load.1m<64")[..] else { panic!() };
        assert_eq!(memory.pattern.metric(), "mem.available");
        assert!(memory.holds(1_073_741_824.0) && !memory.holds(1_073_741_823.0));
        assert!(load.holds(63.9) && !load.holds(64.0));
        for (text, of_1, of_2) in [
            ("new.x == 1", true, false),
            ("new.x != 1", false, true),
            ("new.x > 1", false, true),
            ("new.x <= 1", true, false),
        ] {
            assert_eq!((read(text)[0].holds(1.0), read(text)[0].holds(2.0)), (of_1, of_2), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_reason() {
        for (text, expected) in [
            ("mem.available", "compares nothing"),
            ("n1:mem.available > 1GiB", "names a node"),
            ("net.rx_bytes[eth0] > 1MB/s", "compares a rate"),
            ("mem.available > 5%", "does not fit"),
            ("mem.* > 1GiB", "means several metrics"),
            ("host.uname == 1", "has labels and no number"),
            ("MemFree > 1GiB", "lower-case words"),
            ("node_load1 > 1", "is no metric of khz"),
            ("mem.available > 1GiB and", "does not fit"),
        ] {
            let got = Comparison::read(text, about).unwrap_err();
            assert!(got.contains(expected), "{text}: {got}");
        }
    }
}
