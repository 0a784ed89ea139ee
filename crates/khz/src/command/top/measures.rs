//! What the numbers of a node mean: shares of processors, memory, pressure; its disks, interfaces and processes. A number that
//! cannot be computed is `None`, never 0.

use std::collections::{BTreeMap, BTreeSet};

use khz_model::fold::by_name;

use super::table::Table;

/// The modes of a processor that are work.
const BUSY: [&str; 6] = ["user", "nice", "system", "irq", "softirq", "steal"];

/// The numbers of a node, out of the newest rows of its subscriptions.
#[derive(Clone, Copy)]
pub struct Measures<'a>(pub &'a [Option<Table>]);

/// The numbers of a node that a list shows and compares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The share of the processors that work.
    pub cpu: Option<f64>,
    /// The share of the processors' time that the hypervisor gave to others.
    pub steal: Option<f64>,
    /// The share of the memory that programs could not get.
    pub memory: Option<f64>,
    /// Tasks that ran or wanted to, mean of a minute.
    pub load: Option<f64>,
    /// The share of the time in which tasks waited for disks.
    pub io_pressure: Option<f64>,
    /// The share of the time in which tasks waited for memory.
    pub memory_pressure: Option<f64>,
    /// The share of the time in which tasks waited for a processor.
    pub cpu_pressure: Option<f64>,
    /// The share of the time in which the busiest disk did something.
    pub disk: Option<f64>,
    /// Bytes a second over all interfaces but the loopback.
    pub traffic: Option<f64>,
}

/// One disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Its name.
    pub name: String,
    /// Bytes read a second.
    pub read: Option<f64>,
    /// Bytes written a second.
    pub written: Option<f64>,
    /// The share of the time in which it did something.
    pub busy: Option<f64>,
    /// Seconds that a request took, on average.
    pub wait: Option<f64>,
}

/// One interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Bytes received a second.
    pub received: Option<f64>,
    /// Bytes sent a second.
    pub sent: Option<f64>,
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Its number.
    pub pid: String,
    /// Its name.
    pub command: String,
    /// Its owner.
    pub user: String,
    /// Percent of one processor.
    pub cpu: Option<f64>,
    /// Bytes.
    pub memory: Option<f64>,
    /// Bytes a second from and to disks.
    pub io: Option<f64>,
}

impl<'a> Measures<'a> {
    /// What a list shows.
    pub fn summary(self) -> Summary {
        Summary {
            cpu: self.cpu(),
            steal: self.share(&["steal"]),
            memory: self.memory(),
            load: self.number("load.1m"),
            io_pressure: self.pressure("io", "some"),
            memory_pressure: self.pressure("memory", "some"),
            cpu_pressure: self.pressure("cpu", "some"),
            disk: self.disk(),
            traffic: self.traffic(),
        }
    }

    /// The number of a series.
    pub fn number(self, series: &str) -> Option<f64> {
        // In a recording, several lanes may have it.
        let tables = self.0.iter().flatten().filter(|table| table.has(series));
        tables.max_by_key(|table| table.time)?.number(series)
    }

