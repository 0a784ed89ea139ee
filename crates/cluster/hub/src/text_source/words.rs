//! Decodes the lines of another text door. It keeps nothing but the items.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use khz_model::metric::{Exposition, Origin};
use khz_model::name::is_metric_name;
use khz_model::{
    Absence, Kind, Labels, Metric, NodeName, Reading, Series, SeriesName, Unit, ValueFormat, ValueType,
};

use super::lines::Problem;

/// Items of one source: as many as our own text door has at most.
pub(crate) const ITEMS_MAX: usize = 16_384;
/// The format of items for which the source reports no format.
const PLAIN_FORMAT: ValueFormat = ValueFormat { value_type: ValueType::Unsigned, places: 2 };
/// The most decimal places of a value.
const PLACES_MAX: u8 = 9;
/// Sources of a hub, as on the link.
const ORIGINS_MAX: usize = 33;

/// An item.
#[derive(Debug)]
pub(crate) struct Item {
    pub series: Series,
    /// Values are of a type that a newer program knows.
    of_newer_type: bool,
}

impl Item {
    /// The reading for the text of a value; `None`: the text does not fit the item's type, or is too
    /// large.
    pub fn reading(&self, text: &str) -> Option<Reading> {
        match self.of_newer_type {
            true => Some(Reading::Absent(Absence::NoField)),
            false => reading(text, self.series.metric.format()),
        }
    }
}

/// All items of a source, by their flat names.
#[derive(Debug, Default)]
pub(crate) struct Items {
    list: Vec<Item>,
    names: HashMap<Box<str>, u32>,
    metrics: HashMap<Box<str>, Arc<Metric>>,
}

impl Items {
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub fn get(&self, item: u32) -> Option<&Item> {
        self.list.get(item as usize)
    }

    /// Takes a line of the answer to `:items`: `MASK NAME KIND UNIT PLACES SERIES`, or with types `... PLACES TYPE SERIES`.
    pub fn full(&mut self, line: &str, typed: bool, catalogue: &[Arc<Metric>]) -> Result<(), Problem> {
        let strange = || Problem::Said(format!("it describes an item as '{}'", shown(line)));
        let mut words = line.splitn(6 + usize::from(typed), ' ');
        let mut word = || words.next().ok_or_else(strange);
        let (_, name, kind, unit, places) = (word()?, word()?, word()?, word()?, word()?);
        // A type without a name here is a newer program's.
        let value_type = if typed { ValueType::named(word()?) } else { Some(ValueType::Unsigned) };
        let series = word()?;
        if self.find(name).is_some() {
            return Ok(());
        }
        let (kind, unit) = (Kind::named(kind).ok_or_else(strange)?, Unit::named(unit).ok_or_else(strange)?);
        let places: u8 = places.parse().ok().filter(|&n| n <= PLACES_MAX).ok_or_else(strange)?;
        let series = SeriesName::parse(series).map_err(|_| strange())?;
        let format = ValueFormat { value_type: value_type.unwrap_or_default(), places };
        let metric = self.metric(&series, (kind, unit, format), catalogue);
        let series = Series { metric, instance: series.instance };
        self.put(name, Item { series, of_newer_type: value_type.is_none() });
        Ok(())
    }

