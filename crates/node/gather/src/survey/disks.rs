//! Reads what udev knows of each disk, and whether the disk rotates. `khz_parse::disk_info` decides which of it becomes
//! labels.

use std::path::Path;

use khz_model::ValueType;
use khz_parse::disk_info::{
    ATA, DISK_KIND, DISK_LABELS, FILE, FILE_SYSTEM_KIND, FILE_SYSTEM_LABELS, Label, MAPPER_KIND,
    MAPPER_LABELS, is_shown, property,
};
use rustix::io::Errno;

use super::Answer;
use super::course::{Abandoned, Course, Whereabouts};
use super::folder::Folder;
use super::line::Line;
use super::trees::Trees;

/// A line of the list of disks.
struct Disk<'a> {
    major: &'a str,
    minor: &'a str,
    name: &'a str,
}

/// Makes the text.
pub(super) fn survey(course: &mut Course<'_>, root: &Path, trees: &Trees) -> Result<Answer, Abandoned> {
    if !course.begin(b"")? {
        return Ok(Err(Errno::TIMEDOUT));
    }
    let whereabouts = course.whereabouts();
    let list = Folder::open(&root.join("proc"), whereabouts)
        .and_then(|mut proc| Ok(proc.text("diskstats")?.to_vec()));
    let list = match list {
        Ok(list) => String::from_utf8_lossy(&list).into_owned(),
        Err(errno) => return Ok(Err(errno)),
    };
    let mut udev = Folder::open(&root.join("run/udev/data"), whereabouts).ok();
    let mut leaves = trees.begun(course.subject());
    for disk in list.lines().filter_map(Disk::read).filter(|disk| is_shown(disk.name)) {
        if leaves.takes(disk.name.as_bytes()) && course.begin(disk.name.as_bytes())? {
            let file = format!("b{}:{}", disk.major, disk.minor);
            let known = udev.as_mut().and_then(|udev| udev.text(&file).ok()).unwrap_or_default();
            leaves.add(disk.line(root, known, whereabouts));
            disk.others(known).for_each(|line| leaves.add(line));
        }
    }
    Ok(trees.finish(course, leaves)?.ok_or(Errno::NOENT))
}

impl<'a> Disk<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        Some(Disk { major: words.next()?, minor: words.next()?, name: words.next()? })
    }

    /// What the kernel says of the disk, and what udev knows of it.
    fn line(&self, root: &Path, known: &[u8], whereabouts: Whereabouts<'_>) -> Line {
        let mut line = Line::new(DISK_KIND, self.name.as_bytes(), []);
        line.label("major", self.major.as_bytes());
        line.label("minor", self.minor.as_bytes());
        // In /sys, a name has no slash.
        let queue = root.join("sys/block").join(self.name.replace('/', "!")).join("queue");
        if let Ok(mut queue) = Folder::open(&queue, whereabouts) {
            line.label("rotational", queue.value("rotational").unwrap_or_default());
        }
        label(&mut line, known, DISK_LABELS);
        numbers(&mut line, known);
        line
    }

    /// Lines about the file system on the disk, and about the device mapper.
    fn others<'b>(&'b self, known: &'b [u8]) -> impl Iterator<Item = Line> + 'b {
        let line = move |(kind, labels): (&str, &[Label])| {
            value(known, labels.first()?)?;
            let mut line = Line::new(kind, self.name.as_bytes(), []);
            label(&mut line, known, labels);
            Some(line)
        };
        [(FILE_SYSTEM_KIND, FILE_SYSTEM_LABELS), (MAPPER_KIND, MAPPER_LABELS)].into_iter().filter_map(line)
    }
}

fn value<'a>(known: &'a [u8], (_, properties): &Label) -> Option<&'a [u8]> {
    properties.iter().find_map(|name| property(known, name))
}

fn label(line: &mut Line, known: &[u8], labels: &[Label]) {
    for label in labels {
        line.label(label.0, value(known, label).unwrap_or_default());
    }
}

/// The numbers of ATA disks.
fn numbers(line: &mut Line, known: &[u8]) {
    if property(known, ATA).is_none() {
        return;
    }
    let entries = FILE.groups.iter().flat_map(|group| group.entries);
    for entry in entries.filter(|entry| entry.value_type != ValueType::Labels) {
        if let Some(value) = property(known, entry.field) {
            line.value(entry, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use khz_parse::{Parser, Subject};

    use super::*;
    use crate::made_up::MadeUp;
    use crate::survey::looks::Looks;

    const STATS: &str =
        "   8       0 sda 1 2 3\n   8       1 sda1 1 2 3\n 253       0 dm-0 1 2 3\nx\n   8      16 a=b 1\n";

    fn survey(root: &MadeUp) -> Result<String, Errno> {
        Looks::at(root, Subject::Disks).bytes().map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_disk_is_described_by_the_kernel_and_by_udev() {
        let root = MadeUp::new("disks");
        assert_eq!(survey(&root), Err(Errno::NOENT));
        root.write("proc/diskstats", STATS);
        let kernels =
            "disk sda :major=8 :minor=0\ndisk dm-0 :major=253 :minor=0\ndisk a\\075b :major=8 :minor=16\n";
        assert_eq!(survey(&root).unwrap(), kernels);
        root.write("sys/block/sda/queue/rotational", "1\n");
        root.write("run/udev/data/b8:0", "E:ID_ATA=1\nE:ID_MODEL=A B\nE:ID_SERIAL=s\nE:ID_ATA_WRITE_CACHE=x\nE:ID_ATA_ROTATION_RATE_RPM=7200\n");
        root.write(
            "run/udev/data/b253:0",
            "E:DM_NAME=vg-root\nE:DM_UUID=\nE:ID_FS_TYPE=ext4\nE:ID_FS_VERSION=1.0\n",
        );
        let text = survey(&root).unwrap();
        let expected = "disk sda write_cache=malformed rotation_rate=7200 :major=8 :minor=0 :rotational=1 :model=A\\040B :serial=s\n\
                        disk dm-0 :major=253 :minor=0\nfile_system dm-0 :type=ext4 :version=1.0\nmapper dm-0 :name=vg-root\n\
                        disk a\\075b :major=8 :minor=16\n";
        assert_eq!(text, expected);
        let mut parser = Parser::new(&FILE);
        parser.advance_with(text.as_bytes());
        assert_eq!((parser.faults(), parser.schema().len()), (&[][..], 2 + 3 + 2));
    }
}
