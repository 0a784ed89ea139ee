//! `/sys/class/infiniband`: the counters and states of each port of InfiniBand, Omni-Path and RoCE adapters.

use khz_model::Unit;

use crate::entry::{Entry, counter, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "infiniband",
    path: "sys/class/infiniband",
    pieces: Pieces::Survey { subject: Subject::Tree("infiniband"), captured: "survey/infiniband" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; 1 + STATE.len() + COUNTS.len()] =
    Group::join(&[&[ADAPTER], &PORT_GROUP.each(&STATE), &PORT_GROUP.each(&COUNTS)]);

const ADAPTER: Group = Group {
    label: "device",
    kind: "adapter",
    entries: PER_ADAPTER,
    branch: Some(Branch { folders: "sys/class/infiniband/*", name: &[Part::Captured(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
};

const PORT_GROUP: Group = Group {
    label: "device",
    kind: "port",
    instance_labels: &["port"],
    branch: Some(Branch {
        folders: "sys/class/infiniband/*/ports/#",
        name: &[Part::Captured(0), Part::Captured(1)],
        ..Branch::PLAIN
    }),
    ..Group::PLAIN
};

static PER_ADAPTER: &[Entry] = &[info(
    "infiniband.adapter",
    "board_id, firmware_version=fw_ver, hca_type",
    "node_infiniband_info",
    "Board, firmware and type of the adapter.",
)
.every(SURVEY_PERIOD)];

/// The hardware counts data in four-byte words, one byte for each lane of a link of four.
const LANES: u64 = 4;

const fn of_port(
    name: &'static str,
    file: &'static str,
    unit: Unit,
    family: &'static str,
    help: &'static str,
) -> Entry {
    counter(name, file, unit, help).every(SURVEY_PERIOD).exposed(family, &[])
}

/// A row for each counter: the end of its name, its file, unit, the end of node_exporter's name, help.
macro_rules! counts {
    ($($name:literal, $file:literal, $unit:ident, $family:literal, $help:literal $(.times($times:ident))?;)*) => {
        [$(of_port(
            concat!("infiniband.", $name),
            $file,
            Unit::$unit,
            concat!("node_infiniband_", $family),
            $help,
        )$(.times($times))?),*]
    };
}

static STATE: [Entry; 3] = [
    gauge(
        "infiniband.state",
        "state",
        Unit::Count,
        "State of the port: 1 down, 2 being set up, 3 armed, 4 active, 5 active but deferred.",
    )
    .form(Form::BeforeColon)
    .every(SURVEY_PERIOD)
    .exposed("node_infiniband_state_id", &[]),
    gauge(
        "infiniband.physical_state",
        "phys_state",
        Unit::Count,
        "State of the wires: 1 asleep, 2 polling, 3 disabled, 4 training, 5 up, 6 recovering, 7 under test.",
    )
    .form(Form::BeforeColon)
    .every(SURVEY_PERIOD)
    .exposed("node_infiniband_physical_state_id", &[]),
    gauge("infiniband.speed", "rate", Unit::Bytes, "Bytes a second that the link can carry.")
        .form(Form::GigabitRate)
        .every(SURVEY_PERIOD)
        .exposed("node_infiniband_rate_bytes_per_second", &[]),
];

static COUNTS: [Entry; 59] = counts! {
    "rx_bytes", "counters/port_rcv_data", Bytes, "port_data_received_bytes_total", "Bytes received.".times(LANES);
    "tx_bytes", "counters/port_xmit_data", Bytes, "port_data_transmitted_bytes_total", "Bytes sent.".times(LANES);
    "rx_multicast_packets", "counters/multicast_rcv_packets", Packets, "multicast_packets_received_total", "Multicast packets received, those with errors too.";
    "tx_multicast_packets", "counters/multicast_xmit_packets", Packets, "multicast_packets_transmitted_total", "Multicast packets sent, those with errors too.";
    "rx_unicast_packets", "counters/unicast_rcv_packets", Packets, "unicast_packets_received_total", "Unicast packets received, those with errors too.";
    "tx_unicast_packets", "counters/unicast_xmit_packets", Packets, "unicast_packets_transmitted_total", "Unicast packets sent, those with errors too.";
    "rx_packets", "counters/port_rcv_packets", Packets, "port_packets_received_total", "Packets received, those with errors too.";
    "tx_packets", "counters/port_xmit_packets", Packets, "port_packets_transmitted_total", "Packets sent, those with errors too.";
    "rx_errors", "counters/port_rcv_errors", Packets, "port_errors_received_total", "Packets received with an error.";
    "rx_discards", "counters/port_rcv_discards", Packets, "port_discards_received_total", "Packets received and thrown away: the port was down or congested.";
    "tx_discards", "counters/port_xmit_discards", Packets, "port_discards_transmitted_total", "Packets to be sent and thrown away: the port was down or congested.";
    "rx_constraint_errors", "counters/port_rcv_constraint_errors", Packets, "port_constraint_errors_received_total", "Packets received and thrown away because of a rule of the port.";
    "tx_constraint_errors", "counters/port_xmit_constraint_errors", Packets, "port_constraint_errors_transmitted_total", "Packets not sent because of a rule of the port.";
    "rx_remote_physical_errors", "counters/port_rcv_remote_physical_errors", Packets, "port_receive_remote_physical_errors_total", "Packets received that another port had marked as bad.";
    "rx_switch_relay_errors", "counters/port_rcv_switch_relay_errors", Packets, "port_receive_switch_relay_errors_total", "Packets that a switch could not forward.";
    "tx_wait", "counters/port_xmit_wait", Count, "port_transmit_wait_total", "Ticks of the port in which it had data to send and could not.";
    "symbol_errors", "counters/symbol_error", Count, "symbol_error_total", "Small errors on the wires of the link.";
    "link_downed", "counters/link_downed", Count, "link_downed_total", "Times that the link could not recover from an error and went down.";
    "link_recovered", "counters/link_error_recovery", Count, "link_error_recovery_total", "Times that the link recovered from an error.";
    "link_integrity_errors", "counters/local_link_integrity_errors", Count, "local_link_integrity_errors_total", "Times that the link had more errors of its own than it may.";
    "buffer_overruns", "counters/excessive_buffer_overrun_errors", Count, "excessive_buffer_overrun_errors_total", "Times that a buffer overran again and again.";
    "vl15_dropped", "counters/VL15_dropped", Packets, "vl15_dropped_total", "Packets of the subnet's management thrown away for lack of room.";
    "legacy_rx_packets", "counters_ext/port_rcv_packets_64", Packets, "legacy_packets_received_total", "Packets received (kernels before 4.5).";
    "legacy_tx_packets", "counters_ext/port_xmit_packets_64", Packets, "legacy_packets_transmitted_total", "Packets sent (kernels before 4.5).";
    "legacy_rx_multicast_packets", "counters_ext/port_multicast_rcv_packets", Packets, "legacy_multicast_packets_received_total", "Multicast packets received (kernels before 4.5).";
    "legacy_tx_multicast_packets", "counters_ext/port_multicast_xmit_packets", Packets, "legacy_multicast_packets_transmitted_total", "Multicast packets sent (kernels before 4.5).";
    "legacy_rx_unicast_packets", "counters_ext/port_unicast_rcv_packets", Packets, "legacy_unicast_packets_received_total", "Unicast packets received (kernels before 4.5).";
    "legacy_tx_unicast_packets", "counters_ext/port_unicast_xmit_packets", Packets, "legacy_unicast_packets_transmitted_total", "Unicast packets sent (kernels before 4.5).";
    "duplicate_requests", "hw_counters/duplicate_request", Count, "duplicate_requests_packets_total", "Requests received that had been answered before.";
    "implied_nak_sequence_errors", "hw_counters/implied_nak_seq_err", Count, "implied_nak_seq_errors_total", "Acknowledgements that came with a later number than expected.";
    "local_ack_timeouts", "hw_counters/local_ack_timeout_err", Count, "local_ack_timeout_errors_total", "Times that an acknowledgement did not come in time.";
    "np_congestion_packets_sent", "hw_counters/np_cnp_sent", Count, "np_cnp_packets_sent_total", "Notices of congestion sent (RoCE).";
    "np_marked_packets", "hw_counters/np_ecn_marked_roce_packets", Count, "np_ecn_marked_roce_packets_received_total", "Packets received with the mark of congestion (RoCE).";
    "out_of_buffer", "hw_counters/out_of_buffer", Count, "out_of_buffer_drops_total", "Packets dropped because no buffer was ready for them.";
    "out_of_sequence", "hw_counters/out_of_sequence", Count, "out_of_sequence_packets_received_total", "Packets received out of their order.";
    "packet_sequence_errors", "hw_counters/packet_seq_err", Count, "packet_sequence_errors_total", "Notices received that a packet was out of its order.";
    "request_errors", "hw_counters/req_cqe_error", Count, "req_cqes_errors_total", "Own requests that ended with an error.";
    "request_flush_errors", "hw_counters/req_cqe_flush_error", Count, "req_cqes_flush_errors_total", "Own requests that were flushed with an error.";
    "request_remote_access_errors", "hw_counters/req_remote_access_errors", Count, "req_remote_access_errors_total", "Own requests for memory that the other side refused.";
    "request_remote_invalid", "hw_counters/req_remote_invalid_request", Count, "req_remote_invalid_request_errors_total", "Own requests that the other side called invalid.";
    "response_errors", "hw_counters/resp_cqe_error", Count, "resp_cqes_errors_total", "Answers that ended with an error.";
    "response_flush_errors", "hw_counters/resp_cqe_flush_error", Count, "resp_cqes_flush_errors_total", "Answers that were flushed with an error.";
    "response_length_errors", "hw_counters/resp_local_length_error", Count, "resp_local_length_errors_total", "Answers whose length was wrong on this side.";
    "response_remote_access_errors", "hw_counters/resp_remote_access_errors", Count, "resp_remote_access_errors_total", "Requests of the other side for memory that it may not have.";
    "receiver_not_ready", "hw_counters/rnr_nak_retry_err", Count, "rnr_nak_retry_packets_received_total", "Notices received that the receiver was not ready.";
    "roce_adaptive_retransmits", "hw_counters/roce_adp_retrans", Count, "roce_adp_retransmits_total", "Packets sent again in the adaptive way (RoCE).";
    "roce_adaptive_timeouts", "hw_counters/roce_adp_retrans_to", Count, "roce_adp_retransmits_timeout_total", "Times that the adaptive way waited in vain (RoCE).";
    "roce_slow_restarts_used", "hw_counters/roce_slow_restart", Count, "roce_slow_restart_used_total", "Times that a slow restart was used (RoCE).";
    "roce_slow_restart_notices", "hw_counters/roce_slow_restart_cnps", Count, "roce_slow_restart_cnps_total", "Notices of congestion that slow restarts caused (RoCE).";
    "roce_slow_restarts", "hw_counters/roce_slow_restart_trans", Count, "roce_slow_restart_total", "Changes into the state of a slow restart (RoCE).";
    "rp_congestion_packets_handled", "hw_counters/rp_cnp_handled", Count, "rp_cnp_packets_handled_total", "Notices of congestion that slowed this side down.";
    "rp_congestion_packets_ignored", "hw_counters/rp_cnp_ignored", Count, "rp_cnp_ignored_packets_received_total", "Notices of congestion that were ignored.";
    "rx_atomic_requests", "hw_counters/rx_atomic_requests", Count, "rx_atomic_requests_total", "Atomic requests received.";
    "rx_dct_connects", "hw_counters/rx_dct_connect", Count, "rx_dct_connect_requests_total", "Requests received to connect dynamically.";
    "rx_read_requests", "hw_counters/rx_read_requests", Count, "rx_read_requests_total", "Requests to read received.";
    "rx_write_requests", "hw_counters/rx_write_requests", Count, "rx_write_requests_total", "Requests to write received.";
    "rx_checksum_errors", "hw_counters/rx_icrc_encapsulated", Count, "rx_icrc_encapsulated_errors_total", "Packets received with a wrong checksum (RoCE).";
    "legacy_rx_bytes", "counters_ext/port_rcv_data_64", Bytes, "legacy_data_received_bytes_total", "Bytes received (kernels before 4.5).".times(LANES);
    "legacy_tx_bytes", "counters_ext/port_xmit_data_64", Bytes, "legacy_data_transmitted_bytes_total", "Bytes sent (kernels before 4.5).".times(LANES);
};
