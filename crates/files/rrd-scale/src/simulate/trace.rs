//! Traces: which pages real updates of real files used, as text. Reads and writes the text; knows no kernel.
//!
//! ```text
//! khz-rrd-trace 1
//! page 4096
//! step 300
//! copy 24 1 /var/lib/munin/load.rrd       pages of the file, pages of its header, its name
//! copy 24 1 /var/lib/munin/load.rrd
//! update 0 1700006550 0w 2w 13w           number of the copy (0 is the first), time, pages; w: changed
//! update 1 1700006550 0w 5w 19w
//! end 2                                   updates in all: without this line the trace is cut short
//! ```
//!
//! - Pages are in rising order. Updates of a copy are in order of time, and one step apart.
//! - The pages are those that were in memory after the update, of a file that had none there before it and of which the kernel
//!   was advised to read nothing ahead.

use std::fmt::Write as _;

use khz_rrd::error::refused;
use khz_rrd::{Result, text};

/// The first line.
const FIRST: &str = "khz-rrd-trace 1";
/// Bytes of a trace.
pub const BYTES_MAX: u64 = 256 << 20;
/// Copies of files in a trace.
pub const COPIES_MAX: usize = 4_096;
/// Updates in a trace.
pub const UPDATES_MAX: usize = 4_000_000;
/// Pages that all updates of a trace used.
const PAGES_MAX: usize = 64_000_000;

/// The latest time of an update: 30,000 years from now.
const TIME_MAX: u64 = 1 << 40;

/// A copy of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its pages.
    pub pages: u32,
    /// Pages of its header.
    pub header: u32,
    /// The name of the file that it is a copy of.
    pub name: String,
}

/// A page that an update used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// Its place in the file.
    pub page: u32,
    /// It was changed.
    pub is_changed: bool,
}

/// An update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The number of its copy.
    pub copy: u32,
    /// Its time, in seconds since 1970.
    pub time: u64,
    /// The pages, in rising order.
    pub used: Vec<Used>,
}

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Bytes of a page.
    pub page: u64,
    /// Seconds of a step.
    pub step: u64,
    /// The copies.
    pub copies: Vec<Copy>,
    /// The updates.
    pub updates: Vec<Update>,
}

impl Trace {
    /// The trace as text.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = format!("{FIRST}\npage {}\nstep {}\n", self.page, self.step);
        // Writing into a string cannot fail.
        for copy in &self.copies {
            let _ = writeln!(out, "copy {} {} {}", copy.pages, copy.header, copy.name.replace('\n', " "));
        }
        for update in &self.updates {
            let _ = write!(out, "update {} {}", update.copy, update.time);
            for used in &update.used {
                let _ = write!(out, " {}{}", used.page, if used.is_changed { "w" } else { "" });
            }
            out.push('\n');
        }
        let _ = writeln!(out, "end {}", self.updates.len());
        // The name of a file need not be UTF-8.
        text::bytes(&out).into_owned()
    }

    /// Reads a trace called `name`.
    ///
    /// # Errors
    /// The line that is wrong, with what is wrong there; a trace that is cut short, with what to do.
    pub fn decode(bytes: &[u8], name: &str) -> Result<Self> {
        if bytes.len() as u64 > BYTES_MAX {
            return refused(format!(
                "{name}: a trace has at most {BYTES_MAX} bytes; record fewer copies or hours"
            ));
        }
        let mut reader = Reader::default();
        let (mut number, mut rest) = (0, bytes);
        while !rest.is_empty() && !reader.has_ended {
            number += 1;
            let (line, after) = match rest.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => return cut_short(name, number, bytes.len() - rest.len(), "this line has no end"),
            };
            if let Err(what) = reader.take(number, &text::of(line)) {
                return refused(format!("{name}: line {number} (byte {}): {what}", bytes.len() - rest.len()));
            }
            rest = after;
        }
        match (reader.has_ended, rest.is_empty()) {
            (true, true) => Ok(reader.trace),
            (true, false) => {
                let place = bytes.len() - rest.len();
                refused(format!("{name}: line {} (byte {place}): nothing comes after 'end'", number + 1))
            }
            (false, _) => cut_short(name, number + 1, bytes.len(), "the line 'end' is missing"),
        }
    }
}

fn cut_short<T>(name: &str, line: usize, byte: usize, what: &str) -> Result<T> {
    refused(format!("{name}: line {line} (byte {byte}): the trace is cut short: {what}; record it again"))
}

