//! node_exporter's own fixtures: `/metrics` of a khz that reads them has the names, types, labels and values that node_exporter
//! expects of itself (`e2e-output.txt`), for the collectors of devices, arrays, file systems and most others. The Go module has them; they are
//! unpacked here.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::beside_node_exporter::{Family, Labels, families};
use crate::exposition::get_at;
use crate::process::{Running, until};

const MODULE: &str = "github.com/prometheus/node_exporter@v1.12.1";

/// The names of these collectors begin so.
const COLLECTORS: &[&str] = &[
    "node_hwmon_",
    "node_infiniband_",
    "node_cpu_frequency_",
    "node_cpu_scaling_",
    "node_rapl_",
    "node_thermal_zone_",
    "node_cooling_device_",
    "node_nvme_",
    "node_power_supply_",
    "node_watchdog_",
    "node_fibrechannel_",
    "node_tape_",
    "node_edac_",
    "node_nfs_",
    "node_nfsd_",
    "node_schedstat_",
    "node_md_",
    "node_ipvs_",
    "node_bonding_",
    "node_xfs_",
    "node_zfs_",
    "node_btrfs_",
    "node_dmmultipath_",
    "node_bcache_",
    "node_bcachefs_",
    "node_os_",
    "node_selinux_",
    "node_cpu_isolated",
    "node_kernel_hung_tasks_",
    "node_softnet_",
    "node_disk_info",
    "node_disk_ata_",
    "node_disk_filesystem_",
    "node_disk_device_mapper_",
    "node_netstat_",
    "node_sockstat_",
    "node_nf_conntrack_",
    "node_filefd_",
    "node_entropy_",
    "node_load",
    "node_udp_queues",
    "node_memory_",
    "node_cpu_seconds",
    "node_cpu_guest",
    "node_boot_time",
    "node_context_switches",
    "node_forks",
    "node_intr_",
    "node_procs_",
    "node_dmi_",
    "node_time_clocksource",
];

/// Names that begin so are of collectors that are off by default.
const OFF: &[&str] = &["node_memory_numa_"];

/// Series that khz has otherwise, or not at all, and why: a name, and parts of the labels, one of which they have.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "node_cpu_frequency_hertz",
        &["core"],
        "of /proc/cpuinfo, with --collector.cpu.info, which is off by default",
    ),
    (
        "node_nvme_namespace_size_bytes",
        &[""],
        "node_exporter takes the kernel's sectors of 512 bytes for blocks of the namespace",
    ),
    (
        "node_nvme_namespace_capacity_bytes",
        &[""],
        "node_exporter takes the kernel's sectors of 512 bytes for blocks of the namespace",
    ),
    ("node_nvme_namespace_used_bytes", &[""], "each read is a command to the controller"),
    ("node_watchdog_info", &["watchdog1"], "without anything to say of it, there is no description"),
    (
        "node_hwmon_chip_names",
        &["bogus"],
        "node_exporter's test leaves this chip out (--collector.hwmon.chip-include)",
    ),
    (
        "node_power_supply_info",
        &["LNV-45N1"],
        "bytes that are no UTF-8 become \\xFF, not a replacement character",
    ),
    (
        "node_nfs_requests_total",
        &[
            "\"SecinfoNoName\"",
            "\"TestStateID\"",
            "\"FreeStateID\"",
            "\"GetDeviceList\"",
            "\"BindConnToSession\"",
            "\"DestroyClientID\"",
            "\"Seek\"",
            "\"Allocate\"",
            "\"DeAllocate\"",
            "\"LayoutStats\"",
            "\"Clone\"",
        ],
        "what the kernel does not say is not 0",
    ),
    ("node_softnet_backlog_len", &[""], "what the kernel does not say is not 0"),
    ("node_md_degraded", &["\"md0\""], "what the kernel does not say is not 0"),
    ("node_btrfs_commits_total", &["7f07c59f"], "what the kernel does not say is not 0"),
    ("node_btrfs_commit_seconds_total", &["7f07c59f"], "what the kernel does not say is not 0"),
    ("node_btrfs_last_commit_seconds", &["7f07c59f"], "what the kernel does not say is not 0"),
    ("node_btrfs_max_commit_seconds", &["7f07c59f"], "what the kernel does not say is not 0"),
    ("node_btrfs_info", &["7f07c59f"], "without a label there is nothing to say"),
    ("node_selinux_enabled", &[""], "node_exporter's test leaves this collector out"),
    (
        "node_bcache_priority_stats_unused_percent",
        &[""],
        "node_exporter reads it only with --collector.bcache.priorityStats",
    ),
    (
        "node_bcache_priority_stats_metadata_percent",
        &[""],
        "node_exporter reads it only with --collector.bcache.priorityStats",
    ),
    (
        "node_bcache_btree_read_average_duration_seconds",
        &[""],
        "node_exporter takes the kernel's microseconds for nanoseconds",
    ),
];

