//! `collect[]` of a scrape, node_exporter's way to select some of its collectors. Lists their names, those of
//! our sources, and the metrics of each. Refuses unknown names, as node_exporter does.

use khz_model::Pattern;

use crate::params::Params;
use crate::refusal::Refusal;

/// The parameter's name, with the brackets that Prometheus writes.
pub(crate) const COLLECT: &str = "collect[]";

/// The metrics of each name: node_exporter's collectors first, then our sources, `jobs` and `khz` (khz's own
/// numbers).
const COLLECTORS: &[(&str, &[&str])] = &[
    ("arp", &["net.neighbours"]),
    ("bcache", &["bcache.*"]),
    ("bcachefs", &["bcachefs.*"]),
    ("bonding", &["bonding.*"]),
    ("btrfs", &["btrfs.*"]),
    ("cpu", &["cpu.*", "thermal.core_throttles", "thermal.package_throttles"]),
    ("cpufreq", &["cpufreq.*"]),
    ("conntrack", CONNTRACK),
    ("diskstats", &["disk.*"]),
    ("dmmultipath", &["multipath.*"]),
    ("dmi", &["host.dmi"]),
    ("edac", &["edac.*"]),
    ("entropy", ENTROPY),
    ("fibrechannel", &["fibrechannel.*"]),
    ("filefd", &["file.*"]),
    ("filesystem", &["fs.*"]),
    ("hwmon", &["hwmon.*"]),
    ("infiniband", &["infiniband.*"]),
    ("ipvs", IPVS),
    ("loadavg", &["load.*", "tasks.*"]),
    ("mdadm", MD),
    ("meminfo", &["mem.*"]),
    ("netclass", NET_CLASS),
    ("netdev", NET_DEV),
    ("netstat", NETSTAT),
    ("nfs", &["nfs.*"]),
    ("nfsd", &["nfsd.*"]),
    ("nvme", &["nvme.*"]),
    ("os", &["host.os", "host.os_version", "host.os_support_end"]),
    ("powersupplyclass", POWER_SUPPLY),
    ("pressure", &["pressure.*"]),
    ("rapl", &["rapl.*"]),
    ("schedstat", &["schedstat.*"]),
    ("selinux", &["selinux.*"]),
    ("sockstat", &["socket.*"]),
    ("softnet", &["softnet.*"]),
    ("stat", &["kernel.*"]),
    ("tapestats", TAPE),
    ("textfile", &["textfile.*", "text.*"]),
    ("thermal_zone", &["thermal.temperature", "thermal.cooling", "thermal.cooling_max"]),
    ("time", &["clocksource.*", "system.time", "system.zone_offset"]),
    ("timex", &["clock.*"]),
    ("udp_queues", UDP_QUEUES),
    ("uname", &["host.uname"]),
    ("vmstat", &["vm.*"]),
    ("watchdog", &["watchdog.*"]),
    ("xfs", &["xfs.*"]),
    ("zfs", &["zfs.*"]),
    ("md", &["md.degraded", "md.raid_disks"]),
    (
        "mdstat",
        &[
            "md.active",
            "md.checking",
            "md.disks_*",
            "md.inactive",
            "md.recovering",
            "md.resyncing",
            "md.size",
            "md.synced",
        ],
    ),
    ("net/ip_vs", &["ipvs.active", "ipvs.inactive", "ipvs.servers_left_out", "ipvs.weight"]),
    ("net/ip_vs_stats", &["ipvs.connections", "ipvs.rx_*", "ipvs.tx_*"]),
    (
        "net/dev",
        &[
            "net.rx_bytes",
            "net.rx_compressed",
            "net.rx_dropped",
            "net.rx_errors",
            "net.rx_fifo",
            "net.rx_frame",
            "net.rx_multicast",
            "net.rx_packets",
            "net.tx_*",
        ],
    ),
    ("net/class", LINKS),
    ("cpu/isolated", &["cpu.isolated"]),
    ("disk/info", DISK_INFO),
    ("cpu/throttle", &["thermal.core_throttles", "thermal.package_throttles"]),
    ("power_supply", POWER_SUPPLY),
    ("tape", TAPE),
    ("clocksource", CLOCKSOURCE),
    ("hung_tasks", &["kernel.hung_tasks"]),
    ("uptime", &["uptime.*"]),
    ("pressure/cpu", &["pressure.cpu.*"]),
    ("pressure/io", &["pressure.io.*"]),
    ("pressure/irq", &["pressure.irq.*"]),
    ("pressure/memory", &["pressure.memory.*"]),
    ("cgroup/cpu", &["cgroup.cpu.*"]),
    ("cgroups", CONTROL_GROUPS),
    ("logins", &["system.users", "system.sessions"]),
    ("processes", &["processes.*", "process.*", "program.*"]),
    ("net/snmp", NETSTAT),
    ("net/netstat", NETSTAT),
    ("net/snmp6", &["ip6.*", "icmp6.*", "udp6.*", "udplite6.*"]),
    (
        "net/sockstat",
        &["socket.used", "socket.tcp_*", "socket.udp_*", "socket.udplite_*", "socket.raw_*", "socket.frag_*"],
    ),
    (
        "net/sockstat6",
        &["socket.tcp6_*", "socket.udp6_*", "socket.udplite6_*", "socket.raw6_*", "socket.frag6_*"],
    ),
    ("net/softnet_stat", &["softnet.*"]),
    ("fs/file-nr", &["file.*"]),
    ("random/entropy_avail", &["entropy.available"]),
    ("random/poolsize", &["entropy.pool_size"]),
    ("netfilter/nf_conntrack_count", &["conntrack.entries"]),
    ("netfilter/nf_conntrack_max", &["conntrack.entries_max"]),
    (
        "net/stat/nf_conntrack",
        &[
            "conntrack.dropped",
            "conntrack.early_dropped",
            "conntrack.found",
            "conntrack.ignored",
            "conntrack.insert_failed",
            "conntrack.inserted",
            "conntrack.invalid",
            "conntrack.search_restarts",
        ],
    ),
    ("net/arp", &["net.neighbours"]),
    ("net/udp", &["udp.rx_queue", "udp.tx_queue"]),
    ("net/udp6", &["udp6.rx_queue", "udp6.tx_queue"]),
    ("jobs", &["job.*"]),
    ("khz", &["khz.*"]),
];

