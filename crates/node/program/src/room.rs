//! The room in a program's memory into which its rows come: `struct khz_room` of docs/handlers.md.

use crate::column::State;

/// Bytes of the structure.
const BYTES: usize = 40;

/// The room, as the program says at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    at: usize,
    values: usize,
    states: usize,
    /// Series for which there is room.
    pub capacity: usize,
}

/// What stands before the values of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub count: u32,
    pub time: i64,
    pub boot: u64,
    pub lost: u64,
}

impl Room {
    /// The room at this address; `None`: it is not in the memory.
    pub fn read(memory: &[u8], at: i32) -> Option<Self> {
        let at = at as u32 as usize;
        let field = |offset: usize| {
            let bytes = memory.get(at.checked_add(offset)?..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes) as usize)
        };
        let room = Room { at, values: field(0)?, states: field(4)?, capacity: field(8)? };
        let is_in = |from: usize, bytes: Option<usize>| {
            bytes.and_then(|bytes| from.checked_add(bytes)).is_some_and(|end| end <= memory.len())
        };
        let fits = is_in(at, Some(BYTES))
            && is_in(room.values, room.capacity.checked_mul(8))
            && is_in(room.states, Some(room.capacity));
        fits.then_some(room)
    }

    /// Writes a row. A memory never shrinks, so the room stays in it.
    pub fn write(
        &self,
        memory: &mut [u8],
        head: &Head,
        cells: impl Iterator<Item = (f64, State)>,
    ) -> Option<()> {
        for (number, (value, state)) in cells.take(self.capacity).enumerate() {
            let at = self.values + 8 * number;
            memory.get_mut(at..at + 8)?.copy_from_slice(&value.to_le_bytes());
            *memory.get_mut(self.states + number)? = state as u8;
        }
        // The head comes last: a program that puts its arrays over it confuses itself only.
        let room = memory.get_mut(self.at..)?.first_chunk_mut::<BYTES>()?;
        room[12..16].copy_from_slice(&head.count.to_le_bytes());
        room[16..24].copy_from_slice(&head.time.to_le_bytes());
        room[24..32].copy_from_slice(&head.boot.to_le_bytes());
        room[32..40].copy_from_slice(&head.lost.to_le_bytes());
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with(memory: &mut [u8], at: usize, fields: [u32; 3]) -> Option<Room> {
        for (number, field) in fields.into_iter().enumerate() {
            memory[at + 4 * number..][..4].copy_from_slice(&field.to_le_bytes());
        }
        Room::read(memory, at as i32)
    }

    #[test]
    fn a_row_is_where_the_program_wants_it() {
        let mut memory = vec![0; 256];
        let room = with(&mut memory, 8, [64, 120, 3]).unwrap();
        let head = Head { count: 2, time: -5, boot: 7, lost: 9 };
        room.write(&mut memory, &head, [(1.5, State::Present), (f64::NAN, State::Failed)].into_iter())
            .unwrap();
        assert_eq!(memory[64..72], 1.5f64.to_le_bytes());
        assert_eq!((memory[120], memory[121]), (0, 2));
        assert_eq!((memory[20], &memory[24..32]), (2, &(-5i64).to_le_bytes()[..]));
        assert_eq!((memory[32], memory[40]), (7, 9));
    }

    #[test]
    fn a_room_outside_the_memory_is_none() {
        let mut memory = vec![0; 256];
        assert!(with(&mut memory, 0, [40, 104, 8]).is_some());
        for fields in [
            [256, 0, 1],
            [0, 256, 1],
            [200, 0, 8],
            [0, 250, 8],
            [0, 0, u32::MAX],
            [u32::MAX, 0, 1],
            [0, 0, 1 << 29],
        ] {
            assert_eq!(with(&mut memory, 0, fields), None, "{fields:?}");
        }
        for at in [-1, i32::MIN, i32::MAX, 217, 256] {
            assert_eq!(Room::read(&memory, at), None, "{at}");
        }
    }

    proptest! {
        #[test]
        fn no_room_and_no_row_leads_out_of_the_memory(
            bytes in prop::collection::vec(any::<u8>(), 0..80), at in -8..90i32, count in 0..20usize
        ) {
            let mut memory = bytes;
            if let Some(room) = Room::read(&memory, at) {
                let head = Head { count: 0, time: 0, boot: 0, lost: 0 };
                let cells = std::iter::repeat_n((0.0, State::Absent), count);
                prop_assert_eq!(room.write(&mut memory, &head, cells), Some(()));
            }
        }
    }
}
