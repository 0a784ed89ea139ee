//! The lines that wait for the readers of a channel's `rows`. Each line is kept once, for all of them; each reader has a place, and
//! begins with the first line after its open. A reader that is too slow learns how many lines it has missed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::line;
use crate::effects::Effects;
use crate::file::Readiness;
use crate::limits::ROWS_BYTES_MAX;

/// The lines, and the places of their readers.
#[derive(Debug, Default)]
pub(super) struct Rows {
    lines: VecDeque<Arc<[u8]>>,
    /// The number of the first line that is kept.
    first: u64,
    bytes: usize,
    readers: HashMap<u64, Place>,
    /// Lines that readers have not got.
    dropped: u64,
    /// Nothing more comes.
    is_over: bool,
}

/// How far a reader is.
#[derive(Debug)]
struct Place {
    /// The number of its next line.
    next: u64,
    /// A line that it has read a part of, and how many bytes.
    begun: Option<(Arc<[u8]>, usize)>,
    /// What wakes it, while it sleeps.
    sleeper: Option<u64>,
}

impl Rows {
    /// Somebody opens the file.
    pub fn open(&mut self, handle: u64) {
        self.readers.insert(handle, Place { next: self.end_of_lines(), begun: None, sleeper: None });
    }

    /// Closes it. Lines that nobody can read any more are forgotten.
    pub fn close(&mut self, handle: u64) {
        self.readers.remove(&handle);
        if self.readers.is_empty() {
            self.first = self.end_of_lines();
            self.lines.clear();
            self.bytes = 0;
        }
    }

    fn end_of_lines(&self) -> u64 {
        self.first + self.lines.len() as u64
    }

    /// Adds a line, and wakes the readers who sleep. Without readers it is not even made.
    pub fn push(&mut self, line: impl FnOnce() -> Vec<u8>, effects: &mut Effects) {
        if self.readers.is_empty() {
            return;
        }
        let line: Arc<[u8]> = line().into();
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > ROWS_BYTES_MAX
            && let Some(oldest) = self.lines.pop_front()
        {
            self.bytes -= oldest.len();
            self.first += 1;
        }
        self.wake(effects);
    }

    /// Nothing more comes: readers find the end after the lines that wait.
    pub fn end(&mut self, effects: &mut Effects) {
        self.is_over = true;
        self.wake(effects);
    }

    /// Lines come again.
    pub fn go_on(&mut self) {
        self.is_over = false;
    }

    fn wake(&mut self, effects: &mut Effects) {
        let sleepers = self.readers.values_mut().filter_map(|place| place.sleeper.take());
        sleepers.for_each(|sleeper| effects.wake(sleeper));
    }

    /// Takes lines that wait for a reader: whole ones, unless the first is longer than `size`. Nothing: none waits.
    pub fn read(&mut self, handle: u64, size: usize) -> Vec<u8> {
        let Some(place) = self.readers.get_mut(&handle) else { return Vec::new() };
        let mut taken = Vec::new();
        while taken.len() < size {
            let Some((line, at)) = place.begun.take().or_else(|| {
                let (line, dropped) = place.next_line(&self.lines, self.first)?;
                self.dropped += dropped;
                Some((line, 0))
            }) else {
                break;
            };
            let rest = &line[at..];
            let room = size - taken.len();
            if rest.len() <= room {
                taken.extend_from_slice(rest);
                continue;
            }
            let part = if taken.is_empty() { room } else { 0 };
            taken.extend_from_slice(&rest[..part]);
            place.begun = Some((line, at + part));
            break;
        }
        taken
    }

    /// Whether something waits for a reader; else the next line wakes `sleeper`.
    pub fn poll(&mut self, handle: u64, sleeper: Option<u64>) -> Readiness {
        let end = self.end_of_lines();
        let Some(place) = self.readers.get_mut(&handle) else { return Readiness::End };
        if place.begun.is_some() || place.next < end {
            return Readiness::News;
        }
        if self.is_over {
            return Readiness::End;
        }
        place.sleeper = sleeper;
        Readiness::Nothing
    }

