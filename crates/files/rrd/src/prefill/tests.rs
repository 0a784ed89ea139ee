//! The work follows the rows that exist; the values are those of the points, one by one.

use super::*;
use crate::rra::Function;

const STEP: u64 = 1;
/// A moment at which rows of a day end.
const NOW: i64 = 86_400 * 15_000;

fn sources(count: usize) -> Vec<DataSource> {
    let mut plan = create::Plan::default();
    (0..count).for_each(|index| drop(plan.source(&format!("s{index}:GAUGE:600:U:U")).unwrap()));
    plan.sources
}

fn definition(sources_count: usize, archives: &[(Function, u64, u64)]) -> Definition {
    let archive = |&(function, points, rows)| Archive::plain(function, 0.5, points, rows);
    Definition {
        version: 3,
        step: STEP,
        sources: sources(sources_count),
        archives: archives.iter().map(archive).collect(),
    }
}

/// A file whose rows are all known: row and source make the value.
fn file(sources_count: usize, archives: &[(Function, u64, u64)]) -> Content {
    let header = create::header(definition(sources_count, archives), NOW, |_, _| 0).unwrap();
    let mut content = Content::fresh(header);
    for state in &mut content.archives {
        state.values.iter_mut().enumerate().for_each(|(index, value)| *value = (index % 1009) as f64);
    }
    content
}

fn size(content: &Content) -> u64 {
    content.archives.iter().map(|state| state.values.len() as u64).sum()
}

/// Fills a file of `archives` from `files`; returns it and how many rows and runs were visited.
fn filled(sources: usize, archives: &[(Function, u64, u64)], files: &[Content]) -> (Content, u64) {
    work::visits();
    let content = fill(definition(sources, archives), (NOW, 0), &[], files).unwrap();
    (content, work::visits())
}

const PLAIN: [Function; 4] = [Function::Average, Function::Min, Function::Max, Function::Last];

/// Archives of each function.
fn of_each(shapes: &[(u64, u64)]) -> Vec<(Function, u64, u64)> {
    let of = |function| shapes.iter().map(move |&(points, rows)| (function, points, rows));
    PLAIN.into_iter().flat_map(of).collect()
}

/// Rows of the files times archives to be filled, and rows to be filled times files.
fn bound(archives: &[(Function, u64, u64)], files: &[Content], content: &Content) -> u64 {
    let rows: u64 = files.iter().map(size).sum();
    // A row becomes a run, is merged with finer ones, is read for a row of the same function, and as a run.
    let (to_fill, count) = (archives.len() as u64, files.len() as u64);
    let merged = files.iter().map(|file| file.archives.len() as u64).sum::<u64>();
    rows * (4 * to_fill + 2 * merged) + 4 * size(content) * count
}

#[test]
fn the_work_is_bounded_by_the_rows_that_exist_whatever_they_stand_for() {
    use Function::{Average, Last, Max};
    let days = file(1, &[(Average, 1, 1000), (Average, 86_400, 4000)]);
    let decades = file(1, &[(Average, 1, 100), (Max, 1_000_000_000, 3), (Average, 1_000_000_000, 2)]);
    let many: Vec<_> = (1..=60).map(|points| (Average, points, 20)).collect();
    let wide = file(40, &[(Average, 1, 50), (Average, 60, 50), (Last, 60, 50)]);
    let odd = file(1, &[(Average, 7, 300), (Average, 1001, 300), (Average, 3600, 300)]);
    let hours = of_each(&[(3600, 9000)]);
    let rows_of_decades = of_each(&[(1_000_000_000, 2), (i64::MAX as u64, 3)]);
    let cases: [(&str, usize, Vec<_>, Vec<Content>); 8] = [
        ("hours of days", 1, hours.clone(), vec![days.clone()]),
        ("points of days", 1, of_each(&[(1, 50_000)]), vec![days.clone()]),
        ("decades of days", 1, rows_of_decades.clone(), vec![days.clone()]),
        ("decades of decades", 1, rows_of_decades, vec![decades]),
        (
            "many archives",
            1,
            of_each(&(1..=60).map(|points| (points, 20)).collect::<Vec<_>>()),
            vec![file(1, &many)],
        ),
        ("many sources", 40, of_each(&[(60, 50), (300, 50)]), vec![wide]),
        ("several files", 1, hours.clone(), vec![days.clone(), odd.clone(), days]),
        ("rows that do not fit", 1, hours, vec![odd]),
    ];
    for (name, sources, archives, files) in cases {
        let (content, visits) = filled(sources, &archives, &files);
        let bound = bound(&archives, &files, &content);
        assert!(visits > 0 && visits <= bound, "{name}: {visits} visits, {bound} are allowed");
    }
}

#[test]
fn an_archive_added_to_a_file_is_filled_with_bounded_work() {
    let mut content = file(1, &[(Function::Average, 86_400, 4000)]);
    content.add_archive(Archive::plain(Function::Max, 0.5, 3600, 9000));
    work::visits();
    archive_from_others(&mut content, 1);
    assert!(work::visits() < 100_000);
    let newest = content.archives[0].values[3999];
    assert_eq!(content.archives[1].values[9000 - 24..], [newest; 24]);
}

/// The value of the point that ends at `end`, found row by row as the manual of this module says.
fn point(content: &Content, end: i64) -> Option<f64> {
    let mut averages: Vec<_> =
        content.archives.iter().filter(|state| state.archive.function == Function::Average).collect();
    averages.sort_by_key(|state| state.archive.points);
    averages.into_iter().find_map(|state| {
        let seconds = (state.archive.points * content.step) as i64;
        let newest = NOW - NOW.rem_euclid(seconds);
        let known = state.values.iter().rev().enumerate().filter(|(back, value)| {
            let row = newest - *back as i64 * seconds;
            !value.is_nan() && row - seconds < end && row > end - STEP as i64
        });
        let values: Vec<f64> = known.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().rev().sum::<f64>() / values.len() as f64)
    })
}

#[test]
fn a_row_is_that_of_its_points_one_by_one() {
    use Function::Average;
    let mut content = file(1, &[(Average, 1, 40), (Average, 7, 30), (Average, 30, 20), (Average, 45, 30)]);
    // Gaps within each archive, at its begin, and at its end.
    for state in &mut content.archives {
        let rows = state.values.len();
        for row in [0, 3, 4, rows / 2, rows - 2, rows - 1] {
            state.values[row] = f64::NAN;
        }
    }
    let archives = of_each(&[(2, 300), (11, 120), (60, 40), (450, 4)]);
    let (new, _) = filled(1, &archives, std::slice::from_ref(&content));
    let mut compared = 0;
    for state in new.archives.iter().filter(|state| state.archive.function == Average) {
        let count = state.archive.points;
        let (newest, seconds) = (NOW - NOW.rem_euclid(count as i64), count as i64);
        for (back, value) in state.values.iter().rev().enumerate() {
            let begin = newest - (back as i64 + 1) * seconds;
            let known: Vec<f64> = (1..=seconds).filter_map(|at| point(&content, begin + at)).collect();
            let is_known = known.len() as f64 >= count as f64 * 0.5;
            assert_eq!(is_known, !value.is_nan(), "{count} points, {back} rows back");
            if is_known {
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                assert!((value - mean).abs() < 1e-9 * mean.abs().max(1.0), "{value} and {mean}");
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}
