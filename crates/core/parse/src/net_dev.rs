//! `/proc/net/dev`: sixteen counters for each interface, below two header lines that name the columns. The
//! parser finds the columns by name, because kernels have printed fewer of them.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, counter};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// The file. A record is a line: a name of 15 bytes, a colon, 16 numbers of at most 20 digits with a blank
/// before each, a newline, and one more byte that the kernel's printf needs.
pub static FILE: KernelFile = KernelFile {
    name: "net/dev",
    path: "proc/net/dev",
    pieces: Pieces::Records { longest: 16 + 16 * 21 + 2 },
    only_base: false,
    scalars: &[],
    groups: &[Group { label: "device", entries: PER_DEVICE, ..Group::PLAIN }],
    parse,
};

static PER_DEVICE: &[Entry] = &[
    counter("net.rx_bytes", "Receive bytes", Unit::Bytes, "Bytes received.")
        .exposed("node_network_receive_bytes_total", &[]),
    counter("net.rx_packets", "Receive packets", Unit::Packets, "Packets received.")
        .exposed("node_network_receive_packets_total", &[]),
    counter("net.rx_errors", "Receive errs", Unit::Packets, "Packets received with an error.")
        .exposed("node_network_receive_errs_total", &[]),
    counter("net.rx_dropped", "Receive drop", Unit::Packets, "Packets received and thrown away.")
        .exposed("node_network_receive_drop_total", &[]),
    counter("net.rx_fifo", "Receive fifo", Unit::Count, "Receive FIFO overruns.")
        .exposed("node_network_receive_fifo_total", &[]),
    counter("net.rx_frame", "Receive frame", Unit::Count, "Framing errors (length, CRC, alignment).")
        .exposed("node_network_receive_frame_total", &[]),
    counter("net.rx_compressed", "Receive compressed", Unit::Packets, "Compressed packets received.")
        .exposed("node_network_receive_compressed_total", &[]),
    counter("net.rx_multicast", "Receive multicast", Unit::Packets, "Multicast packets received.")
        .exposed("node_network_receive_multicast_total", &[]),
    counter("net.tx_bytes", "Transmit bytes", Unit::Bytes, "Bytes sent.")
        .exposed("node_network_transmit_bytes_total", &[]),
    counter("net.tx_packets", "Transmit packets", Unit::Packets, "Packets sent.")
        .exposed("node_network_transmit_packets_total", &[]),
    counter("net.tx_errors", "Transmit errs", Unit::Packets, "Packets that could not be sent.")
        .exposed("node_network_transmit_errs_total", &[]),
    counter("net.tx_dropped", "Transmit drop", Unit::Packets, "Packets thrown away before sending.")
        .exposed("node_network_transmit_drop_total", &[]),
    counter("net.tx_fifo", "Transmit fifo", Unit::Count, "Transmit FIFO underruns.")
        .exposed("node_network_transmit_fifo_total", &[]),
    counter("net.tx_collisions", "Transmit colls", Unit::Count, "Collisions.")
        .exposed("node_network_transmit_colls_total", &[]),
    counter("net.tx_carrier", "Transmit carrier", Unit::Count, "Carrier losses while sending.")
        .exposed("node_network_transmit_carrier_total", &[]),
    counter("net.tx_compressed", "Transmit compressed", Unit::Packets, "Compressed packets sent.")
        .exposed("node_network_transmit_compressed_total", &[]),
];

/// Column names in the header, in the order of [`PER_DEVICE`]. The first [`RECEIVE`] are the receive columns.
const COLUMNS: [&[u8]; 16] = [
    b"bytes",
    b"packets",
    b"errs",
    b"drop",
    b"fifo",
    b"frame",
    b"compressed",
    b"multicast",
    b"bytes",
    b"packets",
    b"errs",
    b"drop",
    b"fifo",
    b"colls",
    b"carrier",
    b"compressed",
];
const RECEIVE: usize = 8;

/// Columns beyond this number are ignored.
const COLUMNS_MAX: usize = 32;

/// The meaning of each column of this text: an index into [`PER_DEVICE`], or one past its end for an unknown
/// column.
struct Columns {
    meaning: [u8; COLUMNS_MAX],
    count: usize,
}

fn parse(sink: &mut Sink<'_>) {
    let mut columns = None;
    sink.lines(|sink, line| match &columns {
        None => columns = header(sink.text(), line),
        Some(columns) => device(sink, line, columns),
    });
    if columns.is_none() {
        sink.note(String::from("header"), "no line names the columns");
    }
}

/// Reads ` face |bytes packets ...|bytes packets ...`; `None` for any other line.
fn header(text: &[u8], line: Range<usize>) -> Option<Columns> {
    let (_, numbers) = split_at_mark(text, line, b'|')?;
    let (receive, transmit) = split_at_mark(text, numbers, b'|')?;
    let mut columns = Columns { meaning: [COLUMNS.len() as u8; COLUMNS_MAX], count: 0 };
    for (section, known) in [(receive, 0..RECEIVE), (transmit, RECEIVE..COLUMNS.len())] {
        for word in words(text, section) {
            let meaning = known.clone().find(|&c| COLUMNS[c] == &text[word.clone()]);
            *columns.meaning.get_mut(columns.count)? = meaning.unwrap_or(COLUMNS.len()) as u8;
            columns.count += 1;
        }
    }
    // The first header line has the bars too, but `Receive` and `Transmit` are not column names.
    columns.meaning[..columns.count].iter().any(|&m| usize::from(m) < COLUMNS.len()).then_some(columns)
}

