//! The highest rate for several sources together below the CPU ceiling, computed from the cost of each.

use khz_model::{Nanos, Rate};
use serde_json::json;

/// A source and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paced {
    /// Its name.
    pub name: &'static str,
    /// CPU time of one gather.
    pub gather: Nanos,
    /// How often the kernel updates it; it is not gathered more often. 0: at every event.
    pub refresh: Nanos,
}

/// Sources that a reader wants at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    /// The cheapest first.
    sources: Vec<Paced>,
    /// The cost of a tick without the sources: waking up, and writing the row.
    tick: Nanos,
    /// Share of a core.
    ceiling: f64,
    /// No lane is faster.
    rate_max: Rate,
}

impl Together {
    /// From sources that were gathered together; `tick` is the CPU time of a whole tick.
    pub fn new(tick: Nanos, mut sources: Vec<Paced>, ceiling: f64, rate_max: Rate) -> Self {
        sources.sort_by_key(|source| source.gather);
        let gathers = sources.iter().map(|source| source.gather.0).sum();
        Together { sources, tick: tick.since(Nanos(gathers)), ceiling, rate_max }
    }

    /// Share of a core that the first `count` of them take at this rate.
    fn share(&self, count: usize, hz: f64) -> f64 {
        let often = |source: &Paced| match source.refresh.0 {
            0 => hz,
            refresh => hz.min(1e9 / refresh as f64),
        };
        let gathers: f64 =
            self.sources[..count].iter().map(|one| one.gather.as_secs_f64() * often(one)).sum();
        gathers + self.tick.as_secs_f64() * hz
    }

    /// The highest rate at which the first `count` stay below the ceiling, in hertz, to two digits, and at most `rate_max`.
    fn up_to(&self, count: usize) -> f64 {
        let most = self.rate_max.hz();
        if self.share(count, most) <= self.ceiling {
            return most;
        }
        // The share grows with the rate: halving the span finds where it crosses, to more digits than are shown.
        let (mut fits, mut exceeds) = (0.0, most);
        for _ in 0..40 {
            let middle = (fits + exceeds) / 2.0;
            let is_fit = self.share(count, middle) <= self.ceiling;
            *(if is_fit { &mut fits } else { &mut exceeds }) = middle;
        }
        let digit = 10f64.powf(fits.log10().floor() - 1.0);
        (fits / digit).floor() * digit
    }

    /// What the agent grants to a reader that asks for `rate_max`: it halves the rate until it fits.
    fn granted(&self) -> Option<Rate> {
        let all = self.sources.len();
        let fits = |times: &u64| self.share(all, self.rate_max.hz() / *times as f64) <= self.ceiling;
        let times = (0..11).map(|power| 1u64 << power).find(fits)?;
        Rate::from_period(Nanos(self.rate_max.period().0 * times))
    }

    /// How many of the cheapest fit at `rate_max`.
    fn at_most(&self) -> usize {
        (0..=self.sources.len()).rev().find(|&count| self.up_to(count) >= self.rate_max.hz()).unwrap_or(0)
    }

    /// For people.
    pub fn sentences(&self) -> Vec<String> {
        let all = self.sources.len();
        if all == 0 {
            return Vec::new();
        }
        let (ceiling, most) = (percent(self.ceiling), self.rate_max);
        let these = if all == 1 { "This source" } else { "All of these together" };
        let up_to = |rate: String| {
            format!(
                "{these} can be gathered at up to {rate} below the CPU ceiling (cpu_max, {ceiling} % of a core)."
            )
        };
        let fast = self.at_most();
        if fast == all {
            return vec![up_to(most.to_string())];
        }
        let granted = match self.granted() {
            Some(granted) => granted.often(),
            None => "1,024 times more slowly".into(),
        };
        let names = |sources: &[Paced]| sources.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
        let some = match fast {
            0 => String::new(),
            _ => format!(" At {most} the ceiling has room for: {}.", names(&self.sources[..fast])),
        };
        let begin = up_to(hertz(self.up_to(all)));
        vec![format!("{begin} A reader that asks for {most} gets rows {granted}.{some}")]
    }

    /// For programs.
    pub fn object(&self) -> serde_json::Value {
        let all = self.sources.len();
        let names = |sources: &[Paced]| sources.iter().map(|one| one.name).collect::<Vec<_>>();
        let paced = |one: &Paced| (one.name.to_owned(), json!(one.gather.0));
        json!({
            "together": names(&self.sources),
            "up_to": hertz(self.up_to(all)),
            "ceiling_percent": percent(self.ceiling),
            "rate_max": self.rate_max.to_string(),
            "granted": self.granted().map(|rate| rate.to_string()),
            "at_rate_max": names(&self.sources[..self.at_most()]),
            "tick_ns": self.tick.0,
            "paced_ns": self.sources.iter().map(paced).collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// `840Hz`, `0.25Hz`.
fn hertz(hz: f64) -> String {
    format!("{}Hz", plain(hz))
}

/// A share in percent.
fn percent(share: f64) -> String {
    plain(share * 100.0)
}

/// Four places at most, and no zeros at the end.
fn plain(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten microseconds for a tick, and sources of 20, 30 and 67; the last is new once in 4 ms.
    fn together(ceiling: f64) -> Together {
        let paced = |name, micros, refresh| Paced { name, gather: Nanos::from_micros(micros), refresh };
        let slow = Nanos::from_millis(4);
        let sources =
            vec![paced("stat", 67, Nanos(0)), paced("meminfo", 20, Nanos(0)), paced("vmstat", 30, slow)];
        Together::new(Nanos::from_micros(127), sources, ceiling, Rate::from_hz(1_000).unwrap())
    }

    #[test]
    fn the_report_has_the_rate_of_all_and_the_cheapest_at_the_highest_rate() {
        // At f: 97 us f + 30 us x 250. 10 % are reached at 953 Hz.
        assert_eq!(
            together(0.1).sentences(),
            [
                "All of these together can be gathered at up to 950Hz below the CPU ceiling (cpu_max, 10 % of a core). A \
              reader that asks for 1000Hz gets rows at 500Hz. At 1000Hz the ceiling has room for: meminfo, vmstat."
            ]
        );
        assert_eq!(
            together(0.11).sentences(),
            [
                "All of these together can be gathered at up to 1000Hz below the CPU ceiling (cpu_max, 11 % of a core)."
            ]
        );
        let little = together(0.001).sentences().concat();
        assert!(little.contains(" up to 7.8Hz below the "), "{little}");
        assert!(little.ends_with(" A reader that asks for 1000Hz gets rows every 128ms."), "{little}");
    }

    #[test]
    fn programs_get_the_same() {
        let object = together(0.1).object();
        assert_eq!(object["up_to"], "950Hz");
        assert_eq!(object["granted"], "500Hz");
        assert_eq!(object["at_rate_max"], json!(["meminfo", "vmstat"]));
        assert_eq!(object["tick_ns"], 10_000);
    }

    #[test]
    fn no_sources_make_no_sentence() {
        let none = Together::new(Nanos(0), Vec::new(), 0.1, Rate::from_hz(1_000).unwrap());
        assert_eq!(none.sentences(), [] as [String; 0]);
    }
}
