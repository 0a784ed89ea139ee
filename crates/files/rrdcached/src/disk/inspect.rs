//! Inspects a file on the disk that is new, or seems to have changed.

use std::fs::FileType;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::header::Header;
use khz_rrd::text;

use super::place::place;
use super::write::newest;
use super::{DiskFiles, with_place};
use crate::cache::{FileFacts, Shape};

impl DiskFiles {
    /// The facts on the disk about the file called `name`.
    ///
    /// # Errors
    /// The file does not exist or is not an `.rrd` file, in rrdcached's words.
    pub fn inspect(&self, name: &str) -> Result<FileFacts> {
        let file = match self.base.open(name, false) {
            Err(error) if error.is_not_found() => return refused(format!("No such file: {name}")),
            opened => opened?,
        };
        let metadata = file.metadata().map_err(|error| Error::io("stating", name, error))?;
        if is_special(metadata.file_type()) {
            return refused(format!("Not a regular file: {name}"));
        }
        let place = place(&file);
        let rrd = Rrd::over(file, &text::path(name));
        let rrd = rrd.map_err(|error| Error::Refused(format!("RRD Error: {}", with_place(error))))?;
        Ok(FileFacts { newest: newest(&rrd), shape: shape(&rrd.header), place, device: metadata.dev() })
    }
}

/// Whether it is a directory, a pipe, a socket or a device.
fn is_special(kind: FileType) -> bool {
    let is_device = kind.is_char_device() || kind.is_block_device();
    kind.is_dir() || kind.is_fifo() || kind.is_socket() || is_device
}

fn shape(header: &Header) -> Shape {
    let coarse = header.archives().iter().map(|archive| archive.points).filter(|points| *points > 1).min();
    Shape {
        readings: header.readings(),
        step: header.step(),
        coarse: coarse.unwrap_or(0).saturating_mul(header.step()),
    }
}
