//! Recordings: `khz export`, `khz plot` and `khz correlate`. They read files and ask nobody.

mod correlate;
mod curves;
mod export;
pub mod flags;
mod open;
#[cfg(feature = "parquet")]
mod parquet;
mod plot;

pub use correlate::correlate;
pub use export::export;
pub use open::of_error;
pub use plot::plot;
