//! How many different pages of a file an update touches, and how many the kernel reads for them.
//!
//! An update reads and writes the header, and writes a row of each archive that is due. Where an archive's row is, is
//! taken to be at random, as rrdtool begins its archives at random rows. Two of these places may be on the same page: the
//! page with the header's end has rows too, and so have those where one archive ends and the next begins.

use super::shape::{Rows, Shape};

/// Pages of a file that are looked at one by one; of larger files every second, third, ... page.
const PAGES_EACH: u64 = 1 << 12;

/// How the pages of a file come into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Only those that are touched: the program has advised the kernel (`POSIX_FADV_RANDOM`, `MADV_RANDOM`).
    Advised,
    /// The kernel reads around each page that is touched: this number of pages, half of them before it (a file that is mapped,
    /// as librrd does it).
    Ahead(u64),
}

/// The mean number of different pages in memory after an update that writes the header and the archives for which
/// `is_written` holds.
pub fn pages(shape: &Shape, page: u64, reading: Reading, is_written: impl Fn(&Rows) -> bool) -> f64 {
    let written: Vec<&Rows> = shape.archives.iter().filter(|rows| is_written(rows)).collect();
    match reading {
        Reading::Ahead(window) if window > 1 => around(shape, page, window, &written),
        _ => touched(shape, page, &written),
    }
}

/// The share of an archive's rows that lie, at least in part, on the pages from `first` to before `end`.
fn share(shape: &Shape, page: u64, rows: &Rows, first: u64, end: u64) -> f64 {
    let row = shape.row();
    let (low, high) =
        (first.saturating_mul(page).max(rows.start), end.saturating_mul(page).min(shape.end(rows)));
    if low >= high {
        return 0.0;
    }
    let count = (high - rows.start).div_ceil(row) - (low - rows.start) / row;
    count as f64 / rows.rows as f64
}

/// The mean number of pages on which a row of this archive lies.
fn pages_of_a_row(shape: &Shape, page: u64, rows: &Rows) -> f64 {
    let (row, end) = (shape.row(), shape.end(rows));
    // Each border of pages inside the archive cuts a row in two, unless a row begins there.
    let borders = (end - 1) / page - rows.start / page;
    let both = row / gcd(row, page) * page;
    let uncut = match first_border_at_a_row(row, page, rows.start) {
        Some(first) if first < end => (end - 1 - first) / both + 1,
        _ => 0,
    };
    1.0 + (borders - uncut.min(borders)) as f64 / rows.rows as f64
}

