//! How many bytes the files of one step may take. Whatever was estimated before, nothing is written beyond that.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The room of a step.
#[derive(Debug)]
pub(crate) struct Room {
    left: AtomicU64,
    was_too_small: AtomicBool,
}

impl Default for Room {
    fn default() -> Self {
        Room { left: AtomicU64::new(u64::MAX), was_too_small: AtomicBool::new(false) }
    }
}

impl Room {
    /// The next step may write this many bytes.
    pub fn set(&self, bytes: u64) {
        self.left.store(bytes, Ordering::Relaxed);
        self.was_too_small.store(false, Ordering::Relaxed);
    }

    /// True if something was not written because of it.
    pub fn was_too_small(&self) -> bool {
        self.was_too_small.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(bytes);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.was_too_small.store(true, Ordering::Relaxed);
                Err(io::Error::new(ErrorKind::StorageFull, "the store has no room for it"))
            }
        }
    }
}

/// A file whose bytes take room.
#[derive(Debug)]
pub(crate) struct RoomFile {
    file: File,
    room: Arc<Room>,
}

/// The same with a buffer.
pub(crate) type Out = BufWriter<RoomFile>;

impl RoomFile {
    pub fn new(file: File, room: Arc<Room>) -> Self {
        RoomFile { file, room }
    }

    /// The file.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for RoomFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room.take(bytes.len() as u64)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_a_step_share_its_room_and_nothing_is_written_beyond_it() {
        let folder = std::env::temp_dir().join(format!("khz-room-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let room = Arc::new(Room::default());
        let file = |name| RoomFile::new(File::create(folder.join(name)).unwrap(), room.clone());
        let (mut one, mut other) = (file("one"), file("other"));
        room.set(10);
        one.write_all(&[1; 6]).unwrap();
        assert_eq!(other.write_all(&[2; 5]).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(room.was_too_small());
        other.write_all(&[2; 4]).unwrap();
        let length = |file: RoomFile| file.into_file().metadata().unwrap().len();
        assert_eq!((length(one), length(other)), (6, 4));
        room.set(1);
        assert!(!room.was_too_small());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
