//! Mounted file systems: their sizes, what is free, and whether they can be written. Each is queried with statvfs(2);
//! `/proc/1/mountinfo` lists them ([`crate::mountinfo`]). Names, labels and the usual choice of file systems are
//! node_exporter's.

use khz_model::Unit;

use crate::entry::{Entry, gauge, info};
use crate::kernel_file::{Group, KernelFile, Pieces, Subject};
use crate::survey::{SURVEY_PERIOD, parse};

/// The survey.
pub static FILE: KernelFile = KernelFile {
    name: "filesystem",
    path: "proc/1/mountinfo",
    pieces: Pieces::Survey { subject: Subject::FileSystems, captured: "survey/filesystem" },
    only_base: false,
    scalars: SCALARS,
    groups: &[Group {
        label: "mountpoint",
        entries: PER_MOUNT,
        instance_labels: &["device", "fstype"],
        ..Group::PLAIN
    }],
    parse,
};

static SCALARS: &[Entry] = &[gauge(
    "fs.left_out",
    "lines beyond the limit",
    Unit::Count,
    "Mounted file systems beyond the most that are asked for their sizes.",
)
.every(SURVEY_PERIOD)
.exposed("khz_filesystems_left_out", &[])];

const fn of_mount(name: &'static str, field: &'static str, unit: Unit, help: &'static str) -> Entry {
    gauge(name, field, unit, help).every(SURVEY_PERIOD)
}