/// The first border of pages behind `start` that is at the beginning of a row, counted from `start`.
fn first_border_at_a_row(row: u64, page: u64, start: u64) -> Option<u64> {
    let common = gcd(row, page);
    if !start.is_multiple_of(common) {
        return None;
    }
    // The borders at rows are those whose number has a certain remainder: number * page = start, modulo row.
    let (turn, factor) = (row / common, page / common);
    let wanted = u128::from(start / common % turn) * u128::from(inverse(factor, turn)) % u128::from(turn);
    let first = start / page + 1;
    let behind = (u128::from(turn) + wanted - u128::from(first % turn)) % u128::from(turn);
    let border = u128::from(first) + behind;
    u64::try_from(border * u128::from(page)).ok()
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// What gives 1 when multiplied by `value`, modulo `turn`; the two have no common divisor. By Euclid.
fn inverse(value: u64, turn: u64) -> u64 {
    let (mut rest, mut next) = (i128::from(turn), i128::from(value % turn));
    let (mut factor, mut next_factor) = (0i128, 1i128);
    while next != 0 {
        let times = rest / next;
        (rest, next) = (next, rest - times * next);
        (factor, next_factor) = (next_factor, factor - times * next_factor);
    }
    factor.rem_euclid(i128::from(turn)) as u64
}

fn touched(shape: &Shape, page: u64, written: &[&Rows]) -> f64 {
    let header = shape.header_pages(page);
    // Only the pages at the ends of archives can be those of two archives, or of an archive and the header.
    let mut shared: Vec<u64> =
        written.iter().flat_map(|rows| [rows.start / page, (shape.end(rows) - 1) / page]).collect();
    shared.sort_unstable();
    shared.dedup();
    let mut sum = header as f64 + written.iter().map(|rows| pages_of_a_row(shape, page, rows)).sum::<f64>();
    for at in shared {
        let shares: Vec<f64> = written.iter().map(|rows| share(shape, page, rows, at, at + 1)).collect();
        sum -= shares.iter().sum::<f64>();
        if at >= header {
            sum += 1.0 - shares.iter().map(|share| 1.0 - share).product::<f64>();
        }
    }
    sum
}

fn around(shape: &Shape, page: u64, window: u64, written: &[&Rows]) -> f64 {
    let (all, half) = (shape.pages(page), window / 2);
    // What the kernel reads around the pages of the header.
    let last = shape.header_pages(page) - 1;
    let of_header = (last.saturating_sub(half) + window).min(all);
    let stride = (all - of_header).div_ceil(PAGES_EACH).max(1);
    let mut sum = of_header as f64;
    for at in (of_header..all).step_by(usize::try_from(stride).unwrap_or(usize::MAX)) {
        // The pages around which this one is read; before `half` the kernel begins at the file's first page.
        let first = if at < window { 0 } else { at + 1 + half - window };
        let missed = written.iter().map(|rows| 1.0 - share(shape, page, rows, first, at + half + 1));
        let of_stride = stride.min(all - at) as f64;
        sum += of_stride * (1.0 - missed.map(|missed| missed.max(0.0)).product::<f64>());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;

    const PAGE: u64 = 4096;

    /// One source, so that a row has 8 bytes; a header of `header` bytes; archives of one point each.
    fn shape(sources: u64, header: u64, rows: &[u64]) -> Shape {
        let mut end = header;
        let archives = rows.iter().map(|rows| {
            let start = end;
            end += rows * 8 * sources;
            Rows { function: khz_rrd::rra::Function::Average, points: 1, rows: *rows, start }
        });
        let archives = archives.collect();
        Shape { step: 300, sources, header, archives, length: end }
    }

    fn all(shape: &Shape, reading: Reading) -> f64 {
        pages(shape, PAGE, reading, |_| true)
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn an_archive_on_the_headers_page_costs_nothing() {
        assert!(near(all(&shape(1, 1000, &[100]), Reading::Advised), 1.0));
        assert!(near(all(&shape(1, 4096, &[512]), Reading::Advised), 2.0));
    }

    #[test]
    fn half_of_the_rows_on_the_headers_page_cost_half_a_page() {
        // 256 of 512 rows are on page 0.
        assert!(near(all(&shape(1, 2048, &[512]), Reading::Advised), 1.5));
        // Two archives of which each has all its rows on page 1.
        assert!(near(all(&shape(1, 4096, &[256, 256]), Reading::Advised), 2.0));
        // The first has its rows on the header's second page and on page 2, the other on page 2 and page 3: 2 + 3/4 + 1/2.
        assert!(near(all(&shape(1, 4096 + 2048, &[512, 512]), Reading::Advised), 3.25));
    }

    #[test]
    fn a_row_over_a_border_touches_two_pages() {
        // Rows of 24 bytes from 4096: the border at 8192 is in the row 170 of 340.
        assert!(near(all(&shape(3, 4096, &[340]), Reading::Advised), 2.0 + 1.0 / 340.0));
        // A row larger than a page: 1024 sources, 8192 bytes.
        assert!(near(all(&shape(1024, 4096, &[10]), Reading::Advised), 3.0));
        // From the middle of a page it lies on three pages; consecutive rows share one.
        assert!(near(all(&shape(1024, 4096 + 2048, &[10]), Reading::Advised), 2.0 + 3.0 - 0.1));
    }

    #[test]
    fn the_formula_agrees_with_counting_each_combination_of_rows() {
        for (sources, header, rows) in
            [(2, 2912, vec![300, 40, 75]), (3, 1000, vec![300, 7, 411]), (1, 5000, vec![40, 40, 600])]
        {
            let shape = shape(sources, header, &rows);
            let (mut sum, mut cases) = (0u64, 0u64);
            for one in 0..rows[0] {
                for two in 0..rows[1] {
                    for three in 0..rows[2] {
                        let mut seen: Vec<u64> = (0..header.div_ceil(PAGE)).collect();
                        for (archive, row) in shape.archives.iter().zip([one, two, three]) {
                            let at = archive.start + row * shape.row();
                            seen.extend(at / PAGE..(at + shape.row() - 1) / PAGE + 1);
                        }
                        seen.sort_unstable();
                        seen.dedup();
                        (sum, cases) = (sum + seen.len() as u64, cases + 1);
                    }
                }
            }
            let counted = sum as f64 / cases as f64;
            let computed = all(&shape, Reading::Advised);
            assert!((counted - computed).abs() < 1e-6, "{header}: {counted} {computed}");
        }
    }

    #[test]
    fn the_first_border_at_a_row_is_found_as_by_search() {
        for (row, page, start) in
            [(24, 4096, 4096), (24, 4096, 2912), (16, 4096, 2912), (8, 4096, 3000), (5000, 4096, 7)]
        {
            let (row, page, start): (u64, u64, u64) = (row, page, start);
            let mut borders = (start / page + 1..start / page + 1 + row).map(|border| border * page);
            let searched = borders.find(|at| (at - start).is_multiple_of(row));
            assert_eq!(first_border_at_a_row(row, page, start), searched, "{row} {start}");
        }
        assert_eq!([inverse(3, 7), inverse(1, 1), inverse(4096, 4095)], [5, 0, 1]);
    }

    #[test]
    fn mrtgs_layout_touches_what_was_measured() {
        let shape = named::shape("mrtg").unwrap();
        let ordinary = |reading| pages(&shape, PAGE, reading, |rows| rows.points == 1);
        // Measured with librrd: 2.86 to 2.88 pages with advice, and all 24 without.
        let advised = ordinary(Reading::Advised);
        assert!((2.85..2.89).contains(&advised), "{advised}");
        assert_eq!([ordinary(Reading::Ahead(32)), ordinary(Reading::Ahead(2048))], [24.0, 24.0]);
    }

    #[test]
    fn readahead_of_one_page_is_none() {
        let shape = named::shape("mrtg").unwrap();
        assert_eq!(all(&shape, Reading::Ahead(1)), all(&shape, Reading::Advised));
        assert_eq!(all(&shape, Reading::Ahead(0)), all(&shape, Reading::Advised));
    }

    #[test]
    fn a_window_of_a_large_file_is_read_around_each_row() {
        // 8,192 pages behind the header, one archive: the header's 32 pages, and 32 around the row.
        let shape = shape(2, 4096, &[8192 * 256]);
        let read = all(&shape, Reading::Ahead(32));
        assert!((63.5..64.0).contains(&read), "{read}");
        // Of a file of a million pages not each page is looked at.
        let shape = self::shape(2, 4096, &[1_000_000 * 256]);
        let read = all(&shape, Reading::Ahead(32));
        assert!((63.5..64.1).contains(&read), "{read}");
    }
}