    /// Takes a line of the answer to `#`: `MASK NAME U` or `MASK NAME B LOWER UPPER`. Only the name is known of such an item, unless
    /// the catalogue has it.
    pub fn plain(&mut self, line: &str, catalogue: &[Arc<Metric>]) -> Result<(), Problem> {
        let strange = || Problem::Said(format!("it describes an item as '{}'", shown(line)));
        let mut words = line.split(' ');
        let (mask, name) = (words.next().ok_or_else(strange)?, words.next().ok_or_else(strange)?);
        if mask.is_empty() || !mask.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(strange());
        }
        // The cluster's name and the number of its nodes are no items. Names that are invalid here are left out.
        let lower = name.to_ascii_lowercase();
        if mask.bytes().all(|b| b == b'0') || self.find(name).is_some() || !is_metric_name(&lower) {
            return Ok(());
        }
        let known =
            catalogue.iter().find(|metric| metric.instances.is_none() && metric.flat == lower.as_str());
        let series = SeriesName { node: None, metric: lower.into(), instance: None };
        let metric = match known {
            Some(metric) => Arc::clone(metric),
            None => self.metric(&series, (Kind::Gauge, Unit::Count, PLAIN_FORMAT), catalogue),
        };
        self.put(name, Item { series: Series { metric, instance: None }, of_newer_type: false });
        Ok(())
    }

    fn put(&mut self, name: &str, item: Item) {
        if self.list.len() < ITEMS_MAX {
            self.names.insert(name.into(), self.list.len() as u32);
            self.list.push(item);
        }
    }

    /// The catalogue's metric, if it agrees; else one of which only this is known.
    fn metric(
        &mut self,
        series: &SeriesName,
        (kind, unit, format): (Kind, Unit, ValueFormat),
        catalogue: &[Arc<Metric>],
    ) -> Arc<Metric> {
        let has_instance = series.instance.is_some();
        let is_it = |metric: &&Arc<Metric>| {
            metric.name == *series.metric
                && (metric.kind, metric.unit, metric.format()) == (kind, unit, format)
                && metric.instances.is_some() == has_instance
        };
        if let Some(metric) =
            catalogue.iter().find(is_it).or_else(|| self.metrics.get(&series.metric).filter(is_it))
        {
            return Arc::clone(metric);
        }
        let metric = Arc::new(unknown(&series.metric, (kind, unit, format), has_instance));
        self.metrics.insert(series.metric.clone(), Arc::clone(&metric));
        metric
    }
}

/// A metric of which only this is known.
fn unknown(name: &str, (kind, unit, format): (Kind, Unit, ValueFormat), has_instances: bool) -> Metric {
    let exposed = format!("khz_{}", name.replace('.', "_"));
    let plain = Metric::plain(name.to_owned(), exposed, kind, unit);
    let metric = Metric {
        places: format.places,
        value_type: format.value_type,
        help: Cow::Borrowed("From a source over the text protocol, which says no more of it."),
        origin: Origin { file: Cow::Borrowed("text protocol"), ..plain.origin },
        exposition: Exposition { untyped: true, ..plain.exposition },
        ..plain
    };
    if has_instances { metric.of_instances("instance") } else { metric }
}

/// A line of a status: node, item, value.
pub(crate) fn status(line: &str) -> Result<(NodeName, &str, &str), Problem> {
    let strange = || Problem::Said(format!("a status has the line '{}'", shown(line)));
    if let Some(error) = line.strip_prefix(":error ") {
        return Err(Problem::Said(format!("it says: {}", shown(error))));
    }
    let mut words = line.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty()).ok_or_else(strange);
    let (base, number, item, value) = (word()?, word()?, word()?, word()?);
    let is_number = number.len() <= 9 && number.bytes().all(|b| b.is_ascii_digit());
    let name = match number {
        "-1" => NodeName::new(base),
        _ if is_number => NodeName::new(&format!("{base}{number}")),
        _ => return Err(strange()),
    };
    Ok((name.map_err(|_| strange())?, item, value))
}

fn reading(text: &str, format: ValueFormat) -> Option<Reading> {
    match format.value_type {
        ValueType::Unsigned => steps(text, format.places).map(Reading::Present),
        ValueType::Signed => {
            let (is_below, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
            let steps = i128::from(steps(digits, format.places)?);
            let steps = i64::try_from(if is_below { -steps } else { steps }).ok()?;
            Some(Reading::Present(steps.cast_unsigned()))
        }
        ValueType::Float => text.parse().ok().map(|value: f64| Reading::Present(value.to_bits())),
        ValueType::Labels => Labels::parse(text).ok().map(|labels| Reading::Labels(labels.number())),
        ValueType::Unknown => None,
    }
}

/// A value as a number of steps of its last decimal place; `None`: it is no number, or too large.
fn steps(text: &str, places: u8) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let steps_of_one = 10u64.pow(places.into());
    let kept = &fraction[..fraction.len().min(places.into())];
    let missing = places as usize - kept.len();
    let below = if kept.is_empty() { 0 } else { kept.parse::<u64>().ok()? * 10u64.pow(missing as u32) };
    whole.parse::<u64>().ok()?.checked_mul(steps_of_one)?.checked_add(below)
}

/// `:ok` and nothing else.
pub(crate) fn agreed(line: &str) -> Result<(), Problem> {
    match line.starts_with(":ok") {
        true => Ok(()),
        false => Err(Problem::Said(format!("it says: {}", shown(line.trim_start_matches(":error "))))),
    }
}

