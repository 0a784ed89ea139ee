//! A sheet: the times of all blocks of a bundle, or one slot of all of them: for each block a line of bytes with one number for
//! each of its rows. docs/store.md describes the bytes. Values that a line cannot express are read from the block.

use khz_block::varint;
use khz_model::reading::LABELS_STATE;

use crate::bits::{BitReader, BitWriter};
use crate::bytes::{Bytes, Read};

/// The most bits that a difference may have beyond the least one. It is the first byte of a line of numbers.
const WIDTH_MAX: u8 = 64;
/// The first byte of a line whose rows all have one state and no value. The state follows.
const STATE: u8 = 65;
/// The first byte of a line that does not say what the rows have: the block does.
const IN_BLOCK: u8 = 66;
/// The state of rows with a number.
const PRESENT: u8 = 0;

/// A sheet on its way.
#[derive(Debug, Default)]
pub(crate) struct SheetWriter {
    lengths: Vec<u8>,
    lines: Vec<u8>,
    /// Where the present line begins.
    begin: usize,
}

impl SheetWriter {
    /// Appends a number for each row: the first one, and the differences to the previous one for the later rows.
    pub fn numbers(&mut self, first: u64, differences: &[u64]) {
        let signed = || differences.iter().map(|difference| difference.cast_signed());
        let (least, most) =
            signed().fold((i64::MAX, i64::MIN), |(least, most), it| (least.min(it), most.max(it)));
        let (least, width) = match differences {
            [] => (0, 0),
            _ => (least.cast_unsigned(), 64 - most.wrapping_sub(least).cast_unsigned().leading_zeros()),
        };
        self.lines.push(width as u8);
        varint::put(&mut self.lines, first);
        varint::put(&mut self.lines, varint::zigzag(least));
        if width == u32::from(WIDTH_MAX) {
            differences
                .iter()
                .for_each(|it| self.lines.extend_from_slice(&it.wrapping_sub(least).to_le_bytes()));
        } else if width > 0 {
            let mut bits = BitWriter::new(&mut self.lines);
            differences.iter().for_each(|it| bits.put(it.wrapping_sub(least), width));
            bits.end();
        }
    }

    /// All rows have this number.
    pub fn same(&mut self, number: u64) {
        self.lines.push(0);
        varint::put(&mut self.lines, number);
        self.lines.push(0);
    }

    /// Appends a number that belongs to the line.
    pub fn number(&mut self, number: u64) {
        varint::put(&mut self.lines, number);
    }

    /// All rows have this state, which has no value.
    pub fn state(&mut self, state: u8) {
        self.lines.extend_from_slice(&[STATE, state]);
    }

    /// Only the block says what its rows have.
    pub fn in_block(&mut self) {
        self.lines.push(IN_BLOCK);
    }

    /// The line is whole; the next block's follows.
    pub fn end_line(&mut self) {
        varint::put(&mut self.lengths, (self.lines.len() - self.begin) as u64);
        self.begin = self.lines.len();
    }

    /// Its bytes so far.
    pub fn length(&self) -> usize {
        self.lengths.len() + self.lines.len()
    }

    /// Appends the sheet to bytes, and begins another one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.lengths);
        out.extend_from_slice(&self.lines);
        self.clear();
    }

    pub fn clear(&mut self) {
        self.lengths.clear();
        self.lines.clear();
        self.begin = 0;
    }
}

/// A sheet that was read.
#[derive(Debug)]
pub(crate) struct Sheet {
    bytes: Vec<u8>,
    /// Where each line begins, and where the last one ends.
    places: Vec<u32>,
}

/// The values of a slot in the rows of a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Each has a number.
    Numbers(Vec<u64>),
    /// All have this state, and no value.
    State(u8),
    /// The block says it.
    InBlock,
}

/// When the rows of a block were gathered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RowTimes {
    /// The corrected times, in order.
    pub at: Vec<u64>,
    /// Corrected real time less boot time.
    pub real_offset: i64,
    /// How much of it is correction.
    pub shift: i64,
}

impl RowTimes {
    pub fn put(&self, sheet: &mut SheetWriter) {
        let Some(&first) = self.at.first() else { return sheet.in_block() };
        let differences: Vec<u64> = self.at.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
        sheet.numbers(first, &differences);
        sheet.number(varint::zigzag(self.real_offset.cast_unsigned()));
        sheet.number(varint::zigzag(self.shift.cast_unsigned()));
    }
}

impl Sheet {
    /// The sheet of this many blocks.
    pub fn of(bytes: Vec<u8>, blocks: usize) -> Read<Self> {
        let mut rest = Bytes(&bytes);
        let (mut end, mut places) = (0u32, Vec::with_capacity(blocks + 1));
        places.push(0);
        for _ in 0..blocks {
            let length = rest.count(bytes.len())? as u32;
            end = end.checked_add(length).ok_or("a sheet is too long")?;
            places.push(end);
        }
        if rest.0.len() != end as usize {
            return Err("a sheet is not as long as its lines");
        }
        let begin = (bytes.len() - rest.0.len()) as u32;
        places.iter_mut().for_each(|place| *place += begin);
        Ok(Sheet { bytes, places })
    }

    /// Roughly how many bytes it takes.
    pub fn held(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.places.capacity() * size_of::<u32>()
    }

