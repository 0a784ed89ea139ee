//! The five classic files: their names, a bare read, an ordinary digit parse, and texts captured from them.
//! Knows nothing of our parser.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// The files in the order of the C programs.
pub const FILES: [&str; 5] = ["stat", "meminfo", "loadavg", "uptime", "net/dev"];

/// Room for one read: more than one read of any of the five returns on today's machines.
const READ_ROOM: usize = 1 << 20;

/// A buffer for any of the files; one side shares it for all files, as the bare loop in C does.
pub fn room() -> Vec<u8> {
    vec![0; READ_ROOM]
}

/// A source file kept open.
pub struct Kept {
    path: PathBuf,
    file: File,
}

impl Kept {
    /// Opens one of [`FILES`] under `/proc`.
    pub fn open(name: &str) -> Result<Self, BenchError> {
        let path = Path::new("/proc").join(name);
        let file = OpenOptions::new().read(true).open(&path).map_err(BenchError::file(&path))?;
        Ok(Kept { path, file })
    }

    /// One `pread` from the beginning into `room`: the bare read that is the reference for everything.
    #[inline]
    pub fn load<'a>(&self, room: &'a mut [u8]) -> Result<&'a [u8], BenchError> {
        let length =
            rustix::io::pread(&self.file, &mut room[..], 0).map_err(BenchError::call(self.path.display()))?;
        Ok(&room[..length])
    }
}

/// Every number of the text in order, as the C programs read them: skips single interrupts after the totals
/// of `intr` and `softirq`. Returns how many there are; drops numbers beyond the room in `values`.
#[inline]
pub fn digits(text: &[u8], values: &mut [u64]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while at < text.len() && count < values.len() {
        let digit = text[at].wrapping_sub(b'0');
        if digit > 9 {
            let rest = &text[at..];
            if text[at] == b'i' && rest.starts_with(b"intr ")
                || text[at] == b's' && rest.starts_with(b"softirq ")
            {
                let line = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                let from = rest.iter().position(|&b| b == b' ').unwrap_or(line) + 1;
                values[count] = leading_number(&rest[from.min(line)..line]);
                count += 1;
                at += line;
            } else {
                at += 1;
            }
            continue;
        }
        let mut value = u64::from(digit);
        at += 1;
        while at < text.len() && text[at].is_ascii_digit() {
            value = value.wrapping_mul(10).wrapping_add(u64::from(text[at] - b'0'));
            at += 1;
        }
        values[count] = value;
        count += 1;
    }
    count
}

fn leading_number(text: &[u8]) -> u64 {
    text.iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
}

/// Texts of one source in their order.
pub type Frames = Vec<Vec<u8>>;

/// Captures `count` texts of each file, one a millisecond.
pub fn capture(count: usize) -> Result<Vec<Frames>, BenchError> {
    let kept = FILES.iter().map(|name| Kept::open(name)).collect::<Result<Vec<_>, _>>()?;
    let mut frames = vec![Vec::with_capacity(count); FILES.len()];
    let mut room = room();
    let start = Instant::now();
    for tick in 0..count {
        for (source, frames) in kept.iter().zip(&mut frames) {
            frames.push(source.load(&mut room)?.to_vec());
        }
        let due = Duration::from_millis(tick as u64 + 1);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    Ok(frames)
}

/// Writes captured texts in the format of `table.c`: `0.frames` to `4.frames`, each text after its length.
pub fn write_frames(directory: &Path, frames: &[Frames]) -> Result<(), BenchError> {
    fs::create_dir_all(directory).map_err(BenchError::file(directory))?;
    for (number, texts) in frames.iter().enumerate() {
        let path = directory.join(format!("{number}.frames"));
        let mut out = Vec::new();
        for text in texts {
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text);
        }
        File::create(&path).and_then(|mut f| f.write_all(&out)).map_err(BenchError::file(&path))?;
    }
    Ok(())
}

/// Reads the texts of one source that [`write_frames`] wrote.
pub fn read_frames(directory: &Path, file: usize) -> Result<Frames, BenchError> {
    let path = directory.join(format!("{file}.frames"));
    let bytes = fs::read(&path).map_err(BenchError::file(&path))?;
    let mut frames = Vec::new();
    let mut rest = &bytes[..];
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let text =
            tail.get(..length).ok_or_else(|| BenchError::Reply(format!("{} is cut off", path.display())))?;
        frames.push(text.to_vec());
        rest = &tail[length..];
    }
    Ok(frames)
}

/// Walks captured texts forth and back, so that neighbours are always one capture apart.
pub struct Swing {
    at: usize,
    back: bool,
}

impl Swing {
    /// Begins at the first text.
    pub fn new() -> Self {
        Swing { at: 0, back: false }
    }

    /// The index of the next of `count` texts.
    #[inline]
    pub fn next(&mut self, count: usize) -> usize {
        let now = self.at;
        if count > 1 {
            if now + 1 == count {
                self.back = true;
            } else if now == 0 {
                self.back = false;
            }
            self.at = if self.back { now - 1 } else { now + 1 };
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_reads_every_number_but_single_interrupts() {
        let mut values = [0; 16];
        let count = digits(b"cpu  1 22\nintr 333 4 5\nctxt 6\nsoftirq 7 8 9\n0.52 1/88\n", &mut values);
        assert_eq!(&values[..count], [1, 22, 333, 6, 7, 0, 52, 1, 88]);
        assert_eq!(digits(b"intr ", &mut values), 1, "a cut line does not run over");
        assert_eq!(digits(b"1 2 3", &mut values[..2]), 2, "no room, no value");
    }

    #[test]
    fn frames_come_back_as_they_were_written() {
        let directory = std::env::temp_dir().join(format!("khz-bench-frames-{}", std::process::id()));
        let frames = vec![vec![b"one".to_vec(), Vec::new(), b"three".to_vec()], vec![b"other".to_vec()]];
        write_frames(&directory, &frames).unwrap();
        assert_eq!(read_frames(&directory, 0).unwrap(), frames[0]);
        assert_eq!(read_frames(&directory, 1).unwrap(), frames[1]);
        fs::write(directory.join("0.frames"), [9, 0, 0, 0, 1]).unwrap();
        assert!(read_frames(&directory, 0).is_err(), "a cut file is refused");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_swing_turns_at_both_ends() {
        let mut swing = Swing::new();
        assert_eq!((0..7).map(|_| swing.next(3)).collect::<Vec<_>>(), [0, 1, 2, 1, 0, 1, 2]);
        let mut swing = Swing::new();
        assert_eq!((0..3).map(|_| swing.next(1)).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
