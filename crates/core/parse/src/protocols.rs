//! `/proc/net/snmp`, `/proc/net/netstat` and `/proc/net/snmp6`: counters of the network protocols (RFC 1213, RFC 4293, and
//! Linux's own). In the first two each protocol has two lines, one of names and one of numbers:
//!
//! ```text
//! Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens ...
//! Tcp: 1 200 120000 -1 84 ...
//! ```
//!
//! The third has a line for each counter. All three are from the network namespace of khz. khz takes the counters that
//! node_exporter shows by default. An entry's field is the protocol and the name, as `Tcp ActiveOpens`.

use std::ops::Range;

use khz_model::{Fault, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};
use crate::vmstat;

/// The protocols of IPv4. A record is the whole file.
pub static SNMP: KernelFile = KernelFile {
    name: "net/snmp",
    path: "proc/net/snmp",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: SNMP_ENTRIES,
    groups: &[],
    parse,
};

/// Linux's own counters. A record is the whole file.
pub static NETSTAT: KernelFile = KernelFile {
    name: "net/netstat",
    path: "proc/net/netstat",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: NETSTAT_ENTRIES,
    groups: &[],
    parse,
};

/// The protocols of IPv6. There is no such file if the kernel has no IPv6.
pub static SNMP6: KernelFile = KernelFile {
    name: "net/snmp6",
    path: "proc/net/snmp6",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: SNMP6_ENTRIES,
    groups: &[],
    // Each line is a name and a number.
    parse: vmstat::parse,
};

const fn packets(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Packets, help).untyped(1).exposed(family, &[])
}

const fn count(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Count, help).untyped(1).exposed(family, &[])
}

const fn bytes(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    counter(name, field, Unit::Bytes, help).untyped(1).exposed(family, &[])
}

#[rustfmt::skip]
static SNMP_ENTRIES: &[Entry] = &[
    gauge("ip.forwarding", "Ip Forwarding", Unit::Count, "Whether the node forwards packets: 1 yes, 2 no.")
        .untyped(1)
        .exposed("node_netstat_Ip_Forwarding", &[]),
    packets("icmp.rx_messages", "Icmp InMsgs", "node_netstat_Icmp_InMsgs", "ICMP messages received."),
    packets("icmp.rx_errors", "Icmp InErrors", "node_netstat_Icmp_InErrors", "ICMP messages received with an error."),
    packets("icmp.tx_messages", "Icmp OutMsgs", "node_netstat_Icmp_OutMsgs", "ICMP messages sent."),
    count("tcp.active_opens", "Tcp ActiveOpens", "node_netstat_Tcp_ActiveOpens", "TCP connections that this node has asked for."),
    count("tcp.passive_opens", "Tcp PassiveOpens", "node_netstat_Tcp_PassiveOpens", "TCP connections that others have asked for."),
    gauge("tcp.established", "Tcp CurrEstab", Unit::Count, "TCP connections that stand now (ESTABLISHED or CLOSE-WAIT).")
        .untyped(1)
        .exposed("node_netstat_Tcp_CurrEstab", &[]),
    packets("tcp.rx_segments", "Tcp InSegs", "node_netstat_Tcp_InSegs", "TCP segments received, those with errors included."),
    packets("tcp.tx_segments", "Tcp OutSegs", "node_netstat_Tcp_OutSegs", "TCP segments sent, without those that were sent again."),
    packets("tcp.retransmits", "Tcp RetransSegs", "node_netstat_Tcp_RetransSegs", "TCP segments sent again."),
    packets("tcp.rx_errors", "Tcp InErrs", "node_netstat_Tcp_InErrs", "TCP segments received with an error."),
    packets("tcp.tx_resets", "Tcp OutRsts", "node_netstat_Tcp_OutRsts", "TCP segments sent that reset a connection."),
    packets("udp.rx_datagrams", "Udp InDatagrams", "node_netstat_Udp_InDatagrams", "UDP datagrams received."),
    packets("udp.no_port", "Udp NoPorts", "node_netstat_Udp_NoPorts", "UDP datagrams received for a port where nobody listens."),
    packets("udp.rx_errors", "Udp InErrors", "node_netstat_Udp_InErrors", "UDP datagrams received that could not be delivered."),
    packets("udp.tx_datagrams", "Udp OutDatagrams", "node_netstat_Udp_OutDatagrams", "UDP datagrams sent."),
    packets("udp.rx_buffer_errors", "Udp RcvbufErrors", "node_netstat_Udp_RcvbufErrors", "UDP datagrams thrown away because a socket's receive buffer was full."),
    packets("udp.tx_buffer_errors", "Udp SndbufErrors", "node_netstat_Udp_SndbufErrors", "UDP datagrams thrown away because a socket's send buffer was full."),
    packets("udplite.rx_errors", "UdpLite InErrors", "node_netstat_UdpLite_InErrors", "UDP-Lite datagrams received that could not be delivered."),
];

