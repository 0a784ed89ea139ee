//! The catalogue: every kernel file that khz reads, in the order in which its metrics are listed.

use std::sync::{Arc, LazyLock, OnceLock};

use khz_model::Metric;

use crate::kernel_file::KernelFile;
use crate::{
    bcache, bcachefs, bonding, btrfs, cgroup, clock, clocksource, conntrack, control_groups, cpufreq,
    disk_info, diskstats, dmi, edac, fibrechannel, filesystem, hung_tasks, hwmon, infiniband, ipvs, isolated,
    kernel_values, loadavg, logins, md, meminfo, multipath, neighbours, net_class, net_dev, nfs, nvme,
    os_release, power_supply, pressure, processes, protocols, rapl, schedstat, selinux, sockets, softnet,
    stat, tape, textfile, thermal, throttle, udp_queues, uname, uptime, vmstat, watchdog, xfs, zfs,
};

/// Every kernel file that khz reads, in catalogue order.
pub fn files() -> &'static [&'static KernelFile] {
    static FILES: &[&KernelFile] = &[
        &stat::FILE,
        &meminfo::FILE,
        &loadavg::FILE,
        &uptime::FILE,
        &net_dev::FILE,
        &vmstat::FILE,
        &diskstats::FILE,
        &pressure::CPU,
        &pressure::MEMORY,
        &pressure::IO,
        &pressure::IRQ,
        &cgroup::CPU,
        &uname::FILE,
        &dmi::FILE,
        &os_release::FILE,
        &filesystem::FILE,
        &net_class::FILE,
        &throttle::FILE,
        &edac::FILE,
        &clock::FILE,
        &hung_tasks::FILE,
        &protocols::SNMP,
        &protocols::NETSTAT,
        &protocols::SNMP6,
        &sockets::IPV4,
        &sockets::IPV6,
        &softnet::FILE,
        &kernel_values::FILE_HANDLES,
        &kernel_values::ENTROPY,
        &kernel_values::ENTROPY_POOL,
        &kernel_values::CONNTRACK,
        &kernel_values::CONNTRACK_MAX,
        &conntrack::FILE,
        &neighbours::ARP,
        &udp_queues::IPV4,
        &udp_queues::IPV6,
        &hwmon::FILE,
        &infiniband::FILE,
        &cpufreq::FILE,
        &rapl::FILE,
        &thermal::FILE,
        &nvme::FILE,
        &power_supply::FILE,
        &watchdog::FILE,
        &fibrechannel::FILE,
        &tape::FILE,
        &clocksource::FILE,
        &nfs::CLIENT,
        &nfs::SERVER,
        &schedstat::FILE,
        &md::STATES,
        &md::ARRAYS,
        &ipvs::SUMS,
        &ipvs::SERVERS,
        &bonding::FILE,
        &xfs::FILE,
        &zfs::FILE,
        &btrfs::FILE,
        &multipath::FILE,
        &bcache::FILE,
        &bcachefs::FILE,
        &selinux::FILE,
        &isolated::FILE,
        &disk_info::FILE,
        &control_groups::FILE,
        &processes::FILE,
        &logins::FILE,
        &textfile::FILE,
    ];
    FILES
}

/// A metric, if it is made yet.
type MadeOnce = OnceLock<Arc<Metric>>;

/// The metrics of a file of [`files`] that are in use, each at the place of its entry. Each metric is made once for the whole
/// program, when a parser first needs it: it has half a kilobyte of texts, and a host does not need most metrics.
pub(crate) fn shared_metrics(file: &KernelFile) -> Option<&'static [MadeOnce]> {
    static METRICS: LazyLock<Vec<Box<[MadeOnce]>>> = LazyLock::new(|| {
        let unmade = |file: &&KernelFile| file.entries().map(|_| OnceLock::new()).collect();
        files().iter().map(unmade).collect()
    });
    let at = files().iter().position(|known| std::ptr::eq(*known, file))?;
    Some(&METRICS[at])
}

/// Every metric of [`files`]. Metrics that no parser uses are made for the caller alone.
pub fn catalogue() -> Vec<Arc<Metric>> {
    files().iter().flat_map(|file| file.metrics()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_model::{Kind, RateUnit, Unit};
    use std::collections::HashSet;

    #[test]
    fn every_entry_is_complete_and_no_name_is_taken_twice() {
        let (mut names, mut flats, mut exposed) = (HashSet::new(), HashSet::new(), HashSet::new());
        for metric in catalogue() {
            assert!(khz_model::name::is_metric_name(&metric.name), "{}", metric.name);
            assert!(names.insert(metric.name.clone()), "{} twice", metric.name);
            assert!(flats.insert((metric.instances.is_some(), metric.flat.clone())), "{} twice", metric.flat);
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{}: help", metric.name);
            assert!(metric.places <= 9, "{}: text doors of older versions take no more places", metric.name);
            let family = &metric.exposition.name;
            assert!(family.starts_with("node_") || family.starts_with("khz_"), "{}: {family}", metric.name);
            assert!(exposed.insert((family.clone(), metric.exposition.labels.clone())), "{family} twice");
        }
        assert!(names.len() > 150, "{}", names.len());
    }

    #[test]
    fn every_time_that_is_counted_says_what_a_second_of_it_each_second_is() {
        for metric in catalogue().iter().filter(|m| m.kind == Kind::Counter && m.unit == Unit::Seconds) {
            let rate = RateUnit::of_metric(metric);
            assert!(!matches!(rate, Some(RateUnit::PerSecond(_)) | None), "{}: {rate:?}", metric.name);
        }
    }

    /// Such a group has slots when its number is there: with several numbers, one would bring slots for the others.
    #[test]
    fn numbers_without_an_instance_that_take_slots_only_where_they_are_have_a_group_each() {
        for file in files() {
            for group in file.groups.iter().filter(|group| group.is_whole()) {
                assert_eq!(group.entries.len(), 1, "{}: {}", file.name, group.entries[0].name);
            }
        }
    }

    #[test]
    fn families_agree_on_kind_and_unit() {
        let mut families = std::collections::HashMap::new();
        for metric in catalogue() {
            let e = &metric.exposition;
            let traits = (metric.kind, metric.unit, e.untyped, e.instance_label.clone());
            assert_eq!(families.entry(e.name.clone()).or_insert(traits.clone()), &traits, "{}", e.name);
        }
    }
}
