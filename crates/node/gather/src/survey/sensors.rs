//! Finds the chips and sensors of `/sys/class/hwmon`, names them as node_exporter does, and reads the files of each sensor.
//! `khz_parse::hwmon` lists these files.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use khz_model::ValueType;
use khz_parse::survey::STUCK;
use khz_parse::{Entry, hwmon};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course, Whereabouts};
use super::folder::{Folder, joined, names};
use super::line::Line;
use super::trees::{Begun, Leaves, Trees};

const CHIPS: &str = "sys/class/hwmon";

/// The kinds of sensors.
const TYPES: [&str; 14] = [
    "vrm",
    "beep_enable",
    "update_interval",
    "in",
    "cpu",
    "fan",
    "pwm",
    "temp",
    "curr",
    "power",
    "energy",
    "humidity",
    "intrusion",
    "freq",
];

/// The file with the frequency of a clock.
const CLOCK: &str = "freq_input";

/// The end of a file with a sensor's label.
const LABEL: &str = "_label";

/// A chip before its name is sure.
#[derive(Clone)]
struct Chip {
    /// The name of its folder: `hwmon3`.
    folder: OsString,
    /// What it is called, unless another is called so, too.
    called: String,
    /// What the driver calls it.
    driver: String,
}

/// The chips that the latest survey has found.
#[derive(Default)]
pub(super) struct Chips(Mutex<Vec<Chip>>);

impl Chips {
    /// Makes the text.
    pub fn survey(&self, course: &mut Course<'_>, root: &Path, trees: &Trees) -> Result<Answer, Abandoned> {
        if !course.begin(b"")? {
            return Ok(Err(Errno::TIMEDOUT));
        }
        let folders = match names(&root.join(CHIPS)) {
            Ok(folders) => folders,
            Err(errno) => return Ok(Err(errno)),
        };
        let chips = self.find(course, root, folders)?;
        let mut leaves = trees.begun(course.subject());
        for (chip, name) in chips.iter().zip(distinct(&chips)) {
            match trees.begin(course, &chip.step(), &mut leaves)? {
                Begun::Read(step) => {
                    chip.read(course, &root.join(CHIPS).join(&chip.folder), &name, &mut leaves);
                    trees.end(course, step, &mut leaves);
                }
                Begun::Known => {}
                Begun::Unknown(step) => {
                    if let Some(line) = unanswered(&name, &course.stuck_file(&step.0))
                        && leaves.takes(line.begin())
                    {
                        leaves.add(line);
                        trees.end(course, step, &mut leaves);
                    }
                }
            }
        }
        Ok(trees.finish(course, leaves)?.ok_or(Errno::NOENT))
    }

    /// The chips in these folders. A stuck chip keeps its old name, since the name distinguishes chips of the same
    /// device.
    fn find(
        &self,
        course: &mut Course<'_>,
        root: &Path,
        folders: Vec<OsString>,
    ) -> Result<Vec<Chip>, Abandoned> {
        let latest = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chips = Vec::new();
        for folder in folders {
            let chip = match course.begin(&step_of(&folder))? {
                true => Chip::find(root, folder, course.whereabouts()),
                false => latest().iter().find(|chip| chip.folder == folder).cloned(),
            };
            chips.extend(chip);
        }
        latest().clone_from(&chips);
        Ok(chips)
    }
}

/// The step in which a folder is read.
fn step_of(folder: &OsStr) -> Vec<u8> {
    joined(CHIPS.as_bytes(), folder.as_encoded_bytes())
}

/// The line of a sensor whose chip has never answered: the file that hangs says which one.
fn unanswered(chip: &str, hanging: &[u8]) -> Option<Line> {
    let file = hanging.rsplit(|&byte| byte == b'/').next()?;
    let (sensor, field) = split(std::str::from_utf8(file).ok()?)?;
    let entry = entries("sensor").find(|entry| entry.field == field)?;
    let mut line = Line::new("sensor", chip.as_bytes(), [("sensor", sensor.as_bytes())]);
    line.without_number(entry, STUCK);
    Some(line)
}

impl Chip {
    fn step(&self) -> Vec<u8> {
        step_of(&self.folder)
    }

