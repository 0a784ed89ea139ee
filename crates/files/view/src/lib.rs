//! Pictures of series over time, or over another number: a chart of panels, laid out once and written as SVG, PNG, HTML or
//! text. It reads no file and knows no metric: the caller gives it numbers, names and units.
//!
//! Begin with [`Chart`], what to draw. [`picture`] turns it into marks, which [`svg`], `png` and [`html`] write; [`strips`]
//! writes the chart as text.

#![forbid(unsafe_code)]

mod axis;
mod chart;
mod html;
mod layout;
mod legend;
mod picture;
#[cfg(feature = "png")]
mod png;
mod strips;
mod svg;

pub use axis::{Across, Axis, Scale};
pub use chart::{Chart, Curve, Panel, Point, Shape};
pub use html::html;
pub use layout::picture;
pub use picture::{Anchor, Colour, Letters, Mark, Picture};
#[cfg(feature = "png")]
pub use png::{PngError, png};
pub use strips::strips;
pub use svg::svg;