/// Services, containers and jobs.
const CONTROL_GROUPS: &[&str] =
    &["cgroup.count", "cgroup.info", "cgroup.cpu_*", "cgroup.memory*", "cgroup.io_*", "cgroup.tasks*"];

/// What the kernel and udev know of disks.
const DISK_INFO: &[&str] = &[
    "disk.identity",
    "disk.write_cache",
    "disk.write_cache_on",
    "disk.rotation_rate",
    "disk.file_system",
    "disk.mapper",
];

/// Arrays of disks: some numbers are of `/proc`, some of `/sys`.
const MD: &[&str] = &["md.*"];

/// The kernel's load balancer: its sums and its servers.
const IPVS: &[&str] = &["ipvs.*"];

/// Batteries and mains.
const POWER_SUPPLY: &[&str] = &["power_supply.*"];

/// By what the kernel measures time.
const CLOCKSOURCE: &[&str] = &["clocksource.*"];

/// Tape drives.
const TAPE: &[&str] = &["tape.*"];

/// The traffic of interfaces.
const NET_DEV: &[&str] = &["net.rx_*", "net.tx_*"];

/// The protocols. Of IPv4 some are in `net/snmp` and some in `net/netstat`.
const NETSTAT: &[&str] =
    &["ip.*", "icmp.*", "tcp.*", "udp.*", "udplite.*", "ip6.*", "icmp6.*", "udp6.*", "udplite6.*"];

/// What waits in UDP sockets.
const UDP_QUEUES: &[&str] = &["udp.rx_queue", "udp.tx_queue", "udp6.rx_queue", "udp6.tx_queue"];

/// Connections that netfilter tracks.
const CONNTRACK: &[&str] = &["conntrack.*"];

/// The random generator.
const ENTROPY: &[&str] = &["entropy.*"];

/// The state of links, without the last: node_exporter counts it as traffic.
const NET_CLASS: &[&str] = LINKS.split_at(LINKS.len() - 1).0;

/// All that is read of links.
const LINKS: &[&str] = &[
    "net.up",
    "net.carrier",
    "net.carrier_*",
    "net.speed",
    "net.mtu",
    "net.queue_length",
    "net.flags",
    "net.dormant",
    "net.index",
    "net.link_index",
    "net.link_mode",
    "net.device_id",
    "net.group",
    "net.hardware_type",
    "net.address_type",
    "net.name_type",
    "net.link",
    "net.links_left_out",
    "net.rx_no_handler",
];

