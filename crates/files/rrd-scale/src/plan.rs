//! `khz rrd plan`: how many `.rrd` files a machine keeps up with, by the analytical model of the paper by Plonka, Gupta
//! and Carder (LISA'07) and what has to be added to it for a machine of today.
//!
//! | module | does |
//! |---|---|
//! | [`shape`], [`named`] | a layout: which rows are written how often, and where they lie |
//! | [`pages`] | how many different pages an update touches, with and without readahead |
//! | [`paper`] | the paper's own formula and numbers |
//! | [`model`] | page-ins with some pages of cache a file: on average, by round, by hour |
//! | [`system`] | memory for inodes, names and page trees |
//! | [`question`], [`answer`], [`change`] | what is asked; whether it fits; what to change |
//! | `request`, `table`, `json`, `paper_beside`, `words` | the command line and what people see |
//! | `tree` | the same for the tree that the doctor looks at |
//!
//! Everything but `request` and `tree` is pure. `docs/rrd-scale.md` has the formulas, and says where they are approximate.

use std::io::Write;

use khz_rrd::cli::Command;
use khz_rrd::error::{Error, Result};
use khz_rrd::text;

pub mod answer;
pub mod change;
mod json;
pub mod model;
pub mod named;
pub mod pages;
pub mod paper;
mod paper_beside;
pub mod question;
mod request;
pub mod shape;
pub mod system;
mod table;
mod tree;
mod words;

pub use answer::Answer;
pub use question::Question;

/// The command, for [`khz_rrd::cli::run`].
pub const COMMAND: Command = Command {
    name: "plan",
    arguments: "-n FILES [FILE | -l LAYOUT | DS:... RRA:...] [-m MEMORY] [-i INTERVAL]\n[-w WRITE] ... (--help lists all)",
    run,
};

/// The doctor with what the plan says, in place of the one of `khz-rrd`.
pub const DOCTOR: Command = Command { name: "doctor", arguments: "DIR", run: tree::examine };

/// The command `plan` with its arguments.
///
/// # Errors
/// What is wrong with the question.
pub fn run(arguments: &[String]) -> Result<()> {
    let Some(request) = request::parse(arguments)? else { return print(request::USAGE) };
    let answer = Answer::to(&request.question)?;
    let (question, origins) = (&request.question, &request.origins);
    match request.is_json {
        true => print(&format!("{:#}\n", json::value(question, &answer, origins))),
        false => print(&table::text(question, &answer, origins)),
    }
}

fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&text::bytes(text)).and_then(|()| out.flush());
    written.map_err(|error| Error::io("writing", "standard output", error))
}
