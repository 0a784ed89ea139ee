//! Files of counts below `/proc/net` and `/proc/sys` of a made-up host: each number has a name, in the forms that the kernel
//! prints. Some names are not in the catalogue.

use crate::{KernelFile, Noise, Truth};

/// How a file names its numbers.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// For each kind a line of names and a line of numbers.
    Pairs,
    /// A line for each number.
    Lines,
    /// For each kind a line of names and numbers in turn.
    InTurn,
    /// Only numbers, in one line.
    Values,
}

/// A number: its kind, its name, and its metric if the catalogue has it.
type Name = (&'static str, &'static str, Option<&'static str>);

const SNMP: &[Name] = &[
    ("Ip", "Forwarding", Some("ip.forwarding")),
    ("Ip", "DefaultTTL", None),
    ("Ip", "InReceives", None),
    ("Icmp", "InMsgs", Some("icmp.rx_messages")),
    ("Icmp", "InErrors", Some("icmp.rx_errors")),
    ("Icmp", "OutMsgs", Some("icmp.tx_messages")),
    ("IcmpMsg", "InType3", None),
    ("Tcp", "RtoMax", None),
    ("Tcp", "ActiveOpens", Some("tcp.active_opens")),
    ("Tcp", "PassiveOpens", Some("tcp.passive_opens")),
    ("Tcp", "CurrEstab", Some("tcp.established")),
    ("Tcp", "InSegs", Some("tcp.rx_segments")),
    ("Tcp", "OutSegs", Some("tcp.tx_segments")),
    ("Tcp", "RetransSegs", Some("tcp.retransmits")),
    ("Tcp", "InErrs", Some("tcp.rx_errors")),
    ("Tcp", "OutRsts", Some("tcp.tx_resets")),
    ("Udp", "InDatagrams", Some("udp.rx_datagrams")),
    ("Udp", "NoPorts", Some("udp.no_port")),
    ("Udp", "InErrors", Some("udp.rx_errors")),
    ("Udp", "OutDatagrams", Some("udp.tx_datagrams")),
    ("Udp", "RcvbufErrors", Some("udp.rx_buffer_errors")),
    ("Udp", "SndbufErrors", Some("udp.tx_buffer_errors")),
    ("Udp", "MemErrors", None),
    ("UdpLite", "InDatagrams", None),
    ("UdpLite", "InErrors", Some("udplite.rx_errors")),
];

const NETSTAT: &[Name] = &[
    ("TcpExt", "SyncookiesSent", Some("tcp.syncookies_sent")),
    ("TcpExt", "SyncookiesRecv", Some("tcp.syncookies_received")),
    ("TcpExt", "SyncookiesFailed", Some("tcp.syncookies_failed")),
    ("TcpExt", "EmbryonicRsts", None),
    ("TcpExt", "ListenOverflows", Some("tcp.listen_overflows")),
    ("TcpExt", "ListenDrops", Some("tcp.listen_drops")),
    ("TcpExt", "TCPTimeouts", Some("tcp.timeouts")),
    ("TcpExt", "TCPRcvQDrop", Some("tcp.rx_queue_drops")),
    ("TcpExt", "TCPOFOQueue", Some("tcp.out_of_order")),
    ("TcpExt", "TCPSynRetrans", Some("tcp.syn_retransmits")),
    ("IpExt", "InNoRoutes", None),
    ("IpExt", "InOctets", Some("ip.rx_bytes")),
    ("IpExt", "OutOctets", Some("ip.tx_bytes")),
    ("MPTcpExt", "MPCapableSYNRX", None),
];

const SNMP6: &[Name] = &[
    ("", "Ip6InReceives", None),
    ("", "Ip6InOctets", Some("ip6.rx_bytes")),
    ("", "Ip6OutOctets", Some("ip6.tx_bytes")),
    ("", "Icmp6InMsgs", Some("icmp6.rx_messages")),
    ("", "Icmp6InErrors", Some("icmp6.rx_errors")),
    ("", "Icmp6OutMsgs", Some("icmp6.tx_messages")),
    ("", "Udp6InDatagrams", Some("udp6.rx_datagrams")),
    ("", "Udp6NoPorts", Some("udp6.no_port")),
    ("", "Udp6InErrors", Some("udp6.rx_errors")),
    ("", "Udp6OutDatagrams", Some("udp6.tx_datagrams")),
    ("", "Udp6RcvbufErrors", Some("udp6.rx_buffer_errors")),
    ("", "Udp6SndbufErrors", Some("udp6.tx_buffer_errors")),
    ("", "UdpLite6InErrors", Some("udplite6.rx_errors")),
];

const SOCKETS: &[Name] = &[
    ("sockets", "used", Some("socket.used")),
    ("TCP", "inuse", Some("socket.tcp_in_use")),
    ("TCP", "orphan", Some("socket.tcp_orphans")),
    ("TCP", "tw", Some("socket.tcp_time_wait")),
    ("TCP", "alloc", Some("socket.tcp_allocated")),
    ("TCP", "mem", Some("socket.tcp_memory_pages")),
    ("UDP", "inuse", Some("socket.udp_in_use")),
    ("UDP", "mem", Some("socket.udp_memory_pages")),
    ("UDPLITE", "inuse", Some("socket.udplite_in_use")),
    ("RAW", "inuse", Some("socket.raw_in_use")),
    ("VSOCK", "inuse", None),
    ("FRAG", "inuse", Some("socket.frag_in_use")),
    ("FRAG", "memory", Some("socket.frag_memory")),
];

/// What is there in bytes, too.
const IN_BYTES: &[(&str, &str)] =
    &[("socket.tcp_memory_pages", "socket.tcp_memory"), ("socket.udp_memory_pages", "socket.udp_memory")];

const SOCKETS6: &[Name] = &[
    ("TCP6", "inuse", Some("socket.tcp6_in_use")),
    ("UDP6", "inuse", Some("socket.udp6_in_use")),
    ("UDPLITE6", "inuse", Some("socket.udplite6_in_use")),
    ("RAW6", "inuse", Some("socket.raw6_in_use")),
    ("FRAG6", "inuse", Some("socket.frag6_in_use")),
    ("FRAG6", "memory", Some("socket.frag6_memory")),
];

const FILE_HANDLES: &[Name] =
    &[("", "open", Some("file.handles")), ("", "free", None), ("", "max", Some("file.handles_max"))];

/// A made-up file of counts.
#[derive(Clone, Debug)]
pub struct Counts {
    path: &'static str,
    form: Form,
    names: &'static [Name],
    values: Vec<u64>,
}

impl Counts {
    /// All of them, in the catalogue's order.
    pub(crate) fn all(noise: &mut Noise) -> [Counts; 10] {
        let mut file = |path, form, names: &'static [Name]| {
            let values = names.iter().map(|_| noise.counter(50)).collect();
            Counts { path, form, names, values }
        };
        [
            file("proc/net/snmp", Form::Pairs, SNMP),
            file("proc/net/netstat", Form::Pairs, NETSTAT),
            file("proc/net/snmp6", Form::Lines, SNMP6),
            file("proc/net/sockstat", Form::InTurn, SOCKETS),
            file("proc/net/sockstat6", Form::InTurn, SOCKETS6),
            file("proc/sys/fs/file-nr", Form::Values, FILE_HANDLES),
            file(
                "proc/sys/kernel/random/entropy_avail",
                Form::Values,
                &[("", "", Some("entropy.available"))],
            ),
            file("proc/sys/kernel/random/poolsize", Form::Values, &[("", "", Some("entropy.pool_size"))]),
            file(
                "proc/sys/net/netfilter/nf_conntrack_count",
                Form::Values,
                &[("", "", Some("conntrack.entries"))],
            ),
            file(
                "proc/sys/net/netfilter/nf_conntrack_max",
                Form::Values,
                &[("", "", Some("conntrack.entries_max"))],
            ),
        ]
    }

    /// The lines of each kind.
    fn of_kind(&self, mut line: impl FnMut(&str, &[(&str, u64)]) -> String) -> String {
        let mut text = String::new();
        let numbered: Vec<(&Name, u64)> = self.names.iter().zip(self.values.iter().copied()).collect();
        for kind in numbered.chunk_by(|(one, _), (two, _)| one.0 == two.0) {
            let numbers: Vec<(&str, u64)> =
                kind.iter().map(|((_, name, _), value)| (*name, *value)).collect();
            text += &line(kind[0].0.0, &numbers);
        }
        text
    }
}

