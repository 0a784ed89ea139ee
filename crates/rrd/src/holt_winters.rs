//! Holt-Winters forecasting: HWPREDICT, MHWPREDICT, SEASONAL, DEVSEASONAL, DEVPREDICT and FAILURES.
//!
//! Each of these archives takes one row per primary point. A seasonal archive keeps two coefficients in its
//! state: that of the slot ahead and that of the slot just passed. Archives are worked through in file order,
//! so one that looks at another must know whether that one has already moved on.

use crate::error::{Error, Result};
use crate::header::{CDP_PRIMARY, CDP_SECONDARY, CDP_UNKNOWN, Header};
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function, PAR_ALPHA, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD};
use crate::spec::WINDOW_MAX;
use crate::update::Session;

/// Forecast state: baseline, and baseline one point before.
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
/// Seasons smoothed at their end; later ones are at the archive's own place.
const BURN_IN: u64 = 3;
/// Share of a season averaged in files before version 4.
const SMOOTHING: f64 = 0.05;

/// Whether the seasonal archives are due for smoothing when the call ends.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Smoothing {
    due: bool,
}

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
            schedule(session, rra, archive, steps);
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
            // Two points at once look one slot further ahead than one point twice; rrdtool's doing.
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

/// Notes whether `steps` points bring a seasonal archive past its smoothing place, and counts seasons.
fn schedule(session: &mut Session<'_>, rra: usize, archive: &Archive, steps: u64) {
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

/// One source of one archive, and the archives it depends on.
struct Links<'a> {
    header: &'a mut Header,
    archives: &'a [Archive],
    rra: usize,
    ds: usize,
}

/// What a forecast says about a point.
struct Forecast {
    intercept: f64,
    slope: f64,
    gap: u64,
    seasonal: f64,
    multiplies: bool,
}

impl Forecast {
    /// Baseline without season.
    fn level(&self) -> f64 {
        self.intercept + self.slope * self.gap as f64
    }

    /// The baseline after seeing `point`.
    fn learnt(&self, alpha: f64, point: f64) -> f64 {
        let seen = match self.multiplies {
            true if self.seasonal <= 0.0 => UNKNOWN,
            true => point / self.seasonal,
            false => point - self.seasonal,
        };
        alpha * seen + (1.0 - alpha) * self.level()
    }

    fn value(&self) -> f64 {
        if self.multiplies { self.level() * self.seasonal } else { self.level() + self.seasonal }
    }
}

