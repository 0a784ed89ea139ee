//! `khz plot`: its flags, and the chart that they ask for: one panel a node, or one a file (`rrd_files.rs`). `curves.rs` makes the lines, `axes.rs` the axes,
//! `khz_view` the picture.

mod axes;
mod compared;
mod curves;
mod page;
pub mod past;
mod rrd_files;

use crate::command::past::Within;
use crate::command::recording::Chosen;
use crate::command::target::Target;
use crate::config::{NodeFlags, ReaderFlags};
use clap::Args;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use khz_model::calendar::utc;
use khz_model::{Nanos, Pattern};
use khz_record::Measure;
use khz_view::{Chart, Panel, Shape};

use self::axes::Axes;
use self::curves::{Curve, curves};
use crate::command::recording::{Opened, open};
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::terminal;

/// Examples for `khz plot --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz plot run.khzt -m cpu.all.user -m cpu.all.system -o run.svg
                                                    one panel a node, CPUs at
                                                    work in the two modes
  khz plot run.khzt -m kernel.forks -m cpu.all.system --per-sample -o run.png
                                                    two axes, left and right
  khz plot run.khzt -m load.1m                      here, in characters
  khz plot run.khzt -m mem.free --from 5s --to 9s -o part.html
                                                    one file with zoom and
                                                    values, without a server
  khz plot before.khzt after.khzt --compare -m cpu.all.user -o ab.html
                                                    two runs, one above the
                                                    other, each from its first
                                                    row on
  khz plot --from -7d -m 'node7:load.1m' -o week.svg
                                                    the last week, from the
                                                    hub's store
  khz plot -m 'job(4711):cpu.all.user' -o job.svg
                                                    the nodes of a job, from
                                                    its begin to its end
  khz plot load.rrd -o load.svg
                                                    the last day of an .rrd
                                                    file, all data sources
  khz plot eth0.rrd --cf MAX -m in -m out --from -30d -o month.png
                                                    the largest values of a
                                                    month, of two sources

Without a FILE, --from and --to are moments: a date and a time (local, or UTC
with a Z at the end; the date may be 'today' or 'yesterday'), seconds since
1970, or how long ago.

Each .rrd file has one panel; --match and --right choose data sources by name.
--from and --to are moments, too. Without them, the plot has the day before the
last update; with --rra it has the whole archive. khz takes the archive that
fits best, as rrdtool does: averages, with a band from MIN to MAX if the file
has both for the same rows. --cf chooses another function, --rra an archive by
its number (`khz rrd info`). khz reads the file on the disk. If
RRDCACHED_ADDRESS is set, the daemon first writes the samples that wait.

Counters are drawn as rates per second: CPU times in CPUs, other times (a disk
was busy) in percent of the time that passed. --per-sample draws the growth of
counters from one row to the next, and times in ticks of 10 ms. If a pixel has
several rows, the line is their mean, and the paler band reaches from the
smallest to the largest value. Where rows are missing, the line is broken and
the ground is grey.";

