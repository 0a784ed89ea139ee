//! An archive's definition: function, rows, points per row, parameters; no state, no arithmetic.

use crate::layout;

/// What an archive keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The mean.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The newest.
    Last,
    /// Holt-Winters forecast, additive season.
    HwPredict,
    /// Holt-Winters forecast, multiplicative season.
    MhwPredict,
    /// Seasonal coefficients.
    Seasonal,
    /// Seasonal deviations.
    DevSeasonal,
    /// Predicted deviation.
    DevPredict,
    /// Failure marks.
    Failures,
}

impl Function {
    /// Every function with its name.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Average, "AVERAGE"),
        (Self::Min, "MIN"),
        (Self::Max, "MAX"),
        (Self::Last, "LAST"),
        (Self::HwPredict, "HWPREDICT"),
        (Self::MhwPredict, "MHWPREDICT"),
        (Self::Seasonal, "SEASONAL"),
        (Self::DevSeasonal, "DEVSEASONAL"),
        (Self::DevPredict, "DEVPREDICT"),
        (Self::Failures, "FAILURES"),
    ];

    /// The function called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(function, _)| *function)
    }

    /// The name on disk.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(function, _)| *function == self).map_or("", |(_, name)| name)
    }

    /// Whether it is one of the four plain consolidation functions.
    pub fn is_plain(self) -> bool {
        matches!(self, Self::Average | Self::Min | Self::Max | Self::Last)
    }

    /// Whether it forecasts (additive or multiplicative).
    pub fn is_forecast(self) -> bool {
        matches!(self, Self::HwPredict | Self::MhwPredict)
    }

    /// Whether it holds one coefficient per point of the season.
    pub fn is_seasonal(self) -> bool {
        matches!(self, Self::Seasonal | Self::DevSeasonal)
    }
}

/// One archive as its file defines it. `par` holds ten 8-byte parameters whose meaning depends on `function`.
#[derive(Debug, Clone, PartialEq)]
pub struct Archive {
    /// What it keeps.
    pub function: Function,
    /// Rows.
    pub rows: u64,
    /// Primary points per row.
    pub points: u64,
    /// Raw parameters, see the `PAR_` constants.
    pub par: [u64; 10],
}

/// Plain functions: share of unknown points a row may have (f64).
pub const PAR_XFF: usize = 0;
/// HWPREDICT alpha, SEASONAL/DEVSEASONAL gamma, FAILURES delta_pos (f64).
pub const PAR_ALPHA: usize = 1;
/// HWPREDICT beta, SEASONAL/DEVSEASONAL smoothing window (version 4), FAILURES delta_neg (f64).
pub const PAR_BETA: usize = 2;
/// Index of the archive it depends on (u64).
pub const PAR_DEPENDENT: usize = 3;
/// SEASONAL/DEVSEASONAL smoothing position (u64), FAILURES window length (u64).
pub const PAR_SMOOTH: usize = 4;
/// FAILURES threshold (u64).
pub const PAR_THRESHOLD: usize = 5;

impl Archive {
    /// A plain archive.
    pub fn plain(function: Function, xff: f64, points: u64, rows: u64) -> Self {
        let mut archive = Self { function, rows, points, par: [0; 10] };
        archive.set_f64(PAR_XFF, xff);
        archive
    }

    /// Parameter `index` as a double.
    pub fn f64(&self, index: usize) -> f64 {
        f64::from_bits(self.par[index])
    }

    /// Sets parameter `index` to a double.
    pub fn set_f64(&mut self, index: usize, value: f64) {
        self.par[index] = value.to_bits();
    }

    /// Decodes the 120 bytes of a definition; `Err` says what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let name = layout::text_at(bytes, 0, 20);
        let function =
            Function::from_name(&name).ok_or_else(|| format!("unknown consolidation function '{name}'"))?;
        let (rows, points) = (layout::u64_at(bytes, 24), layout::u64_at(bytes, 32));
        if rows == 0 || points == 0 {
            return Err(format!("{name} with {rows} rows of {points} points"));
        }
        let mut par = [0; 10];
        for (index, slot) in par.iter_mut().enumerate() {
            *slot = layout::u64_at(bytes, 40 + 8 * index);
        }
        Ok(Self { function, rows, points, par })
    }

    /// Writes the definition into `bytes` (120 of them, zeroed before).
    pub fn encode(&self, bytes: &mut [u8]) {
        layout::put_text(bytes, 0, 20, self.function.name().as_bytes());
        layout::put_u64(bytes, 24, self.rows);
        layout::put_u64(bytes, 32, self.points);
        for (index, value) in self.par.iter().enumerate() {
            layout::put_u64(bytes, 40 + 8 * index, *value);
        }
    }
}