impl KernelFile for Counts {
    fn path(&self) -> &'static str {
        self.path
    }

    fn advance(&mut self, noise: &mut Noise) {
        self.values.iter_mut().for_each(|value| *value += noise.growth());
    }

    fn text(&self) -> String {
        let joined = |words: Vec<String>, between: &str| words.join(between);
        match self.form {
            Form::Pairs => self.of_kind(|kind, numbers| {
                let names = joined(numbers.iter().map(|(name, _)| (*name).to_owned()).collect(), " ");
                let values = joined(numbers.iter().map(|(_, value)| value.to_string()).collect(), " ");
                format!("{kind}: {names}\n{kind}: {values}\n")
            }),
            Form::Lines => self.of_kind(|_, numbers| {
                numbers.iter().map(|(name, value)| format!("{name:<32}\t{value}\n")).collect()
            }),
            Form::InTurn => self.of_kind(|kind, numbers| {
                let pairs = numbers.iter().map(|(name, value)| format!("{name} {value}"));
                format!("{kind}: {}\n", joined(pairs.collect(), " "))
            }),
            Form::Values => joined(self.values.iter().map(u64::to_string).collect(), "\t") + "\n",
        }
    }

    fn truth(&self) -> Vec<Truth> {
        let page = rustix::param::page_size() as u64;
        let truth = |(&(_, _, metric), &value): (&Name, &u64)| {
            let in_bytes = IN_BYTES.iter().find(|(pages, _)| Some(*pages) == metric);
            let in_bytes = in_bytes.map(|(_, metric)| (*metric, value * page));
            let found = metric.map(|metric| (metric, value)).into_iter().chain(in_bytes);
            found.map(|(metric, value)| Truth { metric, instance: None, value })
        };
        self.names.iter().zip(&self.values).flat_map(truth).collect()
    }
}
