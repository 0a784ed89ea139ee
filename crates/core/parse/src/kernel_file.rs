//! A kernel file as the parser sees it: its path, its metrics, how the kernel hands it out, and its full
//! parser.

use std::ops::Range;
use std::sync::Arc;

use khz_model::metric::Called;
use khz_model::{Metric, Nanos, Pattern, Refresh, ValueType};

use crate::catalogue::shared_metrics;
use crate::columns::Columns;
use crate::entry::Entry;
use crate::sink::Sink;
use crate::survey::NO_INSTANCE;
use crate::textfile;
use crate::tree::Branch;

/// The period of the base lane, as a rule.
const BASE_PERIOD: Nanos = Nanos::SECOND;

/// One file of the kernel.
#[derive(Debug)]
pub struct KernelFile {
    /// The short name that people use: `net/dev`.
    pub name: &'static str,
    /// The path below the root, without a leading slash: `proc/net/dev`.
    pub path: &'static str,
    /// How the kernel hands it out.
    pub pieces: Pieces,
    /// Only the base lane has it until a reader names something of it: files that few people look at, which together take longer to
    /// read than the classic ones.
    pub only_base: bool,
    /// Metrics without instances. They take the first slots, from slot 0.
    pub scalars: &'static [Entry],
    /// Metrics with instances. Each new instance takes the next slots.
    pub groups: &'static [Group],
    /// The full parser: it walks the text by field name and reports to the sink where each number is.
    pub parse: fn(&mut Sink<'_>),
}

/// A source has one name, and no other has it.
impl PartialEq for KernelFile {
    fn eq(&self, other: &Self) -> bool {
        (self.name, self.path) == (other.name, other.path)
    }
}

/// Metrics that exist once for each instance.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The kind of instance, which is also the exposition's label: `cpu`, `device`. Empty: there are no instances; unlike
    /// [`KernelFile::scalars`], the numbers have slots only where the text has them.
    pub label: &'static str,
    /// The metrics of an instance, in slot order.
    pub entries: &'static [Entry],
    /// If not empty, the kernel does not print the last entry: it is the sum of the entries at these indices.
    pub total_of: &'static [usize],
    /// Further labels of each instance, in the order in which a survey's text has them: they tell instances apart.
    pub instance_labels: &'static [&'static str],
    /// The word with which a survey's text begins a line about such an instance; empty: the label. Groups with the same
    /// word share its lines: an instance gets the slots of a group when a number of that group stands in its line.
    pub kind: &'static str,
    /// Where the instances are, if they are folders of a tree ([`crate::tree`]).
    pub branch: Option<Branch>,
    /// Lines of which each column is an instance ([`crate::columns`]).
    pub columns: &'static [Columns],
}

impl Group {
    /// A group without entries.
    pub const PLAIN: Group = Group {
        label: "",
        entries: &[],
        total_of: &[],
        instance_labels: &[],
        kind: "",
        branch: None,
        columns: &[],
    };

    /// A group like this one for each entry: an instance has only slots for what it has.
    pub const fn each<const COUNT: usize>(self, entries: &'static [Entry; COUNT]) -> [Group; COUNT] {
        let mut groups = [self; COUNT];
        let mut at = 0;
        while at < COUNT {
            groups[at].entries = entries.split_at(at).1.split_at(1).0;
            at += 1;
        }
        groups
    }

    /// These groups one after the other. `COUNT` is their number.
    pub const fn join<const COUNT: usize>(parts: &[&[Group]]) -> [Group; COUNT] {
        let mut groups = [Group::PLAIN; COUNT];
        let (mut part, mut at) = (0, 0);
        while part < parts.len() {
            let mut index = 0;
            while index < parts[part].len() {
                groups[at] = parts[part][index];
                (at, index) = (at + 1, index + 1);
            }
            part += 1;
        }
        assert!(at == COUNT, "BUG: another number of groups");
        groups
    }

