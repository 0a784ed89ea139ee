//! The answer as a chart: page-ins by memory (figure 13 of the LISA'07 paper), or by time of day (figure 14).

use std::path::Path;

use khz_rrd::{Error, Result};
use khz_view::{Across, Axis, Chart, Curve, Panel, Point, Scale, Shape};

use super::experiment::{Model, Outcome, PART};
use super::options::Form;
use super::report::{Answer, columns};

/// Pixels of a panel from top to bottom.
const PANEL_HEIGHT: u32 = 200;
/// A PNG has this many pixels for one of the picture, so that it is sharp on dense screens.
#[cfg(feature = "png")]
const PNG_SCALE: f64 = 2.0;
/// The names of the curves: with advice and without.
const CURVES: [&str; 2] = ["with advice", "with readahead"];

/// Whether there is a folder for a chart: asked before minutes of work.
///
/// # Errors
/// There is none.
pub fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let known = std::fs::metadata(folder).and_then(|folder| match folder.is_dir() {
        true => Ok(()),
        false => Err(std::io::ErrorKind::NotADirectory.into()),
    });
    known.map_err(|error| Error::io("writing", path, error))
}

/// Writes the chart of `answer` as the file `path`.
///
/// # Errors
/// What the system says.
pub fn write(answer: &Answer, form: Form, path: &Path) -> Result<()> {
    let picture = khz_view::picture(&chart(answer), Shape { panel_height: PANEL_HEIGHT, ..Shape::default() });
    let bytes = match form {
        Form::Svg => khz_view::svg(&picture).into_bytes(),
        Form::Html => khz_view::html(&picture, &[remark(answer)]).into_bytes(),
        Form::Png => png(&picture)?,
    };
    std::fs::write(path, bytes).map_err(|error| Error::io("writing", path, error))
}

#[cfg(feature = "png")]
fn png(picture: &khz_view::Picture) -> Result<Vec<u8>> {
    khz_view::png(picture, PNG_SCALE).map_err(|error| Error::Refused(error.to_string()))
}

#[cfg(not(feature = "png"))]
fn png(_: &khz_view::Picture) -> Result<Vec<u8>> {
    khz_rrd::error::refused("this program was built without PNG; use --svg or --html")
}

fn remark(answer: &Answer) -> String {
    let subject = &answer.subject;
    format!(
        "{}: {} pages a file, an update each {} s; {} of {} files simulated. With advice, the kernel reads nothing ahead.",
        subject.updates, subject.pages, subject.step, subject.sample, subject.files
    )
}

/// A panel for each model.
fn chart(answer: &Answer) -> Chart {
    let is_day = answer.is_day();
    let pages = |outcome: Option<&Outcome>| outcome.map_or(0.0, |outcome| outcome.setting.pages);
    let panels = Model::ALL.into_iter().map(|(model, name)| {
        let curves = CURVES.iter().enumerate().map(|(legend, curve)| {
            let points = match is_day {
                true => by_time(answer, model, legend == 0),
                false => by_memory(answer, model, legend == 0),
            };
            Curve { name: (*curve).to_owned(), legend, axis: 0, points }
        });
        Panel { name: name.to_owned(), curves: curves.collect(), gaps: vec![] }
    });
    let subject = &answer.subject;
    let title = match is_day {
        true => format!("Page-ins a second, {:.2} pages of memory a file", pages(answer.outcomes.first())),
        false => "Page-ins a file and update, by memory".to_owned(),
    };
    Chart {
        title,
        subtitle: format!("{}; {} files, {} pages each", subject.updates, subject.files, subject.pages),
        across: if is_day { Across::Time } else { Across::Number },
        time_title: if is_day { "time of day (UTC)" } else { "pages of memory a file" }.to_owned(),
        begins: None,
        seconds: if is_day { 86_400.0 } else { pages(answer.outcomes.last()) },
        axes: vec![Axis {
            title: if is_day { "page-ins, 1/s" } else { "page-ins an update" }.to_owned(),
            scale: Scale::Plain,
        }],
        legend: CURVES.iter().map(|name| ((*name).to_owned(), 0)).collect(),
        panels: panels.collect(),
    }
}

fn point(at: f64, value: f64, is_behind_gap: bool) -> Point {
    Point { at, low: value, mean: value, high: value, is_behind_gap }
}

fn by_memory(answer: &Answer, model: Model, advice: bool) -> Vec<Point> {
    let is_wanted = |outcome: &&Outcome| (outcome.setting.model, outcome.setting.advice) == (model, advice);
    let outcomes = answer.outcomes.iter().filter(is_wanted);
    outcomes.map(|outcome| point(outcome.setting.pages, outcome.pages_an_update(), false)).collect()
}

fn by_time(answer: &Answer, model: Model, advice: bool) -> Vec<Point> {
    let Some(column) = columns().iter().position(|column| *column == (model, advice)) else { return vec![] };
    let Some(outcome) = answer.outcomes.get(column) else { return vec![] };
    let mut is_behind_gap = false;
    let mut points = vec![];
    for (number, rate) in answer.rates(outcome).enumerate() {
        if let Some(rate) = rate {
            points.push(point((number as u64 * PART) as f64, rate, is_behind_gap));
        }
        is_behind_gap = rate.is_none();
    }
    points
}
