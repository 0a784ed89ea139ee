//! Descriptions: when they are read, and what becomes of files that cannot be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use khz_parse::{dmi, os_release, uname};

use super::*;
use crate::made_up::MadeUp;

/// A captured host with these files.
struct Host(MadeUp);

impl Host {
    fn new(test: &str, files: &[(&str, &[u8])]) -> Self {
        let host = Host(MadeUp::new(&format!("source-{test}")));
        files.iter().for_each(|(path, text)| host.write(path, text));
        host
    }

    fn write(&self, path: &str, text: &[u8]) {
        self.0.write(path, text);
    }

    fn source(&self, file: &'static KernelFile) -> Source {
        Source::file(&self.0, file, Budget::unlimited())
    }
}

fn at(second: u64) -> Stamp {
    Stamp { boot: Nanos::from_secs(second), real_offset: 0 }
}

fn reading(source: &Source) -> Reading {
    Reading::from_parts(source.states()[0], source.values()[0])
}

fn labels(source: &Source) -> String {
    reading(source).labels().unwrap_or_else(|| panic!("{:?}", reading(source))).to_string()
}

const UNAME: [(&str, &[u8]); 3] = [
    ("proc/sys/kernel/osrelease", b"6.18.44\n"),
    ("proc/sys/kernel/hostname", b"n1\n"),
    ("proc/sys/kernel/domainname", b"(none)\n"),
];

#[test]
fn a_renamed_node_has_its_new_name_within_a_minute_in_the_same_slot() {
    let host = Host::new("renamed", &UNAME);
    let (mut source, mut room) = (host.source(&uname::FILE), Vec::new());
    source.gather(at(1_000), &mut room);
    assert_eq!(labels(&source), "domainname=(none),nodename=n1,release=6.18.44");
    host.write("proc/sys/kernel/hostname", b"n2\n");
    // However often somebody asks, its files are read once a minute.
    for second in 1_001..1_060 {
        source.gather(at(second), &mut room);
        assert_eq!((source.changed(), source.counts.gathers), (&[][..], 1), "at {second}");
    }
    source.gather(at(1_060), &mut room);
    assert_eq!((source.changed(), source.slots(), source.counts.gathers), (&[0][..], 1, 2));
    assert_eq!(labels(&source), "domainname=(none),nodename=n2,release=6.18.44");
    source.gather(at(1_120), &mut room);
    assert_eq!((source.changed(), source.counts.gathers, source.counts.full_parses), (&[][..], 3, 2));
    assert_eq!(source.counts.failures, 0);
}

#[test]
fn what_never_changes_is_read_once() {
    let host = Host::new("once", &[("usr/lib/os-release", b"ID=debian\nVERSION_ID=12")]);
    fs::create_dir_all(host.0.join("etc")).unwrap();
    symlink("../usr/lib/os-release", host.0.join("etc/os-release")).unwrap();
    let (mut source, mut room) = (host.source(&os_release::FILE), Vec::new());
    source.gather(at(1), &mut room);
    host.write("usr/lib/os-release", b"ID=debian\nVERSION_ID=13");
    source.gather(at(1_000_000), &mut room);
    assert_eq!((labels(&source).as_str(), source.counts.gathers), ("id=debian,version_id=12", 1));
}

#[test]
fn a_host_without_firmware_data_has_no_such_labels_and_that_is_no_failure() {
    let host = Host::new("bare", &[("proc/stat", b"")]);
    let (mut source, mut room) = (host.source(&dmi::FILE), Vec::new());
    source.gather(at(1), &mut room);
    assert_eq!((reading(&source), source.counts.failures), (Reading::Absent(Absence::NoSource), 0));
}

#[test]
fn files_that_are_empty_or_unreadable_are_left_out() {
    let host = Host::new(
        "partly",
        &[
            ("sys/class/dmi/id/sys_vendor", b"  Dell Inc. \n"),
            ("sys/class/dmi/id/board_name", b" \n"),
            ("sys/class/dmi/id/product_name", b"two\nlines\n"),
            ("sys/class/dmi/id/product_serial", b"secret\n"),
        ],
    );
    // A directory cannot be read by anybody, not even by root.
    fs::create_dir_all(host.0.join("sys/class/dmi/id/board_serial")).unwrap();
    fs::set_permissions(host.0.join("sys/class/dmi/id/product_serial"), PermissionsExt::from_mode(0o000))
        .unwrap();
    let (mut source, mut room) = (host.source(&dmi::FILE), Vec::new());
    source.gather(at(1), &mut room);
    let found = labels(&source).replace("product_serial=secret,", "");
    assert_eq!(found, "product_name=two%20lines,system_vendor=Dell%20Inc.");
    assert_eq!(labels(&source).contains("secret"), rustix::process::getuid().is_root());
}

#[test]
fn a_folder_of_which_nothing_can_be_read_has_failed() {
    let host = Host::new("unreadable", &[]);
    fs::create_dir_all(host.0.join("sys/class/dmi/id/board_serial")).unwrap();
    let (mut source, mut room) = (host.source(&dmi::FILE), Vec::new());
    source.gather(at(1), &mut room);
    assert_eq!((reading(&source), source.counts.failures), (Reading::Failed(Fault::Unreadable), 1));
    assert!(source.problem().unwrap().contains("sys/class/dmi/id"));
}

#[test]
fn this_machine_has_an_architecture_on_any_kernel() {
    let mut source = Source::file(Path::new("/"), &uname::FILE, Budget::unlimited());
    source.gather(clock::stamp(), &mut Vec::new());
    let labels = reading(&source).labels().unwrap();
    assert_eq!(labels.get("machine"), rustix::system::uname().machine().to_str().ok());
    assert_eq!(labels.get("release"), rustix::system::uname().release().to_str().ok());
}
