//! Texts of surveys of a made-up host: mounted file systems, links, throttled processors, errors of the memory. Their form
//! is khz's own (`khz_parse::survey`).

use std::fmt::Write;

use crate::{KernelFile, Noise, Truth};

/// Fields of an instance: the word in the text, the metric, the value if there is one.
type Field = (&'static str, &'static str, Option<u64>);

/// A made-up survey.
#[derive(Clone, Debug)]
pub struct Survey {
    path: &'static str,
    /// The number without an instance, if the survey has one.
    left_out: Option<Field>,
    /// What comes before the fields of a line, the name of its instance, its fields.
    pub lines: Vec<(String, String, Vec<Field>)>,
}

/// The words and metrics of a mounted file system.
const SIZES: [(&str, &str); 5] = [
    ("size", "fs.size"),
    ("free", "fs.free"),
    ("available", "fs.available"),
    ("files", "fs.files"),
    ("files_free", "fs.files_free"),
];

/// The words and metrics of a link.
const LINK: [(&str, &str); 7] = [
    ("carrier", "net.carrier"),
    ("carrier_changes", "net.carrier_changes"),
    ("carrier_up_changes", "net.carrier_up_changes"),
    ("carrier_down_changes", "net.carrier_down_changes"),
    ("speed", "net.speed"),
    ("mtu", "net.mtu"),
    ("queue_length", "net.queue_length"),
];

impl Survey {
    pub(crate) fn all(noise: &mut Noise) -> [Survey; 4] {
        [Self::file_systems(noise), Self::links(noise), Self::throttling(noise), Self::memory(noise)]
    }

    fn file_systems(noise: &mut Noise) -> Survey {
        let mounts = [
            ("/", "/dev/vda", "ext4"),
            ("/scratch", "server:/scratch", "nfs4"),
            ("/a\\040b", "/dev/vdb", "btrfs"),
        ];
        let line = |(place, device, kind): (&str, &str, &str)| {
            let flags = [("read_only", "fs.read_only", Some(noise.below(2))), ("error", "fs.error", Some(0))];
            let sizes = SIZES.map(|(word, metric)| {
                let has_none = kind == "btrfs" && word.starts_with("files");
                (word, metric, (!has_none).then(|| noise.counter(50)))
            });
            let name = place.replace("\\040", " ");
            (
                format!("mountpoint {place} device={device} fstype={kind}"),
                name,
                [&flags[..], &sizes[..]].concat(),
            )
        };
        let left_out = Some(("left_out", "fs.left_out", Some(0)));
        Survey { path: "survey/filesystem", left_out, lines: mounts.map(line).into() }
    }

    fn links(noise: &mut Noise) -> Survey {
        let line = |name: &str| {
            let fields = LINK.map(|(word, metric)| {
                let value = if word == "carrier" { noise.below(2) } else { noise.counter(40) };
                (word, metric, (word != "speed" || name != "lo").then_some(value))
            });
            (format!("device {name}"), name.to_owned(), fields.to_vec())
        };
        let left_out = Some(("links_left_out", "net.links_left_out", Some(0)));
        Survey { path: "survey/net_class", left_out, lines: ["enp1s0f0", "eth1", "lo"].map(line).into() }
    }

    fn throttling(noise: &mut Noise) -> Survey {
        let kinds = [("core", 4), ("package", 2)];
        let mut lines = Vec::new();
        for (kind, count) in kinds {
            for number in 0..count {
                let (begin, word, metric) = match kind {
                    "core" => (
                        format!("core {number} package={}", number / 2),
                        "core_throttles",
                        "thermal.core_throttles",
                    ),
                    _ => (format!("package {number}"), "package_throttles", "thermal.package_throttles"),
                };
                lines.push((begin, number.to_string(), vec![(word, metric, Some(noise.counter(20)))]));
            }
        }
        Survey { path: "survey/cpu_throttle", left_out: None, lines }
    }

    fn memory(noise: &mut Noise) -> Survey {
        let line = |number: u32| {
            let fields = vec![
                ("correctable_errors", "edac.correctable_errors", Some(noise.counter(20))),
                ("uncorrectable_errors", "edac.uncorrectable_errors", Some(noise.below(3))),
            ];
            (format!("controller {number}"), number.to_string(), fields)
        };
        Survey { path: "survey/edac", left_out: None, lines: (0..2).map(line).collect() }
    }
}

impl KernelFile for Survey {
    fn path(&self) -> &'static str {
        self.path
    }

    fn advance(&mut self, noise: &mut Noise) {
        for (_, metric, value) in self.lines.iter_mut().flat_map(|(.., fields)| fields) {
            if let Some(value) = value.as_mut().filter(|_| noise.once_in(2)) {
                let is_flag = ["fs.read_only", "fs.error", "net.carrier"].contains(metric);
                *value = if is_flag { noise.below(2) } else { *value + noise.growth() };
            }
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some((word, _, Some(value))) = self.left_out {
            let _ = writeln!(text, "* {word}={value}");
        }
        for (begin, _, fields) in &self.lines {
            text.push_str(begin);
            for (word, _, value) in fields {
                let value = value.map_or("-".to_owned(), |value| value.to_string());
                let _ = write!(text, " {word}={value}");
            }
            text.push('\n');
        }
        text
    }

    fn truth(&self) -> Vec<Truth> {
        let truth = |instance: Option<&String>, (_, metric, value): &Field| {
            Some(Truth { metric, instance: instance.cloned(), value: (*value)? })
        };
        let lines = self
            .lines
            .iter()
            .flat_map(|(_, name, fields)| fields.iter().map(move |field| (Some(name), field)));
        let all = self.left_out.iter().map(|field| (None, field)).chain(lines);
        all.filter_map(|(name, field)| truth(name, field)).collect()
    }
}
