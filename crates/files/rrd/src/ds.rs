//! A data source's definition: its kind, limits and, for COMPUTE, its expression; no state, no arithmetic.

use crate::layout::{self, DS_DEF};
use crate::rpn::Program;
use crate::text;

/// How readings of a source become rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Integer that only grows, wrapping at 32 or 64 bits.
    Counter,
    /// A count since the last reading.
    Absolute,
    /// The value itself.
    Gauge,
    /// Integer difference, either way.
    Derive,
    /// Computed from other sources.
    Compute,
    /// Floating counter; a change of direction is a reset.
    Dcounter,
    /// Floating difference.
    Dderive,
}

impl Kind {
    /// Every kind with its name on disk and on the command line.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Counter, "COUNTER"),
        (Self::Absolute, "ABSOLUTE"),
        (Self::Gauge, "GAUGE"),
        (Self::Derive, "DERIVE"),
        (Self::Compute, "COMPUTE"),
        (Self::Dcounter, "DCOUNTER"),
        (Self::Dderive, "DDERIVE"),
    ];

    /// The kind called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// The name on disk.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }
}

/// One data source as its file defines it.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSource {
    /// Its name, at most 19 bytes.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Seconds without a reading after which it is unknown (0 for COMPUTE).
    pub heartbeat: u64,
    /// Lowest accepted rate, NaN for none.
    pub min: f64,
    /// Highest accepted rate, NaN for none.
    pub max: f64,
    /// The expression of a COMPUTE source.
    pub program: Option<Program>,
}

impl DataSource {
    /// Decodes the 120 bytes of a definition; `Err` says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let name = layout::text_at(bytes, 0, 20).into_owned();
        let kind_name = layout::text_at(bytes, 20, 20);
        let kind =
            Kind::from_name(&kind_name).ok_or_else(|| format!("unknown data source type '{kind_name}'"))?;
        if kind == Kind::Compute {
            let program = Program::decode(&bytes[40..DS_DEF])?;
            return Ok(Self {
                name,
                kind,
                heartbeat: 0,
                min: f64::NAN,
                max: f64::NAN,
                program: Some(program),
            });
        }
        Ok(Self {
            name,
            kind,
            heartbeat: layout::u64_at(bytes, 40),
            min: layout::f64_at(bytes, 48),
            max: layout::f64_at(bytes, 56),
            program: None,
        })
    }

    /// Writes the definition into `bytes` (120 of them, zeroed before).
    pub fn encode(&self, bytes: &mut [u8]) {
        layout::put_text(bytes, 0, 20, &text::bytes(&self.name));
        layout::put_text(bytes, 20, 20, self.kind.name().as_bytes());
        match &self.program {
            Some(program) => program.encode(&mut bytes[40..DS_DEF]),
            None => {
                layout::put_u64(bytes, 40, self.heartbeat);
                layout::put_f64(bytes, 48, self.min);
                layout::put_f64(bytes, 56, self.max);
            }
        }
    }
}