/// `khz plot`.
#[derive(Debug, Args)]
pub struct PlotFlags {
    /// What to draw.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Draw these series too, on the right axis.
    #[arg(long, value_name = "PATTERN")]
    pub right: Vec<String>,
    /// The picture: .svg, .png or .html; without one it is drawn here, with characters.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Of an .rrd file, draw this consolidation function (AVERAGE, MIN, MAX, LAST and so on).
    #[arg(long, value_name = "CF", conflicts_with = "rra")]
    pub cf: Option<String>,
    /// Of an .rrd file, draw the archive with this number.
    #[arg(long, value_name = "N")]
    pub rra: Option<usize>,
    /// Write one HTML file that zooms and says values without a server, to --output or the standard output.
    #[arg(long, conflicts_with = "terminal")]
    pub html: bool,
    /// The FILEs are recordings of their own: draw each from its first row on, one above the other.
    #[arg(long, conflicts_with_all = ["cf", "rra"])]
    pub compare: bool,
    /// Draw it here too.
    #[arg(long)]
    pub terminal: bool,
    /// Counters as their growth from one row to the next.
    #[arg(long)]
    pub per_sample: bool,
    /// The line above the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Pixels from left to right.
    #[arg(long, value_name = "N", default_value_t = 960, value_parser = clap::value_parser!(u32).range(400..=8_000))]
    pub width: u32,
    /// Pixels of a panel from top to bottom.
    #[arg(long, value_name = "N", default_value_t = 88, value_parser = clap::value_parser!(u32).range(40..=2_000))]
    pub panel_height: u32,
    /// Whose store to ask.
    #[command(flatten)]
    pub target: Target,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

impl PlotFlags {
    /// True if the picture is a page, into which one can zoom.
    fn is_page(&self) -> bool {
        self.html || self.output.as_deref().is_some_and(|path| matches!(Form::of(path), Ok(Form::Html)))
    }

