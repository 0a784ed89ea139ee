//! Which of the conditions that make many `.rrd` files slow hold on this machine; reads and advises,
//! changes nothing.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::file::{Access, Rrd};
use crate::lines;
use crate::page_cache;

/// Files opened to learn their layout; more would not change the result.
const SAMPLE: usize = 200;
/// Pages a file needs besides those its header and hot rows lie on: inode and block map.
const PAGES_ASIDE: f64 = 2.0;

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// As it should be.
    Good,
    /// Perhaps a problem.
    Note,
    /// Costs much.
    Bad,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it is meant.
    pub weight: Weight,
    /// What was found.
    pub fact: String,
    /// What to do, if anything.
    pub advice: String,
}

/// Facts about this machine, gathered by [`examine`]; an argument, so that the advice can be tested.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Readahead of the device, in KiB.
    pub readahead_kib: Option<u64>,
    /// Mount options and type of the file system.
    pub mount: Option<(String, String)>,
    /// Memory that can hold pages, in bytes.
    pub memory: Option<u64>,
    /// Bytes a page.
    pub page: u64,
    /// Files found.
    pub files: u64,
    /// Mean pages an ordinary update of one file touches.
    pub hot_pages: f64,
    /// Mean pages of a file.
    pub pages: f64,
    /// Files of the sample whose archives all stand at the same row.
    pub in_step: u64,
    /// Files of the sample.
    pub sampled: u64,
    /// Files or directories that could not be read.
    pub failed: u64,
}

/// Examines `directory` and this machine.
///
/// # Errors
/// The directory cannot be read.
pub fn examine(directory: &Path) -> Result<Facts> {
    let metadata = std::fs::metadata(directory).map_err(|error| Error::io("opening", directory, error))?;
    let mut facts = Facts { page: rustix::param::page_size() as u64, ..Facts::default() };
    let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    facts.readahead_kib = number_in(&format!("/sys/dev/block/{major}:{minor}/queue/read_ahead_kb"))
        .or_else(|| number_in(&format!("/sys/dev/block/{major}:{minor}/../queue/read_ahead_kb")))
        .or_else(|| number_in(&format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")));
    facts.mount = std::fs::read_to_string("/proc/self/mountinfo")
        .ok()
        .and_then(|text| mount(&text, &format!("{major}:{minor}")));
    facts.memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let files = page_cache::rrd_files(directory, &mut facts.failed);
    facts.files = files.len() as u64;
    let stride = files.len().div_ceil(SAMPLE).max(1);
    for path in files.iter().step_by(stride) {
        match Rrd::open(path, Access::Read) {
            Ok(rrd) => sample(&mut facts, &rrd),
            Err(_) => facts.failed += 1,
        }
    }
    let sampled = facts.sampled.max(1) as f64;
    facts.hot_pages /= sampled;
    facts.pages /= sampled;
    Ok(facts)
}

fn number_in(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Options and type of the mount of device `device` in a mountinfo text.
fn mount(text: &str, device: &str) -> Option<(String, String)> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let dash = words.iter().position(|word| *word == "-")?;
        let fits = words.get(2) == Some(&device);
        fits.then(|| Some((words.get(5)?.to_string(), words.get(dash + 1)?.to_string())))?
    })
}

