//! The answer to `#`, one line for each item, page by page; and to `:items`, the same with full names.

use khz_model::{Decimal, ValueType};

use crate::gone::Gone;
use crate::items::{Item, Items};
use crate::mask::put_bit;
use crate::page::Page;

/// How much is said of each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// `#`.
    Plain,
    /// `:items`.
    Full,
    /// `:items types`.
    Typed,
}

/// Decimal places of doubles in a list without types: an older hub then reads nine digits after the point, and its
/// number is close to the right one.
const FLOAT_PLACES: u8 = 9;

/// The longest line of a list without types: older hubs end a connection that sends a longer one.
const OLD_LINE_MAX: usize = 4_096;

/// A description in progress.
#[derive(Debug)]
pub(crate) struct Describe {
    next: usize,
    listing: Listing,
    /// Items to leave out.
    gone: Gone,
}

impl Describe {
    /// Begins with the cluster and the number of its nodes: both have mask 0, and nodes are numbered from 0.
    pub fn begin(cluster: &str, nodes: usize, listing: Listing, gone: Gone, page: &mut Page) -> Self {
        if listing == Listing::Plain {
            page.put(format!("0 {cluster} B 0 0\n0 nodes B 0 {}\n", nodes as i64 - 1).as_bytes());
        }
        Describe { next: 0, listing, gone }
    }

    /// Writes as much as fits into a page; `false`: all is written.
    pub fn go_on(&mut self, items: &Items, page: &mut Page) -> bool {
        while let Some(item) = items.list().get(self.next) {
            if page.is_full() {
                return true;
            }
            if self.gone.has(self.next) {
                self.next += 1;
                continue;
            }
            let mut line = Vec::new();
            put_bit(&mut line, self.next);
            line.push(b' ');
            line.extend_from_slice(item.name.as_bytes());
            let rest = if self.listing == Listing::Plain { bounds(item) } else { full(item, self.listing) };
            line.extend_from_slice(rest.as_bytes());
            if self.listing != Listing::Full || line.len() <= OLD_LINE_MAX {
                page.put(&line);
            }
            self.next += 1;
        }
        page.put(b"\n");
        false
    }
}

/// ` U`, or ` B LOWER UPPER`.
fn bounds(item: &Item) -> String {
    match item.upper() {
        Some(upper) => format!(" B 0 {}\n", Decimal::new(upper, item.series.metric.places)),
        None => " U\n".to_owned(),
    }
}

/// Kind, unit, decimal places, perhaps the type, and the series.
fn full(item: &Item, listing: Listing) -> String {
    let metric = &item.series.metric;
    let (kind, unit, series) = (metric.kind, metric.unit, &item.series);
    match (listing, metric.value_type) {
        (Listing::Typed, of_type) => {
            format!(" {kind} {unit} {} {} {series}\n", metric.places, of_type.as_str())
        }
        (_, ValueType::Float) => format!(" {kind} {unit} {FLOAT_PLACES} {series}\n"),
        _ => format!(" {kind} {unit} {} {series}\n", metric.places),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::tests::series;
    use khz_model::Series;

    #[test]
    fn each_item_has_a_line_and_a_bit_and_a_blank_line_ends_them() {
        let mut items = Items::default();
        for name in ["mem.free", "load.1m", "percent", "cpu.user", "uptime"] {
            items.bit(&series(name, None, if name == "percent" { 2 } else { 0 }));
        }
        let shown = |listing| {
            let mut page = Page::default();
            let mut describe = Describe::begin("lbp", 128, listing, Gone::default(), &mut page);
            assert!(!describe.go_on(&items, &mut page));
            String::from_utf8(page.written().to_vec()).unwrap()
        };
        assert_eq!(
            shown(Listing::Plain),
            "0 lbp B 0 0\n0 nodes B 0 127\n1 memfree U\n2 load1m U\n4 percent B 0 100.00\n8 cpuuser U\n10 uptime U\n\n"
        );
        let full = shown(Listing::Full);
        assert!(full.starts_with("1 memfree gauge count 0 mem.free\n"), "{full}");
        let typed = shown(Listing::Typed);
        assert!(typed.starts_with("1 memfree gauge count 0 unsigned mem.free\n"), "{typed}");
    }

    #[test]
    fn an_older_hub_gets_digits_of_a_double_and_no_line_for_which_it_would_end_the_connection() {
        let mut items = Items::default();
        let mut mean = series("load.mean", None, 0);
        std::sync::Arc::make_mut(&mut mean.metric).value_type = ValueType::Float;
        items.bit(&mean);
        let mut labelled = |value: &str| {
            let labels = khz_model::Labels::new([("k", value)]).unwrap();
            let rx = series("rx", Some("x"), 0);
            items.bit(&Series { instance: rx.instance.map(|instance| instance.with_labels(&labels)), ..rx });
        };
        // Written as %XX, the first has too many bytes for an older hub.
        labelled(&"\u{202e}".repeat(500));
        labelled(&"e".repeat(2_000));
        assert_eq!(items.list()[2].name.len(), crate::limits::NAME_BYTES_MAX);
        let listed = |listing| {
            let mut page = Page::default();
            let mut describe = Describe::begin("lbp", 1, listing, Gone::default(), &mut page);
            assert!(!describe.go_on(&items, &mut page));
            let text = String::from_utf8(page.written().to_vec()).unwrap();
            text.lines()
                .map(|line| line.split(' ').take(6).skip(4).collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        let long = format!("0 rx[x,k={}]", "e".repeat(2_000));
        assert_eq!(listed(Listing::Full), ["9 load.mean", &long, ""]);
        assert_eq!(listed(Listing::Typed), ["0 float", "0 unsigned", "0 unsigned", ""]);
    }

    #[test]
    fn a_long_description_comes_in_pages() {
        let mut items = Items::default();
        for n in 0..3_000 {
            items.bit(&series("rx", Some(&format!("eth{n}")), 0));
        }
        let (mut page, mut pages, mut bytes) = (Page::default(), 0, 0);
        let mut describe = Describe::begin("lbp", 1, Listing::Plain, Gone::default(), &mut page);
        loop {
            let goes_on = describe.go_on(&items, &mut page);
            (pages, bytes) = (pages + 1, bytes + page.written().len());
            page.clear();
            if !goes_on {
                break;
            }
        }
        assert!(pages > 10 && bytes > 3_000 * 375, "{pages} pages, {bytes} bytes");
    }
}