/// The identities of a hub, and of the hubs from which its nodes come.
type Origins = ([u8; 16], Vec<[u8; 16]>);

/// The answer to `:hub`; `None`: the daemon gets no nodes from others, or is too old to know the word.
pub(crate) fn origins(line: &str) -> Result<Option<Origins>, Problem> {
    if line.starts_with(":error no such word") {
        return Ok(None);
    }
    agreed(line)?;
    let all: Option<Vec<[u8; 16]>> = line.split(' ').skip(1).take(ORIGINS_MAX + 1).map(identity).collect();
    match all.as_deref() {
        Some([]) => Ok(None),
        Some([own, sources @ ..]) if sources.len() < ORIGINS_MAX => Ok(Some((*own, sources.to_vec()))),
        _ => Err(Problem::Said(format!("it says whose nodes it has as '{}'", shown(line)))),
    }
}

fn identity(text: &str) -> Option<[u8; 16]> {
    let whole = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

/// Foreign text for a message: short, and without control characters.
fn shown(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_a_status_are_read_and_strange_ones_refused() {
        let (node, item, text) = status("lbp 12 load1m 0.52").unwrap();
        assert_eq!((node.as_str(), item, steps(text, 2)), ("lbp12", "load1m", Some(52)));
        assert_eq!(status("web -1 memfree 7").unwrap().0.as_str(), "web");
        for bad in
            ["", "a", "a 1 b", "a x b 1", ":error busy", "a 1234567890 b 1", "HTTP/1.1 400 Bad Request"]
        {
            assert!(status(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_keep_their_places_or_are_none() {
        for (text, places, expected) in [
            ("0.52", 2, Some(52)),
            ("7", 2, Some(700)),
            ("7.999", 2, Some(799)),
            ("18446744073709551615", 0, Some(u64::MAX)),
            ("18446744073709551615", 1, None),
            ("-1", 0, None),
            ("", 0, None),
            (".5", 1, None),
            ("1e3", 0, None),
        ] {
            assert_eq!(steps(text, places), expected, "{text}");
        }
    }

    #[test]
    fn items_of_both_kinds_are_taken_in() {
        let mut items = Items::default();
        items.full("4 eth0rxbytes counter bytes 0 net.rx_bytes[eth0]", false, &[]).unwrap();
        let series = &items.get(items.find("eth0rxbytes").unwrap()).unwrap().series;
        assert_eq!((series.to_string().as_str(), series.metric.unit), ("net.rx_bytes[eth0]", Unit::Bytes));
        for line in ["0 lbp B 0 0", "0 nodes B 0 3", "1 memfree U", "2 Odd-name U", "4 percent B 0 100"] {
            items.plain(line, &[]).unwrap();
        }
        let names = ["lbp", "nodes", "memfree", "Odd-name", "percent"];
        assert_eq!(names.map(|name| items.find(name).is_some()), [false, false, true, false, true]);
        for bad in ["", "x", "4 a b", "4 a gauge count 99 m", "4 a gauge count 0 M M"] {
            assert!(items.full(bad, false, &[]).is_err(), "{bad}");
        }
    }

    #[test]
    fn identities_are_read() {
        let one = "000102030405060708090a0b0c0d0e0f";
        assert!(matches!(origins(&format!(":ok {one} {one}")), Ok(Some((_, sources))) if sources.len() == 1));
        assert!(matches!(origins(":ok"), Ok(None)));
        assert!(matches!(origins(":error no such word; :help tells what there is"), Ok(None)));
        for bad in [":error busy", ":ok 12", "memfree", &format!(":ok{}", format!(" {one}").repeat(40))] {
            assert!(origins(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_comes_does_harm(line in "\\PC{0,80}", places in 0u8..=9) {
            let mut items = Items::default();
            let _ = (status(&line), steps(&line, places), origins(&line), agreed(&line));
            for value_type in [ValueType::Signed, ValueType::Float, ValueType::Labels, ValueType::Unknown] {
                let _ = reading(&line, ValueFormat { value_type, places });
            }
            let _ = (items.full(&line, false, &[]), items.full(&line, true, &[]), items.plain(&line, &[]));
        }
    }
}