    /// True if its numbers are of no instance.
    pub fn is_whole(&self) -> bool {
        self.label.is_empty()
    }

    /// The word that begins a line about such an instance.
    pub fn line_kind(&self) -> &'static str {
        match (self.is_whole(), self.kind) {
            (true, _) => NO_INSTANCE,
            (false, "") => self.label,
            (false, kind) => kind,
        }
    }
}

/// How the text of a source is read. The first two are ways of the kernel (fs/seq_file.c), and so is the third
/// (fs/proc/proc_sysctl.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// One record: a single read with enough room returns all of it.
    Whole,
    /// Many records, about a page at a time: read on until a read returns 0.
    Records {
        /// No record is longer than this many bytes. A piece that leaves more than this of a page free was
        /// the last one.
        longest: usize,
    },
    /// One short value below `/proc/sys`: the kernel allocates and clears as many bytes as a read asks for, so it asks for few.
    Value,
    /// No file, but a folder, whose files have one value each. The text has a line `label=value` for each file
    /// that can be read and is not empty.
    Folder(&'static [ValueFile]),
    /// Not a file, but several files or system calls, some of which may block. A separate thread makes one text of
    /// them, in the form that [`crate::survey`] describes. A captured host has this text as a file.
    Survey {
        /// What is surveyed.
        subject: Subject,
        /// The path of the text below the root of a captured host.
        captured: &'static str,
    },
}

/// What a survey is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Mounted file systems: statvfs(2) of each may wait for a file server.
    FileSystems,
    /// Network interfaces: their files may wait for a driver.
    Interfaces,
    /// How often the processors were throttled because of their temperature.
    Throttling,
    /// How well the clock is synchronised: adjtimex(2).
    Clock,
    /// Disks, as udev knows them.
    Disks,
    /// Sensors of the hardware (hwmon).
    Sensors,
    /// Control groups of services, containers and jobs.
    ControlGroups,
    /// Users that are logged in.
    Logins,
    /// Processes and programs.
    Processes,
    /// Files of numbers that programs leave for node_exporter.
    TextFiles,
    /// A tree of small files, by the name of its [`KernelFile`]: its groups say where the files are ([`crate::tree`]).
    Tree(&'static str),
}

/// A file with one value, and the label that the value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFile {
    /// The file's name in its folder.
    pub file: &'static str,
    /// The label.
    pub label: &'static str,
}

