//! Holt-Winters forecasting.
use crate::error::Result;
use crate::header::Header;
use crate::update::Session;
#[derive(Debug, Default)]
pub struct Smoothing;
pub fn initialise(_header: &mut Header, _rra: usize, _ds: usize) {}
pub(crate) fn forecast(_s: &mut Session<'_>, _points: &[f64], _steps: u64) -> Result<()> { Ok(()) }
pub(crate) fn smooth(_s: &mut Session<'_>) -> Result<()> { Ok(()) }
