//! `/proc/net/stat/nf_conntrack`: what netfilter has done with tracked connections. The first line names the columns; each
//! other line is a CPU, with numbers in hexadecimal. The metrics are the sums of all CPUs, as node_exporter shows them. There is
//! such a file only while the module nf_conntrack is loaded, and if the kernel has CONFIG_NF_CONNTRACK_PROCFS.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::number;
use crate::sink::Sink;
use crate::text::words;

/// The file. A record is a line: the names are the longest.
pub static FILE: KernelFile = KernelFile {
    name: "net/stat/nf_conntrack",
    path: "proc/net/stat/nf_conntrack",
    pieces: Pieces::Records { longest: 256 },
    only_base: true,
    scalars: SCALARS,
    groups: &[],
    parse,
};

/// node_exporter calls these counts gauges.
const fn count(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Count, help).exposed(family, &[])
}

#[rustfmt::skip]
static SCALARS: &[Entry] = &[
    count("conntrack.found", "found", "node_nf_conntrack_stat_found", "Entries found when one was looked up."),
    count("conntrack.invalid", "invalid", "node_nf_conntrack_stat_invalid", "Packets that cannot be tracked."),
    count("conntrack.ignored", "ignore", "node_nf_conntrack_stat_ignore", "Packets that belong to a tracked connection already, or are not tracked."),
    count("conntrack.inserted", "insert", "node_nf_conntrack_stat_insert", "Entries that were inserted."),
    count("conntrack.insert_failed", "insert_failed", "node_nf_conntrack_stat_insert_failed", "Entries that could not be inserted, because there was one already."),
    count("conntrack.dropped", "drop", "node_nf_conntrack_stat_drop", "Packets thrown away because a connection could not be tracked."),
    count("conntrack.early_dropped", "early_drop", "node_nf_conntrack_stat_early_drop", "Entries dropped to make room for new ones."),
    count("conntrack.search_restarts", "search_restart", "node_nf_conntrack_stat_search_restart", "Lookups that had to begin again because the table was resized."),
];

/// Columns beyond this number are ignored.
const COLUMNS_MAX: usize = 32;

/// The sums of all lines so far, or what is wrong with a column; `None`: no line has the column.
type Sums = [Option<Result<u64, Fault>>; SCALARS.len()];

fn parse(sink: &mut Sink<'_>) {
    let mut names: Option<Range<usize>> = None;
    let mut sums: Sums = [None; SCALARS.len()];
    sink.lines(|sink, line| match names.clone() {
        None => names = Some(line),
        Some(names) => add(sink.text(), names, line, &mut sums),
    });
    // A sum without a CPU would be wrong.
    if !sink.is_whole() {
        return;
    }
    for (index, sum) in sums.into_iter().enumerate() {
        match sum {
            Some(Ok(sum)) => sink.scalar_is(index, sum),
            Some(Err(fault)) => sink.fail_scalar(index, fault, "a CPU's line has no such number"),
            None => {}
        }
    }
}

/// Adds the numbers of a CPU.
fn add(text: &[u8], names: Range<usize>, line: Range<usize>, sums: &mut Sums) {
    let names = words(text, names).take(COLUMNS_MAX);
    let mut numbers = words(text, line);
    for name in names {
        let number = numbers.next().map_or(Err(Fault::Malformed), |word| number::hexadecimal(&text[word]));
        let Some(index) = SCALARS.iter().position(|entry| entry.field.as_bytes() == &text[name.clone()])
        else {
            continue;
        };
        let sum = sums[index].unwrap_or(Ok(0));
        sums[index] = Some(sum.and_then(|sum| number?.checked_add(sum).ok_or(Fault::OutOfRange)));
    }
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Absence, Fault, Reading};

    const NAMES: &str = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n";

    fn line(numbers: [u32; 17]) -> String {
        let words: Vec<String> = numbers.iter().map(|number| format!("{number:08x}")).collect();
        words.join(" ") + "\n"
    }

    fn get(parser: &Parser, metric: &str) -> Reading {
        parser.reading(parser.schema().slot(metric, None).unwrap() as usize).unwrap()
    }

    #[test]
    fn the_numbers_of_all_cpus_are_added() {
        let numbers = |by: u32| std::array::from_fn(|n| n as u32 * by);
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(format!("{NAMES}{}{}", line(numbers(10)), line(numbers(100))).as_bytes());
        assert_eq!(parser.faults(), []);
        assert_eq!(get(&parser, "conntrack.found"), Reading::Present(220));
        assert_eq!(get(&parser, "conntrack.search_restarts"), Reading::Present(1_760));
    }

    #[test]
    fn a_kernel_without_a_column_has_none_and_a_short_line_fails_its_numbers() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"entries found drop\n00000001 0000000f 00000002\n00000001 00000001\n");
        assert_eq!(get(&parser, "conntrack.found"), Reading::Present(16));
        assert_eq!(get(&parser, "conntrack.dropped"), Reading::Failed(Fault::Malformed));
        let cut = b"entries found drop\n00000001 0000000f 00000002\n00000001 00";
        parser.advance_with(cut);
        assert_eq!(get(&parser, "conntrack.found"), Reading::Failed(Fault::Malformed), "a CPU is missing");
        parser.advance_with(b"entries found\n00000001 0000000f\n");
        assert_eq!(get(&parser, "conntrack.dropped"), Reading::Absent(Absence::NoField));
    }
}
