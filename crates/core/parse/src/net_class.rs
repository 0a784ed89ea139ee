//! `/sys/class/net`: the state of each network interface's link: carrier, speed, duplex, queue. Its counters of traffic are
//! in `/proc/net/dev`. The kernel may wait for a driver before it answers, so the files are surveyed.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "net/class",
    path: "sys/class/net",
    pieces: Pieces::Survey { subject: Subject::Interfaces, captured: "survey/net_class" },
    only_base: false,
    scalars: SCALARS,
    groups: &[Group { label: "device", entries: PER_DEVICE, ..Group::PLAIN }],
    parse,
};

static SCALARS: &[Entry] = &[gauge(
    "net.links_left_out",
    "folders beyond the limit",
    Unit::Count,
    "Interfaces beyond the most whose links are read.",
)
.every(SURVEY_PERIOD)
.exposed("khz_network_links_left_out", &[])];

const fn setting(name: &'static str, field: &'static str, family: &'static str, help: &'static str) -> Entry {
    gauge(name, field, Unit::Count, help).every(SURVEY_PERIOD).exposed(family, &[])
}

static PER_DEVICE: &[Entry] = &[
    gauge("net.up", "operstate", Unit::Count, "1 if the interface is up and can send, by its state.")
        .at_most(1)
        .every(SURVEY_PERIOD)
        .exposed("node_network_up", &[]),
    gauge(
        "net.carrier",
        "carrier",
        Unit::Count,
        "1 if there is a link; absent while the interface is switched off.",
    )
    .at_most(1)
    .every(SURVEY_PERIOD)
    .exposed("node_network_carrier", &[]),
    counter("net.carrier_changes", "carrier_changes", Unit::Count, "Times that the link came or went.")
        .every(SURVEY_PERIOD)
        .exposed("node_network_carrier_changes_total", &[]),
    counter("net.carrier_up_changes", "carrier_up_count", Unit::Count, "Times that the link came.")
        .every(SURVEY_PERIOD)
        .exposed("node_network_carrier_up_changes_total", &[]),
    counter("net.carrier_down_changes", "carrier_down_count", Unit::Count, "Times that the link went.")
        .every(SURVEY_PERIOD)
        .exposed("node_network_carrier_down_changes_total", &[]),
    gauge(
        "net.speed",
        "speed",
        Unit::Bytes,
        "Bytes a second that the link can carry; absent where that is not known.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_network_speed_bytes", &[]),
    gauge("net.mtu", "mtu", Unit::Bytes, "The largest packet.")
        .every(SURVEY_PERIOD)
        .exposed("node_network_mtu_bytes", &[]),
    gauge("net.queue_length", "tx_queue_len", Unit::Packets, "Packets that may wait to be sent.")
        .every(SURVEY_PERIOD)
        .exposed("node_network_transmit_queue_length", &[]),
    counter(
        "net.rx_no_handler",
        "statistics/rx_nohandler",
        Unit::Packets,
        "Packets received and thrown away because nobody wanted them on this interface.",
    )
    .every(SURVEY_PERIOD)
    .exposed("node_network_receive_nohandler_total", &[]),
    setting("net.flags", "flags", "node_network_flags", "The kernel's bits IFF_... of the interface."),
    setting(
        "net.dormant",
        "dormant",
        "node_network_dormant",
        "1 if the interface waits for something outside, as for a log-in.",
    ),
    setting("net.index", "ifindex", "node_network_iface_id", "The interface's number."),
    setting(
        "net.link_index",
        "iflink",
        "node_network_iface_link",
        "The number of the interface that this one is on; its own if it is on none.",
    ),
    setting(
        "net.link_mode",
        "link_mode",
        "node_network_iface_link_mode",
        "How the link comes up: 0 by itself, 1 when something outside says so.",
    ),
    setting("net.device_id", "dev_id", "node_network_device_id", "Tells interfaces of one address apart."),
    setting(
        "net.group",
        "netdev_group",
        "node_network_net_dev_group",
        "The group of interfaces to which it belongs.",
    ),
    setting(
        "net.hardware_type",
        "type",
        "node_network_protocol_type",
        "The kernel's number ARPHRD_... of the kind of hardware.",
    ),
    setting(
        "net.address_type",
        "addr_assign_type",
        "node_network_address_assign_type",
        "Where the address is from: 0 the hardware, 1 chance, 2 another interface, 3 a person.",
    ),
    setting(
        "net.name_type",
        "name_assign_type",
        "node_network_name_assign_type",
        "Where the name is from: 1 the kernel, 2 the kernel in a fixed way, 3 a program, 4 a program that renamed it.",
    ),
    info(
        "net.link",
        "address, broadcast, duplex, ifalias, operstate, flags",
        "node_network_info",
        "Addresses, duplex and state of the interface, and whether it is switched on.",
    )
    .every(SURVEY_PERIOD),
];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Instance, Reading};

    const TEXT: &str = "\
* links_left_out=0
device eth0 up=1 carrier=1 carrier_changes=3 carrier_up_changes=2 carrier_down_changes=1 speed=125000000 mtu=1500 queue_length=1000 :duplex=full :operstate=up
device wlan0 up=0 carrier=- carrier_changes=0 carrier_up_changes=0 carrier_down_changes=0 speed=- mtu=1500 queue_length=1000 :operstate=down :ifalias=a\\040b
";

    #[test]
    fn an_interface_without_a_speed_has_none() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(parser.faults(), []);
        let get = |parser: &Parser, metric: &str, device: &str| {
            let slot = parser.schema().slot(metric, Some(&Instance::parse(device).unwrap())).unwrap();
            parser.reading(slot as usize).unwrap()
        };
        assert_eq!(get(&parser, "net.speed", "eth0"), Reading::Present(125_000_000));
        assert_eq!(get(&parser, "net.speed", "wlan0"), Reading::Absent(Absence::NoField));
        let labels = |parser: &Parser, device| get(parser, "net.link", device).labels().unwrap().to_string();
        assert_eq!(labels(&parser, "eth0"), "duplex=full,operstate=up");
        assert_eq!(labels(&parser, "wlan0"), "ifalias=a%20b,operstate=down");
        assert_eq!(parser.advance_with(TEXT.replace("changes=3", "changes=4").as_bytes()), Outcome::InPlace);
        assert_eq!(get(&parser, "net.carrier_changes", "eth0"), Reading::Present(4));
        assert_eq!(parser.advance_with(TEXT.replace("=full", "=half").as_bytes()), Outcome::Full);
        assert_eq!(labels(&parser, "eth0"), "duplex=half,operstate=up");
    }
}
