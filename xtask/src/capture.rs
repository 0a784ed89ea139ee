//! Copies the kernel files that khz reads into `fixtures/NAME`, with an ORIGIN that says where they come
//! from.

use std::fs;
use std::path::Path;

use crate::step;

/// The files that khz reads, and those that identify the machine.
const FILES: [&str; 42] = [
    "proc/stat",
    "proc/meminfo",
    "proc/loadavg",
    "proc/uptime",
    "proc/net/dev",
    "proc/vmstat",
    "proc/diskstats",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/pressure/io",
    "proc/pressure/irq",
    "proc/cpuinfo",
    "proc/version",
    "proc/sys/kernel/ostype",
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/version",
    "proc/sys/kernel/arch",
    "proc/sys/kernel/hostname",
    "proc/sys/kernel/domainname",
    "proc/sys/kernel/hung_task_detect_count",
    "proc/net/snmp",
    "proc/net/netstat",
    "proc/net/snmp6",
    "proc/net/sockstat",
    "proc/net/sockstat6",
    "proc/net/softnet_stat",
    "proc/sys/fs/file-nr",
    "proc/sys/kernel/random/entropy_avail",
    "proc/sys/kernel/random/poolsize",
    "proc/sys/net/netfilter/nf_conntrack_count",
    "proc/sys/net/netfilter/nf_conntrack_max",
    "proc/net/stat/nf_conntrack",
    "proc/net/arp",
    "proc/net/udp",
    "proc/net/udp6",
    "proc/net/rpc/nfs",
    "proc/net/rpc/nfsd",
    "proc/net/ip_vs",
    "proc/net/ip_vs_stats",
    "proc/mdstat",
    "proc/schedstat",
    "etc/os-release",
];

/// A folder that khz reads, with the firmware's names. Its serial numbers are nobody's business.
const FIRMWARE: &str = "sys/class/dmi/id";

/// Captures this machine.
pub fn run(name: &str) -> Result<(), String> {
    let to = step::root().join("fixtures").join(name);
    if to.exists() {
        return Err(format!("{} exists; choose another name", to.display()));
    }
    let mut captured = Vec::new();
    let firmware = fs::read_dir(Path::new("/").join(FIRMWARE)).into_iter().flatten().flatten();
    let firmware = firmware.filter_map(|entry| entry.file_name().into_string().ok());
    let firmware =
        firmware.filter(|name| !["serial", "uuid", "asset_tag"].iter().any(|secret| name.ends_with(secret)));
    let firmware = firmware.map(|name| format!("{FIRMWARE}/{name}"));
    for file in FILES.map(str::to_owned).into_iter().chain(firmware) {
        // A kernel without PSI, or without PSI for interrupts, has no such file. Folders are no files.
        let Ok(text) = fs::read(Path::new("/").join(&file)) else { continue };
        let to = to.join(&file);
        let folder = to.parent().ok_or("BUG: a file without a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&to, text))
            .map_err(|e| format!("{}: {e}", to.display()))?;
        captured.push(file);
    }
    let surveys = std::process::Command::new("cargo")
        .args(["run", "-q", "-p", "khz-gather", "--example", "survey", "--"])
        .arg(&to)
        .output()
        .map_err(|error| format!("cargo run: {error}"))?;
    captured.extend(String::from_utf8_lossy(&surveys.stdout).lines().map(str::to_owned));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let origin = format!(
        "machine: (describe it: CPUs, memory, interfaces, what it was doing)\nkernel:  {}\ncommand: cargo xtask capture {name}\n\
         files:   {}\nscrubbed: (say what you changed; check cpuinfo, version, hostname, domainname, and the servers, addresses and serial numbers in survey/)\n",
        kernel.trim(),
        captured.join(" ")
    );
    fs::write(to.join("ORIGIN"), origin).map_err(|e| format!("{}: {e}", to.display()))?;
    println!("captured {} files in {}; now fill in its ORIGIN", captured.len(), to.display());
    Ok(())
}
