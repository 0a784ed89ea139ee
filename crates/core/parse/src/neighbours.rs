//! `/proc/net/arp`: the neighbours of IPv4, a line each, below a line of names. The metric is how many of them each interface
//! has.

use std::ops::Range;

use khz_model::Unit;

use crate::entry::{Entry, gauge};
use crate::kernel_file::{Group, KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::words;

/// The file. A record is a line: an address, numbers, a hardware address, the interface.
pub static ARP: KernelFile = KernelFile {
    name: "net/arp",
    path: "proc/net/arp",
    pieces: Pieces::Records { longest: 160 },
    only_base: true,
    scalars: &[],
    groups: &[Group { label: "device", entries: PER_DEVICE, ..Group::PLAIN }],
    parse,
};

static PER_DEVICE: &[Entry] = &[gauge(
    "net.neighbours",
    "lines",
    Unit::Count,
    "Neighbours whose hardware addresses the interface knows, or asks for (ARP).",
)
.exposed("node_arp_entries", &[])];

/// The column of the interface.
const DEVICE: usize = 5;
/// Interfaces beyond this number are not counted.
const DEVICES_MAX: usize = 64;

/// How many lines each interface has.
struct Counts<'a> {
    devices: [(&'a [u8], u64); DEVICES_MAX],
    count: usize,
}

impl<'a> Counts<'a> {
    /// `false`: there is no room for another interface.
    fn add(&mut self, device: &'a [u8]) -> bool {
        match self.devices[..self.count].iter_mut().find(|(known, _)| *known == device) {
            Some((_, lines)) => *lines += 1,
            None if self.count < DEVICES_MAX => {
                self.devices[self.count] = (device, 1);
                self.count += 1;
            }
            None => return false,
        }
        true
    }
}

fn parse(sink: &mut Sink<'_>) {
    let mut counts = Counts { devices: [(&[], 0); DEVICES_MAX], count: 0 };
    let mut has_header = false;
    sink.lines(|sink, line| {
        if !std::mem::replace(&mut has_header, true) {
            return;
        }
        match device(sink, line) {
            Some(device) if counts.add(device) => {}
            Some(_) => sink.note(String::from("a line"), "more interfaces than are counted"),
            None => sink.note(String::from("a line"), "it names no interface"),
        }
    });
    for (device, lines) in &counts.devices[..counts.count] {
        if let Some(slots) = sink.instance(0, device).filter(|_| sink.is_whole()) {
            sink.field_is(slots, 0, *lines);
        }
    }
}

fn device<'a>(sink: &Sink<'a>, line: Range<usize>) -> Option<&'a [u8]> {
    words(sink.text(), line).nth(DEVICE).map(|word| &sink.text()[word])
}

#[cfg(test)]
mod tests {
    use crate::Parser;
    use khz_model::{Absence, Fault, Instance, Reading};

    const HEADER: &str = "IP address       HW type     Flags       HW address            Mask     Device\n";

    fn line(address: u8, device: &str) -> String {
        format!("192.0.2.{address:<8} 0x1         0x2         02:fc:00:00:00:05     *        {device}\n")
    }

    fn get(parser: &Parser, device: &str) -> Reading {
        let device = Instance::from_kernel(device.as_bytes());
        parser.reading(parser.schema().slot("net.neighbours", Some(&device)).unwrap() as usize).unwrap()
    }

    #[test]
    fn lines_are_counted_for_each_interface() {
        let mut parser = Parser::new(&super::ARP);
        parser
            .advance_with([HEADER, &line(1, "eth0"), &line(2, "eth1"), &line(3, "eth0")].concat().as_bytes());
        assert_eq!(parser.faults(), []);
        assert_eq!((get(&parser, "eth0"), get(&parser, "eth1")), (Reading::Present(2), Reading::Present(1)));
        parser.advance_with([HEADER, &line(2, "eth1"), &line(4, "eth1")].concat().as_bytes());
        assert_eq!(get(&parser, "eth0"), Reading::Absent(Absence::InstanceGone));
        assert_eq!(get(&parser, "eth1"), Reading::Present(2));
    }

    #[test]
    fn a_line_without_an_interface_is_noted() {
        let mut parser = Parser::new(&super::ARP);
        parser.advance_with([HEADER, &line(1, "eth0")].concat().as_bytes());
        parser.advance_with(&[HEADER, &line(1, "eth0"), &line(2, "eth0")].concat().as_bytes()[..200]);
        assert_eq!(get(&parser, "eth0"), Reading::Failed(Fault::Malformed), "lines are missing");
        parser.advance_with(format!("{HEADER}192.0.2.1 0x1 0x2\n").as_bytes());
        assert_eq!(parser.faults()[0].problem, "it names no interface");
        assert_eq!(get(&parser, "eth0"), Reading::Failed(Fault::Malformed));
    }
}
