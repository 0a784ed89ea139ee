//! The doctor's advice, derived from its facts.

use super::{Facts, Finding, NameIndex, Weight};
use crate::machine::disk::{Medium, Scheduler};

/// Pages a file needs besides those its header and hot rows lie on: inode and block map.
const PAGES_ASIDE: f64 = 2.0;

/// The advice that follows from the facts.
pub fn advise(facts: &Facts) -> Vec<Finding> {
    let mut list = vec![readahead(facts), scheduler(facts)];
    list.extend(mount(facts));
    list.extend(name_index(facts));
    if facts.failed > 0 {
        let fact = format!("{} files or directories could not be read", facts.failed);
        list.push(finding(Weight::Bad, fact, ""));
    }
    match (facts.files, facts.sampled) {
        (0, _) => {
            let advice = "name a directory that contains them";
            list.push(finding(Weight::Note, "there are no .rrd files here".into(), advice));
        }
        (files, 0) => {
            let fact = format!("there are {files} .rrd files; none of those opened could be read");
            list.push(finding(Weight::Bad, fact, "khz rrd info FILE prints the reason for each"));
        }
        _ => {
            list.push(files(facts));
            list.extend(memory(facts));
            list.extend(in_step(facts));
        }
    }
    list
}

fn finding(weight: Weight, fact: String, advice: &str) -> Finding {
    Finding { weight, fact, advice: advice.into() }
}

fn readahead(facts: &Facts) -> Finding {
    match facts.readahead_kib {
        None => finding(Weight::Note, "the readahead of the device is not known".into(), ""),
        Some(kib) if kib > 128 => finding(
            Weight::Note,
            format!("the device reads {kib} KiB ahead"),
            "harmless to this program, which switches it off for each file; other programs that read these files \
             bring whole files into memory",
        ),
        Some(kib) => finding(Weight::Good, format!("the device reads {kib} KiB ahead"), ""),
    }
}

/// An update is a few small requests to places all over the disk.
fn scheduler(facts: &Facts) -> Finding {
    let Some(Scheduler { disk, name, medium }) = &facts.scheduler else {
        let why = match &facts.mount {
            Some(mount) => format!("{} names no disk of its own", mount.kind),
            None => "the disk has no number".into(),
        };
        return finding(Weight::Note, format!("the I/O scheduler of the disk is not known: {why}"), "");
    };
    let is_plain = matches!(name.as_str(), "none" | "noop" | "mq-deadline" | "deadline");
    let change = |wanted: &str, why: &str| {
        format!("{why}: echo {wanted} > /sys/block/{disk}/queue/scheduler (a udev rule keeps it)")
    };
    let (kind, advice) = match (medium, is_plain) {
        (Medium::Virtual, false) => {
            ("virtual", change("none", "the host orders the requests again; here it only takes time"))
        }
        (Medium::Flash, false) => {
            ("flash", change("none", "this disk needs no order of requests; it only takes time"))
        }
        (Medium::Rotating, _) if name == "none" || name == "noop" => {
            ("rotating", change("mq-deadline", "ordered requests save ways of the disk's head"))
        }
        (Medium::Virtual, true) => ("virtual", String::new()),
        (Medium::Flash, true) => ("flash", String::new()),
        (Medium::Rotating, _) => ("rotating", String::new()),
    };
    let weight = if advice.is_empty() { Weight::Good } else { Weight::Note };
    finding(weight, format!("the I/O scheduler of the {kind} disk {disk} is {name}"), &advice)
}

fn mount(facts: &Facts) -> Vec<Finding> {
    let Some(mount) = &facts.mount else {
        return vec![finding(Weight::Note, "the mount of the file system is not known".into(), "")];
    };
    let (options, kind) = (&mount.options, &mount.kind);
    let quiet = options.split(',').any(|option| option == "noatime" || option == "relatime");
    let weight = if quiet { Weight::Good } else { Weight::Bad };
    let advice = if quiet { "" } else { "mount with noatime: each read writes the file's inode" };
    let mut list = vec![finding(weight, format!("{kind}, mounted {options}"), advice)];
    if matches!(kind.as_str(), "nfs" | "nfs4" | "cifs" | "fuse" | "fuseblk") {
        let advice = "keep .rrd files on a local disk";
        list.push(finding(Weight::Bad, format!("{kind} is not local"), advice));
    }
    list
}

fn name_index(facts: &Facts) -> Option<Finding> {
    let source = facts.mount.as_ref().map_or("DISK", |mount| mount.source.as_str());
    match &facts.name_index {
        NameIndex::NotAsked => None,
        NameIndex::Has => Some(finding(
            Weight::Good,
            "the file system has dir_index: it finds a name by its hash".into(),
            "",
        )),
        NameIndex::Lacks => Some(finding(
            Weight::Bad,
            "the file system has no dir_index: to open a file it reads the directory".into(),
            &format!("unmount it; then: tune2fs -O dir_index {source} && e2fsck -fD {source}"),
        )),
        NameIndex::Unknown(why) => Some(finding(
            Weight::Note,
            format!("whether the file system has dir_index is not known: {why}"),
            &format!("as root: dumpe2fs -h {source} | grep dir_index"),
        )),
    }
}

fn files(facts: &Facts) -> Finding {
    let fact = format!(
        "{} .rrd files of {:.0} pages; an ordinary update touches {:.1}",
        facts.files, facts.pages, facts.hot_pages
    );
    finding(Weight::Good, fact, "")
}

