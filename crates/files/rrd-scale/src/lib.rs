//! How many `.rrd` files a machine can keep up with.
//!
//! | module | does |
//! |---|---|
//! | [`plan`] | `khz rrd plan`: the analytical model: what a layout, a number of files and a machine give |
//! | [`simulate`] | `khz rrd simulate`: a page cache, page by page, driven by updates |

#![forbid(unsafe_code)]

mod kernel;
pub mod plan;
pub mod simulate;
