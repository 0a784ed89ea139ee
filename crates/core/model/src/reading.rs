//! A reading: one value, or the reason why there is none. Unknown is never 0: Absent (there is nothing to
//! read) and Failed (reading went wrong) stay apart up to the screen.

use std::fmt;

use crate::labels::Labels;

/// One value of one series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    /// The bits of a number; the metric's [`crate::ValueType`] says which one, and its decimal places how it is
    /// scaled.
    Present(u64),
    /// Labels with this number ([`crate::Labels::numbered`]), which is this process's own.
    Labels(u64),
    /// There is nothing to read, and that is normal.
    Absent(Absence),
    /// There should be a value, but reading it went wrong.
    Failed(Fault),
}

/// Why there is nothing to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Absence {
    /// Nothing was gathered yet.
    NotYet = 1,
    /// This kernel does not print the field (HighTotal exists on 32-bit kernels only).
    NoField = 2,
    /// The CPU, interface or disk is gone.
    InstanceGone = 3,
    /// This host does not have the source (no PSI, no /proc/diskstats in a container).
    NoSource = 4,
    /// An expression gives no value here.
    NoResult = 5,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fault {
    /// The source could not be opened or read.
    Unreadable = 128,
    /// The text was not what the kernel documents.
    Malformed = 129,
    /// The number does not fit into 64 bits.
    OutOfRange = 130,
    /// The source did not answer before its deadline.
    Stuck = 131,
}

/// The state of a reading that is labels.
pub const LABELS_STATE: u8 = 64;

impl Reading {
    /// The state as one byte: 0 Present, 64 Labels, other numbers to 127 Absent, 128..=255 Failed. Part of the
    /// block format.
    pub const fn state(self) -> u8 {
        match self {
            Reading::Present(_) => 0,
            Reading::Labels(_) => LABELS_STATE,
            Reading::Absent(why) => why as u8,
            Reading::Failed(fault) => fault as u8,
        }
    }

    /// The bits that belong to [`Reading::state`]; 0 where there is no value.
    pub const fn bits(self) -> u64 {
        match self {
            Reading::Present(bits) | Reading::Labels(bits) => bits,
            _ => 0,
        }
    }

    /// The labels, if it is labels that are not forgotten.
    pub fn labels(self) -> Option<Labels> {
        match self {
            Reading::Labels(number) => Labels::numbered(number),
            _ => None,
        }
    }

    /// Builds a reading from its two parts. An unknown state, from a newer version, becomes the nearest known
    /// one.
    pub const fn from_parts(state: u8, bits: u64) -> Self {
        match state {
            0 => Reading::Present(bits),
            LABELS_STATE => Reading::Labels(bits),
            2 => Reading::Absent(Absence::NoField),
            3 => Reading::Absent(Absence::InstanceGone),
            4 => Reading::Absent(Absence::NoSource),
            5 => Reading::Absent(Absence::NoResult),
            1..=127 => Reading::Absent(Absence::NotYet),
            129 => Reading::Failed(Fault::Malformed),
            130 => Reading::Failed(Fault::OutOfRange),
            131 => Reading::Failed(Fault::Stuck),
            128..=255 => Reading::Failed(Fault::Unreadable),
        }
    }

    /// The bits of the number, if there is one.
    pub const fn value(self) -> Option<u64> {
        match self {
            Reading::Present(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Absence::NotYet => "not gathered yet",
            Absence::NoField => "this kernel does not print it",
            Absence::InstanceGone => "instance gone",
            Absence::NoSource => "this host does not have the source",
            Absence::NoResult => "no result",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Unreadable => "source unreadable",
            Fault::Malformed => "malformed text",
            Fault::OutOfRange => "number beyond 64 bits",
            Fault::Stuck => "no answer before the deadline",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reading_survives_being_taken_apart() {
        use Reading::*;
        for reading in [
            Present(0),
            Present(u64::MAX),
            Labels(7),
            Absent(Absence::NotYet),
            Absent(Absence::NoField),
            Absent(Absence::InstanceGone),
            Absent(Absence::NoSource),
            Absent(Absence::NoResult),
            Failed(Fault::Unreadable),
            Failed(Fault::Malformed),
            Failed(Fault::OutOfRange),
            Failed(Fault::Stuck),
        ] {
            assert_eq!(Reading::from_parts(reading.state(), reading.bits()), reading);
        }
    }

    #[test]
    fn no_unknown_state_reads_as_a_value() {
        for state in 1..=255 {
            assert_eq!(Reading::from_parts(state, 7).value(), None);
        }
    }
}
