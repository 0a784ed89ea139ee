//! One point taken into one forecasting archive: forecasts, seasons, deviations and failures, each with the
//! archives that it depends on.

use super::{GAP, INTERCEPT, LAST_GAP, LAST_INTERCEPT, LAST_SEASONAL, LAST_SLOPE, SEASONAL, SLOPE};
use crate::error::{Error, Result};
use crate::header::Header;
use crate::number::UNKNOWN;
use crate::rra::{Archive, Function, PAR_ALPHA, PAR_BETA, PAR_DEPENDENT, PAR_SMOOTH, PAR_THRESHOLD};
use crate::spec::WINDOW_MAX;

/// One source of one archive, and the archives it depends on.
pub(super) struct Links<'a> {
    pub header: &'a mut Header,
    pub archives: &'a [Archive],
    pub rra: usize,
    pub ds: usize,
}

/// A forecast for a point.
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

    /// The baseline with `point`.
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
    pub fn take(mut self, archive: &Archive, point: f64, slot: usize, ahead: Option<f64>) -> Result<()> {
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

    /// The coefficient of the current point in seasonal archive `rra`: an archive later in the file has not moved on
    /// yet.
    fn coefficient(&self, rra: usize) -> f64 {
        let slot = if rra < self.rra { LAST_SEASONAL } else { SEASONAL };
        self.header.cdp(rra, self.ds, slot)
    }

    /// The prediction of forecast archive `rra` for the current point.
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

    /// Moves a seasonal archive on; returns the coefficient of the current point.
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
            // The forecast starts at this point, so the season has no share in it.
            return Ok(if multiplies { 1.0 } else { 0.0 });
        }
        let intercept = self.baseline(forecast, point, now)?;
        if multiplies && intercept <= 0.0 {
            // There is no factor for a baseline at or below zero.
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
        // The place of the seasonal archive counts for both, so a deviation may be one point off, as in rrdtool.
        let slot = if self.dependent(predict)? < self.rra { LAST_SEASONAL } else { SEASONAL };
        let deviation = self.header.cdp(deviation, self.ds, slot);
        let violated = if deviation.is_nan() {
            false
        } else {
            let (above, below) = (archive.f64(PAR_ALPHA), archive.f64(PAR_BETA));
            // An unknown point is a violation if the forecast is known; with an unknown forecast nothing is.
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
