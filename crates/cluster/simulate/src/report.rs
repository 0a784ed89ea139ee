//! The counts of a simulation: rows made, rows that the hub has acknowledged, and how late rows were.
//! Measures nothing itself.

use khz_model::Nanos;

/// A row that leaves the node this long after it was due is late.
pub const LATE: Nanos = Nanos::SECOND;

/// All counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nodes.
    pub nodes: u64,
    /// Nodes that the hub has welcomed.
    pub connected: u64,
    /// Rows gathered in all base lanes.
    pub rows: u64,
    /// Rows that the hub has not acknowledged.
    pub unacknowledged: u64,
    /// Rows that the rings dropped before the hub had them.
    pub lost: u64,
    /// Rows that left more than [`LATE`] after they were due, while connected.
    pub late: u64,
    /// The longest delay of a flush, while connected.
    pub latest: Nanos,
    /// Bytes written to connections.
    pub bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Connections that were welcomed.
    pub welcomes: u64,
    /// Connections that ended.
    pub broken: u64,
    /// When the last of all nodes was welcomed, on CLOCK_BOOTTIME.
    pub all_up_at: Option<Nanos>,
    /// Time since the start.
    pub elapsed: Nanos,
    /// CPU time of this process since the start.
    pub cpu: Nanos,
}

impl Report {
    /// Whether every row arrived in time.
    pub fn is_clean(&self) -> bool {
        self.unacknowledged == 0 && self.lost == 0 && self.late == 0
    }

    /// One line for people about the time since an earlier report.
    pub fn line(&self, before: &Report) -> String {
        let seconds = self.elapsed.since(before.elapsed).as_secs_f64().max(1e-9);
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        format!(
            "{} of {} nodes up; {:.0} rows/s, {:.1} MB/s, {:.0} writes/s; CPU {:.0} %; late {}, lost {}, \
             at most {} after its time",
            self.connected,
            self.nodes,
            rate(self.rows, before.rows),
            rate(self.bytes, before.bytes) / 1e6,
            rate(self.writes, before.writes),
            100.0 * self.cpu.since(before.cpu).as_secs_f64() / seconds,
            self.late,
            self.lost,
            Nanos(self.latest.0 / 1_000_000 * 1_000_000),
        )
    }

    /// Names and numbers, for programs.
    pub fn fields(&self) -> [(&'static str, u64); 14] {
        [
            ("nodes", self.nodes),
            ("connected", self.connected),
            ("rows", self.rows),
            ("unacknowledged", self.unacknowledged),
            ("lost", self.lost),
            ("late", self.late),
            ("latest_ns", self.latest.0),
            ("bytes", self.bytes),
            ("writes", self.writes),
            ("welcomes", self.welcomes),
            ("broken", self.broken),
            ("all_up_at_ns", self.all_up_at.map_or(0, |time| time.0)),
            ("elapsed_ns", self.elapsed.0),
            ("cpu_ns", self.cpu.0),
        ]
    }
}