#[rustfmt::skip]
static NETSTAT_ENTRIES: &[Entry] = &[
    count("tcp.syncookies_sent", "TcpExt SyncookiesSent", "node_netstat_TcpExt_SyncookiesSent", "SYN cookies sent: a queue of half-open connections was full."),
    count("tcp.syncookies_received", "TcpExt SyncookiesRecv", "node_netstat_TcpExt_SyncookiesRecv", "Valid SYN cookies received."),
    count("tcp.syncookies_failed", "TcpExt SyncookiesFailed", "node_netstat_TcpExt_SyncookiesFailed", "Wrong SYN cookies received."),
    count("tcp.listen_overflows", "TcpExt ListenOverflows", "node_netstat_TcpExt_ListenOverflows", "Connections refused because a listener's queue was full."),
    count("tcp.listen_drops", "TcpExt ListenDrops", "node_netstat_TcpExt_ListenDrops", "SYN segments that a listener threw away, for whatever reason."),
    count("tcp.timeouts", "TcpExt TCPTimeouts", "node_netstat_TcpExt_TCPTimeouts", "Times that the retransmission timer of a connection ran out."),
    packets("tcp.syn_retransmits", "TcpExt TCPSynRetrans", "node_netstat_TcpExt_TCPSynRetrans", "SYN segments sent again."),
    packets("tcp.out_of_order", "TcpExt TCPOFOQueue", "node_netstat_TcpExt_TCPOFOQueue", "TCP segments that came out of order and were kept."),
    packets("tcp.rx_queue_drops", "TcpExt TCPRcvQDrop", "node_netstat_TcpExt_TCPRcvQDrop", "TCP segments thrown away because a socket's receive queue was full."),
    bytes("ip.rx_bytes", "IpExt InOctets", "node_netstat_IpExt_InOctets", "Bytes of IPv4 packets received."),
    bytes("ip.tx_bytes", "IpExt OutOctets", "node_netstat_IpExt_OutOctets", "Bytes of IPv4 packets sent."),
];

#[rustfmt::skip]
static SNMP6_ENTRIES: &[Entry] = &[
    bytes("ip6.rx_bytes", "Ip6InOctets", "node_netstat_Ip6_InOctets", "Bytes of IPv6 packets received."),
    bytes("ip6.tx_bytes", "Ip6OutOctets", "node_netstat_Ip6_OutOctets", "Bytes of IPv6 packets sent."),
    packets("icmp6.rx_messages", "Icmp6InMsgs", "node_netstat_Icmp6_InMsgs", "ICMPv6 messages received."),
    packets("icmp6.rx_errors", "Icmp6InErrors", "node_netstat_Icmp6_InErrors", "ICMPv6 messages received with an error."),
    packets("icmp6.tx_messages", "Icmp6OutMsgs", "node_netstat_Icmp6_OutMsgs", "ICMPv6 messages sent."),
    packets("udp6.rx_datagrams", "Udp6InDatagrams", "node_netstat_Udp6_InDatagrams", "UDP datagrams received over IPv6."),
    packets("udp6.no_port", "Udp6NoPorts", "node_netstat_Udp6_NoPorts", "UDP datagrams received over IPv6 for a port where nobody listens."),
    packets("udp6.rx_errors", "Udp6InErrors", "node_netstat_Udp6_InErrors", "UDP datagrams received over IPv6 that could not be delivered."),
    packets("udp6.tx_datagrams", "Udp6OutDatagrams", "node_netstat_Udp6_OutDatagrams", "UDP datagrams sent over IPv6."),
    packets("udp6.rx_buffer_errors", "Udp6RcvbufErrors", "node_netstat_Udp6_RcvbufErrors", "UDP datagrams of IPv6 thrown away because a socket's receive buffer was full."),
    packets("udp6.tx_buffer_errors", "Udp6SndbufErrors", "node_netstat_Udp6_SndbufErrors", "UDP datagrams of IPv6 thrown away because a socket's send buffer was full."),
    packets("udplite6.rx_errors", "UdpLite6InErrors", "node_netstat_UdpLite6_InErrors", "UDP-Lite datagrams received over IPv6 that could not be delivered."),
];

/// The line of names of a protocol.
#[derive(Clone)]
struct Names<'a> {
    protocol: &'a [u8],
    names: Range<usize>,
}

fn parse(sink: &mut Sink<'_>) {
    let mut pending: Option<Names<'_>> = None;
    sink.lines(|sink, line| {
        let text = sink.text();
        let Some((protocol, rest)) = split_at_mark(text, line.clone(), b':') else {
            let line = String::from_utf8_lossy(&text[line]).into_owned();
            return sink.note(line, "no ':' after the protocol's name");
        };
        let line = Names { protocol: &text[protocol], names: rest };
        match pending.take() {
            Some(names)
                if names.protocol == line.protocol
                    && text[names.names.clone()] != text[line.names.clone()] =>
            {
                return numbers(sink, names, line.names);
            }
            Some(names) if names.protocol != line.protocol => has_no_numbers(sink, &names),
            _ => {}
        }
        match are_names(text, line.names.clone()) {
            true => pending = Some(line),
            false => fail(sink, line.protocol, "no line of names is before its line of numbers"),
        }
    });
    if let Some(names) = pending {
        has_no_numbers(sink, &names);
    }
}

