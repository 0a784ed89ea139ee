//! Where everything lies in an `.rrd` file (64-bit little endian); owns offsets, knows no meanings.
//!
//! ```text
//! stat_head 128 | ds_def 120 x DS | rra_def 120 x RRA | live_head 16 (8 before version 3)
//! | pdp_prep 112 x DS | cdp_prep 80 x RRA x DS | rra_ptr 8 x RRA | values 8 x DS x rows, archive by archive
//! ```

use std::borrow::Cow;

/// Bytes of the fixed head: magic, version, float cookie, counts, step.
pub const STAT_HEAD: usize = 128;
/// Bytes of one data source definition.
pub const DS_DEF: usize = 120;
/// Bytes of one archive definition.
pub const RRA_DEF: usize = 120;
/// Bytes of one data source's state.
pub const PDP_PREP: usize = 112;
/// Bytes of one archive's state for one data source.
pub const CDP_PREP: usize = 80;
/// Bytes of one row pointer.
pub const RRA_PTR: usize = 8;
/// Bytes of one value.
pub const VALUE: usize = 8;
/// The double every file carries to prove its byte order and float format.
pub const FLOAT_COOKIE: f64 = 8.642135e130;
/// The first bytes of every file.
pub const MAGIC: [u8; 4] = *b"RRD\0";
/// The newest version read: 5 added DCOUNTER and DDERIVE.
pub const VERSION_MAX: u16 = 5;
/// Longest name of a source, without the closing zero.
pub const NAME_MAX: usize = 19;
/// Bytes kept of a source's last reading, with the closing zero.
pub const LAST_DS: usize = 30;
/// RPN nodes of a COMPUTE source that fit its 80 parameter bytes, the end mark included.
pub const RPN_NODES: usize = 20;

/// Offsets of the header's parts, from counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Data sources.
    pub ds_count: usize,
    /// Archives.
    pub rra_count: usize,
    /// Offset of the last update's stamp.
    pub live_head: usize,
    /// Whether the stamp has microseconds (version 3 on).
    pub has_usec: bool,
    /// Offset of the first source state.
    pub pdp_prep: usize,
    /// Offset of the first archive state.
    pub cdp_prep: usize,
    /// Offset of the first row pointer.
    pub rra_ptr: usize,
    /// Where the values begin.
    pub header_len: usize,
}

impl Layout {
    /// The layout for these counts, or `None` where the header would not fit `limit` bytes.
    pub fn new(version: u16, ds_count: u64, rra_count: u64, limit: u64) -> Option<Self> {
        // A count beyond the limit is nonsense; checking it first keeps the products small.
        if ds_count > limit || rra_count > limit {
            return None;
        }
        let (ds, rra) = (u128::from(ds_count), u128::from(rra_count));
        let has_usec = version >= 3;
        let live: u128 = if has_usec { 16 } else { 8 };
        let live_head = 128 + 120 * ds + 120 * rra;
        let pdp_prep = live_head + live;
        let cdp_prep = pdp_prep + 112 * ds;
        let rra_ptr = cdp_prep + 80 * ds * rra;
        let header_len = rra_ptr + 8 * rra;
        if header_len > u128::from(limit) {
            return None;
        }
        Some(Self {
            ds_count: usize::try_from(ds_count).ok()?,
            rra_count: usize::try_from(rra_count).ok()?,
            live_head: live_head as usize,
            has_usec,
            pdp_prep: pdp_prep as usize,
            cdp_prep: cdp_prep as usize,
            rra_ptr: rra_ptr as usize,
            header_len: usize::try_from(header_len).ok()?,
        })
    }

    /// Offset of data source `ds`'s definition.
    pub fn ds_def(&self, ds: usize) -> usize {
        STAT_HEAD + DS_DEF * ds
    }

    /// Offset of archive `rra`'s definition.
    pub fn rra_def(&self, rra: usize) -> usize {
        STAT_HEAD + DS_DEF * self.ds_count + RRA_DEF * rra
    }

    /// Offset of data source `ds`'s state.
    pub fn pdp(&self, ds: usize) -> usize {
        self.pdp_prep + PDP_PREP * ds
    }

    /// Offset of the state of data source `ds` in archive `rra`.
    pub fn cdp(&self, rra: usize, ds: usize) -> usize {
        self.cdp_prep + CDP_PREP * (rra * self.ds_count + ds)
    }

    /// Offset of archive `rra`'s row pointer.
    pub fn ptr(&self, rra: usize) -> usize {
        self.rra_ptr + RRA_PTR * rra
    }
}

/// The little-endian `u64` at `offset`; 0 past the end, which a parsed header never reaches.
pub fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    match bytes.get(offset..offset + 8).and_then(|part| part.try_into().ok()) {
        Some(part) => u64::from_le_bytes(part),
        None => 0,
    }
}

/// The double at `offset`.
pub fn f64_at(bytes: &[u8], offset: usize) -> f64 {
    f64::from_bits(u64_at(bytes, offset))
}

/// Writes a `u64` at `offset`, which must lie within `bytes`.
pub fn put_u64(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

/// Writes a double at `offset`, which must lie within `bytes`.
pub fn put_f64(bytes: &mut [u8], offset: usize, value: f64) {
    put_u64(bytes, offset, value.to_bits());
}

/// The text in a fixed field: up to its first zero.
pub fn text_at(bytes: &[u8], offset: usize, len: usize) -> Cow<'_, str> {
    let field = bytes.get(offset..offset + len).unwrap_or(&[]);
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    crate::text::of(&field[..end])
}

/// Writes `text` into a fixed field, cut to leave one closing zero, padded with zeros.
pub fn put_text(bytes: &mut [u8], offset: usize, len: usize, text: &[u8]) {
    let field = &mut bytes[offset..offset + len];
    field.fill(0);
    let kept = text.len().min(len - 1);
    field[..kept].copy_from_slice(&text[..kept]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mrtg_layout_has_the_measured_size() {
        let layout = Layout::new(3, 2, 8, 1 << 20).unwrap();
        assert_eq!(layout.header_len, 2912);
    }

    #[test]
    fn absurd_counts_have_no_layout() {
        assert!(Layout::new(3, u64::MAX, 1, 1 << 20).is_none());
        assert!(Layout::new(3, 1 << 19, 1 << 19, 1 << 20).is_none());
    }
}
