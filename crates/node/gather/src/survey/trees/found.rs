//! A folder that the pattern of a tree has found: its path, what the wildcards match, the name of its instance, and what is known
//! of it if it was never read. It reads no numbers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use khz_parse::columns::rest_at;
use khz_parse::survey::{STUCK, UNREADABLE};
use khz_parse::tree::{Branch, Part, Words, file_of, fits, place_of};
use khz_parse::{Entry, Group};

use super::super::folder::{Folder, joined};
use super::super::line::Line;

/// A folder, and what the wildcards match. Its names may have any bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Below the root.
    pub path: Vec<u8>,
    captured: Vec<Vec<u8>>,
    named: Vec<Vec<u8>>,
}

/// The begin of a line, and the word of the instance.
pub(super) type Head = (Line, Vec<u8>);

/// Why a folder was not read.
pub(super) enum Unread<'a> {
    /// This file of it, or the folder itself, does not answer; and the line that was begun.
    Stuck(&'a [u8], Option<Head>),
    /// It cannot be opened.
    Folder,
}

impl Found {
    /// The whole path.
    pub fn below(&self, root: &Path) -> PathBuf {
        root.join(OsStr::from_bytes(&self.path))
    }

    /// The folder of this name below, if the name fits the part of a pattern.
    pub fn deeper(&self, part: &str, name: &[u8]) -> Option<Found> {
        let mut captured = Vec::new();
        let is_it = fits(part, name, &mut captured);
        is_it.then(|| {
            let mut found = self.clone();
            found.path = joined(&self.path, name);
            found.captured.extend(captured.into_iter().map(<[u8]>::to_vec));
            found.named.push(name.to_owned());
            found
        })
    }

    /// The part of an instance's name that no file says.
    pub fn part(&self, part: Part) -> Option<Vec<u8>> {
        match part {
            Part::Captured(number) => Some(self.captured.get(number).cloned().unwrap_or_default()),
            Part::Named(number) => Some(self.named.get(number).cloned().unwrap_or_default()),
            Part::Path => Some([&b"/"[..], &self.path].concat()),
            _ => None,
        }
    }

    /// The begin of the line of an instance: its name and its labels, some of which are in files.
    pub fn head(
        &self,
        group: &Group,
        branch: &Branch,
        index: Option<u64>,
        word: &[u8],
        folder: &mut Folder<'_>,
    ) -> Line {
        if group.is_whole() {
            return Line::without_instance();
        }
        let parts: Vec<Vec<u8>> =
            branch.name.iter().map(|part| self.read_part(*part, index, word, folder)).collect();
        named(group, &parts)
    }

    fn read_part(&self, part: Part, index: Option<u64>, word: &[u8], folder: &mut Folder<'_>) -> Vec<u8> {
        match part {
            Part::Captured(_) | Part::Named(_) | Part::Path => self.part(part).unwrap_or_default(),
            Part::Value(file) => folder.value(file_of(file, word)).unwrap_or_default().to_vec(),
            Part::Line(file, line, skipped) => folder
                .text(file_of(file, word))
                .map_or_else(|_| Vec::new(), |text| rest_at(text, line, skipped).to_vec()),
            Part::ValueOr(file, number) => match folder.value(file) {
                Ok(value) if !value.is_empty() => value.to_vec(),
                _ => self.part(Part::Captured(number)).unwrap_or_default(),
            },
            Part::Edited(file, edits, otherwise) => match folder.value(file_of(file, word)) {
                Ok(value) => {
                    let value = String::from_utf8_lossy(value).into_owned();
                    edits.iter().fold(value, |value, (from, to)| value.replace(from, to)).into_bytes()
                }
                Err(_) => otherwise.as_bytes().to_vec(),
            },
            Part::Word => word.to_vec(),
            Part::Index => index.unwrap_or(0).to_string().into_bytes(),
        }
    }

    /// The line of a folder that was never read: it has the numbers whose files certainly exist. `None`: there are no such numbers, or
    /// the name would come from files of the folder.
    pub fn unread(&self, root: &Path, groups: &[Group], branch: &Branch, why: Unread<'_>) -> Option<Line> {
        let is_plain = branch.only.is_none() && branch.words == Words::None;
        let plain = || self.unread_head(&groups[0], branch).filter(|_| is_plain);
        let entries = || groups.iter().flat_map(|group| group.entries);
        let (line, sure, why): (_, Vec<&Entry>, _) = match why {
            Unread::Stuck(hanging, head) => {
                let (line, word) = head.or_else(|| Some((plain()?, Vec::new()))).unzip();
                let word = word.unwrap_or_default();
                let is_it = |entry: &&Entry| {
                    let file = place_of(entry).map_or(entry.field, |(file, _)| file);
                    self.below(root).join(OsStr::from_bytes(&file_of(file, &word))).as_os_str().as_bytes()
                        == hanging
                };
                (line, entries().filter(is_it).collect(), STUCK)
            }
            Unread::Folder => (None, Vec::new(), UNREADABLE),
        };
        let mut only = entries();
        if let (true, Some(entry), None) = (sure.is_empty(), only.next(), only.next()) {
            // A folder with one file is there for that file.
            let mut line = plain()?;
            line.without_number(entry, why);
            return Some(line);
        }
        let mut line = line.filter(|_| !sure.is_empty())?;
        sure.iter().for_each(|entry| line.without_number(entry, why));
        Some(line)
    }

    /// The begin of a line, if no file has a part in it.
    fn unread_head(&self, group: &Group, branch: &Branch) -> Option<Line> {
        if group.is_whole() {
            return Some(Line::without_instance());
        }
        let parts: Option<Vec<Vec<u8>>> = branch.name.iter().map(|part| self.part(*part)).collect();
        Some(named(group, &parts?))
    }
}

/// The begin of a line about the instance with this name and these labels.
fn named(group: &Group, parts: &[Vec<u8>]) -> Line {
    let mut parts = parts.iter().map(Vec::as_slice);
    let name = parts.next().unwrap_or_default();
    Line::new(group.line_kind(), name, group.instance_labels.iter().copied().zip(parts))
}
