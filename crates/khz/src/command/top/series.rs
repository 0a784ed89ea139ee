//! Which series `khz top` asks for: what its screens show, and nothing more.

use khz_model::{Pattern, Rate};

/// What changes fast, of a node.
const FAST: [&str; 25] = [
    "cpu.all.*",
    "cpu.idle[*]",
    "cpu.iowait[*]",
    "mem.total",
    "mem.available",
    "mem.free",
    "mem.cached",
    "mem.dirty",
    "mem.swap_total",
    "mem.swap_free",
    "pressure.cpu.some.total",
    "pressure.memory.some.total",
    "pressure.io.some.total",
    "disk.read_bytes[*]",
    "disk.written_bytes[*]",
    "disk.reads[*]",
    "disk.writes[*]",
    "disk.read_time[*]",
    "disk.write_time[*]",
    "disk.io_time[*]",
    "net.rx_bytes[*]",
    "net.tx_bytes[*]",
    "kernel.procs_running",
    "kernel.procs_blocked",
    "kernel.context_switches",
];

/// What changes slowly, of a node.
const SLOW: [&str; 13] = [
    "load.1m",
    "load.5m",
    "load.15m",
    "uptime.up",
    "processes.count",
    "processes.threads",
    "process.cpu[*]",
    "process.busiest[*]",
    "process.memory[*]",
    "process.largest[*]",
    "process.io[*]",
    "process.mover[*]",
    "processes.short_lived",
];

/// Of each node of a cluster.
const CLUSTER: [&str; 10] = [
    "cpu.all.*",
    "mem.total",
    "mem.available",
    "load.1m",
    "pressure.cpu.some.total",
    "pressure.memory.some.total",
    "pressure.io.some.total",
    "disk.io_time[*]",
    "net.rx_bytes[*]",
    "net.tx_bytes[*]",
];

/// What nearly every node has: whether it sent rows at a time shows by a few series.
const SIGNS: [&str; 3] = ["cpu.all.user", "mem.available", "load.1m"];

/// Both subscriptions once a second: what a node had in the past.
pub fn of_node(node: &str, feed: Option<usize>) -> Vec<Pattern> {
    let series: Vec<&str> = match feed {
        Some(0) => FAST.to_vec(),
        Some(_) => SLOW.to_vec(),
        None => FAST.iter().chain(&SLOW).copied().collect(),
    };
    series.iter().filter_map(|series| Pattern::new(&format!("{node}:{series}")).ok()).collect()
}

/// Of these nodes of a cluster, which are a hostlist, or of all.
pub fn of_cluster(hosts: Option<&str>) -> Vec<Pattern> {
    let prefix = hosts.map(|hosts| format!("{hosts}:")).unwrap_or_default();
    CLUSTER.iter().filter_map(|series| Pattern::new(&format!("{prefix}{series}")).ok()).collect()
}

/// Series of these nodes, or of all, that show whether they sent rows.
pub fn signs(hosts: Option<&str>) -> Vec<Pattern> {
    let prefix = hosts.map(|hosts| format!("{hosts}:")).unwrap_or_default();
    SIGNS.iter().filter_map(|series| Pattern::new(&format!("{prefix}{series}")).ok()).collect()
}

/// How often the slow series come, and those of a cluster.
pub fn slow() -> Option<Rate> {
    Rate::from_hz(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert_eq!(of_node("n1", None).len(), FAST.len() + SLOW.len());
        assert_eq!(of_cluster(Some("n[1-3]")).len(), CLUSTER.len());
        assert_eq!(signs(Some("n[1-3]")).len(), SIGNS.len());
        // A request has at most this many.
        assert!(of_node("n1", None).len() <= 64);
    }
}
