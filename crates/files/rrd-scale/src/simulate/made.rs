//! Updates made from a layout: which pages our engine, or rrdtool, uses at each step, computed from the rows at which a file's
//! archives began.

#[cfg(test)]
use khz_rrd::header::Header;

use super::chance;
use super::shape::Shape;
use super::touch::{Touch, Updates, Way};

/// Who writes the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Ours: pread(2) of the header, pwrite(2) of rows and header.
    Khz,
    /// rrdtool, which maps the file.
    Rrdtool,
}

impl Engine {
    /// The name of each.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Khz, "khz"), (Self::Rrdtool, "rrdtool")];
}

/// Where the archives of new files begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Each at a row of its own, as rrdtool has it since 1.4.
    Random(u64),
    /// All at the same row: all files cross the pages of their archives at the same time.
    Aligned,
}

/// An archive that closes a row at this step, and how many it has closed since 1970.
#[derive(Debug, Clone, Copy)]
struct Due {
    archive: usize,
    closed: u64,
}

/// Updates of files with one layout.
#[derive(Debug, Clone)]
pub struct Made {
    shape: Shape,
    engine: Engine,
    /// For each file and archive, the row that it would have had in 1970.
    rows: Vec<u64>,
    due: Vec<Due>,
}

impl Made {
    /// Updates of `files` new files.
    pub fn new(shape: Shape, engine: Engine, files: u32, begin: Begin) -> Self {
        let row = |number: usize, rows: u64| match begin {
            Begin::Aligned => 0,
            Begin::Random(seed) => chance::number(seed, number as u64) % rows,
        };
        let archives = &shape.archives;
        let all = files as usize * archives.len();
        let rows = (0..all).map(|number| row(number, archives[number % archives.len()].rows)).collect();
        Self { shape, engine, rows, due: vec![] }
    }

    /// Updates of the one file whose header is `header`.
    #[cfg(test)]
    pub fn of_file(shape: Shape, engine: Engine, header: &Header) -> Self {
        let last = header.last_update().max(0) as u64 / header.step();
        let row = |(rra, archive): (usize, &super::shape::Archive)| {
            let closed = last / archive.points % archive.rows;
            (header.current_row(rra) + archive.rows - closed) % archive.rows
        };
        let rows = shape.archives.iter().enumerate().map(row).collect();
        Self { shape, engine, rows, due: vec![] }
    }

    /// Hands the places of the rows that `file` writes to `write`: offset and bytes, neighbours joined.
    fn writes(&self, file: u32, mut write: impl FnMut(u64, u64)) {
        let rows = &self.rows[file as usize * self.shape.archives.len()..];
        let bytes = self.shape.row();
        let (mut first, mut length) = (0, 0);
        for due in &self.due {
            let archive = self.shape.archives[due.archive];
            let row = (rows[due.archive] + due.closed) % archive.rows;
            let offset = archive.start + row * bytes;
            if length > 0 && first + length != offset {
                write(first, length);
                length = 0;
            }
            if length == 0 {
                first = offset;
            }
            length += bytes;
        }
        if length > 0 {
            write(first, length);
        }
    }
}

impl Updates for Made {
    fn go_to(&mut self, tick: u64) {
        let due = |(archive, points): (usize, u64)| {
            (tick.is_multiple_of(points)).then_some(Due { archive, closed: tick / points })
        };
        self.due.clear();
        let points = self.shape.archives.iter().map(|archive| archive.points).enumerate();
        self.due.extend(points.filter_map(due));
    }

    fn pages(&self, _: u32) -> u32 {
        self.shape.pages()
    }

    fn of(&self, file: u32, touches: &mut Vec<Touch>) {
        let shape = &self.shape;
        let (read, write, write_header) = match self.engine {
            Engine::Khz => (Way::Read, Way::Write, Way::Write),
            Engine::Rrdtool => {
                (Way::MappedRead, Way::MappedWrite { is_random: true }, Way::MappedWrite { is_random: false })
            }
        };
        let mut add = |(first, count): (u32, u32), way| touches.push(Touch { first, count, way });
        match self.engine {
            Engine::Khz => shape.header_reads().for_each(|span| add(span, read)),
            Engine::Rrdtool => add(shape.span(0, shape.header), read),
        }
        self.writes(file, |offset, bytes| add(shape.span(offset, bytes), write));
        add(shape.span(shape.live, shape.header - shape.live), write_header);
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::MRTG;
    use super::*;

    fn made(engine: Engine, begin: Begin) -> Made {
        let words: Vec<String> = MRTG.iter().map(|word| (*word).to_owned()).collect();
        Made::new(Shape::from_words(&words, 300, 4_096).unwrap(), engine, 2, begin)
    }

    fn touches(made: &mut Made, tick: u64, file: u32) -> Vec<Touch> {
        let mut touches = vec![];
        made.go_to(tick);
        made.of(file, &mut touches);
        touches
    }

    fn touch(first: u32, way: Way) -> Touch {
        Touch { first, count: 1, way }
    }

    #[test]
    fn an_ordinary_update_uses_the_header_and_the_row_of_each_fine_archive() {
        // Archive 0 begins at byte 2,912, archive 4 at 2,912 + 16 * 2,872 = 48,864: page 11.
        let expected =
            [touch(0, Way::Read), touch(0, Way::Write), touch(11, Way::Write), touch(0, Way::Write)];
        assert_eq!(touches(&mut made(Engine::Khz, Begin::Aligned), 1, 0), expected);
        let mut mapped = made(Engine::Rrdtool, Begin::Aligned);
        let random = Way::MappedWrite { is_random: true };
        let expected = [
            touch(0, Way::MappedRead),
            touch(0, random),
            touch(11, random),
            touch(0, Way::MappedWrite { is_random: false }),
        ];
        assert_eq!(touches(&mut mapped, 1, 1), expected);
    }

    #[test]
    fn at_midnight_every_archive_writes_a_row() {
        let mut made = made(Engine::Khz, Begin::Random(7));
        let rows = |made: &mut Made, tick| touches(made, tick, 0).len() - 2;
        assert_eq!([1, 6, 24, 288].map(|tick| rows(&mut made, tick)), [2, 4, 6, 8]);
    }

    #[test]
    fn an_archive_crosses_into_its_next_page_after_256_rows_of_16_bytes() {
        let mut made = made(Engine::Khz, Begin::Aligned);
        // The row after 74 rows: (4096 - 2912) / 16.
        assert_eq!(touches(&mut made, 73, 0)[1].first, 0);
        assert_eq!(touches(&mut made, 75, 0)[1].first, 1);
        assert_eq!(touches(&mut made, 74 + 255, 0)[1].first, 1);
        assert_eq!(touches(&mut made, 74 + 257, 0)[1].first, 2);
        // And after its last row its first one comes again.
        assert_eq!(touches(&mut made, 601, 0)[1].first, 0);
    }

    #[test]
    fn files_begin_at_rows_of_their_own_or_all_at_the_same() {
        let mut random = made(Engine::Khz, Begin::Random(1));
        let rows = |made: &Made| (made.rows[..8].to_vec(), made.rows[8..].to_vec());
        let (first, second) = rows(&random);
        assert_ne!(first, second);
        assert_eq!(touches(&mut random, 1, 0).len(), 4);
        let (first, second) = rows(&made(Engine::Khz, Begin::Aligned));
        assert_eq!(first, second);
    }
}