/// What ttar puts between two entries begins so.
const MARK: &str = "# ttar ";

/// Unpacks an archive of ttar: text with `Directory:`, `Path:` with `Lines:` or `SymlinkTo:`, and `Mode:`.
fn unpack(archive: &[u8], folder: &Path) {
    let mut lines = archive.split(|&byte| byte == b'\n');
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        let line = String::from_utf8_lossy(line);
        let Some((word, value)) = line.split_once(": ").filter(|_| !line.starts_with(MARK)) else { continue };
        match word {
            "Directory" => fs::create_dir_all(folder.join(value)).unwrap(),
            "Path" => {
                path = folder.join(value);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
            }
            "SymlinkTo" => symlink(value, &path).unwrap(),
            "Lines" => {
                let count: usize = value.parse().unwrap();
                let text: Vec<&[u8]> = lines.by_ref().take(count).collect();
                fs::write(&path, contents(&text.join(&b'\n'))).unwrap();
            }
            _ => {}
        }
    }
}

/// A text as it was before it came into the archive: a line ends with a newline unless it ends with `EOF`, and `NULLBYTE` is one.
fn contents(text: &[u8]) -> Vec<u8> {
    let ends_without = text.ends_with(b"EOF") && !text.ends_with(b"\\EOF");
    let text = if ends_without { &text[..text.len() - 3] } else { text };
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"NULLBYTE") {
            bytes.push(0);
            rest = after;
        } else if rest.starts_with(b"\\NULLBYTE") || rest.starts_with(b"\\EOF") {
            rest = after;
            let end = if rest.starts_with(b"EOF") { 3 } else { 8 };
            bytes.extend(&rest[..end]);
            rest = &rest[end..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    if !ends_without {
        bytes.push(b'\n');
    }
    bytes
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => copy(&from, &to),
            kind if kind.is_symlink() => symlink(fs::read_link(&from).unwrap(), &to).unwrap(),
            // The files of a Go module may not be written. Some lack the newline with which the kernel ends a text.
            _ => {
                let mut text = fs::read(&from).unwrap();
                if text.last().is_some_and(|last| *last != b'\n') {
                    text.push(b'\n');
                }
                fs::write(&to, text).unwrap();
            }
        }
    }
}

/// What a disk of the device mapper is made of are links to other disks, in the kernel. In the fixtures they are empty folders.
fn link_paths(disks: &Path) {
    for disk in fs::read_dir(disks).unwrap() {
        for path in fs::read_dir(disk.unwrap().path().join("slaves")).into_iter().flatten() {
            let path = path.unwrap();
            fs::remove_dir(path.path()).unwrap();
            symlink(Path::new("../..").join(path.file_name()), path.path()).unwrap();
        }
    }
}

/// The path of a zone is that of the fixtures. node_exporter says of a disk that it does not rotate, too, where it does not know.
fn as_on_a_host(labels: &Labels) -> Labels {
    let value = |(name, value): (&String, &String)| {
        (name.clone(), value.strip_prefix("collector/fixtures").unwrap_or(value).to_owned())
    };
    let is_known = |(name, value): &(&String, &String)| *name != "rotational" || *value != "0";
    labels.iter().filter(is_known).map(value).collect()
}

