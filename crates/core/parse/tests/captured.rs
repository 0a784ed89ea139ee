//! The parser reads every captured host without a fault, and finds the numbers that an independent reader
//! finds in the same text. It also reads each later text of a host after its earlier one.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use khz_model::{Absence, Fault, Instance, Reading};
use khz_parse::{Parser, files};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures")
}

/// Each host's directory, sorted.
fn hosts() -> Vec<PathBuf> {
    let mut hosts: Vec<_> = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path()).collect();
    hosts.retain(|host| host.join("proc").is_dir());
    hosts.sort();
    assert!(hosts.len() >= 5, "{hosts:?}");
    hosts
}

fn get(parser: &Parser, metric: &str, instance: Option<&str>) -> Reading {
    let instance = instance.map(|name| Instance::from_kernel(name.as_bytes()));
    let slot = parser.schema().slot(metric, instance.as_ref()).unwrap_or_else(|| panic!("no {metric}"));
    parser.reading(slot as usize).unwrap()
}

/// A parser that has read these texts of one host's file, in this order.
fn read(host: &str, path: &str, folders: &[&str]) -> Parser {
    let file = files().iter().find(|file| file.captured_path() == path).unwrap();
    let mut parser = Parser::new(file);
    for folder in folders {
        parser.advance_with(&fs::read(fixtures().join(host).join(folder).join(path)).unwrap());
        assert_eq!(parser.faults(), [], "{host}/{folder}{path}");
    }
    parser
}

/// All numbers in a text, in order, whatever they mean: `0.52` is 52.
fn numbers(text: &str) -> Vec<u64> {
    let joined = |word: &str| word.replace('.', "");
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(joined);
    words.filter_map(|word| word.parse().ok()).collect()
}

/// The words of eight digits in base 16, which only a few files have.
fn hexadecimal_numbers(text: &str) -> Vec<u64> {
    let words = text.split_whitespace().filter(|word| word.len() == 8);
    words.filter_map(|word| u64::from_str_radix(word, 16).ok()).collect()
}

#[test]
fn every_number_that_is_read_is_in_the_text() {
    for host in hosts() {
        for file in files().iter().filter(|file| file.rest().is_none()) {
            let Ok(text) = fs::read_to_string(host.join(file.captured_path())) else { continue };
            let mut parser = Parser::new(file);
            parser.advance_with(text.as_bytes());
            assert_eq!(parser.faults(), [], "{}/{}", host.display(), file.path);
            let printed = [numbers(&text), hexadecimal_numbers(&text)].concat();
            let mut present = 0;
            for (slot, series) in parser.schema().series().iter().enumerate() {
                let Some(Reading::Present(value)) = parser.reading(slot) else { continue };
                present += 1;
                let is_sum = &*series.metric.name == "disk.ios" || file.path == "proc/net/stat/nf_conntrack";
                let page = rustix::param::page_size() as u64;
                let as_printed = [1, 512, 1_024, page]
                    .iter()
                    .any(|step| value.is_multiple_of(*step) && printed.contains(&(value / step)));
                assert!(is_sum || as_printed, "{}: {series} is {value}", host.display());
            }
            assert!(present >= 1, "{}/{}: no value", host.display(), file.path);
        }
    }
}

#[test]
fn a_distribution_is_described_by_its_names() {
    let labels = get(&read("linux-6.18-vm2", "etc/os-release", &[""]), "host.os", None).labels().unwrap();
    assert_eq!(labels.get("pretty_name"), Some("Debian GNU/Linux 12 (bookworm)"));
    assert_eq!((labels.get("version_id"), labels.get("home_url")), (Some("12"), None));
}

#[test]
fn a_host_goes_on_and_the_parser_with_it() {
    for host in hosts() {
        for file in files() {
            let Ok(later) = fs::read(host.join("later").join(file.captured_path())) else { continue };
            let (mut long_lived, mut fresh) = (Parser::new(file), Parser::new(file));
            long_lived.advance_with(&fs::read(host.join(file.captured_path())).unwrap());
            long_lived.advance_with(&later);
            fresh.advance_with(&later);
            for (slot, series) in long_lived.schema().series().iter().enumerate() {
                let fresh = fresh.schema().slot(&series.metric.name, series.instance.as_ref());
                let gone = Some(Reading::Absent(Absence::InstanceGone));
                let expected = fresh.map_or(gone, |slot| fresh_reading(file, &later, slot));
                assert_eq!(long_lived.reading(slot), expected, "{}: {series}", host.display());
            }
        }
    }
}

fn fresh_reading(file: &'static khz_parse::KernelFile, text: &[u8], slot: u32) -> Option<Reading> {
    let mut parser = Parser::new(file);
    parser.advance_with(text);
    parser.reading(slot as usize)
}