fn has_no_numbers(sink: &mut Sink<'_>, names: &Names<'_>) {
    fail(sink, names.protocol, "no line of numbers follows its line of names");
}

/// Names begin with a letter, numbers with a digit or a sign.
fn are_names(text: &[u8], range: Range<usize>) -> bool {
    let first = words(text, range).next();
    first.is_some_and(|word| text[word.start].is_ascii_alphabetic())
}

/// No number of this protocol can be known.
fn fail(sink: &mut Sink<'_>, protocol: &[u8], problem: &'static str) {
    let mut is_known = false;
    for (index, _) in sink.scalars().iter().enumerate().filter(|(_, entry)| is_of(entry, protocol)) {
        sink.fail_scalar(index, Fault::Malformed, problem);
        is_known = true;
    }
    if !is_known {
        sink.note(String::from_utf8_lossy(protocol).into_owned(), problem);
    }
}

/// Takes the numbers of one protocol.
fn numbers(sink: &mut Sink<'_>, Names { protocol, names }: Names<'_>, values: Range<usize>) {
    let text = sink.text();
    let (names, values) = (words(text, names), words(text, values));
    if names.clone().count() != values.clone().count() {
        // Which name or number is missing cannot be known: every number might be its neighbour's.
        return fail(sink, protocol, "it has not as many numbers as names");
    }
    for (name, value) in names.zip(values) {
        let field = (protocol, &text[name]);
        match sink.scalars().iter().position(|entry| entry.kind_and_name() == Some(field)) {
            Some(index) => sink.scalar(index, value),
            None => sink.ignore_word(value),
        }
    }
}

fn is_of(entry: &Entry, protocol: &[u8]) -> bool {
    entry.kind_and_name().is_some_and(|(known, _)| known == protocol)
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Reading};

    const TEXT: &str = "\
Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 30403575
Tcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab
Tcp: 1 -1 84 3
UdpLite: InDatagrams InErrors
UdpLite: 0 7
";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::SNMP);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str) -> Reading {
        parser.reading(parser.schema().slot(metric, None).unwrap() as usize).unwrap()
    }

    #[test]
    fn numbers_go_by_the_names_above_them() {
        let mut parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        let values = |parser: &Parser| {
            ["ip.forwarding", "tcp.active_opens", "tcp.established", "udplite.rx_errors"]
                .map(|metric| get(parser, metric))
        };
        assert_eq!(values(&parser), [2, 84, 3, 7].map(Reading::Present));
        assert_eq!(get(&parser, "udp.rx_datagrams"), Reading::Absent(Absence::NoField));
        let later = TEXT.replace("-1 84 3", "-1 99 4").replace("30403575", "30403999");
        assert_eq!(parser.advance_with(later.as_bytes()), Outcome::InPlace);
        assert_eq!(values(&parser), [2, 99, 4, 7].map(Reading::Present));
    }

    #[test]
    fn a_protocol_whose_lines_do_not_fit_is_failed_and_no_other() {
        for wrong in ["Tcp: 1 -1 84\n", "Tcp: 1 -1 84 3 9\n", "Tcp:\n"] {
            let parser = read(&TEXT.replace("Tcp: 1 -1 84 3\n", wrong));
            assert_eq!(get(&parser, "tcp.active_opens"), Reading::Failed(Fault::Malformed), "{wrong}");
            assert_eq!(get(&parser, "udplite.rx_errors"), Reading::Present(7), "{wrong}");
        }
    }

    #[test]
    fn lines_that_are_no_pairs_fail_their_protocols() {
        for (text, problem) in [
            ("Tcp: 5\nUdp: NoPorts\n", "no line of names is before its line of numbers"),
            ("Tcp: ActiveOpens\nUdp: NoPorts\nUdp: 5\n", "no line of numbers follows its line of names"),
            ("Tcp: ActiveOpens\n", "no line of numbers follows its line of names"),
            ("Tcp ActiveOpens\nTcp 5\n", "no ':' after the protocol's name"),
        ] {
            let parser = read(text);
            assert_eq!(parser.faults()[0].problem, problem, "{text}");
            assert_eq!(get(&parser, "tcp.active_opens"), Reading::Failed(Fault::Malformed), "{text}");
        }
        let parser = read("Tcp: ActiveOpens\nUdp: NoPorts\nUdp: 5\n");
        assert_eq!(get(&parser, "udp.no_port"), Reading::Present(5));
    }

    #[test]
    fn ipv6_has_a_line_for_each_counter() {
        let mut parser = Parser::new(&super::SNMP6);
        parser.advance_with(b"Ip6InReceives                   \t12\nIp6InOctets                     \t840\n");
        assert_eq!((parser.faults(), get(&parser, "ip6.rx_bytes")), (&[][..], Reading::Present(840)));
    }
}
