//! The colours of curves: few, and far apart for people with any colour vision (after Okabe and Ito).

use crate::picture::Colour;

const COLOURS: [Colour; 8] = [
    [0x00, 0x62, 0x9e],
    [0xc9, 0x4f, 0x00],
    [0x00, 0x85, 0x64],
    [0xa8, 0x4c, 0x80],
    [0xb8, 0x7a, 0x00],
    [0x2a, 0x9d, 0xd6],
    [0x5b, 0x5b, 0x5b],
    [0x7a, 0x5c, 0x3e],
];

/// The colour of a legend entry; after the last colour the first one comes again.
pub(crate) fn colour(legend: usize) -> Colour {
    COLOURS[legend % COLOURS.len()]
}
