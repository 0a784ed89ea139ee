//! Where the parts of an `.rrd` file lie, in pages: from `DS:` and `RRA:` words, or from a header. Knows no rows in use.

use khz_rrd::create::{self, Plan};
use khz_rrd::error::refused;
use khz_rrd::header::Header;
use khz_rrd::layout::VALUE;
use khz_rrd::{Result, spec};

/// The layout that MRTG gives its files, and the LISA'07 paper measured: two counters, and two archives for each of four
/// resolutions.
pub const MRTG: [&str; 10] = [
    "DS:ds0:COUNTER:600:0:U",
    "DS:ds1:COUNTER:600:0:U",
    "RRA:AVERAGE:0.5:1:600",
    "RRA:AVERAGE:0.5:6:700",
    "RRA:AVERAGE:0.5:24:775",
    "RRA:AVERAGE:0.5:288:797",
    "RRA:MAX:0.5:1:600",
    "RRA:MAX:0.5:6:700",
    "RRA:MAX:0.5:24:775",
    "RRA:MAX:0.5:288:797",
];

/// Bytes that are read first of a file, to have its header ([`khz_rrd::file`]).
const FIRST_READ: u64 = 4_096;
/// The longest step: times of day are what is counted.
pub const STEP_MAX: u64 = 86_400;

/// An archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archive {
    /// Its first byte.
    pub start: u64,
    /// Its rows.
    pub rows: u64,
    /// Steps of a row.
    pub points: u64,
}

/// A file's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page.
    pub page: u64,
    /// Seconds of a primary point.
    pub step: u64,
    /// Data sources.
    pub sources: u64,
    /// Bytes of the header.
    pub header: u64,
    /// The first byte of the header that an update changes.
    pub live: u64,
    /// Bytes of the file.
    pub length: u64,
    /// The archives, in file order.
    pub archives: Vec<Archive>,
}

impl Shape {
    /// The file that `create` would make of these words.
    ///
    /// # Errors
    /// What `create` says of them, or [`Shape::of`].
    pub fn from_words(words: &[String], step: u64, page: u64) -> Result<Self> {
        let mut plan = Plan::default();
        for word in words {
            if let Some(source) = word.strip_prefix("DS:") {
                plan.source(source)?;
            } else if let Some(archive) = word.strip_prefix("RRA:") {
                plan.archive(archive, step, spec::season_hash("simulated"))?;
            } else {
                return refused(format!("'{word}' is neither DS:... nor RRA:..."));
            }
        }
        let header = create::header(plan.definition(step)?, 0, |_, _| 0)?;
        Self::of(&header, page)
    }

    /// The file with this header.
    ///
    /// # Errors
    /// Forecasts, whose reads only a trace of real updates has; a step that is too long; a file too large to count its pages.
    pub fn of(header: &Header, page: u64) -> Result<Self> {
        if let Some(other) = header.archives().iter().find(|archive| !archive.function.is_plain()) {
            return refused(format!(
                "a layout with {} also reads rows: record a trace of such a file (--record TRACE FILE), and simulate that \
                 (--trace TRACE)",
                other.function.name()
            ));
        }
        if header.step() > STEP_MAX {
            return refused(format!(
                "a step of {} s: a simulation counts by time of day, so a step has at most {STEP_MAX} s",
                header.step()
            ));
        }
        if header.file_len() > page * u64::from(u32::MAX) {
            return refused(format!("a file of {} bytes is too large", header.file_len()));
        }
        let archives = header.archives().iter().enumerate().map(|(rra, archive)| Archive {
            start: header.row_offset(rra, 0),
            rows: archive.rows,
            points: archive.points,
        });
        Ok(Self {
            page,
            step: header.step(),
            sources: header.sources().len() as u64,
            header: header.layout().header_len as u64,
            live: header.layout().live_head as u64,
            length: header.file_len(),
            archives: archives.collect(),
        })
    }

    /// Pages of the file.
    pub fn pages(&self) -> u32 {
        self.length.div_ceil(self.page) as u32
    }

    /// Bytes of a row.
    pub fn row(&self) -> u64 {
        self.sources * VALUE as u64
    }

    /// The first page of `bytes` from `offset` on, and how many there are.
    pub fn span(&self, offset: u64, bytes: u64) -> (u32, u32) {
        let (first, last) = (offset / self.page, (offset + bytes.max(1) - 1) / self.page);
        (first as u32, (last - first) as u32 + 1)
    }

    /// The reads that get the header: as many bytes as a header usually has, and the rest if it has more.
    pub fn header_reads(&self) -> impl Iterator<Item = (u32, u32)> {
        let first = FIRST_READ.min(self.length);
        let rest = (self.header > first).then(|| self.span(first, self.header - first));
        std::iter::once(self.span(0, first)).chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_classic_layout_has_the_measured_size() {
        let shape = Shape::from_words(&words(&MRTG), 300, 4_096).unwrap();
        assert_eq!((shape.header, shape.length, shape.pages()), (2_912, 94_816, 24));
        assert_eq!((shape.row(), shape.archives[1].start), (16, 2_912 + 600 * 16));
        assert_eq!(shape.header_reads().collect::<Vec<_>>(), [(0, 1)]);
    }

    #[test]
    fn a_long_header_takes_two_reads() {
        let mut many: Vec<String> = (0..20).map(|n| format!("DS:d{n}:GAUGE:600:U:U")).collect();
        many.push("RRA:AVERAGE:0.5:1:10".into());
        let shape = Shape::from_words(&many, 300, 4_096).unwrap();
        assert_eq!(shape.header, 6_512);
        assert_eq!(shape.header_reads().collect::<Vec<_>>(), [(0, 1), (1, 1)]);
    }

    #[test]
    fn layouts_that_make_no_sense_are_refused_with_what_to_do() {
        let told =
            |list: &[&str], step| Shape::from_words(&words(list), step, 4_096).unwrap_err().to_string();
        assert!(told(&["DS:a:GAUGE:600:U:U", "oops"], 300).starts_with("'oops' is neither"));
        assert!(told(&["RRA:AVERAGE:0.5:1:10"], 300).contains("at least one Data Source"));
        assert!(told(&["DS:a:GAUGE:600:U:U"], 300).contains("at least one Round Robin Archive"));
        assert!(
            told(&["DS:a:GAUGE:600:U:U", "RRA:AVERAGE:0.5:1:0"], 300).contains("row count"),
            "{}",
            told(&["DS:a:GAUGE:600:U:U", "RRA:AVERAGE:0.5:1:0"], 300)
        );
        let forecast = ["DS:a:GAUGE:600:U:U", "RRA:HWPREDICT:1440:0.1:0.0035:288"];
        assert!(told(&forecast, 300).contains("--record TRACE FILE"));
        assert!(told(&MRTG, 100_000).contains("at most 86400 s"));
    }
}
