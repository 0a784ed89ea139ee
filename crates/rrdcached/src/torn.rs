//! Headers that are half written, or may be, and could not be put back yet: their files wait for that before anything
//! else is written to them. Does no I/O.

use std::collections::HashMap;

use crate::image::Kept;

/// Images of such files by their names; the first that fits the file counts.
#[derive(Default)]
pub(super) struct Torn {
    images: HashMap<String, Vec<Kept>>,
    bytes: u64,
}

fn bytes(name: &str, images: &[Kept]) -> u64 {
    name.len() as u64 + images.iter().map(Kept::bytes).sum::<u64>()
}

impl Torn {
    /// Bytes of memory: no more than the log has of it, and they count against the daemon's limit.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, name: &str) -> Option<&[Kept]> {
        self.images.get(name).map(Vec::as_slice)
    }

    /// Every file's name with its images.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &[Kept])> {
        self.images.iter().map(|(name, images)| (name.as_str(), images.as_slice()))
    }

    pub(super) fn insert(&mut self, name: &str, images: Vec<Kept>) {
        self.remove(name);
        self.bytes += bytes(name, &images);
        self.images.insert(name.into(), images);
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Vec<Kept>> {
        let images = self.images.remove(name)?;
        self.bytes -= bytes(name, &images);
        Some(images)
    }
}