    fn find(root: &Path, folder: OsString, whereabouts: Whereabouts<'_>) -> Option<Chip> {
        let path = root.join(CHIPS).join(&folder);
        let mut open = Folder::open(&path, whereabouts).ok()?;
        let driver = open.value("name").map(|name| String::from_utf8_lossy(name).into_owned());
        let driver = driver.unwrap_or_default();
        let called = called(&path, &driver)?;
        Some(Chip { folder, called, driver })
    }

    fn read(&self, course: &mut Course<'_>, path: &Path, name: &str, leaves: &mut Leaves) {
        let driver = cleaned(&self.driver);
        if !driver.is_empty() {
            let mut line = Line::new("chip", name.as_bytes(), []);
            line.label("chip_name", driver.as_bytes());
            if leaves.takes(line.begin()) {
                leaves.add(line);
            }
        }
        let whereabouts = course.whereabouts();
        for (sensor, files) in sensors(path) {
            let mut line = Line::new("sensor", name.as_bytes(), [("sensor", sensor.as_bytes())]);
            if !leaves.takes(line.begin()) {
                continue;
            }
            let mut read = Sensor { path, folders: HashMap::new(), files: &files, whereabouts };
            let label = read.label();
            line.label("label", &label);
            for entry in entries("sensor") {
                read.number(&mut line, entry);
            }
            leaves.add(line);
            if files.contains_key(CLOCK) && files.keys().any(|file| file.ends_with(LABEL)) {
                let clock = cleaned(&String::from_utf8_lossy(&label));
                let mut line = Line::new("clock", name.as_bytes(), [("sensor", clock.as_bytes())]);
                if leaves.takes(line.begin()) {
                    entries("clock").for_each(|entry| read.number(&mut line, entry));
                    leaves.add(line);
                }
            }
            course.note(|| read.problem());
        }
    }
}

