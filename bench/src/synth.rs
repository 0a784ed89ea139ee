//! Synthetic hosts: texts of /proc/stat, /proc/net/dev and /proc/diskstats for any number of CPUs, interfaces and disks, in
//! sequence. The formats are the kernel's (fs/proc/stat.c, net/core/net-procfs.c, block/genhd.c), the numbers are made up.

use std::fmt::Write;

use crate::five::Frames;

/// Interrupt lines of a host: a few for each CPU, as on machines with one queue for each CPU.
const INTERRUPTS_PER_CPU: usize = 8;

/// Columns of a CPU's line, and how fast each grows compared with the others.
const CPU_STEPS: [u64; 10] = [60, 1, 20, 300, 2, 0, 1, 0, 0, 0];

/// How much of a host changes between two texts.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// One of this many CPUs or interfaces changes.
    pub one_in: usize,
}

/// Numbers that look random and are the same in every run (a linear congruential generator with Knuth's
/// constants).
pub struct Noise(pub u64);

impl Noise {
    /// The next number below this limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// `count` texts of /proc/stat of a host with `cpus` CPUs.
pub fn stat(cpus: usize, moving: Moving, count: usize) -> Frames {
    let mut noise = Noise(cpus as u64);
    let mut times: Vec<[u64; 10]> =
        (0..cpus).map(|_| CPU_STEPS.map(|step| step * 10_000 + noise.below(1_000))).collect();
    let (mut switches, mut interrupts) = (5_000_000_000u64, 3_000_000_000u64);
    let mut next = |text: usize| {
        for (cpu, times) in times.iter_mut().enumerate() {
            if (cpu + text).is_multiple_of(moving.one_in) {
                let state = if noise.below(3) == 0 { 0 } else { 3 };
                times[state] += 1 + noise.below(3);
            }
        }
        switches += 100 + noise.below(1_000);
        interrupts += 100 + noise.below(1_000);
        stat_text(&times, switches, interrupts)
    };
    (0..count).map(&mut next).collect()
}

fn stat_text(times: &[[u64; 10]], switches: u64, interrupts: u64) -> Vec<u8> {
    let mut text = String::from("cpu ");
    for state in 0..10 {
        let _ = write!(text, " {}", times.iter().map(|t| t[state]).sum::<u64>());
    }
    text.push('\n');
    for (cpu, times) in times.iter().enumerate() {
        let _ = write!(text, "cpu{cpu}");
        times.iter().for_each(|time| {
            let _ = write!(text, " {time}");
        });
        text.push('\n');
    }
    let _ = write!(text, "intr {interrupts}");
    for line in 0..times.len() * INTERRUPTS_PER_CPU {
        let _ = write!(text, " {}", if line % 4 == 0 { interrupts / 1_000 } else { 0 });
    }
    let _ = write!(
        text,
        "\nctxt {switches}\nbtime 1795225386\nprocesses 123456\nprocs_running 3\nprocs_blocked 0\n\
         softirq {} 0 1 2 3 4 0 5 6 7 8\n",
        interrupts / 2
    );
    text.into_bytes()
}

/// `count` texts of /proc/diskstats of a host with `disks` disks.
pub fn diskstats(disks: usize, moving: Moving, count: usize) -> Frames {
    let mut noise = Noise(disks as u64);
    let mut counters: Vec<[u64; 4]> =
        (0..disks).map(|_| [0; 4].map(|_: u64| 1_000_000 + noise.below(9_000_000))).collect();
    let mut next = |text: usize| {
        for (disk, [reads, sectors_read, writes, sectors_written]) in counters.iter_mut().enumerate() {
            if (disk + text).is_multiple_of(moving.one_in) {
                let requests = 1 + noise.below(9);
                *reads += requests;
                *sectors_read += requests * 8;
                *writes += requests;
                *sectors_written += requests * 64;
            }
        }
        diskstats_text(&counters)
    };
    (0..count).map(&mut next).collect()
}

/// block/genhd.c, diskstats_show.
fn diskstats_text(counters: &[[u64; 4]]) -> Vec<u8> {
    let mut text = String::new();
    for (disk, [reads, sectors_read, writes, sectors_written]) in counters.iter().enumerate() {
        let _ = writeln!(
            text,
            "{:4} {:7} sd{disk} {reads} 0 {sectors_read} {} {writes} 0 {sectors_written} {} 0 {} {} 0 0 0 0 0 0",
            8,
            disk * 16,
            reads / 10,
            writes / 10,
            (reads + writes) / 20,
            (reads + writes) / 10
        );
    }
    text.into_bytes()
}

/// `count` texts of /proc/net/dev of a host with `interfaces` interfaces.
pub fn net_dev(interfaces: usize, moving: Moving, count: usize) -> Frames {
    let mut noise = Noise(interfaces as u64);
    let mut counters: Vec<[u64; 4]> =
        (0..interfaces).map(|_| [0; 4].map(|_: u64| 1_000_000 + noise.below(9_000_000))).collect();
    let mut next = |text: usize| {
        for (interface, [rx_bytes, rx_packets, tx_bytes, tx_packets]) in counters.iter_mut().enumerate() {
            if (interface + text).is_multiple_of(moving.one_in) {
                let packets = 1 + noise.below(9);
                *rx_packets += packets;
                *tx_packets += packets;
                *rx_bytes += packets * 1_500;
                *tx_bytes += packets * 66;
            }
        }
        net_dev_text(&counters)
    };
    (0..count).map(&mut next).collect()
}

fn net_dev_text(counters: &[[u64; 4]]) -> Vec<u8> {
    let mut text = String::from(
        "Inter-|   Receive                                                |  Transmit\n face |bytes    packets \
         errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
    );
    for (interface, [rx_bytes, rx_packets, tx_bytes, tx_packets]) in counters.iter().enumerate() {
        let name = format!("veth{interface}");
        let _ = writeln!(
            text,
            "{name:>6}: {rx_bytes:>7} {rx_packets:>7}    0    0    0     0          0         0 \
             {tx_bytes:>8} {tx_packets:>7}    0    0    0     0       0          0"
        );
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ours::kernel_file;
    use khz_parse::{Outcome, Parser};

    const ALL: Moving = Moving { one_in: 1 };

    #[test]
    fn our_parser_finds_no_fault_in_them_and_every_slot_filled() {
        for (name, frames) in [("stat", stat(64, ALL, 3)), ("net/dev", net_dev(100, ALL, 3))] {
            let mut parser = Parser::new(kernel_file(name).unwrap());
            for frame in &frames {
                parser.advance_with(frame);
                assert!(parser.faults().is_empty(), "{name}: {}", parser.faults()[0]);
            }
            assert!(parser.states().iter().all(|&state| state == 0), "{name}");
        }
    }

    #[test]
    fn neighbours_differ_and_keep_their_layout_mostly() {
        for (name, frames) in [("stat", stat(64, ALL, 32)), ("net/dev", net_dev(100, ALL, 32))] {
            let mut parser = Parser::new(kernel_file(name).unwrap());
            let outcomes: Vec<_> = frames.iter().map(|frame| parser.advance_with(frame)).collect();
            let in_place = outcomes.iter().filter(|&&o| o == Outcome::InPlace).count();
            assert!(in_place >= 20, "{name}: {in_place} of {}", frames.len());
            assert!(!parser.changed().is_empty(), "{name}");
        }
    }
}
