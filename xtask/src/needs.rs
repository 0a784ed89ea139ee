//! What the tests need beyond the Rust toolchain: programs from Debian packages. Installs them as root on a
//! machine with apt; otherwise names the missing ones.

use std::path::Path;
use std::process::{Command, Stdio};

/// A program, or a path where there is none; the Debian package that has it; and what needs it.
const PROGRAMS: [(&str, &str, &str); 31] = [
    ("cc", "gcc libc6-dev", "the C programs of the benchmarks"),
    ("clang", "clang", "the programs for rows in C"),
    ("wasm-ld", "lld", "the programs for rows in C"),
    ("chromium", "chromium", "the tests of the page"),
    ("chromedriver", "chromium-driver", "the tests of the page"),
    ("firefox-esr", "firefox-esr", "the tests of the page in Firefox"),
    ("npm", "npm", "the check of the page for screen readers"),
    ("promtool", "prometheus", "the check of /metrics"),
    ("prometheus-alertmanager", "prometheus-alertmanager", "the tests of alerts that go to people"),
    ("victoria-metrics", "victoria-metrics", "the tests of remote write"),
    ("prometheus-node-exporter", "prometheus-node-exporter", "the test of labels that describe a node"),
    ("munged", "munge", "the tests of actions with Slurm"),
    ("slurmctld", "slurmctld slurm-client", "the tests of actions with Slurm"),
    ("slurmd", "slurmd", "the tests of actions with Slurm"),
    ("ip", "iproute2", "the test with 500 interfaces"),
    ("openssl", "openssl", "the tests of certificates and TLS"),
    ("systemd-analyze", "systemd", "the check of the units"),
    ("fusermount3", "fuse3", "the tests of the mounted tree"),
    ("rsync", "rsync", "the test that copies the mounted tree"),
    ("nc", "netcat-openbsd", "the example in shell"),
    ("zsh", "zsh", "the test of completions"),
    ("fish", "fish", "the test of completions"),
    ("perl", "perl", "the example in Perl"),
    ("python3", "python3", "the example in Python"),
    ("java", "default-jdk-headless", "the example in Java"),
    ("rrdtool", "rrdtool", "the tests of .rrd files"),
    ("rrdcached", "rrdcached", "the tests of the caching daemon"),
    ("/usr/share/doc/librrds-perl", "librrds-perl", "the test of rrdtool's Perl module"),
    ("/usr/share/doc/python3-rrdtool", "python3-rrdtool", "the test of rrdtool's Python module"),
    ("tmux", "tmux", "the tests of khz top"),
    ("locale-gen", "locales", "the test of .rrd files in a language with a decimal comma"),
];

/// For the libraries for the JVM, where there is a JDK for them.
const FOR_JAVA: [(&str, &str, &str); 1] = [("mvn", "maven", "the libraries for the JVM")];

/// For `cargo xtask static`: the C code of ring and zstd is compiled against musl's headers.
const FOR_STATIC: [(&str, &str, &str); 1] = [("musl-gcc", "musl-tools", "the static program")];

/// For the tests on virtual machines. These fetch and unpack kernel, busybox and systemd themselves.
const FOR_GUESTS: [(&str, &str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86", "the tests on virtual machines"),
    ("strip", "binutils", "the tests on virtual machines"),
    ("apt-get", "apt", "the tests on virtual machines"),
    ("dpkg", "dpkg", "the tests on virtual machines"),
];

/// For the slow tests of .rrd files: rrdtool's own test scripts, and programs that write .rrd files.
const FOR_RRD: [(&str, &str, &str); 10] = [
    ("dpkg-source", "dpkg-dev", "the source package with rrdtool's own tests"),
    ("dc", "dc", "rrdtool's own tests"),
    ("collectd", "collectd-core", "the test of collectd's .rrd files"),
    ("gmetad", "gmetad", "the test of Ganglia's .rrd files"),
    ("gmond", "ganglia-monitor", "the test of Ganglia's .rrd files"),
    ("/usr/share/munin/munin-update", "munin", "the test of Munin's .rrd files"),
    ("munin-node", "munin-node", "the test of Munin's .rrd files"),
    ("mrtg", "mrtg", "the test of MRTG's .rrd files"),
    ("snmpd", "snmpd", "the test of MRTG's .rrd files"),
    ("xz", "xz-utils", "the days of what programs send to rrdcached"),
];

/// For `cargo xtask bench text`.
const FOR_TEXT: [(&str, &str, &str); 1] =
    [("rpc.rstatd", "rstatd rpcbind", "the daemon that khz is held against")];

/// For `cargo xtask bench hub`.
const FOR_HUB: [(&str, &str, &str); 1] =
    [("prometheus-node-exporter", "prometheus-node-exporter", "the exporter that scrapes are held against")];

/// Installs everything that the tests need, or names what is missing.
pub fn install() -> Result<(), String> {
    install_missing(&PROGRAMS)
}

/// The same for the libraries for the JVM.
pub fn install_for_java() -> Result<(), String> {
    install_missing(&FOR_JAVA)
}

/// The same for the static program.
pub fn install_for_static() -> Result<(), String> {
    install_missing(&FOR_STATIC)
}

/// The same for the tests on virtual machines.
pub fn install_for_guests() -> Result<(), String> {
    install_missing(&FOR_GUESTS)
}

/// The same for the slow tests of .rrd files.
pub fn install_for_rrd() -> Result<(), String> {
    install_missing(&FOR_RRD)
}

/// The same for the benchmark of the hub.
pub fn install_for_hub() -> Result<(), String> {
    install_missing(&FOR_HUB)
}

/// The same for the benchmark of the text door.
pub fn install_for_text() -> Result<(), String> {
    install_missing(&FOR_TEXT)
}

fn install_missing(programs: &[(&str, &str, &str)]) -> Result<(), String> {
    let missing: Vec<_> = programs.iter().filter(|(program, ..)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|(_, packages, _)| packages.split(' ')).collect();
    for (program, package, what) in &missing {
        eprintln!("xtask: {program} is missing (package {package}): needed by {what}");
    }
    if !is_root() || !is_there("apt-get") {
        return Err(format!("install these first, then call again: apt-get install {}", packages.join(" ")));
    }
    crate::step::run("apt-get update -q", &[], &[])?;
    let more: Vec<&str> = ["--no-install-recommends"].into_iter().chain(packages).collect();
    // The `prometheus` package would start a server; we need only its promtool.
    crate::step::run(
        "apt-get install -y -q",
        &more,
        &[("DEBIAN_FRONTEND", "noninteractive"), ("RUNLEVEL", "1")],
    )
}

fn is_there(program: &str) -> bool {
    let places = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    // A path stays as it is.
    places.split(':').any(|place| Path::new(place).join(program).exists())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stdout(Stdio::piped()).output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}