    fn numbers(self, metric: &str) -> BTreeMap<&'a str, Option<f64>> {
        let mut tables: Vec<&Table> = self.0.iter().flatten().collect();
        tables.sort_by_key(|table| std::cmp::Reverse(table.time));
        let mut all = BTreeMap::new();
        for (instance, number) in tables.into_iter().flat_map(|table| table.numbers(metric)) {
            // Two subscriptions may have it; the one with a number counts.
            let known = all.entry(instance).or_insert(number);
            *known = known.or(number);
        }
        all
    }

    /// The time of the processors in this mode, in processors.
    pub fn mode(self, mode: &str) -> Option<f64> {
        self.number(&format!("cpu.all.{mode}"))
    }

    /// How many processors there are; `None` if nothing is known of single ones.
    pub fn processors(self) -> Option<usize> {
        let all: BTreeSet<&str> =
            self.0.iter().flatten().flat_map(|table| table.present("cpu.idle")).collect();
        (!all.is_empty()).then_some(all.len())
    }

    /// The time of all processors, in processors; `None` also where no time passes for them, as in a copy of a host.
    fn all_time(self) -> Option<f64> {
        self.time_of_processors().filter(|all| *all > 0.0)
    }

    fn time_of_processors(self) -> Option<f64> {
        let busy: f64 = self.busy()?;
        Some(busy + self.mode("idle")? + self.mode("iowait").unwrap_or(0.0))
    }

    /// Processors that work.
    fn busy(self) -> Option<f64> {
        let user = self.mode("user")?;
        // Old kernels lack some modes.
        Some(user + BUSY.iter().skip(1).filter_map(|mode| self.mode(mode)).sum::<f64>())
    }

    /// The share of the processors that work.
    pub fn cpu(self) -> Option<f64> {
        let all = self.all_time()?;
        Some((self.busy()? / all).clamp(0.0, 1.0))
    }

    /// The share of the processors in these modes.
    pub fn share(self, modes: &[&str]) -> Option<f64> {
        let all = self.all_time()?;
        let some: Vec<f64> = modes.iter().filter_map(|mode| self.mode(mode)).collect();
        (!some.is_empty()).then(|| (some.iter().sum::<f64>() / all).clamp(0.0, 1.0))
    }

    /// Each processor and the share of its time in which it works.
    pub fn cores(self) -> Vec<(String, Option<f64>)> {
        let waits = self.numbers("cpu.iowait");
        let stands_still = self.time_of_processors() == Some(0.0);
        let share = |(name, idle): (&str, Option<f64>)| {
            let waiting = waits.get(name).copied().flatten().unwrap_or(0.0);
            let idle = idle.filter(|_| !stands_still);
            (name.to_owned(), idle.map(|idle| (1.0 - idle - waiting).clamp(0.0, 1.0)))
        };
        let mut cores: Vec<_> = self.numbers("cpu.idle").into_iter().map(share).collect();
        cores.sort_by(|(a, _), (b, _)| by_name(a, b));
        cores
    }

    /// The share of the memory that programs could not get.
    pub fn memory(self) -> Option<f64> {
        let total = self.number("mem.total").filter(|total| *total > 0.0)?;
        Some((1.0 - self.number("mem.available")? / total).clamp(0.0, 1.0))
    }

    /// The share of the swap space that is used; `None` where there is none.
    pub fn swap(self) -> Option<f64> {
        let total = self.number("mem.swap_total").filter(|total| *total > 0.0)?;
        Some((1.0 - self.number("mem.swap_free")? / total).clamp(0.0, 1.0))
    }

    /// The share of the time in which tasks waited for this.
    pub fn pressure(self, of: &str, whom: &str) -> Option<f64> {
        let measured = self.number(&format!("pressure.{of}.{whom}.total"));
        measured.map(|share| share.clamp(0.0, 1.0))
    }

    /// The disks. A partition is left out where its disk is there.
    pub fn disks(self) -> Vec<Disk> {
        let (read, written) = (self.numbers("disk.read_bytes"), self.numbers("disk.written_bytes"));
        let (busy, reads, writes) =
            (self.numbers("disk.io_time"), self.numbers("disk.reads"), self.numbers("disk.writes"));
        let (read_time, write_time) = (self.numbers("disk.read_time"), self.numbers("disk.write_time"));
        let names: BTreeSet<&str> = read.keys().chain(busy.keys()).copied().collect();
        let get = |of: &BTreeMap<&str, Option<f64>>, name: &str| of.get(name).copied().flatten();
        let disk = |name: &&str| {
            let requests = get(&reads, name).zip(get(&writes, name)).map(|(reads, writes)| reads + writes);
            let time = get(&read_time, name).zip(get(&write_time, name)).map(|(read, write)| read + write);
            Disk {
                name: (*name).to_owned(),
                read: get(&read, name),
                written: get(&written, name),
                busy: get(&busy, name).map(|share| share.clamp(0.0, 1.0)),
                wait: time.zip(requests).and_then(|(time, count)| (count > 0.0).then(|| time / count)),
            }
        };
        let whole = |name: &&&str| !is_no_disk(name) && !names.iter().any(|disk| is_partition(name, disk));
        let mut disks: Vec<Disk> = names.iter().filter(whole).map(disk).collect();
        disks.sort_by(|a, b| by_name(&a.name, &b.name));
        disks
    }

    /// The interfaces, the loopback last.
    pub fn links(self) -> Vec<Link> {
        let sent = self.numbers("net.tx_bytes");
        let link = |(name, received): (&str, Option<f64>)| {
            let sent = sent.get(name).copied().flatten();
            Link { name: name.to_owned(), received, sent }
        };
        let mut links: Vec<Link> = self.numbers("net.rx_bytes").into_iter().map(link).collect();
        links.sort_by(|a, b| (a.name == "lo").cmp(&(b.name == "lo")).then_with(|| by_name(&a.name, &b.name)));
        links
    }

    /// Bytes a second over all interfaces but the loopback.
    pub fn traffic(self) -> Option<f64> {
        let links = self.links();
        let all = links.iter().filter(|link| link.name != "lo");
        let known: Vec<f64> = all.filter_map(|link| Some(link.received? + link.sent?)).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }

    /// The share of the time of its busiest disk.
    pub fn disk(self) -> Option<f64> {
        self.disks().iter().filter_map(|disk| disk.busy).max_by(f64::total_cmp)
    }

    /// The processes that are among the first of some kind, joined by their numbers.
    pub fn processes(self) -> Vec<Process> {
        let mut all: BTreeMap<String, Process> = BTreeMap::new();
        for (metric, description, set) in KINDS {
            for (place, number) in self.numbers(metric) {
                let Some(labels) = self.labels(&format!("{description}[{place}]")) else { continue };
                let get = |wanted: &str| {
                    let label = labels.iter().find(|(name, _)| *name == wanted);
                    label.map(|(_, value)| value.to_owned()).unwrap_or_default()
                };
                let pid = get("pid");
                // A place that nobody has.
                if pid.is_empty() {
                    continue;
                }
                let process = all.entry(pid.clone()).or_insert_with(|| Process {
                    pid,
                    command: get("command"),
                    user: get("user"),
                    ..Process::default()
                });
                set(process, number);
            }
        }
        all.into_values().collect()
    }

    fn labels(self, series: &str) -> Option<&'a khz_model::Labels> {
        self.0.iter().flatten().find_map(|table| table.labels(series))
    }
}

