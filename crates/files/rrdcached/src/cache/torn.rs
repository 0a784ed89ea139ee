//! Torn headers: half written, or perhaps, and not put back yet. Nothing is written to their files before that. Does no
//! I/O.

use std::collections::HashMap;

use crate::disk::HeaderImage;

/// The images of such files, by name; the first that fits the file counts.
#[derive(Default)]
pub struct TornHeaders {
    images: HashMap<String, Vec<HeaderImage>>,
    bytes: u64,
}

fn bytes(name: &str, images: &[HeaderImage]) -> u64 {
    name.len() as u64 + images.iter().map(HeaderImage::bytes).sum::<u64>()
}

impl TornHeaders {
    /// Bytes of memory, which count against the daemon's limit. The log has as many.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get(&self, name: &str) -> Option<&[HeaderImage]> {
        self.images.get(name).map(Vec::as_slice)
    }

    /// Every file's name with its images.
    pub fn all(&self) -> impl Iterator<Item = (&str, &[HeaderImage])> {
        self.images.iter().map(|(name, images)| (name.as_str(), images.as_slice()))
    }

    pub fn insert(&mut self, name: &str, images: Vec<HeaderImage>) {
        self.remove(name);
        self.bytes += bytes(name, &images);
        self.images.insert(name.into(), images);
    }

    pub fn remove(&mut self, name: &str) -> Option<Vec<HeaderImage>> {
        let images = self.images.remove(name)?;
        self.bytes -= bytes(name, &images);
        Some(images)
    }
}
