//! The disk below a directory, as the kernel describes it: readahead, I/O scheduler, mount.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::number_in;
use crate::error::{Error, Result};

/// Layers of disks that are followed: a volume on an encrypted one on a partition has three.
const LAYERS_MAX: usize = 8;

/// A disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disk {
    /// Its number, major and minor.
    pub number: (u32, u32),
    /// Bytes that it reads ahead.
    pub readahead: Option<u64>,
    /// Which way requests are ordered.
    pub scheduler: Option<Scheduler>,
    /// Where it is mounted.
    pub mount: Option<Mount>,
}

/// A line of mountinfo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// The mount's options.
    pub options: String,
    /// The file system's type.
    pub kind: String,
    /// The disk's name.
    pub source: String,
}

/// The I/O scheduler of a whole disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduler {
    /// The disk, as in /sys/block.
    pub disk: String,
    /// The scheduler's name.
    pub name: String,
    /// What kind of disk it is.
    pub medium: Medium,
}

/// What kind of disk it is, as far as the order of requests matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// The host orders the requests again.
    Virtual,
    /// A place on it is as near as any other.
    Flash,
    /// Its head has to move.
    Rotating,
}

/// The disk of `directory`.
///
/// # Errors
/// The directory cannot be read.
pub fn of(directory: &Path) -> Result<Disk> {
    let metadata = std::fs::metadata(directory).map_err(|error| Error::io("opening", directory, error))?;
    let number = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let id = format!("{}:{}", number.0, number.1);
    let readahead = number_in(&format!("/sys/dev/block/{id}/queue/read_ahead_kb"))
        .or_else(|| number_in(&format!("/sys/dev/block/{id}/../queue/read_ahead_kb")))
        .or_else(|| number_in(&format!("/sys/class/bdi/{id}/read_ahead_kb")));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    Ok(Disk {
        number,
        readahead: readahead.and_then(|kib| kib.checked_mul(1024)),
        scheduler: whole(&id).and_then(|disk| scheduler_of(&disk)),
        mount: mount(&mounts, &id),
    })
}

/// Options, type and source of the mount of device `device` in a mountinfo text.
fn mount(text: &str, device: &str) -> Option<Mount> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let dash = words.iter().position(|word| *word == "-")?;
        let word = |place: usize| words.get(place).map(|word| word.to_string());
        let fits = words.get(2) == Some(&device);
        let found = || {
            Some(Mount {
                options: word(5)?,
                kind: word(dash + 1)?,
                source: word(dash + 2).unwrap_or_default(),
            })
        };
        fits.then(found)?
    })
}

/// The whole disk of device `id`, below mappings and partitions, as a directory of /sys.
fn whole(id: &str) -> Option<PathBuf> {
    let mut device = std::fs::canonicalize(format!("/sys/dev/block/{id}")).ok()?;
    for _ in 0..LAYERS_MAX {
        if device.join("partition").exists() {
            device = device.parent()?.to_path_buf();
        }
        // If a mapping has several disks below it, the first stands for all.
        let below = std::fs::read_dir(device.join("slaves")).ok().and_then(|mut below| below.next());
        match below {
            Some(Ok(below)) => device = std::fs::canonicalize(below.path()).ok()?,
            _ => return Some(device),
        }
    }
    None
}

fn scheduler_of(disk: &Path) -> Option<Scheduler> {
    let of = |name: &str| std::fs::read_to_string(disk.join(name)).ok();
    let name = disk.file_name()?.to_str()?.to_string();
    let rotates = of("queue/rotational").is_none_or(|text| text.trim() == "1");
    let model = of("device/model").unwrap_or_default();
    Some(Scheduler {
        name: chosen(&of("queue/scheduler")?)?,
        medium: medium(&name, &model, rotates),
        disk: name,
    })
}

/// The scheduler in brackets; a disk that has no choice lists one without brackets.
fn chosen(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let first = words.clone().next()?;
    let marked = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Some(marked.unwrap_or(first).to_string())
}

/// A virtual disk may say that it rotates.
fn medium(name: &str, model: &str, rotates: bool) -> Medium {
    let is_virtual =
        ["vd", "xvd", "loop", "zram", "nbd", "rbd", "ram"].iter().any(|start| name.starts_with(start))
            || ["QEMU", "VMware", "Virtual", "VBOX", "Xen"].iter().any(|word| model.contains(word));
    match (is_virtual, rotates) {
        (true, _) => Medium::Virtual,
        (false, false) => Medium::Flash,
        (false, true) => Medium::Rotating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_gives_options_type_and_source() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n";
        let found = Mount { options: "rw,noatime".into(), kind: "ext3".into(), source: "/dev/root".into() };
        assert_eq!(mount(text, "98:0"), Some(found));
        assert_eq!(mount(text, "98:1"), None);
    }

    #[test]
    fn the_scheduler_in_brackets_is_in_use() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq\n").as_deref(), Some("mq-deadline"));
        assert_eq!(chosen("none\n").as_deref(), Some("none"));
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn a_virtual_disk_is_known_by_its_name_or_model() {
        assert_eq!(medium("vda", "", true), Medium::Virtual);
        assert_eq!(medium("sda", "QEMU HARDDISK", true), Medium::Virtual);
        assert_eq!(medium("nvme0n1", "Samsung", false), Medium::Flash);
        assert_eq!(medium("sda", "ST4000NM0035", true), Medium::Rotating);
    }

    #[test]
    fn the_disk_of_a_directory_is_found() {
        let disk = of(Path::new("/")).unwrap();
        assert!(disk.mount.is_some_and(|mount| !mount.kind.is_empty()));
        assert!(of(Path::new("/nonexistent")).is_err());
    }
}