impl Links<'_> {
    fn take(mut self, archive: &Archive, point: f64, slot: usize, ahead: Option<f64>) -> Result<()> {
        let value = match archive.function {
            Function::HwPredict | Function::MhwPredict => self.predict(archive, point)?,
            Function::Seasonal => self.season(archive, point, ahead)?,
            Function::DevSeasonal => self.deviate(archive, point, ahead)?,
            Function::DevPredict => {
                let deviation = self.dependent(self.rra)?;
                self.coefficient(deviation)
            }
            Function::Failures => self.watch(archive, point)?,
            _ => return Ok(()),
        };
        self.header.set_cdp(self.rra, self.ds, slot, value);
        Ok(())
    }

    /// The archive that `rra` depends on.
    fn dependent(&self, rra: usize) -> Result<usize> {
        let index = self.archives[rra].par[PAR_DEPENDENT];
        let found = usize::try_from(index).ok().filter(|index| *index < self.archives.len());
        found.ok_or_else(|| {
            Error::Refused(format!("archive {rra} depends on archive {index}, which does not exist"))
        })
    }

    /// The coefficient of the point in hand in seasonal archive `rra`: one further on in file order has not
    /// moved yet.
    fn coefficient(&self, rra: usize) -> f64 {
        let slot = if rra < self.rra { LAST_SEASONAL } else { SEASONAL };
        self.header.cdp(rra, self.ds, slot)
    }

    /// What forecast archive `rra` said before it saw the point in hand.
    fn forecast(&self, rra: usize) -> Result<Forecast> {
        let seasonal = self.dependent(rra)?;
        let moved = rra < self.rra;
        let (intercept, slope, gap) = match moved {
            true => (LAST_INTERCEPT, LAST_SLOPE, LAST_GAP),
            false => (INTERCEPT, SLOPE, GAP),
        };
        Ok(Forecast {
            intercept: self.header.cdp(rra, self.ds, intercept),
            slope: self.header.cdp(rra, self.ds, slope),
            gap: self.header.cdp_count(rra, self.ds, gap),
            seasonal: self.coefficient(seasonal),
            multiplies: self.archives[rra].function == Function::MhwPredict,
        })
    }

    fn predict(&mut self, archive: &Archive, point: f64) -> Result<f64> {
        let (rra, ds) = (self.rra, self.ds);
        let forecast = self.forecast(rra)?;
        let header = &mut *self.header;
        header.set_cdp(rra, ds, LAST_INTERCEPT, forecast.intercept);
        header.set_cdp(rra, ds, LAST_SLOPE, forecast.slope);
        header.set_cdp_count(rra, ds, LAST_GAP, forecast.gap);
        if forecast.intercept.is_nan() {
            if !point.is_nan() {
                header.set_cdp(rra, ds, INTERCEPT, point);
                header.set_cdp(rra, ds, LAST_INTERCEPT, point);
                header.set_cdp(rra, ds, SLOPE, 0.0);
                header.set_cdp(rra, ds, LAST_SLOPE, 0.0);
                header.set_cdp_count(rra, ds, GAP, 1);
                header.set_cdp_count(rra, ds, LAST_GAP, 1);
            }
            return Ok(UNKNOWN);
        }
        if forecast.seasonal.is_nan() || forecast.slope.is_nan() {
            return Ok(UNKNOWN);
        }
        if point.is_nan() {
            header.set_cdp_count(rra, ds, GAP, forecast.gap.wrapping_add(1));
            return Ok(forecast.value());
        }
        let beta = archive.f64(PAR_BETA);
        let intercept = forecast.learnt(archive.f64(PAR_ALPHA), point);
        let slope = beta * (intercept - forecast.intercept) + (1.0 - beta) * forecast.slope;
        header.set_cdp(rra, ds, INTERCEPT, intercept);
        header.set_cdp(rra, ds, SLOPE, slope);
        header.set_cdp_count(rra, ds, GAP, 1);
        Ok(forecast.value())
    }

    /// Moves a seasonal archive on; returns the coefficient of the point in hand.
    fn advance(&mut self, ahead: Option<f64>) -> f64 {
        let now = self.header.cdp(self.rra, self.ds, SEASONAL);
        self.header.set_cdp(self.rra, self.ds, LAST_SEASONAL, now);
        self.header.set_cdp(self.rra, self.ds, SEASONAL, ahead.unwrap_or(UNKNOWN));
        now
    }

    fn season(&mut self, archive: &Archive, point: f64, ahead: Option<f64>) -> Result<f64> {
        let forecast = self.dependent(self.rra)?;
        let now = self.advance(ahead);
        if point.is_nan() {
            return Ok(now);
        }
        let multiplies = self.archives[forecast].function == Function::MhwPredict;
        if forecast > self.rra && self.header.cdp(forecast, self.ds, INTERCEPT).is_nan() {
            // The forecast will start at this very point, which leaves nothing for the season.
            return Ok(if multiplies { 1.0 } else { 0.0 });
        }
        let intercept = self.baseline(forecast, point, now)?;
        if multiplies && intercept <= 0.0 {
            // No factor makes a season of a baseline at or below zero.
            return Ok(UNKNOWN);
        }
        let seen = if multiplies { point / intercept } else { point - intercept };
        if now.is_nan() || seen.is_nan() {
            return Ok(seen);
        }
        let gamma = archive.f64(PAR_ALPHA);
        Ok(gamma * seen + (1.0 - gamma) * now)
    }

    /// The baseline of forecast archive `rra` with `point` taken in, whether it comes before this archive in
    /// the file (and has it) or after (and will have it). `now` is the season's coefficient.
    fn baseline(&self, rra: usize, point: f64, now: f64) -> Result<f64> {
        let intercept = self.header.cdp(rra, self.ds, INTERCEPT);
        if rra < self.rra {
            return Ok(intercept);
        }
        let mut forecast = self.forecast(rra)?;
        forecast.seasonal = now;
        if now.is_nan() || forecast.slope.is_nan() {
            return Ok(intercept);
        }
        Ok(forecast.learnt(self.archives[rra].f64(PAR_ALPHA), point))
    }

    fn deviate(&mut self, archive: &Archive, point: f64, ahead: Option<f64>) -> Result<f64> {
        let forecast = self.dependent(self.rra)?;
        let now = self.advance(ahead);
        let forecast = self.forecast(forecast)?;
        if forecast.value().is_nan() {
            return Ok(UNKNOWN);
        }
        if point.is_nan() {
            return Ok(now);
        }
        let distance = (forecast.value() - point).abs();
        if now.is_nan() {
            return Ok(distance);
        }
        let gamma = archive.f64(PAR_ALPHA);
        Ok(gamma * distance + (1.0 - gamma) * now)
    }

    fn watch(&mut self, archive: &Archive, point: f64) -> Result<f64> {
        let deviation = self.dependent(self.rra)?;
        let predict = self.dependent(deviation)?;
        let forecast = self.forecast(predict)?.value();
        // The seasonal archive's place decides for both, so a deviation may be one point off, as in rrdtool.
        let slot = if self.dependent(predict)? < self.rra { LAST_SEASONAL } else { SEASONAL };
        let deviation = self.header.cdp(deviation, self.ds, slot);
        let violated = if deviation.is_nan() {
            false
        } else {
            let (above, below) = (archive.f64(PAR_ALPHA), archive.f64(PAR_BETA));
            // An unknown point is a violation once there is something to violate; an unknown forecast none.
            point.is_nan() || point > forecast + above * deviation || point < forecast - below * deviation
        };
        let window = archive.par[PAR_SMOOTH].clamp(1, WINDOW_MAX) as usize;
        let history = &mut self.header.cdp_bytes_mut(self.rra, self.ds)[..window];
        history.rotate_right(1);
        history[0] = u8::from(violated);
        let count = history.iter().filter(|mark| **mark != 0).count() as u64;
        Ok(f64::from(u8::from(count >= archive.par[PAR_THRESHOLD])))
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
                // Added even where the coefficients were divided: rrdtool's doing.
                let baseline = session.header.cdp(forecast, ds, INTERCEPT);
                session.header.set_cdp(forecast, ds, INTERCEPT, baseline + mean);
            }
        }
    }
    let offset = session.header.row_offset(rra, 0);
    session.applied.writes.push(offset, new);
    Ok(())
}