fn memory(facts: &Facts) -> Option<Finding> {
    let memory = facts.memory?;
    let wanted = facts.files as f64 * (facts.hot_pages + PAGES_ASIDE) * facts.page as f64;
    let fact = format!(
        "their hot pages are {:.0} MiB of the {:.0} MiB of memory available",
        wanted / 1048576.0,
        memory as f64 / 1048576.0
    );
    Some(match wanted / memory.max(1) as f64 {
        share if share < 0.5 => finding(Weight::Good, fact, ""),
        share if share < 1.0 => finding(
            Weight::Note,
            fact,
            "leave room for them in the page cache; little is left for other files",
        ),
        _ => finding(Weight::Bad, fact, "gather updates in the caching daemon, or add memory"),
    })
}

fn in_step(facts: &Facts) -> Option<Finding> {
    let fact = format!("in {} of {} files all archives are at the same row", facts.in_step, facts.sampled);
    let advice = "they change pages at the same time; new files start at random rows";
    (facts.in_step > facts.sampled / 2).then(|| finding(Weight::Note, fact, advice))
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use crate::machine::disk::Mount;

    fn mounted(options: &str, kind: &str) -> Option<Mount> {
        Some(Mount { options: options.into(), kind: kind.into(), source: "/dev/sda1".into() })
    }

    fn on(name: &str, medium: Medium) -> Option<Scheduler> {
        Some(Scheduler { disk: "sda".into(), name: name.into(), medium })
    }

    #[test]
    fn too_little_memory_for_the_hot_pages_is_bad() {
        let facts = Facts {
            memory: Some(1 << 30),
            page: 4096,
            files: 1_000_000,
            hot_pages: 3.0,
            pages: 24.0,
            sampled: 200,
            ..Facts::default()
        };
        let bad = advise(&facts).into_iter().find(|finding| finding.weight == Weight::Bad).unwrap();
        assert!(bad.fact.contains("19531 MiB of the 1024 MiB"), "{}", bad.fact);
    }

    #[test]
    fn all_there_is_to_say_fits_a_terminal() {
        let facts = Facts {
            readahead_kib: Some(8192),
            scheduler: on("bfq", Medium::Flash),
            mount: mounted("rw,nosuid,nodev,noexec,nodiratime,strictatime", "nfs4"),
            name_index: NameIndex::Unknown("reading /dev/mapper/data: Permission denied".into()),
            memory: Some(1 << 40),
            page: 4096,
            files: 100_000_000,
            hot_pages: 123.4,
            pages: 1_000_000.0,
            in_step: 200,
            sampled: 200,
            layouts: vec![],
            failed: 4_000_000,
        };
        let none_read = Facts { sampled: 0, ..facts.clone() };
        let none_there = Facts { files: 0, ..none_read.clone() };
        for facts in [facts, none_read, none_there] {
            let text = text(&advise(&facts));
            assert!(text.lines().count() > 4, "{text}");
            assert_eq!(text.lines().find(|line| line.chars().count() > 80), None);
        }
    }

    #[test]
    fn a_directory_without_files_is_told_from_files_that_cannot_be_read() {
        let said = |files| text(&advise(&Facts { files, ..Facts::default() }));
        let (none, unread) = (said(0), said(7));
        assert!(none.contains("note there are no .rrd files here\n"), "{none}");
        assert!(
            unread.contains("BAD  there are 7 .rrd files; none of those opened could be read\n"),
            "{unread}"
        );
    }

    #[test]
    fn a_scheduler_fits_the_disk_or_there_is_advice() {
        let weight = |name, medium| {
            let found = scheduler(&Facts { scheduler: on(name, medium), ..Facts::default() });
            assert!(found.fact.contains(name), "{}", found.fact);
            assert_eq!(found.weight == Weight::Good, found.advice.is_empty(), "{found:?}");
            found.weight
        };
        for medium in [Medium::Virtual, Medium::Flash] {
            assert_eq!([weight("none", medium), weight("mq-deadline", medium)], [Weight::Good; 2]);
            assert_eq!(
                [weight("bfq", medium), weight("kyber", medium), weight("cfq", medium)],
                [Weight::Note; 3]
            );
        }
        assert_eq!(weight("none", Medium::Rotating), Weight::Note);
        assert_eq!(
            [weight("mq-deadline", Medium::Rotating), weight("bfq", Medium::Rotating)],
            [Weight::Good; 2]
        );
    }

    #[test]
    fn a_scheduler_that_is_not_known_is_said_to_be() {
        let found = scheduler(&Facts { mount: mounted("rw", "btrfs"), ..Facts::default() });
        assert_eq!(found.fact, "the I/O scheduler of the disk is not known: btrfs names no disk of its own");
    }

    #[test]
    fn a_missing_index_of_names_is_bad_and_an_unknown_one_says_why() {
        let found = |index| {
            name_index(&Facts { name_index: index, mount: mounted("rw", "ext4"), ..Facts::default() })
        };
        assert_eq!(found(NameIndex::NotAsked), None);
        assert_eq!(found(NameIndex::Has).unwrap().weight, Weight::Good);
        let lacks = found(NameIndex::Lacks).unwrap();
        assert!(lacks.weight == Weight::Bad && lacks.advice.contains("tune2fs -O dir_index /dev/sda1"));
        let unknown = found(NameIndex::Unknown("reading /dev/sda1: Permission denied".into())).unwrap();
        assert!(unknown.fact.ends_with("is not known: reading /dev/sda1: Permission denied"));
        assert!(unknown.advice.contains("dumpe2fs -h /dev/sda1"));
    }
}