/// A trace that is being read.
struct Reader {
    trace: Trace,
    /// The time of each copy's last update.
    last: Vec<Option<u64>>,
    /// Pages so far.
    pages: usize,
    has_ended: bool,
}

impl Default for Reader {
    fn default() -> Self {
        let trace = Trace { page: 0, step: 0, copies: vec![], updates: vec![] };
        Self { trace, last: vec![], pages: 0, has_ended: false }
    }
}

impl Reader {
    /// Takes line `number`.
    fn take(&mut self, number: usize, line: &str) -> std::result::Result<(), String> {
        if number == 1 {
            return match line {
                FIRST => Ok(()),
                _ if line.starts_with("khz-rrd-trace ") => {
                    Err(format!("another version of the format; this program reads '{FIRST}'"))
                }
                _ => Err(format!("not a trace: its first line is '{FIRST}'")),
            };
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (number, word) {
            (2, "page") => self.page(rest),
            (3, "step") => self.step(rest),
            (4.., "copy") if self.trace.updates.is_empty() => self.copy(rest),
            (4.., "update") => self.update(rest),
            (4.., "end") => self.end(rest),
            (2, _) => Err("'page BYTES' is missing".into()),
            (3, _) => Err("'step SECONDS' is missing".into()),
            _ => Err("neither 'copy', 'update' nor 'end'; copies come before updates".into()),
        }
    }

    fn page(&mut self, rest: &str) -> std::result::Result<(), String> {
        self.trace.page = whole(rest)?;
        let is_usual = self.trace.page.is_power_of_two() && (512..=1 << 20).contains(&self.trace.page);
        if is_usual { Ok(()) } else { Err(format!("pages of {rest} bytes")) }
    }

    fn step(&mut self, rest: &str) -> std::result::Result<(), String> {
        self.trace.step = whole(rest)?;
        match self.trace.step {
            1..=super::shape::STEP_MAX => Ok(()),
            step => Err(format!("a step of {step} s is not simulated")),
        }
    }

    fn copy(&mut self, rest: &str) -> std::result::Result<(), String> {
        if self.trace.copies.len() >= COPIES_MAX {
            return Err(format!("more than {COPIES_MAX} copies"));
        }
        let mut words = rest.splitn(3, ' ');
        let mut next = || words.next().unwrap_or("");
        let (pages, header) = (small(next())?, small(next())?);
        if header == 0 || header > pages {
            return Err(format!("a header of {header} pages in a file of {pages}"));
        }
        self.trace.copies.push(Copy { pages, header, name: next().to_owned() });
        self.last.push(None);
        Ok(())
    }

    fn update(&mut self, rest: &str) -> std::result::Result<(), String> {
        if self.trace.updates.len() >= UPDATES_MAX {
            return Err(format!("more than {UPDATES_MAX} updates"));
        }
        let mut words = rest.split(' ');
        let mut next = || words.next().unwrap_or("");
        let (copy, time): (u32, u64) = (small(next())?, whole(next())?);
        let Some(known) = self.trace.copies.get(copy as usize) else {
            return Err(format!(
                "there are {} copies, and copy {copy} is none of them",
                self.trace.copies.len()
            ));
        };
        if time > TIME_MAX {
            return Err(format!("a time of {time} s is too far away"));
        }
        let step = self.trace.step;
        if let Some(last) = self.last[copy as usize]
            && last / step + 1 != time / step
        {
            return Err(format!("an update at {time} is not one step of {step} s after that at {last}"));
        }
        let mut used: Vec<Used> = vec![];
        for word in words {
            let page = small(word.strip_suffix('w').unwrap_or(word))?;
            if page >= known.pages || used.last().is_some_and(|before| before.page >= page) {
                return Err(format!(
                    "page {page} is out of order, or beyond the {} of its file",
                    known.pages
                ));
            }
            used.push(Used { page, is_changed: word.ends_with('w') });
        }
        if used.is_empty() {
            return Err("an update without pages".into());
        }
        self.pages += used.len();
        if self.pages > PAGES_MAX {
            return Err(format!("more than {PAGES_MAX} pages"));
        }
        self.last[copy as usize] = Some(time);
        self.trace.updates.push(Update { copy, time, used });
        Ok(())
    }

    fn end(&mut self, rest: &str) -> std::result::Result<(), String> {
        let (said, read) = (whole(rest)?, self.trace.updates.len() as u64);
        self.has_ended = true;
        match said == read && read > 0 {
            true => Ok(()),
            false => Err(format!("there are {read} updates, and 'end' says {said}; record it again")),
        }
    }
}

fn whole(word: &str) -> std::result::Result<u64, String> {
    let is_plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_plain).ok_or_else(|| format!("'{word}' is not a whole number"))
}