/// The numbers of a kind of line.
fn entries(kind: &'static str) -> impl Iterator<Item = &'static Entry> {
    let groups = hwmon::FILE.groups.iter().filter(move |group| group.line_kind() == kind);
    groups.flat_map(|group| group.entries).filter(|entry| entry.value_type != ValueType::Labels)
}

/// The files of a sensor, by their names without its number, and the folder of each below that of the chip.
type Files = BTreeMap<String, (&'static str, String)>;

/// The files of one sensor that are being read.
struct Sensor<'a> {
    path: &'a Path,
    folders: HashMap<&'static str, Option<Folder<'a>>>,
    files: &'a Files,
    whereabouts: Whereabouts<'a>,
}

impl<'a> Sensor<'a> {
    fn folder(&mut self, below: &'static str) -> Option<&mut Folder<'a>> {
        let open = || Folder::open(&self.path.join(below), self.whereabouts).ok();
        self.folders.entry(below).or_insert_with(open).as_mut()
    }

    /// Why the first file without a number has none.
    fn problem(&self) -> Option<String> {
        self.folders.values().flatten().find_map(Folder::problem)
    }

    fn label(&mut self) -> Vec<u8> {
        let Some((_, (below, file))) = self.files.iter().find(|(name, _)| name.ends_with(LABEL)) else {
            return Vec::new();
        };
        self.folder(below).and_then(|folder| folder.value(file).ok().map(<[u8]>::to_vec)).unwrap_or_default()
    }

    fn number(&mut self, line: &mut Line, entry: &Entry) {
        let Some((below, file)) = self.files.get(entry.field) else { return };
        if let Some(folder) = self.folder(below) {
            line.number(folder, file, entry, b"");
        }
    }
}

/// The sensors of a chip: sensors in its folder, and sensors in the folder of its device, where old
/// drivers have them.
fn sensors(path: &Path) -> BTreeMap<String, Files> {
    let mut sensors: BTreeMap<String, Files> = BTreeMap::new();
    for below in ["", "device"] {
        let files = names(&path.join(below)).unwrap_or_default();
        for file in files.into_iter().filter_map(|file| file.into_string().ok()) {
            if let Some((sensor, field)) = split(&file) {
                sensors.entry(sensor).or_default().insert(field, (below, file));
            }
        }
    }
    sensors
}

/// `temp3_max` is the file `temp_max` of the sensor `temp3`.
fn split(file: &str) -> Option<(String, String)> {
    let kind_end = file.find(|c: char| c.is_ascii_digit()).unwrap_or(file.len());
    let (kind, rest) = file.split_at(kind_end);
    if !TYPES.contains(&kind) {
        return None;
    }
    let number_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, property) = rest.split_at(number_end);
    let number: u32 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let is_property = property.is_empty() || property.strip_prefix('_').is_some_and(|name| !name.is_empty());
    is_property.then(|| (format!("{kind}{number}"), format!("{kind}{property}")))
}

/// What a chip is called: by its device, by its driver, or by its folder.
fn called(path: &Path, driver: &str) -> Option<String> {
    if let Ok(device) = path.join("device").canonicalize() {
        let part = |path: Option<&Path>| {
            path.and_then(Path::file_name).map(|name| cleaned(&name.to_string_lossy())).unwrap_or_default()
        };
        let (bus, name) = (part(device.parent()), part(Some(&device)));
        match (bus.is_empty(), name.is_empty()) {
            (false, false) => return Some(format!("{bus}_{name}")),
            (true, false) => return Some(name),
            _ => {}
        }
    }
    let folder = || Some(cleaned(&path.canonicalize().ok()?.file_name()?.to_string_lossy()));
    Some(cleaned(driver)).filter(|name| !name.is_empty()).or_else(folder).filter(|name| !name.is_empty())
}

/// The chips' names, each once: chips of one device are told apart by their drivers, or by their folders.
fn distinct(chips: &[Chip]) -> Vec<String> {
    let alike = |chip: &Chip, with_driver: bool| {
        let is_alike =
            |other: &&Chip| other.called == chip.called && (!with_driver || other.driver == chip.driver);
        chips.iter().filter(is_alike).count() > 1
    };
    let name = |chip: &Chip| {
        if !alike(chip, false) {
            return chip.called.clone();
        }
        let driver = cleaned(&chip.driver);
        let end = if driver.is_empty() || alike(chip, true) {
            cleaned(&chip.folder.to_string_lossy())
        } else {
            driver
        };
        format!("{}_{end}", chip.called)
    };
    chips.iter().map(name).collect()
}

/// A name as a part of a metric's: in small letters, with `_` for everything else.
fn cleaned(name: &str) -> String {
    let allowed = |c: char| if matches!(c, 'a'..='z' | '0'..='9' | ':' | '_') { c } else { '_' };
    let name: String = name.to_lowercase().chars().map(allowed).collect();
    name.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_split_into_sensor_and_field() {
        for (file, expected) in [
            ("temp3_max", Some(("temp3", "temp_max"))),
            ("temp1_crit_alarm", Some(("temp1", "temp_crit_alarm"))),
            ("pwm1", Some(("pwm1", "pwm"))),
            ("pwm1_auto_point2_pwm", Some(("pwm1", "pwm_auto_point2_pwm"))),
            ("update_interval", Some(("update_interval0", "update_interval"))),
            ("in0_input", Some(("in0", "in_input"))),
            ("name", None),
            ("power_state", None),
            ("temp1max", None),
            ("temp1_", None),
            ("temp99999999999_input", None),
        ] {
            let expected = expected.map(|(sensor, field)| (sensor.to_owned(), field.to_owned()));
            assert_eq!(split(file), expected, "{file}");
        }
    }

    #[test]
    fn chips_of_one_device_are_told_apart() {
        let chip = |folder: &str, called: &str, driver: &str| Chip {
            folder: folder.into(),
            called: called.into(),
            driver: driver.into(),
        };
        let chips = [
            chip("hwmon0", "pci_a", "x"),
            chip("hwmon1", "pci_b", "X-1"),
            chip("hwmon2", "pci_b", "y"),
            chip("hwmon3", "pci_c", "z"),
            chip("hwmon4", "pci_c", "z"),
        ];
        assert_eq!(distinct(&chips), ["pci_a", "pci_b_x_1", "pci_b_y", "pci_c_hwmon3", "pci_c_hwmon4"]);
    }

    #[test]
    fn names_are_cleaned() {
        assert_eq!(cleaned("coretemp.0"), "coretemp_0");
        assert_eq!(cleaned("_Ä.NCT\n"), "nct");
    }
}
