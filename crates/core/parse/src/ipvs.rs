//! `/proc/net/ip_vs_stats` and `/proc/net/ip_vs`: what the kernel's load balancer (IPVS) has passed on, and the servers behind each
//! of its services. The files exist only while the module ip_vs is loaded. In the second file, a service is a line, and so is each
//! of its servers; addresses and ports are hexadecimal:
//!
//! ```text
//! TCP  C0A80016:0CEA wlc
//!   -> C0A85216:0CEA      Tunnel  100    248        2
//! FWM  10001000 wlc
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use khz_model::instance::kernel_text;
use khz_model::{Fault, Instance, Labels, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::number;
use crate::sink::Sink;
use crate::survey::SURVEY_PERIOD;
use crate::text::words;

/// At most this many servers are read. A node of Kubernetes has one for each pod of each service, and each takes three slots.
pub const IPVS_SERVERS_MAX: usize = 4_096;

/// The sums. A record is the whole file.
pub static SUMS: KernelFile = KernelFile {
    name: "net/ip_vs_stats",
    path: "proc/net/ip_vs_stats",
    pieces: Pieces::Whole,
    only_base: true,
    scalars: &[],
    groups: &SUM_GROUPS,
    parse: parse_sums,
};

/// The servers. A record is a line.
pub static SERVERS: KernelFile = KernelFile {
    name: "net/ip_vs",
    path: "proc/net/ip_vs",
    pieces: Pieces::Records { longest: 256 },
    only_base: true,
    scalars: &[],
    groups: &SERVER_GROUPS,
    parse: parse_servers,
};

static SUM_GROUPS: [Group; COUNTS.len()] = Group::PLAIN.each(&COUNTS);

static SERVER_GROUPS: [Group; 2] = Group::join(&[&[SERVER], &Group::PLAIN.each(&LEFT_OUT)]);

const SERVER: Group = Group {
    label: "remote_address",
    entries: PER_SERVER,
    instance_labels: &["local_address", "local_mark", "local_port", "proto", "remote_port"],
    ..Group::PLAIN
};

const fn count(
    name: &'static str,
    field: &'static str,
    unit: Unit,
    family: &'static str,
    help: &'static str,
) -> Entry {
    counter(name, field, unit, help).exposed(family, &[])
}

#[rustfmt::skip]
static COUNTS: [Entry; 5] = [
    count("ipvs.connections", "Conns", Unit::Count, "node_ipvs_connections_total", "Connections that were passed on."),
    count("ipvs.rx_packets", "Incoming Packets", Unit::Packets, "node_ipvs_incoming_packets_total", "Packets from clients."),
    count("ipvs.tx_packets", "Outgoing Packets", Unit::Packets, "node_ipvs_outgoing_packets_total", "Packets to clients."),
    count("ipvs.rx_bytes", "Incoming Bytes", Unit::Bytes, "node_ipvs_incoming_bytes_total", "Bytes from clients."),
    count("ipvs.tx_bytes", "Outgoing Bytes", Unit::Bytes, "node_ipvs_outgoing_bytes_total", "Bytes to clients."),
];

#[rustfmt::skip]
static PER_SERVER: &[Entry] = &[
    gauge("ipvs.weight", "Weight", Unit::Count, "Weight of the server.").every(SURVEY_PERIOD).exposed("node_ipvs_backend_weight", &[]),
    gauge("ipvs.active", "ActiveConn", Unit::Count, "Connections to the server that are open.").every(SURVEY_PERIOD)
        .exposed("node_ipvs_backend_connections_active", &[]),
    gauge("ipvs.inactive", "InActConn", Unit::Count, "Connections to the server that are closed or not yet open.").every(SURVEY_PERIOD)
        .exposed("node_ipvs_backend_connections_inactive", &[]),
];

static LEFT_OUT: [Entry; 1] = [gauge(
    "ipvs.servers_left_out",
    "lines beyond the limit",
    Unit::Count,
    "Servers beyond the most that are read.",
)
.every(SURVEY_PERIOD)
.exposed("khz_ipvs_servers_left_out", &[])];

/// The place of the first number in the line of a server.
const NUMBERS_FROM: usize = 3;

/// Two lines name the columns, the third has the numbers since boot. The following lines are rates.
fn parse_sums(sink: &mut Sink<'_>) {
    let mut lines = 0;
    sink.lines(|sink, line| {
        lines += 1;
        let first = words(sink.text(), line.clone()).next().map(|word| &sink.text()[word]);
        match (lines, first) {
            (1, Some(b"Total")) | (2, Some(b"Conns")) | (4.., _) => {}
            (3, Some(_)) => sums(sink, line),
            _ => sink.note(kernel_text(&sink.text()[line]), "another line is expected here"),
        }
    });
}

fn sums(sink: &mut Sink<'_>, line: Range<usize>) {
    let count = words(sink.text(), line.clone()).count();
    for (group, word) in words(sink.text(), line).take(COUNTS.len()).enumerate() {
        let number = number::hexadecimal(&sink.text()[word]);
        let Some(slots) = sink.whole(group) else { continue };
        match number {
            _ if count < COUNTS.len() => sink.fail_field(slots, 0, Fault::Malformed, "a column is missing"),
            Ok(number) => sink.field_is(slots, 0, number),
            Err(fault) => sink.fail_field(slots, 0, fault, "not a hexadecimal number"),
        }
    }
}

/// The service whose servers are being read: its name in the text.
#[derive(Clone)]
struct Service {
    proto: Range<usize>,
    /// Address and port, or a mark.
    place: Range<usize>,
}

/// The servers that have a place if there are more than [`IPVS_SERVERS_MAX`]: servers that were shown before keep their
/// places.
struct Places {
    /// For those that have slots, and for new ones.
    old: usize,
    new: usize,
}

impl Places {
    /// Nearly all texts have room for everybody, and are read once.
    fn of(sink: &Sink<'_>) -> Self {
        let text = sink.text();
        let lines = || text.split(|&byte| byte == b'\n');
        if lines().filter(|line| line.trim_ascii_start().starts_with(b"->")).count() <= IPVS_SERVERS_MAX {
            return Places { old: IPVS_SERVERS_MAX, new: IPVS_SERVERS_MAX };
        }
        let (mut service, mut old) = (None, 0);
        for line in lines() {
            let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
            match (words.next(), words.next(), &service) {
                (Some(b"->"), Some(remote), Some((proto, place))) => {
                    let mut room = [0; NAME_MAX];
                    old += usize::from(sink.has_slots(0, joined([*proto, *place, remote], &mut room)));
                }
                (Some(proto @ (b"TCP" | b"UDP" | b"SCTP" | b"FWM")), Some(place), _) => {
                    service = Some((proto, place));
                }
                _ => {}
            }
        }
        let old = old.min(IPVS_SERVERS_MAX);
        Places { old, new: IPVS_SERVERS_MAX - old }
    }

    fn takes(&mut self, is_old: bool) -> bool {
        let room = if is_old { &mut self.old } else { &mut self.new };
        let has_room = *room > 0;
        *room -= usize::from(has_room);
        has_room
    }
}

fn parse_servers(sink: &mut Sink<'_>) {
    let (mut service, mut left_out): (Option<Service>, u64) = (None, 0);
    let mut places = Places::of(sink);
    sink.lines(|sink, line| {
        let text = sink.text();
        let mut words = words(text, line.clone());
        let (Some(first), Some(second)) = (words.next(), words.next()) else {
            return sink.note(kernel_text(&text[line]), "the line has too few words");
        };
        match &text[first.clone()] {
            b"IP" | b"Prot" => service = None,
            b"TCP" | b"UDP" | b"SCTP" | b"FWM" => service = Some(Service { proto: first, place: second }),
            b"->" if &text[second.clone()] == b"RemoteAddress:Port" => {}
            b"->" => match &service {
                Some(service) => {
                    let mut room = [0; NAME_MAX];
                    let name = [&service.proto, &service.place, &second].map(|part| &text[part.clone()]);
                    let is_old = sink.has_slots(0, joined(name, &mut room));
                    match places.takes(is_old) {
                        true => server(sink, service, second, line),
                        false => left_out += 1,
                    }
                }
                None => sink.note(kernel_text(&text[line]), "the server belongs to no service"),
            },
            _ => sink.note(kernel_text(&text[line]), "the line is no service and no server"),
        }
    });
    if let Some(slots) = sink.whole(1) {
        sink.field_is(slots, 0, left_out);
    }
}

fn server(sink: &mut Sink<'_>, service: &Service, remote: Range<usize>, line: Range<usize>) {
    let text = sink.text();
    let Some(instance) =
        instance(&text[service.proto.clone()], &text[service.place.clone()], &text[remote.clone()])
    else {
        return sink.note(kernel_text(&text[line]), "the address is wrong");
    };
    let mut room = [0; NAME_MAX];
    let parts = [&text[service.proto.clone()], &text[service.place.clone()], &text[remote]];
    let Some(slots) = sink.instance_as(0, joined(parts, &mut room), || instance) else { return };
    let mut words = words(text, line.clone()).skip(NUMBERS_FROM);
    for index in 0..PER_SERVER.len() {
        match words.next() {
            Some(word) => sink.field(slots, index, word),
            None => sink.fail_field(slots, index, Fault::Malformed, "the line has not as many numbers"),
        }
    }
}

/// The longest key of a server, in bytes: two addresses of IPv6 with their ports have 93.
const NAME_MAX: usize = 128;

/// The parts with a blank between them. Parts beyond the room are cut: the kernel has none.
fn joined<'a>(parts: [&[u8]; 3], room: &'a mut [u8; NAME_MAX]) -> &'a [u8] {
    let bytes = parts.into_iter().flat_map(|part| part.iter().copied().chain([b' ']));
    let length = room.iter_mut().zip(bytes).map(|(place, byte)| *place = byte).count();
    &room[..length]
}

