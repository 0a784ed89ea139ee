//! `/proc/net/sockstat` and `/proc/net/sockstat6`: the number of sockets, and their memory. A line has a kind of
//! sockets, then names and numbers in turn: `TCP: inuse 27 orphan 0 tw 152 alloc 27 mem 3`.
//!
//! An entry's field is the kind and the name, as `TCP inuse`. Two entries may have the same field: memory in pages, and in bytes.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// Sockets of IPv4, and of all kinds. A record is the whole file.
pub static IPV4: KernelFile = KernelFile {
    name: "net/sockstat",
    path: "proc/net/sockstat",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: IPV4_ENTRIES,
    groups: &[],
    parse,
};

/// Sockets of IPv6. There is no such file if the kernel has no IPv6.
pub static IPV6: KernelFile = KernelFile {
    name: "net/sockstat6",
    path: "proc/net/sockstat6",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: IPV6_ENTRIES,
    groups: &[],
    parse,
};

const fn sockets(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Count, help).exposed(family, &[])
}

#[rustfmt::skip]
static IPV4_ENTRIES: &[Entry] = &[
    sockets("socket.used", "sockets used", "node_sockstat_sockets_used", "Sockets of any kind in the node's network namespace."),
    sockets("socket.tcp_in_use", "TCP inuse", "node_sockstat_TCP_inuse", "TCP sockets of IPv4 in use, listeners included."),
    sockets("socket.tcp_orphans", "TCP orphan", "node_sockstat_TCP_orphan", "TCP sockets that belong to no process any more."),
    sockets("socket.tcp_time_wait", "TCP tw", "node_sockstat_TCP_tw", "TCP connections that have ended and wait for late segments (TIME-WAIT)."),
    sockets("socket.tcp_allocated", "TCP alloc", "node_sockstat_TCP_alloc", "TCP sockets that are allocated, of IPv6 too."),
    gauge("socket.tcp_memory_pages", "TCP mem", Unit::Pages, "Memory of the buffers of all TCP sockets.").exposed("node_sockstat_TCP_mem", &[]),
    gauge("socket.tcp_memory", "TCP mem", Unit::Bytes, "The same memory in bytes.").in_pages().exposed("node_sockstat_TCP_mem_bytes", &[]),
    sockets("socket.udp_in_use", "UDP inuse", "node_sockstat_UDP_inuse", "UDP sockets of IPv4 in use."),
    gauge("socket.udp_memory_pages", "UDP mem", Unit::Pages, "Memory of the buffers of all UDP sockets.").exposed("node_sockstat_UDP_mem", &[]),
    gauge("socket.udp_memory", "UDP mem", Unit::Bytes, "The same memory in bytes.").in_pages().exposed("node_sockstat_UDP_mem_bytes", &[]),
    sockets("socket.udplite_in_use", "UDPLITE inuse", "node_sockstat_UDPLITE_inuse", "UDP-Lite sockets of IPv4 in use."),
    sockets("socket.raw_in_use", "RAW inuse", "node_sockstat_RAW_inuse", "Raw sockets of IPv4 in use."),
    sockets("socket.frag_in_use", "FRAG inuse", "node_sockstat_FRAG_inuse", "IPv4 packets of which fragments wait for the others."),
    gauge("socket.frag_memory", "FRAG memory", Unit::Bytes, "Memory of these fragments.").exposed("node_sockstat_FRAG_memory", &[]),
];

#[rustfmt::skip]
static IPV6_ENTRIES: &[Entry] = &[
    sockets("socket.tcp6_in_use", "TCP6 inuse", "node_sockstat_TCP6_inuse", "TCP sockets of IPv6 in use, listeners included."),
    sockets("socket.udp6_in_use", "UDP6 inuse", "node_sockstat_UDP6_inuse", "UDP sockets of IPv6 in use."),
    sockets("socket.udplite6_in_use", "UDPLITE6 inuse", "node_sockstat_UDPLITE6_inuse", "UDP-Lite sockets of IPv6 in use."),
    sockets("socket.raw6_in_use", "RAW6 inuse", "node_sockstat_RAW6_inuse", "Raw sockets of IPv6 in use."),
    sockets("socket.frag6_in_use", "FRAG6 inuse", "node_sockstat_FRAG6_inuse", "IPv6 packets of which fragments wait for the others."),
    gauge("socket.frag6_memory", "FRAG6 memory", Unit::Bytes, "Memory of these fragments.").exposed("node_sockstat_FRAG6_memory", &[]),
];

