//! The answer to `#`, one line for each item, page by page; and to `:items`, the same with full names.

use khz_model::Decimal;

use crate::gone::Gone;
use crate::items::{Item, Items};
use crate::mask::put_bit;
use crate::page::Page;

/// A description in progress.
#[derive(Debug)]
pub(crate) struct Describe {
    next: usize,
    /// `:items` instead of `#`.
    full: bool,
    /// Items to leave out.
    gone: Gone,
}

impl Describe {
    /// Begins with the cluster and the number of its nodes: both have mask 0, and nodes are numbered from 0.
    pub fn begin(cluster: &str, nodes: usize, full: bool, gone: Gone, page: &mut Page) -> Self {
        if !full {
            page.put(format!("0 {cluster} B 0 0\n0 nodes B 0 {}\n", nodes as i64 - 1).as_bytes());
        }
        Describe { next: 0, full, gone }
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
            line.extend_from_slice(if self.full { full(item) } else { bounds(item) }.as_bytes());
            page.put(&line);
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

/// Kind, unit, decimal places and series.
fn full(item: &Item) -> String {
    let metric = &item.series.metric;
    format!(" {} {} {} {}\n", metric.kind, metric.unit, metric.places, item.series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::items::tests::series;

    #[test]
    fn each_item_has_a_line_and_a_bit_and_a_blank_line_ends_them() {
        let mut items = Items::default();
        for name in ["mem.free", "load.1m", "percent", "cpu.user", "uptime"] {
            items.bit(&series(name, None, if name == "percent" { 2 } else { 0 }));
        }
        let shown = |full| {
            let mut page = Page::default();
            let mut describe = Describe::begin("lbp", 128, full, Gone::default(), &mut page);
            assert!(!describe.go_on(&items, &mut page));
            String::from_utf8(page.written().to_vec()).unwrap()
        };
        assert_eq!(
            shown(false),
            "0 lbp B 0 0\n0 nodes B 0 127\n1 memfree U\n2 load1m U\n4 percent B 0 100.00\n8 cpuuser U\n10 uptime U\n\n"
        );
        assert!(shown(true).starts_with("1 memfree gauge count 0 mem.free\n"), "{}", shown(true));
    }

    #[test]
    fn a_long_description_comes_in_pages() {
        let mut items = Items::default();
        for n in 0..3_000 {
            items.bit(&series("rx", Some(&format!("eth{n}")), 0));
        }
        let (mut page, mut pages, mut bytes) = (Page::default(), 0, 0);
        let mut describe = Describe::begin("lbp", 1, false, Gone::default(), &mut page);
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
