//! What the disk says of a file that is new, or seems to have changed.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::file::Rrd;
use khz_rrd::text;

use super::place::place;
use super::{DiskFiles, with_place};
use crate::cache::{FileFacts, Shape};

impl DiskFiles {
    /// What the disk says of the file called `name`.
    ///
    /// # Errors
    /// What clients of rrdcached know: it does not exist, or is no `.rrd` file.
    pub fn inspect(&self, name: &str) -> Result<FileFacts> {
        let missing = |error: &Error| match error {
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        };
        let file = match self.base.open(name, false) {
            Err(error) if missing(&error) => return refused(format!("No such file: {name}")),
            opened => opened?,
        };
        let metadata = file.metadata().map_err(|error| Error::io("stating", name, error))?;
        let kind = metadata.file_type();
        if kind.is_dir()
            || kind.is_fifo()
            || kind.is_socket()
            || kind.is_char_device()
            || kind.is_block_device()
        {
            return refused(format!("Not a regular file: {name}"));
        }
        let place = place(&file);
        let rrd = Rrd::over(file, &text::path(name));
        let rrd = rrd.map_err(|error| Error::Refused(format!("RRD Error: {}", with_place(error))))?;
        let header = &rrd.header;
        let coarse =
            header.archives().iter().filter(|archive| archive.points > 1).map(|archive| archive.points);
        let shape = Shape {
            readings: header.readings(),
            step: header.step(),
            coarse: coarse.min().unwrap_or(0).saturating_mul(header.step()),
        };
        let newest = header.last_update().saturating_mul(1_000_000).saturating_add(header.last_update_usec());
        Ok(FileFacts { newest, shape, place, device: metadata.dev() })
    }
}
