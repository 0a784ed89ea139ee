//! The 64 bytes at the start of a block: magic, version, lane, generation, rows, times, checksum.

use khz_model::{Nanos, Rate, Stamp};

use crate::BlockError;

/// The size of a header.
pub const HEADER_BYTES: usize = 64;

/// No row has a number above this: at 10,000 rows a second a lane reaches it after fourteen million years. So
/// adding to a row number from outside cannot overflow.
pub const ROW_MAX: u64 = 1 << 62;

/// No machine has been up for longer (146 years).
const BOOT_MAX: Nanos = Nanos(1 << 62);

const MAGIC: [u8; 4] = *b"khzB";
const VERSION: u8 = 1;
const CLOSED: u8 = 1;

/// A block's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The lane's number.
    pub lane: u16,
    /// The generation of the schema.
    pub generation: u32,
    /// The number of slots when the block was opened.
    pub slots: u32,
    /// The number of its first row in the lane, from 0.
    pub first_row: u64,
    /// When the first row was gathered.
    pub stamp: Stamp,
    /// The period of the lane.
    pub period: Nanos,
    /// The number of rows, their bytes and their CRC-32, once the block is closed.
    pub closed: Option<(u32, u32, u32)>,
}

impl Header {
    /// The header as 64 bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (rows, length, checksum) = self.closed.unwrap_or_default();
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = if self.closed.is_some() { CLOSED } else { 0 };
        bytes[6..8].copy_from_slice(&self.lane.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.generation.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slots.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_row.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.stamp.boot.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.stamp.real_offset.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.period.0.to_le_bytes());
        bytes[48..52].copy_from_slice(&rows.to_le_bytes());
        bytes[52..56].copy_from_slice(&length.to_le_bytes());
        bytes[56..60].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// True when a header can begin with this byte.
    pub fn begins_with(byte: u8) -> bool {
        byte == MAGIC[0]
    }

    /// Reads a header; `at` is its offset, for the error.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES], at: usize) -> Result<Self, BlockError> {
        if bytes[0..4] != MAGIC {
            return Err(BlockError::UnknownKind { at, found: bytes[0] });
        }
        if bytes[4] != VERSION {
            return Err(BlockError::UnknownVersion { at, version: bytes[4] });
        }
        let u16_at = |i: usize| u16::from_le_bytes([bytes[i], bytes[i + 1]]);
        let u32_at = |i: usize| u32::from(u16_at(i)) | u32::from(u16_at(i + 2)) << 16;
        let u64_at = |i: usize| u64::from(u32_at(i)) | u64::from(u32_at(i + 4)) << 32;
        let header = Header {
            lane: u16_at(6),
            generation: u32_at(8),
            slots: u32_at(12),
            first_row: u64_at(16),
            stamp: Stamp { boot: Nanos(u64_at(24)), real_offset: u64_at(32) as i64 },
            period: Nanos(u64_at(40)),
            closed: (bytes[5] & CLOSED != 0).then(|| (u32_at(48), u32_at(52), u32_at(56))),
        };
        if header.slots as usize > khz_model::schema::SLOTS_MAX {
            return Err(BlockError::Damaged { at: at + 12, problem: "more slots than a node can have" });
        }
        let problem = match header {
            Header { first_row, .. } if first_row > ROW_MAX => "no lane has a row of this number",
            Header { stamp, .. } if stamp.boot > BOOT_MAX => "no machine has been up for this long",
            Header { period, .. } if period > Rate::PERIOD_MAX => "no lane has a period this long",
            _ => return Ok(header),
        };
        Err(BlockError::Damaged { at, problem })
    }
}
