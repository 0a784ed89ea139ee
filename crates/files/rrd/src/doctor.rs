//! Which of the conditions that make many `.rrd` files slow hold on this machine; reads and advises,
//! changes nothing.

mod advice;

use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::file::{Access, Rrd};
use crate::header::Definition;
use crate::lines;
use crate::machine::disk::{self, Mount, Scheduler};
use crate::machine::{Disk, memory, superblock};
use crate::page_cache;

pub use advice::advise;

/// Files opened to learn their layout; more would not change the result.
const SAMPLE: usize = 200;

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

/// Whether names in the directories are found by their hash.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum NameIndex {
    /// The file system is not ext2, ext3 or ext4, so it always does, or there is nothing to say.
    #[default]
    NotAsked,
    /// It has dir_index.
    Has,
    /// It has none.
    Lacks,
    /// It is not known, and why.
    Unknown(String),
}

/// Facts about this machine, gathered by [`examine`]; an argument, so that the advice can be tested.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Readahead of the device, in KiB.
    pub readahead_kib: Option<u64>,
    /// The I/O scheduler of the disk.
    pub scheduler: Option<Scheduler>,
    /// The mount.
    pub mount: Option<Mount>,
    /// Whether its directories have an index of names.
    pub name_index: NameIndex,
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
    /// The layouts of the sample, each with the number of its files.
    pub layouts: Vec<(Arc<Definition>, u64)>,
    /// Files or directories that could not be read.
    pub failed: u64,
}

/// Examines `directory` and this machine.
///
/// # Errors
/// The directory cannot be read.
pub fn examine(directory: &Path) -> Result<Facts> {
    let disk = disk::of(directory)?;
    let mut facts = Facts {
        page: rustix::param::page_size() as u64,
        name_index: name_index(&disk),
        readahead_kib: disk.readahead.map(|bytes| bytes / 1024),
        scheduler: disk.scheduler,
        mount: disk.mount,
        memory: memory::available().map(|memory| memory.bytes),
        ..Facts::default()
    };
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

fn name_index(disk: &Disk) -> NameIndex {
    let mount = disk.mount.as_ref().filter(|mount| matches!(mount.kind.as_str(), "ext2" | "ext3" | "ext4"));
    let Some(mount) = mount else { return NameIndex::NotAsked };
    match superblock::of_disk(disk.number, &mount.source) {
        Ok(superblock) if superblock.dir_index => NameIndex::Has,
        Ok(_) => NameIndex::Lacks,
        Err(why) => NameIndex::Unknown(why),
    }
}

/// Adds the facts of one file's layout: the pages of its header, and one page for each archive that an ordinary update writes to.
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
    match facts.layouts.iter_mut().find(|(known, _)| is_same(known, header.definition())) {
        Some((_, files)) => *files += 1,
        None => facts.layouts.push((header.definition().clone(), 1)),
    }
}

/// Whether two definitions place the same rows at the same offsets, written at the same times.
fn is_same(one: &Definition, other: &Definition) -> bool {
    let shape = |definition: &Definition| {
        let archives = definition.archives.iter();
        let archives: Vec<_> =
            archives.map(|archive| (archive.function, archive.points, archive.rows)).collect();
        (definition.step, definition.sources.len(), archives)
    };
    shape(one) == shape(other)
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
