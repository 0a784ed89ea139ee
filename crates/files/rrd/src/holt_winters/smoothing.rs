//! Smoothing of the seasonal archives: when it is due, and the mean of neighbours around the season.

use super::{INTERCEPT, SEASONS};
use crate::error::Result;
use crate::rra::{Archive, Function, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH};
use crate::update::Session;

/// Seasons that are smoothed at their end; later ones are smoothed at the archive's own place.
const BURN_IN: u64 = 3;
/// Share of a season averaged in files before version 4.
const SMOOTHING: f64 = 0.05;

/// Whether the seasonal archives are to be smoothed when the call ends.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Smoothing {
    due: bool,
}

/// Notes whether `steps` points bring a seasonal archive past its smoothing place, and counts seasons.
pub(super) fn schedule(session: &mut Session<'_>, rra: usize, archive: &Archive, steps: u64) {
    let (row, reached) =
        (session.header.current_row(rra), session.header.current_row(rra).saturating_add(steps));
    let seasons = session.header.cdp_count(rra, 0, SEASONS);
    if seasons > BURN_IN {
        let place = archive.par[PAR_SMOOTH];
        session.smoothing.due |=
            (row < place && reached >= place) || reached >= archive.rows.saturating_add(place);
    } else if reached >= archive.rows {
        session.header.set_cdp_count(rra, 0, SEASONS, seasons + 1);
        session.smoothing.due = true;
    }
}

/// Smooths the seasonal archives, if a place for it was passed in this call.
pub(crate) fn smooth(session: &mut Session<'_>) -> Result<()> {
    if !std::mem::take(&mut session.smoothing.due) {
        return Ok(());
    }
    let definition = session.header.definition().clone();
    for (rra, archive) in definition.archives.iter().enumerate() {
        if archive.function.is_seasonal() {
            smooth_archive(session, rra, archive)?;
        }
    }
    Ok(())
}

/// Replaces each coefficient by the mean of its neighbours around the season, then moves what the
/// coefficients have in common into the forecast's baseline.
fn smooth_archive(session: &mut Session<'_>, rra: usize, archive: &Archive) -> Result<()> {
    let window = if session.header.version() >= 4 { archive.f64(PAR_BETA) } else { SMOOTHING };
    let (rows, sources) = (archive.rows as usize, session.header.sources().len());
    let reach = (window / 2.0 * rows as f64).floor().clamp(0.0, rows as f64) as usize;
    if reach == 0 {
        return Ok(());
    }
    let old = session.all_rows(rra)?;
    if old.iter().any(|value| value.is_nan()) {
        return Ok(());
    }
    let width = (2 * reach + 1) as f64;
    let mut new = vec![0.0; old.len()];
    let mut means = vec![0.0; sources];
    for ds in 0..sources {
        for row in 0..rows {
            let mut sum = 0.0;
            for near in 0..=2 * reach {
                sum += old[(row + rows * 2 + near - reach) % rows * sources + ds];
            }
            new[row * sources + ds] = sum / width;
            means[ds] += sum / width;
        }
        means[ds] /= rows as f64;
    }
    if archive.function == Function::Seasonal {
        let forecast = usize::try_from(archive.par[PAR_DEPENDENT]).ok();
        let forecast = forecast.filter(|index| *index < session.header.archives().len());
        let multiplies =
            forecast.is_some_and(|index| session.header.archives()[index].function == Function::MhwPredict);
        for (place, value) in new.iter_mut().enumerate() {
            let mean = means[place % sources];
            if multiplies { *value /= mean } else { *value -= mean }
        }
        if let Some(forecast) = forecast {
            for (ds, mean) in means.iter().enumerate() {
                // Added even where the coefficients were divided, as in rrdtool.
                let baseline = session.header.cdp(forecast, ds, INTERCEPT);
                session.header.set_cdp(forecast, ds, INTERCEPT, baseline + mean);
            }
        }
    }
    let offset = session.header.row_offset(rra, 0);
    session.applied.writes.push(offset, new);
    Ok(())
}