    /// Points of a line: a page has more than a picture, up to what a store answers.
    fn points(&self) -> u32 {
        if self.is_page() { PAGE_POINTS } else { self.width }
    }
}

/// Points of a line in a page, out of a store or an .rrd file.
const PAGE_POINTS: u32 = 8_000;
/// Panels of one picture.
const PANELS_MAX: usize = 64;
/// A PNG has this many pixels for one of the picture, so that it is sharp on dense screens.
const PNG_SCALE: f64 = 2.0;
/// Columns of a picture in characters, where the width of the terminal is unknown.
const COLUMNS: usize = 80;

/// Draws, into the file that the flags name or onto the terminal.
pub fn run(flags: PlotFlags, outer: NodeFlags, out: &mut impl Write) -> Outcome {
    let writer = match flags.html {
        true => Some(Form::Html),
        false => flags.output.as_deref().map(Form::of).transpose()?,
    };
    if flags.chosen.is_past() {
        let (chart, asked) = past::chart(&flags, outer)?;
        show(&flags, &chart, writer, out)?;
        return asked.end(Within::Span);
    }
    if flags.compare {
        let (chart, opened) = compared::chart(&flags)?;
        show(&flags, &chart, writer, out)?;
        let mut done = Done::Wholly;
        for opened in &opened {
            match opened.end()? {
                Done::Wholly => {}
                partly => done = partly,
            }
        }
        return Ok(done);
    }
    if rrd_files::are_named(&flags)? {
        show(&flags, &rrd_files::chart(&flags)?, writer, out)?;
        return Ok(Done::Wholly);
    }
    let opened = open(&flags.chosen)?;
    show(&flags, &chart(&flags, &opened)?, writer, out)?;
    opened.end()
}

/// Writes the chart into the file that the flags name, and onto the terminal.
fn show(flags: &PlotFlags, chart: &Chart, writer: Option<Form>, out: &mut impl Write) -> Result<(), Failure> {
    let shape = Shape { width: flags.width, panel_height: flags.panel_height };
    match (writer.map(|form| form.write(chart, shape)).transpose()?, &flags.output) {
        (Some(bytes), Some(path)) => std::fs::write(path, bytes)
            .map_err(|error| Failure::work(format!("cannot write {}: {error}", path.display())))?,
        (Some(bytes), None) => {
            out.write_all(&bytes)?;
            out.flush()?;
            return Ok(());
        }
        (None, _) => {}
    }
    // Without a file it is drawn here.
    if flags.terminal || flags.output.is_none() {
        out.write_all(khz_view::strips(chart, terminal::width().unwrap_or(COLUMNS).min(200)).as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

/// The form of a file, from its name.
pub enum Form {
    /// A picture of lines.
    Svg,
    /// A picture of pixels.
    Png,
    /// A page into which one can zoom.
    Html,
}

impl Form {
    /// The form of this file.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().and_then(|word| word.to_str()) {
            Some("svg") => Ok(Form::Svg),
            Some("png") if cfg!(feature = "png") => Ok(Form::Png),
            Some("png") => Err(Failure::usage("this program was built without PNG; write .svg or .html")),
            Some("html" | "htm") => Ok(Form::Html),
            _ => Err(Failure::usage(format!("{}: a picture is .svg, .png or .html", path.display()))),
        }
    }

    /// The bytes of a file with this chart.
    pub fn write(&self, chart: &Chart, shape: Shape) -> Result<Vec<u8>, Failure> {
        let picture = || khz_view::picture(chart, shape);
        match self {
            Form::Svg => Ok(khz_view::svg(&picture()).into_bytes()),
            Form::Html => Ok(page::page(chart, &remarks(chart))?.into_bytes()),
            Form::Png => png(&picture()),
        }
    }
}

#[cfg(feature = "png")]
fn png(picture: &khz_view::Picture) -> Result<Vec<u8>, Failure> {
    khz_view::png(picture, PNG_SCALE).map_err(Failure::work)
}

#[cfg(not(feature = "png"))]
fn png(_: &khz_view::Picture) -> Result<Vec<u8>, Failure> {
    let _ = PNG_SCALE;
    Err(Failure::usage("this program was built without PNG; write .svg or .html"))
}

/// Remarks for a reader of the page who does not know the command.
fn remarks(chart: &Chart) -> Vec<String> {
    let mut remarks = vec![
        "Lines are means; a paler band reaches from the smallest to the largest value where a pixel holds several \
         rows."
            .to_owned(),
    ];
    if chart.has_gaps() {
        remarks.push("Where a line is broken there are no rows: nothing is known of that time.".to_owned());
    }
    remarks
}

fn chart(flags: &PlotFlags, opened: &Opened) -> Result<Chart, Failure> {
    let wanted = Wanted::of(flags, opened)?;
    let lines = curves(opened, &wanted.patterns, wanted.measure, |lines| wanted.points(flags, lines))?;
    let frame = Frame {
        from: Some(opened.from),
        seconds: opened.to.since(opened.from).as_secs_f64(),
        period: period(opened),
        measure: wanted.measure,
        whose: "nodes",
    };
    draw(flags, &wanted.patterns, &wanted.right, lines, frame)
}

/// What of a recording is to be drawn.
struct Wanted {
    patterns: Vec<Pattern>,
    /// Those of them at the right axis.
    right: Vec<Pattern>,
    measure: Measure,
}

impl Wanted {
    fn of(flags: &PlotFlags, opened: &Opened) -> Result<Self, Failure> {
        let right = super::patterns(&flags.right)?;
        opened.check_beside(&right, &opened.patterns)?;
        if opened.patterns.is_empty() && right.is_empty() {
            return Err(Failure::usage(
                "say what to draw with --match; `khz export FILE | head -1` lists the series",
            ));
        }
        let patterns = opened.patterns.iter().chain(&right).cloned().collect();
        let measure = if flags.per_sample { Measure::PerSample } else { Measure::PerSecond };
        Ok(Wanted { patterns, right, measure })
    }

    /// The points of each of `lines` lines.
    fn points(&self, flags: &PlotFlags, lines: usize) -> usize {
        if flags.is_page() { page::points(lines) } else { flags.width as usize }
    }
}

/// The shortest time between two rows of a recording, where it is known.
fn period(opened: &Opened) -> Option<Nanos> {
    opened.survey.lanes.iter().map(|lane| lane.period).filter(|period| *period > Nanos(0)).min()
}

/// What all lines share.
struct Frame {
    /// When it begins; `None`: each panel at a time of its own.
    from: Option<Nanos>,
    seconds: f64,
    /// The shortest time between two rows, where it is known.
    period: Option<Nanos>,
    measure: Measure,
    /// What has a panel each.
    whose: &'static str,
}

impl Frame {
    fn time_title(&self) -> String {
        self.from
            .map_or("time since the first row of each".into(), |from| format!("time since {}", utc(from)))
    }
}

/// The chart of these lines, and how many were left out.
fn draw(
    flags: &PlotFlags,
    patterns: &[Pattern],
    right: &[Pattern],
    (mut curves, left_out): (Vec<Curve>, usize),
    frame: Frame,
) -> Result<Chart, Failure> {
    if curves.is_empty() {
        return Err(Failure::usage("these series are labels, and cannot be drawn; `khz export` prints them"));
    }
    // Axes and colours in the order in which the series were asked for.
    curves.sort_by_key(|curve| patterns.iter().position(|pattern| selects(pattern, curve)));
    if left_out > 0 {
        crate::show::table::remark!(
            "{left_out} series are not drawn: one picture holds {}",
            curves::CURVES_MAX
        );
    }
    let mut axes = Axes::new(frame.measure);
    let mut panels: Vec<Panel> = Vec::new();
    for curve in curves {
        let is_right = right.iter().any(|pattern| selects(pattern, &curve));
        let (legend, axis) = axes.place(&curve.series, is_right)?;
        add(&mut panels, curve, legend, axis, axes.scale_of(axis));
    }
    if frame.from.is_some() {
        panels.sort_by_cached_key(|panel| natural(&panel.name));
    }
    panels.iter_mut().for_each(|panel| panel.name = crate::show::table::printable(&panel.name));
    if panels.len() > PANELS_MAX {
        crate::show::table::remark!(
            "{} {} are not drawn: one picture holds {PANELS_MAX}",
            panels.len() - PANELS_MAX,
            frame.whose
        );
        panels.truncate(PANELS_MAX);
    }
    Ok(Chart {
        title: flags.title.clone().unwrap_or_else(|| axes.title(panels.len(), frame.whose)),
        subtitle: subtitle(&frame, panels.len()),
        across: khz_view::Across::Time,
        time_title: frame.time_title(),
        begins: frame.from.map(|from| from.as_secs_f64()),
        seconds: frame.seconds,
        axes: axes.axes(),
        legend: axes.legend.iter().map(|(series, axis)| (series.to_string(), *axis)).collect(),
        panels,
    })
}

fn selects(pattern: &Pattern, curve: &Curve) -> bool {
    pattern.matches_node(&curve.node) && curve.series.is_selected(std::slice::from_ref(pattern))
}

/// Puts a line into its panel.
fn add(panels: &mut Vec<Panel>, curve: Curve, legend: usize, axis: usize, factor: f64) {
    let place = panels.iter().position(|panel| panel.name == curve.panel).unwrap_or_else(|| {
        panels.push(Panel { name: curve.panel.clone(), ..Panel::default() });
        panels.len() - 1
    });
    let mut points = curve.points;
    for point in &mut points {
        point.low *= factor;
        point.mean *= factor;
        point.high *= factor;
    }
    let panel = &mut panels[place];
    if panel.curves.is_empty() {
        panel.gaps = curve.gaps;
    }
    let name = curve.series.to_string();
    panel.curves.push(khz_view::Curve { name, legend, axis, points });
}

fn subtitle(frame: &Frame, panels: usize) -> String {
    let seconds = frame.seconds;
    let rate = frame
        .period
        .and_then(khz_model::Rate::from_period)
        .map_or(String::new(), |rate| format!(" at {rate}"));
    let panels = if panels == 1 { String::new() } else { format!("{panels} {}, ", frame.whose) };
    let from =
        frame.from.map_or("each from its first row on".to_owned(), |from| format!("from {}", utc(from)));
    format!("{panels}{seconds:.1} s{rate}, {from}")
}

/// node2 comes before node10.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(word);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(digits);
        parts.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_the_order_of_their_numbers() {
        let mut names = ["node10", "node2", "a", "node1-b", "node1"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(names, ["a", "node1", "node1-b", "node2", "node10"]);
    }
}
