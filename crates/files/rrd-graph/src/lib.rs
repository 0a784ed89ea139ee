//! rrdtool's `graph` and `graphv`: arguments in, numbers, legends and a picture out.
//!
//! | module | does |
//! |---|---|
//! | `options`, `element`, `format`, `duration` | the command line, one argument of it, formats of numbers and of durations |
//! | `graph` | one command: reads, computes, places, draws |
//! | `prints`, `pixels`, `limits` | what `PRINT` prints, a value for each pixel, the range of the value axis |
//! | `frame`, `legend`, `markup` | where everything lies, what markup shows |
//! | `draw`, `value_axis`, `time_axis`, `table` | the picture, its axes, the rows in other formats |
//! | `answer` | what the commands print |
//!
//! Only `graph` opens files. Numbers and places equal those of rrdtool 1.7; pictures are our own.

#![forbid(unsafe_code)]

mod answer;
mod draw;
mod duration;
mod element;
mod format;
mod frame;
mod graph;
mod legend;
mod limits;
mod markup;
mod options;
mod pixels;
mod prints;
mod table;
mod time_axis;
mod value_axis;

pub use graph::rehearse;
use khz_rrd::cli::Command;

/// Both commands, for the list of commands.
pub const COMMANDS: [Command; 2] = [
    Command {
        name: "graph",
        arguments: "FILE [-s START] [-e END] [-w WIDTH] [-h HEIGHT] [-t TITLE] ...\n\
                    DEF:... CDEF:... VDEF:... LINE:... AREA:... GPRINT:...",
        run: |words| graph::run(words, answer::Form::Short),
    },
    Command {
        name: "graphv",
        arguments: "FILE ... (graph, which also tells all of its numbers)",
        run: |words| graph::run(words, answer::Form::Facts),
    },
];