fn small(word: &str) -> std::result::Result<u32, String> {
    u32::try_from(whole(word)?).map_err(|_| format!("'{word}' is too large"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORT: &str = "khz-rrd-trace 1\npage 4096\nstep 300\ncopy 24 1 a b.rrd\nupdate 0 1500 0w 2w 13\n\
                         update 0 1801 0w 2w\nend 2\n";

    fn told(text: &str) -> String {
        Trace::decode(text.as_bytes(), "t").unwrap_err().to_string()
    }

    #[test]
    fn the_bytes_of_a_trace_stay_as_they_were() {
        let trace = Trace::decode(SHORT.as_bytes(), "t").unwrap();
        assert_eq!(trace.copies, [Copy { pages: 24, header: 1, name: "a b.rrd".into() }]);
        assert_eq!(trace.updates[0].used[2], Used { page: 13, is_changed: false });
        assert_eq!(String::from_utf8(trace.encode()).unwrap(), SHORT);
    }

    #[test]
    fn a_trace_that_is_cut_short_anywhere_is_refused_with_the_place() {
        for end in 0..SHORT.len() {
            let message = told(&SHORT[..end]);
            assert!(message.starts_with("t: line ") && message.contains("(byte "), "{end}: {message}");
        }
        let cut = "t: line 6 (byte 76): the trace is cut short: this line has no end; record it again";
        assert_eq!(told(&SHORT[..80]), cut);
        let cut = "t: line 6 (byte 76): the trace is cut short: the line 'end' is missing; record it again";
        assert_eq!(told(&SHORT[..76]), cut);
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let changed = |from: &str, to: &str| told(&SHORT.replacen(from, to, 1));
        assert!(changed("trace 1", "trace 2").contains("line 1 (byte 0): another version"));
        assert!(changed("khz-rrd", "khz").contains("not a trace"));
        assert!(changed("page 4096", "page 0").contains("line 2 (byte 16): pages of 0 bytes"));
        assert!(changed("step 300", "step x").contains("line 3 (byte 26): 'x' is not a whole number"));
        assert!(changed("copy 24 1", "copy 1 24").contains("a header of 24 pages in a file of 1"));
        assert!(changed("update 0 1500", "update 1 1500").contains("there are 1 copies"));
        assert!(changed("2w 13", "2w 2w").contains("page 2 is out of order"));
        assert!(changed("2w 13", "2w 24").contains("beyond the 24 of its file"));
        assert!(changed("0 1801", "0 2101").contains("line 6 (byte 76): an update at 2101 is not one step"));
        assert!(changed("end 2", "end 3").contains("there are 2 updates, and 'end' says 3"));
        assert!(told(&format!("{SHORT}more\n")).contains("nothing comes after 'end'"));
        assert!(changed(" 0w 2w 13", "").contains("without pages"));
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_read_or_refused_with_their_place(
            changes in prop::collection::vec((0..SHORT.len(), any::<u8>()), 1..4),
        ) {
            let mut bytes = SHORT.as_bytes().to_vec();
            changes.into_iter().for_each(|(place, byte)| bytes[place] = byte);
            match Trace::decode(&bytes, "t") {
                Ok(trace) => prop_assert_eq!(Trace::decode(&trace.encode(), "t").unwrap(), trace),
                Err(error) => prop_assert!(error.to_string().starts_with("t: line "), "{}", error),
            }
        }

        #[test]
        fn what_is_written_reads_the_same(
            pages in prop::collection::vec(prop::collection::btree_map(0u32..500, any::<bool>(), 1..9), 1..20),
            start in 0u64..1 << 30,
        ) {
            let used = |map: std::collections::BTreeMap<u32, bool>| {
                map.into_iter().map(|(page, is_changed)| Used { page, is_changed }).collect()
            };
            let updates = pages.into_iter().zip(0..).map(|(map, number)| {
                Update { copy: 0, time: (start + number) * 10 + number % 10, used: used(map) }
            });
            let copies = vec![Copy { pages: 500, header: 2, name: "x".into() }];
            let trace = Trace { page: 4_096, step: 10, copies, updates: updates.collect() };
            prop_assert_eq!(Trace::decode(&trace.encode(), "t").unwrap(), trace);
        }
    }
}
