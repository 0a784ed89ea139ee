//! The hub's counts of itself, and how they are shown: `khz.hub.*`, one metric for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use khz_model::metric::{Kind, Metric, Unit};

macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident $kind:ident $unit:ident $name:literal $exposition:literal $help:literal;)*) => {
        /// The hub's counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $($(#[$doc])* pub $field: AtomicU64,)*
        }

        impl Counts {
            /// Every number with its metric.
            pub fn all(&self) -> Vec<(Arc<Metric>, u64)> {
                vec![$((
                    Arc::new(own_metric($name, $exposition, $help, Kind::$kind, Unit::$unit, None)),
                    self.$field.load(Ordering::Relaxed),
                ),)*]
            }
        }
    };
}

counts! {
    connections Gauge Count "khz.hub.connections" "khz_hub_connections" "Connections that are open, nodes and readers.";
    handshakes Gauge Count "khz.hub.handshakes" "khz_hub_handshakes" "Connections that have not yet said who they are.";
    accepted Counter Count "khz.hub.accepted" "khz_hub_accepted_total" "Connections accepted.";
    accepts_failed Counter Count "khz.hub.accepts_failed" "khz_hub_accepts_failed_total" "Times that a connection could not be accepted: most likely no file descriptor was left.";
    refused Counter Count "khz.hub.refused" "khz_hub_refused_total" "Connections refused: wrong proof, name taken, older start, no room.";
    cut Counter Count "khz.hub.cut" "khz_hub_cut_total" "Connections cut because of what they sent.";
    silent Counter Count "khz.hub.silent" "khz_hub_silent_total" "Connections given up because they were silent for too long.";
    handshakes_dropped Counter Count "khz.hub.handshakes_dropped" "khz_hub_handshakes_dropped_total" "Handshakes given up, oldest first, because there were too many.";
    rows Counter Count "khz.hub.rows" "khz_hub_rows_total" "Rows received, each counted once.";
    rows_twice Counter Count "khz.hub.rows_twice" "khz_hub_rows_twice_total" "Rows that came again after an outage.";
    rows_late Counter Count "khz.hub.rows_late" "khz_hub_rows_late_total" "Rows that came after newer ones: gaps that were filled.";
    rows_lost Counter Count "khz.hub.rows_lost" "khz_hub_rows_lost_total" "Rows that a node did not have any more.";
    bytes Counter Bytes "khz.hub.bytes" "khz_hub_received_bytes_total" "Bytes received on links.";
    blocks Counter Count "khz.hub.blocks" "khz_hub_blocks_total" "Blocks begun, live and past.";
    now_requests Counter Count "khz.hub.now_requests" "khz_hub_now_requests_total" "Requests to nodes for rows on demand.";
    now_answers Counter Count "khz.hub.now_answers" "khz_hub_now_answers_total" "Requests for rows on demand that were answered.";
    now_crowded Counter Count "khz.hub.now_crowded" "khz_hub_now_crowded_total" "Requests for rows on demand sent to a node less than a window after the one before: always 0.";
    now_left_out Counter Count "khz.hub.now_left_out" "khz_hub_now_left_out_total" "Nodes left out of an answer because they did not answer in time.";
    lanes_refused Counter Count "khz.hub.lanes_refused" "khz_hub_lanes_refused_total" "Lanes that nodes offered and that were not taken, because a node had too many.";
    nodes_dropped Counter Count "khz.hub.nodes_dropped" "khz_hub_nodes_dropped_total" "Nodes that were down and made room for others, because there were too many.";
    roster_failures Counter Count "khz.hub.roster_failures" "khz_hub_roster_failures_total" "Times that the roster of nodes could not be written.";
    texts Counter Count "khz.hub.texts" "khz_hub_texts_total" "Kernel texts received.";
    texts_refused Counter Count "khz.hub.texts_refused" "khz_hub_texts_refused_total" "Kernel texts not taken because they or all of a node's were too large.";
    recorded Counter Count "khz.hub.recorded" "khz_hub_recorded_total" "Evaluations of groups of rules whose results were recorded.";
    reader_rows Counter Count "khz.hub.reader_rows" "khz_hub_reader_rows_total" "Rows sent to readers on links.";
    reader_lost Counter Count "khz.hub.reader_rows_lost" "khz_hub_reader_rows_lost_total" "Rows that readers on links were too slow for.";
}

impl Counts {
    /// Adds `n`.
    pub fn add(count: &AtomicU64, n: u64) {
        count.fetch_add(n, Ordering::Relaxed);
    }
}

/// A metric about the hub, or with `instances` about its nodes.
pub(crate) fn own_metric(
    name: &'static str,
    exposition: &'static str,
    help: &'static str,
    kind: Kind,
    unit: Unit,
    instances: Option<&'static str>,
) -> Metric {
    let places = if unit == Unit::Seconds { 9 } else { 0 };
    let metric = Metric { places, help: help.into(), ..Metric::plain(name, exposition, kind, unit) };
    match instances {
        Some(label) => metric.of_instances(label),
        None => metric,
    }
}
