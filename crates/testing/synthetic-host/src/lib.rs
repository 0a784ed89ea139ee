//! Made-up hosts: texts of kernel files for any number of CPUs, interfaces, disks and interrupts, and the values that
//! a parser must find in each text. This crate does not use the parsers that it tests.
//!
//! The texts have the kernel's formats (fs/proc, net/core/net-procfs.c, block/genhd.c, kernel/sched/psi.c). The numbers
//! come from a seed, so a host is the same in every run. Time passes only in [`Host::advance`].

#![forbid(unsafe_code)]

mod counts;
mod cpus;
mod disks;
mod hexadecimal;
mod memory;
mod network;
mod noise;
mod pressure;
mod surveys;
mod times;

use std::path::Path;

pub use counts::Counts;
pub use cpus::{CPU_STATES, Cpus};
pub use disks::{DISK_COUNTERS, Disks};
pub use hexadecimal::{Conntrack, Softnet};
pub use memory::{Meminfo, Vmstat};
pub use network::{INTERFACE_COUNTERS, Network};
pub use noise::Noise;
pub use pressure::Pressure;
pub use surveys::Survey;
pub use times::{Loadavg, Uptime};

/// How large a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// CPUs that can be switched on. At first all of them are on.
    pub cpus: usize,
    /// Interrupt numbers: the columns of `intr`.
    pub interrupts: usize,
    /// Network interfaces, the loopback included.
    pub interfaces: usize,
    /// Disks and partitions.
    pub disks: usize,
}

/// One value of a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Truth {
    /// The metric's dotted name.
    pub metric: &'static str,
    /// The instance as the kernel names it.
    pub instance: Option<String>,
    /// The value in the metric's unit and decimal places: bytes for kB, hundredths for `0.52`.
    pub value: u64,
}

/// One kernel file of a host.
pub trait KernelFile {
    /// Path below the root: `proc/stat`.
    fn path(&self) -> &'static str;
    /// Lets some time pass: counters grow, gauges change.
    fn advance(&mut self, noise: &mut Noise);
    /// The text that the kernel would print.
    fn text(&self) -> String;
    /// The values in that text.
    fn truth(&self) -> Vec<Truth>;
}

/// A whole host.
#[derive(Clone, Debug)]
pub struct Host {
    noise: Noise,
    /// `/proc/stat`.
    pub cpus: Cpus,
    /// `/proc/meminfo`.
    pub meminfo: Meminfo,
    /// `/proc/loadavg`.
    pub loadavg: Loadavg,
    /// `/proc/uptime`.
    pub uptime: Uptime,
    /// `/proc/net/dev`.
    pub network: Network,
    /// `/proc/vmstat`.
    pub vmstat: Vmstat,
    /// `/proc/diskstats`.
    pub disks: Disks,
    /// `/proc/pressure/*`.
    pub pressure: [Pressure; 4],
    /// Texts of surveys, as captured hosts have them.
    pub surveys: [Survey; 4],
    /// Files of counts.
    pub counts: [Counts; 10],
    /// `/proc/net/softnet_stat`.
    pub softnet: Softnet,
    /// `/proc/net/stat/nf_conntrack`.
    pub conntrack: Conntrack,
}