/// The names that `collect[]` takes.
pub fn collectors() -> Vec<&'static str> {
    COLLECTORS.iter().map(|(name, _)| *name).collect()
}

/// The patterns to collect, without a node; `None`: everything.
pub(crate) fn patterns(params: &Params) -> Result<Option<Vec<Pattern>>, Refusal> {
    let mut patterns: Vec<Pattern> = Vec::new();
    let mut is_asked = false;
    for name in params.texts(COLLECT) {
        is_asked = true;
        let known = COLLECTORS.iter().find(|(known, _)| *known == name);
        let (_, selected) = known.ok_or_else(|| unknown(name))?;
        for text in *selected {
            let pattern = Pattern::new(text)?;
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
    }
    Ok(is_asked.then_some(patterns))
}

fn unknown(name: &str) -> Refusal {
    let known = collectors().join(", ");
    Refusal::bad_request(format!("{COLLECT}: there is no collector '{name}'; there are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<Option<Vec<String>>, String> {
        let params = Params::parse(Some(query), &[COLLECT]).unwrap();
        let patterns = patterns(&params).map_err(|refusal| refusal.error)?;
        Ok(patterns.map(|patterns| patterns.iter().map(Pattern::to_string).collect()))
    }

    #[test]
    fn every_name_selects_something_and_twice_is_once() {
        for (name, patterns) in COLLECTORS {
            assert_eq!(of(&format!("collect[]={name}")).unwrap().unwrap(), *patterns, "{name}");
        }
        let both = of("collect%5B%5D=netdev&collect[]=netdev&collect[]=cpu");
        assert_eq!(
            both,
            Ok(Some(
                ["net.rx_*", "net.tx_*", "cpu.*", "thermal.core_throttles", "thermal.package_throttles"]
                    .map(str::to_owned)
                    .to_vec()
            ))
        );
        assert_eq!(of(""), Ok(None));
    }

    /// Of sources whose metrics begin alike, each selects its own; `net/snmp`, `net/netstat` and `net/snmp6` are the protocols.
    #[test]
    fn a_source_selects_its_own_metrics_and_none_of_its_siblings() {
        let kin: [&[(&str, &[&str])]; 6] = [
            &[
                ("md", &["md.degraded", "md.raid_disks"]),
                ("mdstat", &["md.active", "md.disks_active", "md.synced"]),
            ],
            &[
                ("net/ip_vs", &["ipvs.active", "ipvs.servers_left_out", "ipvs.weight"]),
                ("net/ip_vs_stats", &["ipvs.connections", "ipvs.rx_bytes", "ipvs.tx_packets"]),
            ],
            &[
                ("net/dev", &["net.rx_bytes", "net.rx_multicast", "net.tx_carrier"]),
                ("net/class", &["net.up", "net.rx_no_handler", "net.links_left_out"]),
                ("net/arp", &["net.neighbours"]),
            ],
            &[
                ("net/sockstat", &["socket.used", "socket.tcp_memory_pages", "socket.udplite_in_use"]),
                ("net/sockstat6", &["socket.tcp6_in_use", "socket.udplite6_in_use", "socket.frag6_memory"]),
            ],
            &[("random/entropy_avail", &["entropy.available"]), ("random/poolsize", &["entropy.pool_size"])],
            &[
                ("netfilter/nf_conntrack_count", &["conntrack.entries"]),
                ("netfilter/nf_conntrack_max", &["conntrack.entries_max"]),
                ("net/stat/nf_conntrack", &["conntrack.found", "conntrack.search_restarts"]),
            ],
        ];
        for siblings in kin {
            let all = siblings.iter().flat_map(|(source, metrics)| metrics.iter().map(move |m| (source, m)));
            for ((source, metric), (name, _)) in all.flat_map(|one| siblings.iter().map(move |s| (one, s))) {
                let patterns = of(&format!("collect[]={name}")).unwrap().unwrap();
                let is_selected =
                    patterns.iter().any(|pattern| Pattern::new(pattern).unwrap().matches_metric(metric));
                assert_eq!(is_selected, source == name, "{name}: {metric}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refused = of("collect[]=cpu&collect[]=ntp").unwrap_err();
        assert!(refused.starts_with(
            "collect[]: there is no collector 'ntp'; there are arp, bcache, bcachefs, bonding, btrfs, cpu, "
        ));
    }
}
