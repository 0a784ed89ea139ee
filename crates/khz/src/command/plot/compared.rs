//! Several recordings in one chart, each from its own first row on: two runs of a program, or a machine before and after a change.

use std::path::{Path, PathBuf};

use khz_view::Chart;

use super::curves::{CURVES_MAX, Curve, curves};
use super::{Frame, PlotFlags, Wanted, draw, period};
use crate::command::recording::{Chosen, Opened, open};
use crate::show::outcome::Failure;

/// Recordings of one picture: more cannot be compared by eye, and each is read on its own.
const RECORDINGS_MAX: usize = 16;

/// The chart, and the recordings, which know what of them was not there.
pub fn chart(flags: &PlotFlags) -> Result<(Chart, Vec<Opened>), Failure> {
    let files = &flags.chosen.files;
    if !(2..=RECORDINGS_MAX).contains(&files.len()) {
        return Err(Failure::usage(format!(
            "--compare takes two to {RECORDINGS_MAX} recordings, one FILE each"
        )));
    }
    let (mut recordings, mut lines, mut left_out) = (Vec::new(), Vec::new(), 0);
    for file in files {
        let (opened, wanted, mut found, beyond) = read(flags, file)?;
        lines.append(&mut found);
        left_out += beyond + lines.len().saturating_sub(CURVES_MAX);
        lines.truncate(CURVES_MAX);
        recordings.push((opened, wanted));
    }
    let [(_, wanted), ..] = &recordings[..] else { return Err(Failure::usage("--compare needs recordings")) };
    let seconds = |opened: &Opened| opened.to.since(opened.from).as_secs_f64();
    let frame = Frame {
        from: None,
        seconds: recordings.iter().map(|(opened, _)| seconds(opened)).fold(0.0, f64::max),
        period: recordings.iter().filter_map(|(opened, _)| period(opened)).min(),
        measure: wanted.measure,
        whose: "recordings",
    };
    let chart = draw(flags, &wanted.patterns, &wanted.right, (lines, left_out), frame)?;
    Ok((chart, recordings.into_iter().map(|(opened, _)| opened).collect()))
}

/// A recording, what of it is wanted, its lines, and how many more there are. The panels have the name of its file.
fn read(flags: &PlotFlags, file: &Path) -> Result<(Opened, Wanted, Vec<Curve>, usize), Failure> {
    let files = &flags.chosen.files;
    let opened = open(&alone(&flags.chosen, file))?;
    let wanted = Wanted::of(flags, &opened)?;
    let points = |lines| wanted.points(flags, lines * files.len());
    let (mut lines, beyond) = curves(&opened, &wanted.patterns, wanted.measure, points)?;
    let name = name(file, files.iter().map(PathBuf::as_path));
    let has_nodes = lines.iter().any(|line| line.node != lines[0].node);
    for line in &mut lines {
        line.panel = if has_nodes { format!("{name}, {}", line.node) } else { name.clone() };
    }
    Ok((opened, wanted, lines, beyond))
}

/// What is chosen, of one file.
fn alone(chosen: &Chosen, file: &Path) -> Chosen {
    Chosen {
        files: vec![file.to_owned()],
        patterns: chosen.patterns.clone(),
        from: chosen.from.clone(),
        to: chosen.to.clone(),
    }
}

/// A file's name without its ending, or its whole path if another file has the same name.
fn name<'a>(file: &Path, all: impl Iterator<Item = &'a Path>) -> String {
    let is_alone = all.filter(|other| other.file_stem() == file.file_stem()).count() == 1;
    let name = file.file_stem().filter(|_| is_alone).unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}
