//! Chains of bytes in cells of one size: many short queues without a heap block for each. Knows nothing of what the bytes
//! mean.
//!
//! A file's waiting samples are a chain. A heap block for each file would cost a header, slack, and a copy each time it
//! grows. Cells cost 4 bytes of link in 32 and, on average, half a cell of slack in each chain.

/// Bytes of a cell that hold content.
const CONTENT: usize = 28;
/// Cells allocated at once.
const BLOCK: usize = 1024;
/// No cell.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Cell {
    next: u32,
    content: [u8; CONTENT],
}

/// A queue of bytes; lives in its [`Cells`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    head: u32,
    tail: u32,
    length: u32,
}

impl Chain {
    /// An empty chain.
    pub const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0 };

    /// How many bytes it has.
    pub fn length(self) -> u32 {
        self.length
    }
}

/// The cells of all chains.
#[derive(Default)]
pub struct Cells {
    blocks: Vec<Box<[Cell]>>,
    /// First of the free cells.
    free: Option<u32>,
    used: usize,
}

impl Cells {
    /// Bytes of cells in use.
    pub fn bytes(&self) -> u64 {
        (self.used * size_of::<Cell>()) as u64
    }

    fn cell(&mut self, index: u32) -> &mut Cell {
        &mut self.blocks[index as usize / BLOCK][index as usize % BLOCK]
    }

    fn take_cell(&mut self) -> u32 {
        if self.free.is_none() {
            let first = (self.blocks.len() * BLOCK) as u32;
            let link = |index: u32| if index + 1 == first + BLOCK as u32 { NONE } else { index + 1 };
            let cells = (first..first + BLOCK as u32)
                .map(|index| Cell { next: link(index), content: [0; CONTENT] })
                .collect();
            self.blocks.push(cells);
            self.free = Some(first);
        }
        // BUG if none: a block was just made.
        let index = self.free.unwrap_or(0);
        let next = self.cell(index).next;
        self.free = (next != NONE).then_some(next);
        self.cell(index).next = NONE;
        self.used += 1;
        index
    }

    /// Appends `bytes` to `chain`.
    pub fn push(&mut self, chain: &mut Chain, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = chain.length as usize % CONTENT;
            if filled == 0 {
                let new = self.take_cell();
                match chain.tail {
                    NONE => chain.head = new,
                    tail => self.cell(tail).next = new,
                }
                chain.tail = new;
            }
            let fits = bytes.len().min(CONTENT - filled);
            self.cell(chain.tail).content[filled..filled + fits].copy_from_slice(&bytes[..fits]);
            chain.length += fits as u32;
            bytes = &bytes[fits..];
        }
    }

    /// Appends the bytes of `chain` to `out`.
    pub fn read(&self, chain: Chain, out: &mut Vec<u8>) {
        let (mut index, mut left) = (chain.head, chain.length as usize);
        while left > 0 {
            let cell = &self.blocks[index as usize / BLOCK][index as usize % BLOCK];
            let here = left.min(CONTENT);
            out.extend_from_slice(&cell.content[..here]);
            left -= here;
            index = cell.next;
        }
    }

    /// Empties `chain` and frees its cells. Their memory is freed when all chains are empty.
    pub fn clear(&mut self, chain: &mut Chain) {
        if chain.head != NONE {
            let cells = (chain.length as usize).div_ceil(CONTENT);
            let free = self.free.unwrap_or(NONE);
            self.cell(chain.tail).next = free;
            self.free = Some(chain.head);
            self.used -= cells;
        }
        *chain = Chain::EMPTY;
        if self.used == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(cells: &Cells, chain: Chain) -> Vec<u8> {
        let mut out = vec![];
        cells.read(chain, &mut out);
        out
    }

    #[test]
    fn chains_keep_their_bytes_apart_and_in_order() {
        let (mut cells, mut chains) = (Cells::default(), [Chain::EMPTY; 5]);
        let mut wanted: [Vec<u8>; 5] = Default::default();
        for turn in 0..5000usize {
            let which = turn * 7 % 5;
            let piece: Vec<u8> = (0..turn % 71).map(|index| (index + turn) as u8).collect();
            cells.push(&mut chains[which], &piece);
            wanted[which].extend(piece);
            if turn % 313 == 0 {
                cells.clear(&mut chains[which]);
                wanted[which].clear();
            }
        }
        for (chain, wanted) in chains.iter().zip(&wanted) {
            assert_eq!(&bytes(&cells, *chain), wanted);
        }
    }

    #[test]
    fn what_is_given_back_is_used_again_and_the_last_gives_all_back() {
        let (mut cells, mut a, mut b) = (Cells::default(), Chain::EMPTY, Chain::EMPTY);
        cells.push(&mut a, &[1; CONTENT * BLOCK]);
        cells.push(&mut b, &[2; 30]);
        assert_eq!((cells.blocks.len(), cells.bytes()), (2, 32 * (BLOCK as u64 + 2)));
        cells.clear(&mut a);
        cells.push(&mut a, &[3; CONTENT * BLOCK]);
        assert_eq!(cells.blocks.len(), 2);
        assert_eq!(bytes(&cells, b), [2; 30]);
        cells.clear(&mut a);
        cells.clear(&mut b);
        assert_eq!((cells.blocks.len(), cells.bytes()), (0, 0));
    }
}
