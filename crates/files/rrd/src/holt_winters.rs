//! Holt-Winters forecasting: HWPREDICT, MHWPREDICT, SEASONAL, DEVSEASONAL, DEVPREDICT and FAILURES.
//!
//! Each of these archives takes one row per primary point. A seasonal archive keeps two coefficients in its state: for the slot
//! ahead, and for the slot just passed. Archives are processed in file order, so an archive that reads another one must know
//! whether that one has already moved on.

mod links;
mod smoothing;

use crate::error::Result;
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, Header};
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function};
use crate::spec::WINDOW_MAX;
use crate::update::Session;
use links::Links;
pub(crate) use smoothing::{Smoothing, smooth};

/// Forecast state: the baseline.
pub const INTERCEPT: usize = 2;
/// Baseline before the last point.
pub const LAST_INTERCEPT: usize = 3;
/// Trend.
pub const SLOPE: usize = 4;
/// Trend before the last point.
pub const LAST_SLOPE: usize = 5;
/// Points since the last known one.
pub const GAP: usize = 6;
/// The same before the last point.
pub const LAST_GAP: usize = 7;
/// Seasonal state: the coefficient (or deviation) of the slot ahead.
pub const SEASONAL: usize = 2;
/// That of the slot passed last.
pub const LAST_SEASONAL: usize = 3;
/// Seasons begun, from 1, counted up to one past [`BURN_IN`].
pub const SEASONS: usize = 6;
/// The state a fresh archive starts with.
pub fn initialise(header: &mut Header, rra: usize, ds: usize) {
    let function = header.archives()[rra].function;
    if function.is_forecast() {
        for slot in [INTERCEPT, LAST_INTERCEPT, SLOPE, LAST_SLOPE] {
            header.set_cdp(rra, ds, slot, UNKNOWN);
        }
        header.set_cdp_count(rra, ds, GAP, 1);
        header.set_cdp_count(rra, ds, LAST_GAP, 1);
    } else if function.is_seasonal() {
        header.set_cdp(rra, ds, SEASONAL, UNKNOWN);
        header.set_cdp(rra, ds, LAST_SEASONAL, UNKNOWN);
        header.set_cdp_count(rra, ds, SEASONS, 1);
    } else {
        header.set_cdp_count(rra, ds, CDP_UNKNOWN, 0);
    }
}

/// Takes `steps` equal `points` into every forecasting archive.
pub(crate) fn forecast(session: &mut Session<'_>, points: &[f64], steps: u64) -> Result<()> {
    let definition = session.header.definition().clone();
    for (rra, archive) in definition.archives.iter().enumerate() {
        if archive.function.is_seasonal() {
            smoothing::schedule(session, rra, archive, steps);
        }
    }
    if steps > 2 {
        for (rra, archive) in definition.archives.iter().enumerate() {
            skip(session, rra, archive, steps)?;
        }
        return Ok(());
    }
    for pass in 0..steps {
        let slot = if pass == 0 { CDP_PRIMARY } else { CDP_SECONDARY };
        for (rra, archive) in definition.archives.iter().enumerate() {
            // Two points at once read one slot further ahead than one point twice, as in rrdtool.
            let ahead = match archive.function.is_seasonal() {
                true => {
                    let row = session.header.current_row(rra).wrapping_add(steps + 1 + pass) % archive.rows;
                    session.row(rra, row)?
                }
                false => vec![],
            };
            for (ds, &point) in points.iter().enumerate() {
                let links = Links { header: &mut *session.header, archives: &definition.archives, rra, ds };
                links.take(archive, point, slot, ahead.get(ds).copied())?;
            }
        }
    }
    Ok(())
}

/// More than two points at once: nothing is learnt, forecasts are unknown.
fn skip(session: &mut Session<'_>, rra: usize, archive: &Archive, steps: u64) -> Result<()> {
    let sources = session.header.sources().len();
    let coefficients = match archive.function.is_seasonal() {
        true => {
            let at = session.header.current_row(rra).wrapping_add(steps);
            Some((session.row(rra, at % archive.rows)?, session.row(rra, (at + 1) % archive.rows)?))
        }
        false => None,
    };
    for ds in 0..sources {
        let header = &mut *session.header;
        match archive.function {
            Function::HwPredict | Function::MhwPredict => {
                header.set_cdp(rra, ds, CDP_PRIMARY, UNKNOWN);
                header.set_cdp(rra, ds, CDP_SECONDARY, UNKNOWN);
                let gap = header.cdp_count(rra, ds, GAP).wrapping_add(steps);
                header.set_cdp_count(rra, ds, GAP, gap);
                let gap = header.cdp_count(rra, ds, LAST_GAP).wrapping_add(steps - 1);
                header.set_cdp_count(rra, ds, LAST_GAP, gap);
            }
            Function::DevPredict => {
                header.set_cdp(rra, ds, CDP_PRIMARY, UNKNOWN);
                header.set_cdp(rra, ds, CDP_SECONDARY, UNKNOWN);
            }
            Function::Failures => {
                forget(header, rra, ds);
                header.set_cdp(rra, ds, CDP_PRIMARY, 0.0);
                header.set_cdp(rra, ds, CDP_SECONDARY, 0.0);
            }
            _ => {
                if let Some((passed, ahead)) = &coefficients {
                    header.set_cdp(rra, ds, LAST_SEASONAL, passed[ds]);
                    header.set_cdp(rra, ds, SEASONAL, ahead[ds]);
                }
            }
        }
    }
    Ok(())
}

/// Clears the violations a FAILURES archive remembers.
pub fn forget(header: &mut Header, rra: usize, ds: usize) {
    header.cdp_bytes_mut(rra, ds)[..WINDOW_MAX as usize].fill(0);
}