    fn bytes_of(&self, block: usize) -> Read<Bytes<'_>> {
        let places = self.places.get(block).zip(self.places.get(block + 1));
        let line = places.and_then(|(begin, end)| self.bytes.get(*begin as usize..*end as usize));
        line.map(Bytes).ok_or("a sheet does not have this block")
    }

    /// The values in the rows of a block.
    pub fn line(&self, block: usize, rows: usize) -> Read<Line> {
        let mut bytes = self.bytes_of(block)?;
        let line = match bytes.byte()? {
            STATE => match bytes.byte()? {
                PRESENT | LABELS_STATE => return Err("rows without a value have one"),
                state => Line::State(state),
            },
            IN_BLOCK => Line::InBlock,
            width => Line::Numbers(take_numbers(&mut bytes, width, rows)?),
        };
        bytes.end()?;
        Ok(line)
    }

    /// When the rows of a block were gathered.
    pub fn times(&self, block: usize, rows: usize) -> Read<RowTimes> {
        let mut bytes = self.bytes_of(block)?;
        let width = bytes.byte()?;
        let at = take_numbers(&mut bytes, width, rows)?;
        if !at.is_sorted_by(|one, two| one < two) {
            return Err("rows are not in the order of their times");
        }
        let mut signed = || Ok::<_, &'static str>(varint::unzigzag(bytes.number()?).cast_signed());
        let (real_offset, shift) = (signed()?, signed()?);
        bytes.end()?;
        Ok(RowTimes { at, real_offset, shift })
    }
}

/// Takes a number for each row.
fn take_numbers(bytes: &mut Bytes<'_>, width: u8, rows: usize) -> Read<Vec<u64>> {
    if width > WIDTH_MAX || rows == 0 {
        return Err("it is no line");
    }
    let (first, least) = (bytes.number()?, varint::unzigzag(bytes.number()?));
    let packed = bytes.take(((rows - 1) * usize::from(width)).div_ceil(8))?;
    let (mut numbers, mut last) = (Vec::with_capacity(rows), first);
    numbers.push(first);
    let mut next = |more: u64| {
        last = last.wrapping_add(least).wrapping_add(more);
        last
    };
    if width == WIDTH_MAX {
        let (words, _) = packed.as_chunks::<8>();
        numbers.extend(words.iter().map(|word| next(u64::from_le_bytes(*word))));
    } else {
        let mut bits = BitReader::new(packed);
        numbers.extend((1..rows).map(|_| next(bits.take(u32::from(width)))));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers() -> impl Strategy<Value = Vec<u64>> {
        let step =
            prop_oneof![Just(0u64), 0u64..300, any::<u64>(), (0u64..9).prop_map(|it| it.wrapping_neg())];
        prop_oneof![
            prop::collection::vec(step, 1..70),
            (any::<u64>(), 0u64..1_000, 1usize..130).prop_map(|(first, step, rows)| {
                (0..rows as u64).map(|row| first.wrapping_add(row * step)).collect()
            }),
        ]
    }

    fn put(sheet: &mut SheetWriter, numbers: &[u64]) {
        let differences: Vec<u64> = numbers.windows(2).map(|two| two[1].wrapping_sub(two[0])).collect();
        sheet.numbers(numbers[0], &differences);
    }

    proptest! {
        #[test]
        fn each_block_has_its_numbers_back(blocks in prop::collection::vec(numbers(), 1..9)) {
            let mut writer = SheetWriter::default();
            for numbers in &blocks {
                put(&mut writer, numbers);
                writer.end_line();
            }
            writer.state(9);
            writer.end_line();
            writer.in_block();
            writer.end_line();
            let mut bytes = Vec::new();
            writer.finish(&mut bytes);
            let sheet = Sheet::of(bytes, blocks.len() + 2).unwrap();
            for (block, numbers) in blocks.iter().enumerate() {
                prop_assert_eq!(sheet.line(block, numbers.len()), Ok(Line::Numbers(numbers.clone())));
            }
            prop_assert_eq!(sheet.line(blocks.len(), 4), Ok(Line::State(9)));
            prop_assert_eq!(sheet.line(blocks.len() + 1, 4), Ok(Line::InBlock));
            prop_assert!(sheet.line(blocks.len() + 2, 4).is_err());
        }

        #[test]
        fn any_bytes_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..90), blocks in 0usize..5, rows in 0usize..70,
        ) {
            if let Ok(sheet) = Sheet::of(bytes, blocks) {
                for block in 0..=blocks {
                    if let Ok(Line::Numbers(numbers)) = sheet.line(block, rows) {
                        prop_assert_eq!(numbers.len(), rows);
                    }
                    let _ = sheet.times(block, rows);
                }
            }
        }
    }

    #[test]
    fn a_counter_on_its_way_takes_few_bytes() {
        let mut writer = SheetWriter::default();
        put(&mut writer, &(0..60).map(|row| 1_000_000 + row * 170 + row * row % 30).collect::<Vec<_>>());
        assert!(writer.lines.len() < 60, "{}", writer.lines.len());
        writer.clear();
        put(&mut writer, &[1_000_000; 60]);
        assert_eq!(writer.lines.len(), 5);
    }
}