static PER_MOUNT: &[Entry] = &[
    of_mount("fs.size", "f_blocks * f_frsize", Unit::Bytes, "Size of the file system.")
        .exposed("node_filesystem_size_bytes", &[]),
    of_mount("fs.free", "f_bfree * f_frsize", Unit::Bytes, "Free space, with what is kept for root.")
        .exposed("node_filesystem_free_bytes", &[]),
    of_mount("fs.available", "f_bavail * f_frsize", Unit::Bytes, "Free space for users other than root.")
        .exposed("node_filesystem_avail_bytes", &[]),
    of_mount(
        "fs.files",
        "f_files",
        Unit::Count,
        "Files (inodes) that fit in; absent where the file system has no such limit.",
    )
    .exposed("node_filesystem_files", &[]),
    of_mount("fs.files_free", "f_ffree", Unit::Count, "Files (inodes) that can still be made.")
        .exposed("node_filesystem_files_free", &[]),
    of_mount("fs.read_only", "ro, emergency_ro", Unit::Count, "1 if nothing can be written to it.")
        .at_most(1)
        .exposed("node_filesystem_readonly", &[]),
    of_mount(
        "fs.error",
        "statvfs failed",
        Unit::Count,
        "1 if it could not be asked for its sizes: it did not answer in time, or refused.",
    )
    .at_most(1)
    .exposed("node_filesystem_device_error", &[]),
    info(
        "fs.mount",
        "major, minor",
        "node_filesystem_mount_info",
        "Device number of the file system, as stat(1) and /proc/self/mountinfo show it.",
    )
    .every(SURVEY_PERIOD),
];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Absence, Fault, Instance, Nanos, Reading};

    const TEXT: &str = "\
* left_out=0
mountpoint / device=/dev/sda1 fstype=ext4 read_only=0 :major=8 :minor=1 error=0 size=1000 free=500 available=400 files=64 files_free=60
mountpoint /mnt/a\\040b device=server:/x\\075y fstype=nfs4 read_only=1 error=0 size=9000 free=10 available=10 files=- files_free=-
";

    fn read(text: &str) -> Parser {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(text.as_bytes());
        parser
    }

    fn get(parser: &Parser, metric: &str, mount: &str) -> Reading {
        let slot = parser.schema().slot(metric, Some(&Instance::parse(mount).unwrap())).unwrap();
        parser.reading(slot as usize).unwrap()
    }

    const ROOT: &str = "%2F,device=%2Fdev%2Fsda1,fstype=ext4";
    const SHARED: &str = "%2Fmnt%2Fa%20b,device=server%3A%2Fx%3Dy,fstype=nfs4";

    #[test]
    fn mounts_have_their_device_and_type_as_labels() {
        let mut parser = read(TEXT);
        assert_eq!(parser.faults(), []);
        // After the numbers of a mount stands what its description is.
        let numbers = parser.values();
        assert_eq!(
            [&numbers[..8], &numbers[9..16]].concat(),
            [0, 1000, 500, 400, 64, 60, 0, 0, 9000, 10, 10, 0, 0, 1, 0]
        );
        assert_eq!(get(&parser, "fs.available", ROOT), Reading::Present(400));
        assert_eq!(get(&parser, "fs.read_only", SHARED), Reading::Present(1));
        assert_eq!(get(&parser, "fs.files", SHARED), Reading::Absent(Absence::NoField), "unknown is never 0");
        assert_eq!(parser.advance_with(TEXT.replace("free=500", "free=499").as_bytes()), Outcome::InPlace);
        assert_eq!(get(&parser, "fs.free", ROOT), Reading::Present(499));
    }

    #[test]
    fn a_mount_has_its_device_number_and_one_of_which_it_is_unknown_has_none() {
        let parser = read(TEXT);
        let root = get(&parser, "fs.mount", ROOT);
        assert_eq!(root.labels().unwrap().to_string(), "major=8,minor=1");
        assert!(matches!(get(&parser, "fs.mount", SHARED), Reading::Absent(_)));
    }

    #[test]
    fn a_mount_that_does_not_answer_has_an_error_and_no_sizes() {
        let silent = "size=stuck free=stuck available=stuck files=stuck files_free=stuck";
        let mut parser = read(&TEXT.replace(
            "error=0 size=9000 free=10 available=10 files=- files_free=-",
            &format!("error=1 {silent}"),
        ));
        assert_eq!(get(&parser, "fs.error", SHARED), Reading::Present(1));
        assert_eq!(get(&parser, "fs.read_only", SHARED), Reading::Present(1));
        assert_eq!(get(&parser, "fs.size", SHARED), Reading::Failed(Fault::Stuck));
        assert_eq!(get(&parser, "fs.size", ROOT), Reading::Present(1000));
        assert_eq!(parser.faults(), [], "the file system is at fault, not the text");
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(get(&parser, "fs.size", SHARED), Reading::Present(9000));
    }

    #[test]
    fn another_device_at_the_same_place_is_another_instance() {
        let mut parser = read(TEXT);
        parser.advance_with(TEXT.replace("/dev/sda1", "/dev/sdb1").as_bytes());
        assert_eq!(get(&parser, "fs.size", ROOT), Reading::Absent(Absence::InstanceGone));
        assert_eq!(get(&parser, "fs.size", &ROOT.replace("sda1", "sdb1")), Reading::Present(1000));
        // Renewed slots keep the labels, too.
        parser.slots_gone(Nanos(1), Nanos(0));
        parser.renew(Nanos(2), Nanos(0));
        assert_eq!(get(&parser, "fs.size", &ROOT.replace("sda1", "sdb1")), Reading::Present(1000));
        assert_eq!(parser.schema().slot("fs.size", Some(&Instance::parse(ROOT).unwrap())), None);
        parser.advance_with(TEXT.as_bytes());
        assert_eq!(get(&parser, "fs.size", ROOT), Reading::Present(1000));
    }

    #[test]
    fn damage_is_failed_never_zero() {
        for (from, to) in [
            ("size=1000", "size="),
            ("size=1000", "size=1x"),
            ("size=1000", "size=1 size=2"),
            ("size=1000", "size"),
        ] {
            let parser = read(&TEXT.replace(from, to));
            assert!(matches!(get(&parser, "fs.size", ROOT), Reading::Failed(Fault::Malformed)), "{to}");
            assert_eq!(get(&parser, "fs.size", SHARED), Reading::Present(9000));
        }
        for line in
            ["\n", "mountpoint\n", "disk / size=1\n", "mountpoint / size=1\n", "mountpoint / device=a\n"]
        {
            assert!(!read(&format!("{TEXT}{line}")).faults().is_empty(), "{line:?}");
        }
    }
}