fn parse(sink: &mut Sink<'_>) {
    sink.lines(|sink, line| {
        let text = sink.text();
        let Some((kind, pairs)) = split_at_mark(text, line.clone(), b':') else {
            let line = String::from_utf8_lossy(&text[line]).into_owned();
            return sink.note(line, "no ':' after the kind of sockets");
        };
        let mut words = words(text, pairs);
        while let Some(name) = words.next() {
            pair(sink, &text[kind.clone()], &text[name], words.next());
        }
    });
}

/// Takes a name and its number.
fn pair(sink: &mut Sink<'_>, kind: &[u8], name: &[u8], number: Option<Range<usize>>) {
    let is_it = |(_, entry): &(usize, &Entry)| entry.kind_and_name() == Some((kind, name));
    let mut known = sink.scalars().iter().enumerate().filter(is_it).map(|(index, _)| index).peekable();
    match (known.peek(), number) {
        (Some(_), Some(number)) => known.for_each(|index| sink.scalar(index, number.clone())),
        (Some(_), None) => {
            known.for_each(|index| sink.fail_scalar(index, Fault::Malformed, "the name has no number"));
        }
        (None, Some(number)) => sink.ignore_word(number),
        (None, None) => sink.note(String::from_utf8_lossy(name).into_owned(), "the name has no number"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Reading};

    const TEXT: &str =
        "sockets: used 92\nTCP: inuse 27 orphan 0 tw 152 alloc 31 mem 4\nFRAG: inuse 0 memory 640\n";

    fn get(parser: &Parser, metric: &str) -> Reading {
        parser.reading(parser.schema().slot(metric, None).unwrap() as usize).unwrap()
    }

    #[test]
    fn each_kind_has_names_and_numbers() {
        let mut parser = Parser::new(&super::IPV4);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(parser.faults(), []);
        let values = ["socket.used", "socket.tcp_time_wait", "socket.tcp_memory_pages", "socket.frag_memory"];
        assert_eq!(values.map(|metric| get(&parser, metric)), [92, 152, 4, 640].map(Reading::Present));
        assert_eq!(get(&parser, "socket.udp_in_use"), Reading::Absent(Absence::NoField));
        assert_eq!(parser.advance_with(TEXT.replace("tw 152", "tw 153").as_bytes()), Outcome::InPlace);
        assert_eq!(get(&parser, "socket.tcp_time_wait"), Reading::Present(153));
    }

    #[test]
    fn memory_is_the_same_in_pages_and_in_bytes_whatever_the_text_was_before() {
        let mut parser = Parser::new(&super::IPV4);
        let page = rustix::param::page_size() as u64;
        let mut now = |pages: &str| {
            let outcome = parser.advance_with(TEXT.replace("mem 4", &format!("mem {pages}")).as_bytes());
            (outcome, get(&parser, "socket.tcp_memory_pages"), get(&parser, "socket.tcp_memory"))
        };
        let both = |outcome, pages: u64| (outcome, Reading::Present(pages), Reading::Present(pages * page));
        assert_eq!(now("4"), both(Outcome::Full, 4));
        assert_eq!(now("7"), both(Outcome::InPlace, 7));
        assert_eq!(now("0"), both(Outcome::InPlace, 0));
        // As many digits as fit in 64 bits as pages, and not as bytes.
        let most = u64::MAX / page;
        assert_eq!(now(&most.to_string()), both(Outcome::Full, most));
        let more = (most + 1).to_string();
        assert_eq!(more.len(), most.to_string().len());
        let failed = Reading::Failed(Fault::OutOfRange);
        assert_eq!(now(&more), (Outcome::Full, Reading::Present(most + 1), failed));
        assert_eq!(now(&most.to_string()), both(Outcome::Full, most));
    }

    #[test]
    fn a_name_without_a_number_is_failed() {
        let mut parser = Parser::new(&super::IPV4);
        parser.advance_with(TEXT.replace(" mem 4", " mem").as_bytes());
        assert_eq!(get(&parser, "socket.tcp_memory_pages"), Reading::Failed(Fault::Malformed));
        assert_eq!(get(&parser, "socket.tcp_allocated"), Reading::Present(31));
    }

    #[test]
    fn a_line_without_a_kind_is_noted() {
        let mut parser = Parser::new(&super::IPV4);
        parser.advance_with(b"TCP inuse 27\n");
        assert_eq!(parser.faults()[0].problem, "no ':' after the kind of sockets");
    }
}