fn available(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Adds what one file's layout says: the pages of its header, and one for each archive an ordinary update
/// writes to.
fn sample(facts: &mut Facts, rrd: &Rrd) {
    let header = &rrd.header;
    let page = facts.page.max(1);
    let mut hot: Vec<u64> = (0..(header.layout().header_len as u64).div_ceil(page)).collect();
    for (rra, archive) in header.archives().iter().enumerate() {
        if archive.points == 1 {
            hot.push(header.row_offset(rra, header.current_row(rra)) / page);
        }
    }
    hot.sort_unstable();
    hot.dedup();
    let mut rows = header.archives().iter().enumerate().map(|(rra, _)| header.current_row(rra));
    let first = rows.next();
    let in_step = header.archives().len() > 1 && rows.all(|row| Some(row) == first);
    facts.hot_pages += hot.len() as f64;
    facts.pages += header.file_len().div_ceil(page) as f64;
    facts.in_step += u64::from(in_step);
    facts.sampled += 1;
}

/// What follows from the facts.
pub fn advise(facts: &Facts) -> Vec<Finding> {
    let mut list = vec![];
    let mut find = |weight, fact: String, advice: &str| {
        list.push(Finding { weight, fact, advice: advice.into() });
    };
    match facts.readahead_kib {
        None => find(Weight::Note, "the readahead of the device is not known".into(), ""),
        Some(kib) if kib > 128 => find(
            Weight::Note,
            format!("the device reads {kib} KiB ahead"),
            "harmless to this program, which switches it off for each file; other programs that read these files \
             bring whole files into memory",
        ),
        Some(kib) => find(Weight::Good, format!("the device reads {kib} KiB ahead"), ""),
    }
    match &facts.mount {
        None => find(Weight::Note, "the mount of the file system is not known".into(), ""),
        Some((options, kind)) => {
            let quiet = options.split(',').any(|option| option == "noatime" || option == "relatime");
            let weight = if quiet { Weight::Good } else { Weight::Bad };
            let advice = if quiet { "" } else { "mount with noatime: each read writes the file's inode" };
            find(weight, format!("{kind}, mounted {options}"), advice);
            if matches!(kind.as_str(), "nfs" | "nfs4" | "cifs" | "fuse" | "fuseblk") {
                find(Weight::Bad, format!("{kind} is not local"), "keep .rrd files on a local disk");
            }
        }
    }
    if facts.failed > 0 {
        find(Weight::Bad, format!("{} files or directories could not be read", facts.failed), "");
    }
    match (facts.files, facts.sampled) {
        (0, _) => {
            find(Weight::Note, "there are no .rrd files here".into(), "name a directory that contains them");
            return list;
        }
        (files, 0) => {
            let fact = format!("there are {files} .rrd files; none of those opened could be read");
            find(Weight::Bad, fact, "khz rrd info FILE prints the reason for each");
            return list;
        }
        _ => {}
    }
    find(
        Weight::Good,
        format!(
            "{} .rrd files of {:.0} pages; an ordinary update touches {:.1}",
            facts.files, facts.pages, facts.hot_pages
        ),
        "",
    );
    if let Some(memory) = facts.memory {
        let wanted = facts.files as f64 * (facts.hot_pages + PAGES_ASIDE) * facts.page as f64;
        let share = wanted / memory.max(1) as f64;
        let fact = format!(
            "their hot pages are {:.0} MiB of the {:.0} MiB of memory available",
            wanted / 1048576.0,
            memory as f64 / 1048576.0
        );
        match share {
            share if share < 0.5 => find(Weight::Good, fact, ""),
            share if share < 1.0 => find(
                Weight::Note,
                fact,
                "leave room for them in the page cache; little is left for other files",
            ),
            _ => find(Weight::Bad, fact, "gather updates in the caching daemon, or add memory"),
        }
    }
    if facts.in_step > facts.sampled / 2 {
        find(
            Weight::Note,
            format!("in {} of {} files all archives are at the same row", facts.in_step, facts.sampled),
            "they change pages at the same time; new files start at random rows",
        );
    }
    list
}

/// The findings as text, each with its advice below.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.weight {
            Weight::Good => "ok  ",
            Weight::Note => "note",
            Weight::Bad => "BAD ",
        };
        text.push_str(&lines::wrapped(&format!("{mark} "), "     ", &finding.fact));
        if !finding.advice.is_empty() {
            text.push_str(&lines::wrapped("     -> ", "        ", &finding.advice));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
            mount: Some(("rw,nosuid,nodev,noexec,nodiratime,strictatime".into(), "nfs4".into())),
            memory: Some(1 << 40),
            page: 4096,
            files: 100_000_000,
            hot_pages: 123.4,
            pages: 1_000_000.0,
            in_step: 200,
            sampled: 200,
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
    fn mountinfo_gives_options_and_type() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n";
        assert_eq!(mount(text, "98:0"), Some(("rw,noatime".into(), "ext3".into())));
        assert_eq!(mount(text, "98:1"), None);
    }
}
