//! From primary points to rows (consolidation, CDP) for AVERAGE, MIN, MAX and LAST; pure arithmetic on a header.

use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, CDP_VALUE, Header};
use crate::layout;
use crate::number::UNKNOWN;
use crate::rra::{Function, PAR_XFF};

/// How closed points are distributed over the rows of one archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fall {
    /// Points closed.
    pub steps: u64,
    /// Points the open row still needs.
    pub missing: u64,
    /// Rows completed, at most the archive's rows.
    pub rows: u64,
    /// Points left for the next open row.
    pub left: u64,
}

impl Fall {
    /// How `steps` points, beginning with number `first_step`, are distributed over rows of `points` points.
    pub fn new(points: u64, rows: u64, first_step: u64, steps: u64) -> Self {
        // The two usual cases need no or one division.
        if points == 1 {
            return Self { steps, missing: 1, rows: steps.min(rows), left: 0 };
        }
        let missing = points - first_step % points;
        if missing > steps {
            return Self { steps, missing, rows: 0, left: 0 };
        }
        if steps == 1 {
            return Self { steps, missing, rows: 1, left: 0 };
        }
        let completed = (steps - missing) / points + 1;
        Self { steps, missing, rows: completed.min(rows), left: (steps - missing) % points }
    }
}

/// Takes `steps` equal points into archive `rra` for each source; the archive has one point per row.
pub fn single(header: &mut Header, rra: usize, points: &[f64], steps: u64) {
    for (ds, &point) in points.iter().enumerate() {
        header.set_cdp(rra, ds, CDP_PRIMARY, point);
        if steps > 1 {
            header.set_cdp(rra, ds, CDP_SECONDARY, point);
        }
    }
}

/// Takes the equal points of `fall` into archive `rra` for each source; rows need several points.
pub fn several(header: &mut Header, rra: usize, points: &[f64], fall: Fall) {
    let archive = &header.archives()[rra];
    let (function, xff, per_row) = (archive.function, archive.f64(PAR_XFF), archive.points);
    for (ds, &point) in points.iter().enumerate() {
        let state = header.cdp_bytes(rra, ds);
        let mut row = Row {
            value: layout::f64_at(state, 8 * CDP_VALUE),
            unknown: layout::u64_at(state, 8 * CDP_UNKNOWN),
        };
        let completed = match fall.rows {
            0 => {
                row.gather(function, point, fall.steps);
                None
            }
            _ => Some(row.complete(function, point, fall, per_row, xff)),
        };
        let state = header.cdp_bytes_mut(rra, ds);
        layout::put_f64(state, 8 * CDP_VALUE, row.value);
        layout::put_u64(state, 8 * CDP_UNKNOWN, row.unknown);
        if let Some((primary, secondary)) = completed {
            layout::put_f64(state, 8 * CDP_PRIMARY, primary);
            layout::put_f64(state, 8 * CDP_SECONDARY, secondary);
        }
    }
}

/// The open row of one source.
pub(crate) struct Row {
    /// What it has gathered.
    pub value: f64,
    /// Points of it that are unknown.
    pub unknown: u64,
}

impl Row {
    /// A row without points.
    pub fn empty(function: Function) -> Self {
        Self { value: carried(function, UNKNOWN, 0), unknown: 0 }
    }

    /// Closes the row with `fall.missing` times `point`; returns the row's value and that of further rows.
    pub fn complete(
        &mut self,
        function: Function,
        point: f64,
        fall: Fall,
        per_row: u64,
        xff: f64,
    ) -> (f64, f64) {
        if point.is_nan() {
            self.unknown = self.unknown.wrapping_add(fall.missing);
        }
        let primary = if self.unknown as f64 > per_row as f64 * xff {
            UNKNOWN
        } else {
            self.closed(function, point, fall.missing, per_row)
        };
        self.value = carried(function, point, fall.left);
        self.unknown = if point.is_nan() { fall.left } else { 0 };
        (primary, if point.is_nan() { UNKNOWN } else { point })
    }

    fn closed(&self, function: Function, point: f64, missing: u64, per_row: u64) -> f64 {
        let or = |value: f64, instead: f64| if value.is_nan() { instead } else { value };
        match function {
            Function::Average => {
                let known = per_row.wrapping_sub(self.unknown);
                (or(self.value, 0.0) + or(point, 0.0) * missing as f64) / known as f64
            }
            Function::Max => {
                let (old, new) = (or(self.value, f64::NEG_INFINITY), or(point, f64::NEG_INFINITY));
                if new > old { new } else { old }
            }
            Function::Min => {
                let (old, new) = (or(self.value, f64::INFINITY), or(point, f64::INFINITY));
                if new < old { new } else { old }
            }
            _ => point,
        }
    }

    /// Adds `steps` times `point` to the open row.
    pub fn gather(&mut self, function: Function, point: f64, steps: u64) {
        if point.is_nan() {
            self.unknown = self.unknown.wrapping_add(steps);
            return;
        }
        let old = self.value;
        self.value = match function {
            Function::Average => {
                if old.is_nan() {
                    point * steps as f64
                } else {
                    old + point * steps as f64
                }
            }
            Function::Max if old >= point => old,
            Function::Min if old <= point => old,
            _ => point,
        };
    }
}

/// The start value of the next open row after `left` points of it.
fn carried(function: Function, point: f64, left: u64) -> f64 {
    if left == 0 || point.is_nan() {
        return match function {
            Function::Average => 0.0,
            Function::Max => f64::NEG_INFINITY,
            Function::Min => f64::INFINITY,
            _ => UNKNOWN,
        };
    }
    if function == Function::Average { point * left as f64 } else { point }
}
