//! `khz ring`: what the rings of this machine's agents hold, while they run and after they have died. It reads the
//! files themselves and asks nobody.

mod export;
pub mod place;
mod remove;
mod rows;
mod show;

pub use export::{cell, export};
pub use remove::rm;
pub use rows::{Recording, newest_stamp as newest};
pub use show::show;