    /// Lines that readers have not got.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Place {
    /// The next line, and how many were dropped before it: then it says that.
    fn next_line(&mut self, lines: &VecDeque<Arc<[u8]>>, first: u64) -> Option<(Arc<[u8]>, u64)> {
        let dropped = first.saturating_sub(self.next);
        if dropped > 0 {
            self.next = first;
            return Some((line::dropped(dropped).into(), dropped));
        }
        let line = lines.get((self.next - first) as usize)?.clone();
        self.next += 1;
        Some((line, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Push;

    fn push(rows: &mut Rows, text: &str) -> Vec<Push> {
        let mut effects = Effects::default();
        rows.push(|| text.as_bytes().to_vec(), &mut effects);
        effects.take_pushes(Vec::new()).pushes
    }

    fn read(rows: &mut Rows, handle: u64, size: usize) -> String {
        String::from_utf8(rows.read(handle, size)).unwrap()
    }

    #[test]
    fn each_reader_gets_the_lines_after_its_own_open_and_whole_lines_if_they_fit() {
        let mut rows = Rows::default();
        push(&mut rows, "nobody has it open\n");
        rows.open(1);
        push(&mut rows, "one\n");
        rows.open(2);
        push(&mut rows, "two\n");
        assert_eq!((read(&mut rows, 1, 100), read(&mut rows, 2, 100)), ("one\ntwo\n".into(), "two\n".into()));
        assert_eq!(read(&mut rows, 1, 100), "");
        push(&mut rows, "three\n");
        push(&mut rows, "four\n");
        assert_eq!(read(&mut rows, 1, 8), "three\n");
        assert_eq!([read(&mut rows, 1, 3), read(&mut rows, 1, 3), read(&mut rows, 1, 3)], ["fou", "r\n", ""]);
    }

    #[test]
    fn a_sleeper_is_woken_by_the_next_line_and_an_end_is_told_after_the_last_one() {
        let (mut rows, mut effects) = (Rows::default(), Effects::default());
        rows.open(1);
        assert_eq!(rows.poll(1, Some(99)), Readiness::Nothing);
        assert_eq!(push(&mut rows, "one\n"), [Push::Wake(99)]);
        assert_eq!(push(&mut rows, "two\n"), [], "once");
        assert_eq!(rows.poll(1, Some(99)), Readiness::News);
        rows.end(&mut effects);
        assert_eq!(rows.poll(1, Some(99)), Readiness::News);
        read(&mut rows, 1, 100);
        assert_eq!(rows.poll(1, Some(99)), Readiness::End);
        rows.go_on();
        assert_eq!(rows.poll(1, Some(99)), Readiness::Nothing);
    }

    #[test]
    fn a_slow_reader_is_told_how_many_lines_it_has_not_got() {
        let mut rows = Rows::default();
        rows.open(1);
        let line = format!("{}\n", "x".repeat(ROWS_BYTES_MAX / 4));
        push(&mut rows, &line);
        assert_eq!(read(&mut rows, 1, 4), "xxxx");
        (0..5).for_each(|_| drop(push(&mut rows, &line)));
        let mut text = String::new();
        while rows.poll(1, None) == Readiness::News {
            text += &read(&mut rows, 1, 1 << 16);
        }
        // What was begun is read to its end; of five lines three fit.
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0].len(), lines[1]), (line.len() - 5, "{\"event\":\"dropped\",\"lines\":2}"));
        assert_eq!((lines.len(), rows.dropped()), (5, 2));
        push(&mut rows, &"y".repeat(ROWS_BYTES_MAX + 1));
        assert_eq!(read(&mut rows, 1, 100), "{\"event\":\"dropped\",\"lines\":1}\n");
    }
}
