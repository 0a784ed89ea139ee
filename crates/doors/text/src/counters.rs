//! The text door's own counts.

khz_door::counters! {
    "text";
    connections: Counter, "Connections that the text door accepted.";
    connections_open: Gauge, "Connections that are open at the text door now.";
    connections_refused: Counter, "Connections closed at once because the limit was reached and none was idle.";
    connections_evicted: Counter, "Idle connections closed to make place for a new one.";
    accepts_failed: Counter, "Times that a connection could not be accepted: most likely no file descriptor was left.";
    handshakes_failed: Counter, "Connections that did not come in: TLS failed, or plain text where TLS is spoken.";
    strangers: Counter, "Connections from elsewhere that showed nothing that lets them in.";
    commands: Counter, "Commands at the text door.";
    statuses: Counter, "Statuses sent: answers to S, and those of subscriptions.";
    nodes_left_out: Counter, "Nodes left out of a status because they did not answer in time.";
    items_left_out: Counter, "Items that no bit was left for.";
    dropped_mask: Counter, "Connections dropped because their mask did not end.";
    dropped_line: Counter, "Connections dropped because their line did not end.";
    dropped_stalled: Counter, "Connections dropped because they did not read their answer, or too slowly.";
    dropped_full: Counter, "Connections dropped because all connections together held as much as they may.";
    answer_bytes: Gauge, "Bytes that pages and layouts of all connections take now.";
}