#[test]
fn linux_6_1_with_a_cpu_offline_an_interface_renamed_and_one_removed() {
    let gone = Reading::Absent(Absence::InstanceGone);
    let stat = read("linux-6.1-qemu8", "proc/stat", &["", "later"]);
    assert_eq!(get(&stat, "cpu.idle", Some("1")), Reading::Present(422));
    assert_eq!(get(&stat, "cpu.idle", Some("2")), gone);
    assert_eq!(get(&stat, "cpu.idle", Some("3")), Reading::Present(491));
    assert_eq!(get(&stat, "cpu.all.idle", None), Reading::Present(3_542));
    let net = read("linux-6.1-qemu8", "proc/net/dev", &["", "later"]);
    assert_eq!(get(&net, "net.rx_bytes", Some("lo")), Reading::Present(13_440));
    assert_eq!(get(&net, "net.tx_bytes", Some("dummy1")), Reading::Present(364));
    assert_eq!(get(&net, "net.tx_bytes", Some("dummy3")), gone);
    assert_eq!(get(&net, "net.tx_bytes", Some("renamed3")), Reading::Present(70));
    assert_eq!(get(&net, "net.tx_bytes", Some("dummy5")), gone);
    let disks = read("linux-6.1-qemu8", "proc/diskstats", &["", "later"]);
    assert_eq!(get(&disks, "disk.read_bytes", Some("vda")), Reading::Present(64_720 * 512));
    assert_eq!(get(&disks, "disk.written_bytes", Some("vda3")), Reading::Present(4_000 * 512));
    assert_eq!(get(&disks, "disk.reads", Some("loop7")), Reading::Present(0));
}

#[test]
fn linux_2_4_with_its_header_lines() {
    let host = "linux-2.4-documented";
    let no_field = Reading::Absent(Absence::NoField);
    let stat = read(host, "proc/stat", &[""]);
    assert_eq!(get(&stat, "cpu.all.idle", None), Reading::Present(22_625_563));
    assert_eq!(get(&stat, "cpu.user", Some("1")), Reading::Present(1_123));
    assert_eq!(get(&stat, "cpu.iowait", Some("1")), no_field);
    assert_eq!(get(&stat, "kernel.interrupts", None), Reading::Present(1_462_898));
    assert_eq!(get(&stat, "kernel.forks", None), Reading::Present(86_031));
    assert_eq!(get(&stat, "kernel.procs_running", None), no_field);
    let memory = read(host, "proc/meminfo", &[""]);
    assert_eq!(get(&memory, "mem.total", None), Reading::Present(516_072 << 10));
    assert_eq!(get(&memory, "mem.shared", None), Reading::Present(0));
    assert_eq!(get(&memory, "mem.low_free", None), Reading::Present(108_232 << 10));
    assert_eq!(get(&memory, "mem.available", None), no_field);
    let net = read(host, "proc/net/dev", &[""]);
    assert_eq!(get(&net, "net.rx_bytes", Some("eth0")), Reading::Present(15_475_140));
    assert_eq!(get(&net, "net.rx_frame", Some("eth0")), Reading::Present(410));
    let load = read(host, "proc/loadavg", &[""]);
    assert_eq!(get(&load, "tasks.total", None), Reading::Present(80));
    let uptime = read(host, "proc/uptime", &[""]);
    assert_eq!(get(&uptime, "uptime.up", None), Reading::Present(35_073_547));
    assert_ne!(get(&uptime, "uptime.up", None), Reading::Failed(Fault::Malformed));
}

#[test]
fn linux_6_18_with_counts_of_the_network() {
    let value = |path: &str, metric: &str, instance: Option<&str>| {
        get(&read("linux-6.18-net", path, &[""]), metric, instance).value()
    };
    for (path, metric, instance, expected) in [
        ("proc/net/snmp", "tcp.active_opens", None, 944_589),
        ("proc/net/snmp", "tcp.retransmits", None, 20_165),
        ("proc/net/snmp", "udp.tx_datagrams", None, 76_048),
        ("proc/net/netstat", "tcp.listen_drops", None, 66),
        ("proc/net/netstat", "ip.rx_bytes", None, 1_412_849_543_199),
        ("proc/net/snmp6", "ip6.rx_bytes", None, 26_528),
        ("proc/net/snmp6", "icmp6.rx_errors", None, 3),
        ("proc/net/sockstat", "socket.used", None, 431),
        ("proc/net/sockstat", "socket.tcp_time_wait", None, 280),
        ("proc/net/softnet_stat", "softnet.processed", Some("0"), 0x0212_70e4),
        ("proc/net/softnet_stat", "softnet.squeezed", Some("1"), 0x8),
        ("proc/sys/fs/file-nr", "file.handles", None, 2_385),
        ("proc/sys/kernel/random/poolsize", "entropy.pool_size", None, 256),
        ("proc/net/stat/nf_conntrack", "conntrack.found", None, 0),
    ] {
        assert_eq!(value(path, metric, instance), Some(expected), "{metric}");
    }
}