fn device(sink: &mut Sink<'_>, line: Range<usize>, columns: &Columns) {
    let Some((name, numbers)) = split_at_mark(sink.text(), line.clone(), b':') else {
        return sink.note(
            String::from_utf8_lossy(&sink.text()[line]).into_owned(),
            "no ':' after the interface's name",
        );
    };
    let Some(name) = words(sink.text(), name).next() else {
        return sink.note(String::from("interface"), "no name before ':'");
    };
    let Some(device) = sink.instance(0, &sink.text()[name]) else { return };
    let words = words(sink.text(), numbers);
    let meanings = columns.meaning[..columns.count].iter().map(|&meaning| usize::from(meaning));
    if words.clone().count() == columns.count {
        meanings.zip(words).for_each(|(meaning, word)| sink.field(device, meaning, word));
        return;
    }
    // Which column is missing or added cannot be known: every number might belong to its neighbour's column.
    for meaning in meanings.filter(|&meaning| meaning < COLUMNS.len()) {
        let problem = "the line does not have as many numbers as the header has columns";
        sink.fail_field(device, meaning, Fault::Malformed, problem);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Instance, Reading};

    const TEXT: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3245      30    0    0    0     0          0         0     3245      30    0    0    0     0       0          0
  eth0: 31520478     886    1    2    3     4          5         6    46218     509    7    8    9    10      11         12
";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, device: &str) -> Reading {
        let slot = parser.schema().slot(metric, Some(&Instance::from_kernel(device.as_bytes()))).unwrap();
        parser.reading(slot as usize).unwrap()
    }

    #[test]
    fn all_sixteen_counters() {
        let parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        assert_eq!(
            parser.values()[16..],
            [31_520_478, 886, 1, 2, 3, 4, 5, 6, 46_218, 509, 7, 8, 9, 10, 11, 12]
        );
    }

    #[test]
    fn a_number_may_grow_into_its_padding() {
        let mut parser = read(TEXT);
        assert_eq!(
            parser.advance_with(TEXT.replace("   3245      30", "  13245     131").as_bytes()),
            Outcome::InPlace
        );
        assert_eq!(
            (get(&parser, "net.rx_bytes", "lo"), get(&parser, "net.rx_packets", "lo")),
            (Reading::Present(13_245), Reading::Present(131))
        );
        assert_eq!(get(&parser, "net.tx_bytes", "lo"), Reading::Present(13_245));
    }

    #[test]
    fn no_blank_behind_the_colon_is_fine() {
        let parser = read(&TEXT.replace("eth0: 31520478", "eth0:931520478"));
        assert_eq!(get(&parser, "net.rx_bytes", "eth0"), Reading::Present(931_520_478));
    }

    #[test]
    fn columns_go_by_name() {
        let text = "Inter-|   Receive                  |  Transmit\n face |packets errs drop fifo frame|packets bytes errs drop fifo colls carrier\n  eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n";
        let parser = read(text);
        assert!(parser.faults().is_empty(), "{:?}", parser.faults());
        assert_eq!(get(&parser, "net.rx_bytes", "eth0"), Reading::Absent(Absence::NoField));
        assert_eq!(get(&parser, "net.rx_packets", "eth0"), Reading::Present(1));
        assert_eq!(get(&parser, "net.tx_bytes", "eth0"), Reading::Present(7));
        assert_eq!(get(&parser, "net.tx_carrier", "eth0"), Reading::Present(12));
    }

    #[test]
    fn an_interface_that_takes_anothers_place_is_not_taken_for_it() {
        let mut parser = read(TEXT);
        parser.advance_with(TEXT.replace("  eth0:", "  eth1:").as_bytes());
        assert_eq!(get(&parser, "net.rx_bytes", "eth0"), Reading::Absent(Absence::InstanceGone));
        assert_eq!(get(&parser, "net.rx_bytes", "eth1"), Reading::Present(31_520_478));
    }

    #[test]
    fn an_interface_that_stands_there_twice_is_failed() {
        let twice = format!("{TEXT}  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        assert_eq!(get(&read(&twice), "net.rx_bytes", "eth0"), Reading::Failed(Fault::Malformed));
    }

    #[test]
    fn a_line_that_does_not_fit_the_header_is_failed_and_no_other() {
        for line in ["      11         12\n", "      11\n", "\n"] {
            let parser = read(&TEXT.replace("  10      11         12\n", line));
            assert_eq!(get(&parser, "net.rx_bytes", "eth0"), Reading::Failed(Fault::Malformed));
            assert_eq!(get(&parser, "net.tx_bytes", "lo"), Reading::Present(3_245));
            assert_eq!(
                parser.faults()[0].to_string(),
                "line 4: net.rx_bytes[eth0]: the line does not have as many numbers as the header has columns"
            );
        }
    }

    #[test]
    fn a_text_cut_off_in_a_line_fails_the_interface_rather_than_losing_it() {
        let mut parser = read(TEXT);
        parser.advance_with(&TEXT.as_bytes()[..TEXT.len() - 30]);
        assert_eq!(get(&parser, "net.rx_bytes", "lo"), Reading::Present(3_245));
        assert_eq!(get(&parser, "net.rx_bytes", "eth0"), Reading::Failed(Fault::Malformed));
    }
}