type Set = fn(&mut Process, Option<f64>);

/// Of each kind of place: its number, its labels, and where the number goes.
const KINDS: [(&str, &str, Set); 3] = [
    ("process.cpu", "process.busiest", |process, number| process.cpu = number),
    ("process.memory", "process.largest", |process, number| process.memory = number),
    ("process.io", "process.mover", |process, number| process.io = number),
];

/// Loop devices and RAM disks: their work is done by other devices.
fn is_no_disk(name: &str) -> bool {
    ["loop", "ram"].iter().any(|kind| is_partition(name, kind))
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`.
fn is_partition(name: &str, disk: &str) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.ends_with(|last: char| last.is_ascii_digit());
    let number = if ends_in_digit { rest.strip_prefix('p').unwrap_or("") } else { rest };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use khz_ask::{Cell, Column, Row};
    use khz_model::Nanos;

    use super::*;

    fn table(values: &[(&str, i128)]) -> Option<Table> {
        let column = |(series, _): &(&str, i128)| Column {
            series: (*series).into(),
            counter: false,
            unit: "count".into(),
            places: 2,
        };
        let mut table = Table::new(values.iter().map(column).collect(), "1Hz".into(), Nanos(0));
        let cells = values.iter().map(|(_, units)| Cell::Present { units: *units, places: 2 }).collect();
        table.row(&Row { time: Nanos(1), clock: Nanos(1), cells });
        Some(table)
    }

    #[test]
    fn shares_are_of_all_processors_and_unknown_without_their_parts() {
        let tables = [table(&[
            ("cpu.all.user", 50),
            ("cpu.all.system", 50),
            ("cpu.all.idle", 250),
            ("cpu.all.iowait", 50),
        ])];
        let measures = Measures(&tables);
        assert_eq!((measures.cpu(), measures.processors()), (Some(0.25), None));
        let still = ["cpu.all.user", "cpu.all.system", "cpu.all.idle", "cpu.idle[0]", "cpu.iowait[0]"];
        let tables = [table(&still.map(|series| (series, 0)))];
        let measures_of_a_copy = Measures(&tables);
        assert_eq!((measures_of_a_copy.cpu(), measures_of_a_copy.processors()), (None, Some(1)));
        assert_eq!(measures_of_a_copy.cores(), [("0".to_owned(), None)], "unknown is not busy");
        assert_eq!(measures.share(&["iowait"]), Some(0.125));
        assert_eq!((measures.memory(), measures.swap(), measures.pressure("io", "some")), (None, None, None));
        assert_eq!(Measures(&[]).cpu(), None);
    }

    #[test]
    fn the_number_of_processors_is_no_matter_of_how_their_times_grow() {
        let series = ["cpu.all.user", "cpu.all.idle", "cpu.idle[0]", "cpu.idle[1]", "cpu.idle[2]"];
        let column =
            |series: &str| Column { series: series.into(), counter: true, unit: "seconds".into(), places: 2 };
        let mut tables = [Some(Table::new(series.map(column).to_vec(), "1Hz".into(), Nanos(0)))];
        let mut after = |seconds: u64, units: [Option<i128>; 5]| {
            let cell = |units: Option<i128>| match units {
                Some(units) => Cell::Present { units, places: 2 },
                None => Cell::Absent("gone".into()),
            };
            let time = Nanos::from_secs(seconds);
            let row = Row { time, clock: time, cells: units.map(cell).to_vec() };
            tables.iter_mut().flatten().for_each(|table| table.row(&row));
            Measures(&tables).processors()
        };
        assert_eq!(after(1, [Some(0); 5]), Some(3), "there are no rates yet");
        assert_eq!(
            after(2, [Some(0), Some(4_000), Some(1), Some(1), Some(1)]),
            Some(3),
            "a clock that ran fast"
        );
        assert_eq!(after(3, [Some(0), Some(4_300), Some(1), Some(1), None]), Some(2), "one was switched off");
    }

    #[test]
    fn cores_and_links_are_in_natural_order_and_partitions_are_left_out() {
        let tables = [
            table(&[
                ("cpu.idle[10]", 100),
                ("cpu.idle[9]", 25),
                ("net.rx_bytes[lo]", 1),
                ("net.rx_bytes[eth1]", 1),
            ]),
            table(&[
                ("disk.io_time[sda]", 50),
                ("disk.io_time[loop0]", 99),
                ("disk.io_time[sda1]", 50),
                ("disk.io_time[nvme0n1]", 20),
                ("disk.io_time[nvme0n1p1]", 1),
            ]),
        ];
        let measures = Measures(&tables);
        assert_eq!(measures.cores(), [("9".to_owned(), Some(0.75)), ("10".to_owned(), Some(0.0))]);
        let names: Vec<String> = measures.disks().into_iter().map(|disk| disk.name).collect();
        assert_eq!(names, ["nvme0n1", "sda"]);
        assert_eq!(measures.disk(), Some(0.5));
        let links: Vec<String> = measures.links().into_iter().map(|link| link.name).collect();
        assert_eq!(links, ["eth1", "lo"]);
        assert_eq!(measures.traffic(), None, "what was sent is unknown");
    }
}