impl KernelFile {
    /// Its path below the root of a captured host.
    pub fn captured_path(&self) -> &'static str {
        match self.pieces {
            Pieces::Survey { captured, .. } => captured,
            _ => self.path,
        }
    }

    /// Where the names begin that the text itself gives; `None`: all its names are in the catalogue.
    pub fn prefix(&self) -> Option<&'static str> {
        matches!(self.pieces, Pieces::Survey { subject: Subject::TextFiles, .. }).then_some(textfile::PREFIX)
    }

    /// For how long the text is not read again after a read; `None`: every request reads it. Descriptions seldom change, and reading them takes many system calls.
    pub fn rest(&self) -> Option<Refresh> {
        let is_seldom =
            |entry: &Entry| entry.value_type == ValueType::Labels || entry.refresh == Refresh::Constant;
        let entries = || self.scalars.iter().chain(self.groups.iter().flat_map(|group| group.entries));
        entries().all(is_seldom).then(|| self.refresh(|_| true)).flatten()
    }

    /// The shortest refresh among the metrics that `wanted` selects; `None` when it selects none. An
    /// event counts as shorter than any period.
    pub fn refresh(&self, wanted: impl Fn(&str) -> bool) -> Option<Refresh> {
        let entries = self.scalars.iter().chain(self.groups.iter().flat_map(|g| g.entries));
        entries.filter(|e| wanted(e.name)).map(|e| e.refresh).min_by_key(|r| r.period().map_or(0, |p| p.0))
    }

    /// How far apart reads may be for a reader of these patterns; `None`: it wants nothing of the file. A reader that wants
    /// everything gets a file of the base lane as often as that lane has it.
    pub fn refresh_for(&self, patterns: &[Pattern]) -> Option<Nanos> {
        let wanted = |metric: &str| patterns.iter().any(|pattern| pattern.matches_metric(metric));
        let is_named = |metric: &str| {
            patterns.iter().any(|pattern| pattern.series() != "*" && pattern.matches_metric(metric))
        };
        let refresh = self.refresh(wanted)?.period().unwrap_or(Nanos(0));
        let is_seldom = self.only_base && self.refresh(is_named).is_none();
        Some(if is_seldom { refresh.max(BASE_PERIOD) } else { refresh })
    }

    /// The file's catalogue entries, scalars first. Metrics that no parser uses are made for the caller
    /// alone.
    pub fn metrics(&self) -> Vec<Arc<Metric>> {
        let shared = shared_metrics(self);
        let in_use = |place: usize| shared.and_then(|shared| shared[place].get().cloned());
        let places = self.entries().enumerate();
        places.map(|(place, labelled)| in_use(place).unwrap_or_else(|| self.made(labelled))).collect()
    }

    /// What these entries are called.
    pub fn called(&self) -> impl Iterator<Item = Called<'_>> {
        self.entries().map(|(entry, _)| entry.called())
    }

    /// The metrics without instances, for a parser that keeps them.
    pub(crate) fn scalar_metrics(&self) -> impl Iterator<Item = Arc<Metric>> + '_ {
        self.kept_metrics(0..self.scalars.len())
    }

    /// The metrics of a group, for a parser that keeps them.
    pub(crate) fn group_metrics(&self, group: usize) -> impl Iterator<Item = Arc<Metric>> + '_ {
        let before: usize = self.groups[..group].iter().map(|group| group.entries.len()).sum();
        let start = self.scalars.len() + before;
        self.kept_metrics(start..start + self.groups[group].entries.len())
    }

    fn kept_metrics(&self, places: Range<usize>) -> impl Iterator<Item = Arc<Metric>> + '_ {
        let shared = shared_metrics(self);
        let entries = self.entries().enumerate().skip(places.start).take(places.len());
        entries.map(move |(place, labelled)| match shared {
            Some(shared) => shared[place].get_or_init(|| self.made(labelled)).clone(),
            None => self.made(labelled),
        })
    }

    /// Its entries, each with the label of its instances: scalars first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static Entry, Option<&'static str>)> + use<> {
        let (scalars, groups) = (self.scalars, self.groups);
        let label = |group: &Group| (!group.is_whole()).then_some(group.label);
        let grouped =
            groups.iter().flat_map(move |group| group.entries.iter().map(move |entry| (entry, label(group))));
        scalars.iter().map(|entry| (entry, None)).chain(grouped)
    }

    fn made(&self, (entry, label): (&Entry, Option<&'static str>)) -> Arc<Metric> {
        entry.metric(self.path, label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{loadavg, protocols, stat};

    #[test]
    fn who_wants_everything_gets_files_of_the_base_lane_at_its_rate() {
        let every = |file: &KernelFile, patterns: &[&str]| {
            let patterns: Vec<Pattern> = patterns.iter().map(|text| Pattern::new(text).unwrap()).collect();
            file.refresh_for(&patterns)
        };
        assert_eq!(every(&protocols::SNMP, &["*"]), Some(Nanos::SECOND));
        assert_eq!(every(&protocols::SNMP, &["n[1-4]:*", "mem.*"]), Some(Nanos::SECOND));
        assert_eq!(every(&protocols::SNMP, &["*", "tcp.retransmits"]), Some(Nanos(0)));
        assert_eq!(every(&protocols::SNMP, &["mem.*"]), None);
        assert_eq!(every(&stat::FILE, &["*"]), Some(Nanos(0)));
        assert_eq!(every(&loadavg::FILE, &["load.*"]), Some(Nanos::from_secs(5)));
    }
}