/// The server as an instance; `None`: an address is none.
fn instance(proto: &[u8], local: &[u8], remote: &[u8]) -> Option<Instance> {
    let (remote, remote_port) = address(remote)?;
    let (remote_port, proto) = (remote_port.to_string(), kernel_text(proto));
    let labels = if proto == "FWM" {
        Labels::new([
            ("local_mark", kernel_text(local).as_str()),
            ("local_port", "0"),
            ("proto", &proto),
            ("remote_port", &remote_port),
        ])
    } else {
        let (local, port) = address(local)?;
        Labels::new([
            ("local_address", local.to_string().as_str()),
            ("local_port", &port.to_string()),
            ("proto", &proto),
            ("remote_port", &remote_port),
        ])
    };
    Some(Instance::from_kernel(remote.to_string().as_bytes()).with_labels(&labels.ok()?))
}

/// `C0A80016:0CEA`, or `[2620:0000:0000:0000:0000:0000:0000:0001]:0050`.
fn address(text: &[u8]) -> Option<(IpAddr, u16)> {
    let at = text.iter().rposition(|&byte| byte == b':')?;
    let (address, port) = (&text[..at], &text[at + 1..]);
    let port = (port.len() == 4).then(|| number::hexadecimal(port).ok())??;
    let inside = address.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
    let address = match inside {
        Some(text) => IpAddr::V6(std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok()?),
        None if address.len() == 8 => {
            IpAddr::V4(Ipv4Addr::from(u32::try_from(number::hexadecimal(address).ok()?).ok()?))
        }
        None => return None,
    };
    Some((address, u16::try_from(port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Reading};

    const SUMS_TEXT: &str = "   Total Incoming Outgoing         Incoming         Outgoing
   Conns  Packets  Packets            Bytes            Bytes
 16AA370 E33656E5        0     51D8C8883AB3                0

 Conns/s   Pkts/s   Pkts/s          Bytes/s          Bytes/s
       4    1FB3C        0          1282A8F                0
";

    const SERVERS_TEXT: &str = "IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  C0A80016:0CEA wlc
  -> C0A85216:0CEA      Tunnel  100    248        2
UDP  [2620:0000:0000:0000:0000:0000:0000:0001]:0035 sh
  -> [2620:0000:0000:0000:0000:0000:0000:0002]:0035 Tunnel 1 0 7
FWM  10001000 wlc
  -> C0A85216:0CEA      Route   20     64         1
";

    fn read(file: &'static KernelFile, text: &str) -> Parser {
        let mut parser = Parser::new(file);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn lines(parser: &Parser) -> Vec<String> {
        let series = parser.schema().series().iter().enumerate();
        series.map(|(slot, series)| format!("{series} {:?}", parser.reading(slot).unwrap())).collect()
    }

    #[test]
    fn the_sums_are_hexadecimal() {
        let parser = read(&SUMS, SUMS_TEXT);
        assert_eq!(parser.faults(), []);
        let values: Vec<u64> = parser.values().to_vec();
        assert_eq!(values, [0x016A_A370, 0xE336_56E5, 0, 0x51D8_C888_3AB3, 0]);
        let parser = read(&SUMS, &SUMS_TEXT.replace(" E33656E5 ", " "));
        assert!(
            lines(&parser).iter().all(|line| line.ends_with("Failed(Malformed)")),
            "{:?}",
            lines(&parser)
        );
    }

    #[test]
    fn a_server_is_told_apart_by_its_service() {
        let mut parser = read(&SERVERS, SERVERS_TEXT);
        assert_eq!(parser.faults(), []);
        let name = "192.168.82.22,local_address=192.168.0.22,local_port=3306,proto=TCP,remote_port=3306";
        let slot =
            parser.schema().slot("ipvs.active", Some(&Instance::parse(name).unwrap())).unwrap() as usize;
        assert_eq!(parser.reading(slot), Some(Reading::Present(248)));
        let has = |text: &str| lines(&parser).iter().any(|line| line == text);
        assert!(has(
            "ipvs.weight[192.168.82.22,local_mark=10001000,local_port=0,proto=FWM,remote_port=3306] Present(20)"
        ));
        assert!(has("ipvs.servers_left_out Present(0)"));
        assert!(
            lines(&parser)
                .iter()
                .any(|line| line.starts_with("ipvs.inactive[2620%3A%3A2,") && line.ends_with("Present(7)"))
        );
        assert_eq!(parser.advance_with(SERVERS_TEXT.replace(" 248 ", " 249 ").as_bytes()), Outcome::InPlace);
        assert_eq!(parser.reading(slot), Some(Reading::Present(249)));
        parser.advance_with(SERVERS_TEXT.replace("TCP  C0A80016:0CEA", "TCP  C0A80016:0CEB").as_bytes());
        assert_eq!(parser.reading(slot), Some(Reading::Absent(Absence::InstanceGone)));
    }

    #[test]
    fn servers_beyond_the_limit_are_counted_and_not_read() {
        let mut text = String::from("TCP  C0A80016:0CEA wlc\n");
        for number in 0..IPVS_SERVERS_MAX + 3 {
            text += &format!("  -> C0A8{number:04X}:0CEA Tunnel 100 1 2\n");
        }
        let parser = read(&SERVERS, &text);
        assert_eq!(parser.schema().len(), IPVS_SERVERS_MAX * 3 + 1);
        assert!(lines(&parser).contains(&"ipvs.servers_left_out Present(3)".to_owned()));
    }

    #[test]
    fn servers_that_were_shown_keep_their_places() {
        let text = |numbers: &mut dyn Iterator<Item = usize>| {
            let lines = numbers.map(|number| format!("  -> C0A8{number:04X}:0CEA Tunnel 100 1 2\n"));
            format!("TCP  C0A80016:0CEA wlc\n{}", lines.collect::<String>())
        };
        let last = IPVS_SERVERS_MAX + 9;
        let mut parser = read(&SERVERS, &text(&mut [last, last - 1].into_iter()));
        let shown = |parser: &Parser, number: usize| {
            let address = format!("[192.168.{}.{},", number >> 8, number & 255);
            lines(parser).iter().any(|line| line.contains(&address) && line.contains("Present"))
        };
        assert!(shown(&parser, last) && shown(&parser, last - 1));
        // Others come before them, and then go.
        for (many, left_out) in [(IPVS_SERVERS_MAX + 5, 7), (IPVS_SERVERS_MAX - 2, 0)] {
            parser.advance_with(text(&mut (0..many).chain([last, last - 1])).as_bytes());
            assert!(shown(&parser, last) && shown(&parser, last - 1) && shown(&parser, 0));
            assert!(lines(&parser).contains(&format!("ipvs.servers_left_out Present({left_out})")));
        }
    }

    #[test]
    fn wrong_addresses_are_noted() {
        for wrong in ["C0A8521:0CEA", "C0A85216:0CE", "[2620::g]:0035", "C0A85216", "C0A85216:FFFFF"] {
            let parser = read(
                &SERVERS,
                &SERVERS_TEXT.replace("C0A85216:0CEA      Tunnel", &format!("{wrong} Tunnel")),
            );
            assert_eq!(parser.faults().len(), 1, "{wrong}: {:?}", parser.faults());
        }
    }
}