impl Host {
    /// A host of this size. The same seed gives the same host.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut noise = Noise::new(seed);
        Host {
            cpus: Cpus::new(shape.cpus, shape.interrupts, &mut noise),
            meminfo: Meminfo::new(&mut noise),
            loadavg: Loadavg::new(&mut noise),
            uptime: Uptime::new(shape.cpus, &mut noise),
            network: Network::new(shape.interfaces, &mut noise),
            vmstat: Vmstat::new(&mut noise),
            disks: Disks::new(shape.disks, &mut noise),
            pressure: Pressure::all(&mut noise),
            surveys: Survey::all(&mut noise),
            counts: Counts::all(&mut noise),
            softnet: Softnet::new(shape.cpus, &mut noise),
            conntrack: Conntrack::new(shape.cpus, &mut noise),
            noise,
        }
    }

    /// Lets some time pass for the whole host.
    pub fn advance(&mut self) {
        let mut noise = self.noise.clone();
        for file in self.files_mut() {
            file.advance(&mut noise);
        }
        self.noise = noise;
    }

    /// Its files, in the catalogue's order.
    pub fn files(&self) -> Vec<&dyn KernelFile> {
        let mut files: Vec<&dyn KernelFile> = vec![
            &self.cpus,
            &self.meminfo,
            &self.loadavg,
            &self.uptime,
            &self.network,
            &self.vmstat,
            &self.disks,
        ];
        files.extend(self.pressure.iter().map(|p| p as &dyn KernelFile));
        files.extend(self.surveys.iter().map(|survey| survey as &dyn KernelFile));
        files.extend(self.counts.iter().map(|counts| counts as &dyn KernelFile));
        files.extend([&self.softnet as &dyn KernelFile, &self.conntrack]);
        files
    }

    fn files_mut(&mut self) -> Vec<&mut dyn KernelFile> {
        let mut files: Vec<&mut dyn KernelFile> = vec![
            &mut self.cpus,
            &mut self.meminfo,
            &mut self.loadavg,
            &mut self.uptime,
            &mut self.network,
            &mut self.vmstat,
            &mut self.disks,
        ];
        files.extend(self.pressure.iter_mut().map(|p| p as &mut dyn KernelFile));
        files.extend(self.surveys.iter_mut().map(|survey| survey as &mut dyn KernelFile));
        files.extend(self.counts.iter_mut().map(|counts| counts as &mut dyn KernelFile));
        files.extend([&mut self.softnet as &mut dyn KernelFile, &mut self.conntrack]);
        files
    }

    /// The file at `path` below the root, if the host has it.
    pub fn file(&self, path: &str) -> Option<&dyn KernelFile> {
        self.files().into_iter().find(|file| file.path() == path)
    }

    /// Writes every file below `root`. It overwrites files in place, so that a reader with an open file gets the new
    /// text.
    pub fn write(&self, root: &Path) -> std::io::Result<()> {
        for file in self.files() {
            let path = root.join(file.path());
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            std::fs::write(path, file.text())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape { cpus: 4, interrupts: 20, interfaces: 3, disks: 2 };

    fn texts(host: &Host) -> Vec<String> {
        host.files().iter().map(|file| file.text()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_host_and_another_seed_another() {
        let (mut one, mut two) = (Host::new(SMALL, 7), Host::new(SMALL, 7));
        assert_eq!(texts(&one), texts(&two));
        one.advance();
        assert_ne!(texts(&one), texts(&two));
        two.advance();
        assert_eq!(texts(&one), texts(&two));
        assert_ne!(texts(&one), texts(&Host::new(SMALL, 8)));
    }

    #[test]
    fn counters_of_a_host_never_go_backwards() {
        let mut host = Host::new(SMALL, 1);
        let counters = |host: &Host| {
            let mut truths = host.network.truth();
            truths.extend(host.vmstat.truth());
            truths.extend(host.cpus.truth().into_iter().filter(|t| !t.metric.contains("procs_")));
            truths
        };
        for _ in 0..50 {
            let before = counters(&host);
            host.advance();
            for (old, new) in before.iter().zip(counters(&host)) {
                assert_eq!((old.metric, &old.instance), (new.metric, &new.instance));
                assert!(new.value >= old.value, "{new:?} after {old:?}");
            }
        }
    }

    #[test]
    fn a_host_is_written_as_a_tree_below_its_root() {
        let root = std::env::temp_dir().join(format!("khz-synthetic-host-{}", std::process::id()));
        let host = Host::new(SMALL, 3);
        host.write(&root).unwrap();
        let stat = std::fs::read_to_string(root.join("proc/stat")).unwrap();
        let io = std::fs::read_to_string(root.join("proc/pressure/io")).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((stat, io), (host.cpus.text(), host.pressure[2].text()));
    }
}