#[test]
fn devices_have_the_names_types_labels_and_values_that_node_exporter_expects_of_itself() {
    let module = match khz_judges::module(MODULE) {
        Ok(module) => module,
        Err(lacking) => return khz_skip::skip(format!("node_exporter's fixtures: {lacking}")),
    };
    let fixtures = module.join("collector/fixtures");
    let root =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("node_exporter-{}", std::process::id()));
    unpack(&fs::read(fixtures.join("sys.ttar")).unwrap(), &root);
    copy(&fixtures.join("proc"), &root.join("proc"));
    unpack(&fs::read(fixtures.join("udev.ttar")).unwrap(), &root.join("run"));
    copy(&fixtures.join("usr"), &root.join("usr"));
    fs::create_dir_all(root.join("etc")).unwrap();
    symlink("../usr/lib/os-release", root.join("etc/os-release")).unwrap();
    link_paths(&root.join("sys/block"));
    let running = Running::start(&["--root", root.to_str().unwrap()]);
    let mut text = String::new();
    until(Duration::from_secs(30), "the last tree is surveyed", || {
        text = get_at(&running, "/metrics");
        text.contains("node_tape_") && text.contains("node_fibrechannel_")
    });
    running.end("TERM");
    let ours = families(&text);
    let expected = families(&fs::read_to_string(fixtures.join("e2e-output.txt")).unwrap());
    let begins = |name: &str, begins: &[&str]| begins.iter().any(|begin| name.starts_with(begin));
    let is_of_them = |name: &str| begins(name, COLLECTORS) && !begins(name, OFF);
    let (mut wrong, mut names, mut compared, mut excepted) = (Vec::new(), 0, 0, 0);
    let exception = |name: &str, labels: &Labels| {
        let labels = format!("{labels:?}");
        let is_it = |parts: &[&str]| parts.iter().any(|part| labels.contains(part));
        EXCEPTIONS.iter().any(|(known, parts, _)| known == &name && is_it(parts))
    };
    for (name, family) in expected.iter().filter(|(name, _)| is_of_them(name)) {
        names += 1;
        let empty = BTreeMap::new();
        let has = ours.get(name);
        if let Some(has) = has.filter(|has| has.kind != family.kind) {
            wrong.push(format!("{name}: {} is expected, {} here", family.kind, has.kind));
        }
        for (labels, value) in &family.series {
            if exception(name, labels) {
                excepted += 1;
                continue;
            }
            match has.map_or(&empty, |has| &has.series).get(&as_on_a_host(labels)) {
                None => wrong.push(format!("{name}{labels:?}: khz does not have it")),
                Some(found) if (found - value).abs() > 1e-9 * value.abs() => {
                    wrong.push(format!("{name}{labels:?}: {value} is expected, {found} here"));
                }
                Some(_) => compared += 1,
            }
        }
    }
    // And nothing more than that.
    for (name, family) in ours.iter().filter(|(name, _)| is_of_them(name)) {
        let known =
            expected.get(name).map(|family| family.series.keys().map(as_on_a_host).collect::<Vec<_>>());
        for labels in
            family.series.keys().filter(|labels| !known.as_ref().is_some_and(|known| known.contains(labels)))
        {
            if !exception(name, labels) {
                wrong.push(format!("{name}{labels:?}: node_exporter does not have it"));
            }
        }
    }
    println!("{compared} series of {names} names are those of node_exporter; {excepted} are exceptions");
    for (name, part, why) in
        EXCEPTIONS.iter().flat_map(|(name, parts, why)| parts.iter().map(move |part| (name, part, why)))
    {
        println!("exception: {name}{{{part}}}: {why}");
        let has = |families: &BTreeMap<String, Family>| {
            let is_it = |labels: &Labels| format!("{labels:?}").contains(part);
            families.get(*name).is_some_and(|family| family.series.keys().any(is_it))
        };
        let exists = has(&expected) || has(&ours);
        assert!(exists, "{name}{{{part}}} is no exception any more");
    }
    let _ = fs::remove_dir_all(&root);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1_700, "only {compared} series were compared");
}
