//! `/sys/class/fc_host`: the counters and the state of each Fibre Channel host port. Numbers are hexadecimal; a driver that
//! does not count something prints all bits set.

use khz_model::Unit;

use crate::entry::{Entry, counter, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};
use crate::tree::{Branch, Form, Part};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "fibrechannel",
    path: "sys/class/fc_host",
    pieces: Pieces::Survey { subject: Subject::Tree("fibrechannel"), captured: "survey/fibrechannel" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; HOST.len()] = Group {
    label: "fc_host",
    branch: Some(Branch { folders: "sys/class/fc_host/host#", name: &[Part::Named(0)], ..Branch::PLAIN }),
    ..Group::PLAIN
}
.each(&HOST);

const fn of_host(
    name: &'static str,
    file: &'static str,
    unit: Unit,
    family: &'static str,
    help: &'static str,
) -> Entry {
    counter(name, file, unit, help).form(Form::Hexadecimal).every(SURVEY_PERIOD).exposed(family, &[])
}

static HOST: [Entry; 15] = [
    of_host(
        "fibrechannel.dumped_frames",
        "statistics/dumped_frames",
        Unit::Count,
        "node_fibrechannel_dumped_frames_total",
        "Frames thrown away.",
    ),
    of_host(
        "fibrechannel.error_frames",
        "statistics/error_frames",
        Unit::Count,
        "node_fibrechannel_error_frames_total",
        "Frames received with an error.",
    ),
    of_host(
        "fibrechannel.crc_errors",
        "statistics/invalid_crc_count",
        Unit::Count,
        "node_fibrechannel_invalid_crc_total",
        "Frames received with a wrong checksum.",
    ),
    of_host(
        "fibrechannel.rx_frames",
        "statistics/rx_frames",
        Unit::Count,
        "node_fibrechannel_rx_frames_total",
        "Frames received.",
    ),
    of_host(
        "fibrechannel.rx_words",
        "statistics/rx_words",
        Unit::Count,
        "node_fibrechannel_rx_words_total",
        "Words of four bytes received.",
    ),
    of_host(
        "fibrechannel.tx_frames",
        "statistics/tx_frames",
        Unit::Count,
        "node_fibrechannel_tx_frames_total",
        "Frames sent.",
    ),
    of_host(
        "fibrechannel.tx_words",
        "statistics/tx_words",
        Unit::Count,
        "node_fibrechannel_tx_words_total",
        "Words of four bytes sent.",
    ),
    of_host(
        "fibrechannel.invalid_words",
        "statistics/invalid_tx_word_count",
        Unit::Count,
        "node_fibrechannel_invalid_tx_words_total",
        "Words received that are none.",
    ),
    of_host(
        "fibrechannel.link_failures",
        "statistics/link_failure_count",
        Unit::Count,
        "node_fibrechannel_link_failure_total",
        "Times that the link failed.",
    ),
    of_host(
        "fibrechannel.loss_of_sync",
        "statistics/loss_of_sync_count",
        Unit::Count,
        "node_fibrechannel_loss_of_sync_total",
        "Times that the two ends lost step.",
    ),
    of_host(
        "fibrechannel.loss_of_signal",
        "statistics/loss_of_signal_count",
        Unit::Count,
        "node_fibrechannel_loss_of_signal_total",
        "Times that there was no signal.",
    ),
    of_host(
        "fibrechannel.not_operational",
        "statistics/nos_count",
        Unit::Count,
        "node_fibrechannel_nos_total",
        "Notices received that the other end does not work.",
    ),
    of_host(
        "fibrechannel.fcp_packet_aborts",
        "statistics/fcp_packet_aborts",
        Unit::Count,
        "node_fibrechannel_fcp_packet_aborts_total",
        "Packets of SCSI given up.",
    ),
    of_host(
        "fibrechannel.time_since_reset",
        "statistics/seconds_since_last_reset",
        Unit::Seconds,
        "node_fibrechannel_seconds_since_last_reset_total",
        "Time since the counts of the host began.",
    ),
    info(
        "fibrechannel.info",
        "speed, port_state, port_type, port_id without 0x, port_name without 0x, fabric_name without 0x, \
         symbolic_name, supported_classes, supported_speeds, dev_loss_tmo",
        "node_fibrechannel_info",
        "Speed, state and names of the port.",
    )
    .every(SURVEY_PERIOD),
];
