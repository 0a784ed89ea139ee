//! What the kernel and udev know of each disk: numbers, model, serial number, path; the file system on it; what the device mapper made
//! it of. udev keeps a file for each disk, `/run/udev/data/b8:0`. Disks and partitions that node_exporter leaves out are left out
//! here, too ([`is_shown`]).

use khz_model::{Nanos, Unit};

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::parse;
use crate::tree::fits;

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "disk/info",
    path: "run/udev/data",
    pieces: Pieces::Survey { subject: Subject::Disks, captured: "survey/disk_info" },
    only_base: true,
    scalars: &[],
    groups: &GROUPS,
    parse,
};

static GROUPS: [Group; DISK.len() + 2] = Group::join(&[
    &Group { label: "device", kind: DISK_KIND, ..Group::PLAIN }.each(&DISK),
    &Group { label: "device", kind: FILE_SYSTEM_KIND, ..Group::PLAIN }.each(&FILE_SYSTEM),
    &Group { label: "device", kind: MAPPER_KIND, ..Group::PLAIN }.each(&MAPPER),
]);

/// How often it is read: it changes when somebody inserts a disk or makes a file system.
const PERIOD: Nanos = Nanos::from_secs(60);

/// Begins the line about a disk.
pub const DISK_KIND: &str = "disk";
/// Begins the line about the file system on a disk.
pub const FILE_SYSTEM_KIND: &str = "file_system";
/// Begins the line about a disk of the device mapper.
pub const MAPPER_KIND: &str = "mapper";

/// A label for udev's data about a disk: its name, and the properties; the first property that has a value counts.
pub type Label = (&'static str, &'static [&'static str]);

/// The labels of a disk, besides the kernel's.
pub static DISK_LABELS: &[Label] = &[
    ("path", &["ID_PATH"]),
    ("wwn", &["ID_WWN"]),
    ("model", &["ID_MODEL"]),
    ("serial", &["SCSI_IDENT_SERIAL", "ID_SERIAL_SHORT", "ID_SERIAL"]),
    ("revision", &["ID_REVISION"]),
];

/// The labels of a file system; without the first there is none.
pub static FILE_SYSTEM_LABELS: &[Label] = &[
    ("type", &["ID_FS_TYPE"]),
    ("usage", &["ID_FS_USAGE"]),
    ("uuid", &["ID_FS_UUID"]),
    ("version", &["ID_FS_VERSION"]),
];

/// The labels of a disk of the device mapper; without the first it is none.
pub static MAPPER_LABELS: &[Label] = &[
    ("name", &["DM_NAME"]),
    ("uuid", &["DM_UUID"]),
    ("vg_name", &["DM_VG_NAME"]),
    ("lv_name", &["DM_LV_NAME"]),
    ("lv_layer", &["DM_LV_LAYER"]),
];

/// Disks for which udev has this property may have the numbers that begin so.
pub const ATA: &str = "ID_ATA";

/// The fields are properties of udev.
static DISK: [Entry; 4] = [
    info(
        "disk.identity",
        "ID_MODEL, ID_SERIAL_SHORT, ...",
        "node_disk_info",
        "Numbers, model, serial number and path of the disk.",
    )
    .every(PERIOD),
    gauge("disk.write_cache", "ID_ATA_WRITE_CACHE", Unit::Count, "1 if the disk has a cache for writes.")
        .every(PERIOD)
        .exposed("node_disk_ata_write_cache", &[]),
    gauge(
        "disk.write_cache_on",
        "ID_ATA_WRITE_CACHE_ENABLED",
        Unit::Count,
        "1 if the disk uses its cache for writes.",
    )
    .every(PERIOD)
    .exposed("node_disk_ata_write_cache_enabled", &[]),
    gauge(
        "disk.rotation_rate",
        "ID_ATA_ROTATION_RATE_RPM",
        Unit::Count,
        "Rotations a minute; 0 if the disk does not rotate.",
    )
    .every(PERIOD)
    .exposed("node_disk_ata_rotation_rate_rpm", &[]),
];

static FILE_SYSTEM: [Entry; 1] =
    [info("disk.file_system", "ID_FS_TYPE, ...", "node_disk_filesystem_info", "File system on the disk.")
        .every(PERIOD)];

static MAPPER: [Entry; 1] = [info(
    "disk.mapper",
    "DM_NAME, ...",
    "node_disk_device_mapper_info",
    "What the device mapper calls the disk, and of which volume it is.",
)
.every(PERIOD)];

/// False for what node_exporter 1.5 leaves out of its numbers of disks: disks in memory, loops, floppy disks, most partitions. Newer
/// versions leave out compressed memory (zram), too; khz shows it as a disk.
pub fn is_shown(name: &str) -> bool {
    let is_left_out = |pattern: &&str| fits(pattern, name.as_bytes(), &mut Vec::new());
    let is_partition = |begin: &&str| {
        let rest = name.strip_prefix(*begin).unwrap_or_default();
        let digits = rest.strip_prefix(|letter: char| letter.is_ascii_lowercase()).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    !["ram#", "loop#", "fd#", "nvme#n#p#"].iter().any(is_left_out)
        && !["hd", "sd", "vd", "xvd"].iter().any(is_partition)
}

/// A property in udev's file: the value of the line `E:NAME=value`.
pub fn property<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |line: &'a [u8]| {
        line.strip_prefix(b"E:")?.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::trim_ascii)
    };
    text.split(|&byte| byte == b'\n').find_map(value).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_known_disks_are_left_out() {
        for name in
            ["sda", "vdb", "nvme0n1", "dm-0", "mmcblk0p1", "md127", "sdaa1", "sr0", "xvda", "ram", "zram0"]
        {
            assert!(is_shown(name), "{name}");
        }
        for name in ["sda1", "vdb12", "xvda1", "hdc3", "nvme0n1p2", "loop0", "ram1", "fd0"] {
            assert!(!is_shown(name), "{name}");
        }
    }

    #[test]
    fn a_property_is_a_line_of_its_own() {
        let text = b"S:disk/x\nE:ID_MODEL_ENC=A\\x20B\nE:ID_MODEL=A B \nE:DM_LV_LAYER=\nID_PATH=x\n";
        assert_eq!(property(text, "ID_MODEL"), Some(&b"A B"[..]));
        for name in ["DM_LV_LAYER", "ID_PATH", "ID", ""] {
            assert_eq!(property(text, name), None, "{name}");
        }
    }
}
