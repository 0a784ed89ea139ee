//! The list of the files that a node shows: the files that its patterns find now, and the links that
//! lead to them, under their names in `/proc`. The walk follows only the patterns, and its length is
//! limited.

use std::collections::BTreeSet;

use khz_model::glob::Glob;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

use super::door::{Proc, TextDoor};

/// The most names in a list.
const LISTED_MAX: usize = 4_096;

/// The most names that are checked for a list.
const LOOKS_MAX: usize = 65_536;

/// The most links on the way to a file.
const LINKS_MAX: usize = 4;

/// A walk along the patterns.
struct Walk<'a> {
    door: &'a TextDoor,
    proc: &'a Proc,
    lines: BTreeSet<String>,
    looks: usize,
}

/// Makes the list, one name a line.
pub(super) fn list(door: &TextDoor) -> Result<Vec<u8>, rustix::io::Errno> {
    let proc = door.proc()?;
    let mut walk = Walk { door, proc: &proc, lines: BTreeSet::new(), looks: 0 };
    for pattern in door.allow.patterns() {
        walk.step("", pattern, 0);
    }
    let mut text = Vec::new();
    for line in walk.lines {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    Ok(text)
}

impl Walk<'_> {
    /// Visits every name in a directory that the globs select.
    fn step(&mut self, folder: &str, globs: &[Glob], links: usize) {
        let Some((glob, rest)) = globs.split_first() else { return };
        if glob.is_plain() {
            return self.look(&join(folder, glob.as_str()), rest, links);
        }
        for name in self.names(folder) {
            if glob.matches(&name) {
                self.look(&join(folder, &name), rest, links);
            }
        }
    }

    /// Visits a path: a file, a link, or a directory on the way.
    fn look(&mut self, path: &str, rest: &[Glob], links: usize) {
        self.looks += 1;
        if self.looks > LOOKS_MAX || self.lines.len() >= LISTED_MAX || path.contains(" -> ") {
            return;
        }
        let Ok(seen) = rustix::fs::statat(&self.proc.folder, path, AtFlags::SYMLINK_NOFOLLOW) else { return };
        match FileType::from_raw_mode(seen.st_mode) {
            FileType::RegularFile if rest.is_empty() && self.door.find(self.proc, path).is_ok() => {
                self.lines.insert(path.to_owned());
            }
            FileType::Directory => self.step(path, rest, links),
            // For a reader of the list, `self` would be another process, so the walk treats it as a directory.
            FileType::Symlink if path == "self" => self.step(path, rest, links),
            FileType::Symlink if links < LINKS_MAX => self.follow(path, rest, links),
            _ => {}
        }
    }

    /// Follows a link, and lists it if it leads to a listed file.
    fn follow(&mut self, path: &str, rest: &[Glob], links: usize) {
        let Ok(target) = rustix::fs::readlinkat(&self.proc.folder, path, Vec::new()) else { return };
        let Ok(target) = target.into_string() else { return };
        if !super::allow::is_relative(&target) {
            return;
        }
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let before = self.lines.len();
        let way: Vec<Glob> = target.split('/').map(Glob::new).chain(rest.iter().cloned()).collect();
        let is_listed = |walk: &Self| {
            let end = join(folder, &target);
            walk.lines.contains(&end)
                || walk
                    .lines
                    .range(format!("{end}/")..)
                    .next()
                    .is_some_and(|line| line.starts_with(&format!("{end}/")))
        };
        self.step(folder, &way, links + 1);
        if self.lines.len() > before || is_listed(self) {
            self.lines.insert(format!("{path} -> {target}"));
        }
    }

    fn names(&mut self, folder: &str) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let place = if folder.is_empty() { "." } else { folder };
        let opened = rustix::fs::openat2(&self.proc.folder, place, flags, Mode::empty(), how);
        let Some(entries) = opened.ok().and_then(|opened| Dir::read_from(opened).ok()) else {
            return Vec::new();
        };
        let left = LOOKS_MAX.saturating_sub(self.looks);
        let names = entries.take(left).filter_map(Result::ok);
        let names: Vec<String> = names
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| super::allow::is_relative(name))
            .collect();
        self.looks += names.len();
        names
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
