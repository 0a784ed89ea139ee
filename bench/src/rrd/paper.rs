//! The paper's own load: 320,000 files of MRTG's size with 10 GB for the page cache, each way to update them in turn,
//! over two hours with a midnight in them. Then fewer files whose first archive has a year or five years: these must
//! not cost more.

use std::time::Duration;

use super::course::{self, Pace, Size};
use super::drawn::{self, Ended};
use super::kept::Kept;
use super::tree::{Shape, Tree};
use super::updater::looping;
use super::way::Way;
use crate::error::BenchError;
use crate::record::{Bound, Record};
use crate::spread::Spread;
use crate::table::{Table, figure};

/// Rounds of the two hours.
const ROUNDS: i64 = 24;

/// The paper's ways, and those after it.
const WAYS: [Way; 5] = [Way::Nothing, Way::Advice, Way::CacheWithoutAdvice, Way::Spreading, Way::Rrdcached];

/// What files with longer archives may cost, as a multiple of the ordinary ones.
const LONGER_MAX: f64 = 1.1;

/// Runs the section.
pub fn run(record: &mut Record) -> Result<(), BenchError> {
    paper(record)?;
    longer(record)
}

fn paper(record: &mut Record) -> Result<(), BenchError> {
    looping()?;
    let pace = Pace {
        round: Duration::from_secs(record.effort.of(20, 1)),
        give_up: Duration::from_secs(record.effort.of(300, 10)),
        enough: Duration::from_secs(record.effort.of(900, 15)),
    };
    let size = Size {
        files: record.effort.of(320_000, 2_000),
        shape: Shape::MRTG,
        memory: record.effort.of(10_000_000_000, 62_500_000),
        pace,
    };
    let kept = Kept::open("paper", &format!("{size:?}"))?;
    let mut courses = Vec::new();
    for way in WAYS {
        courses.push(kept.or_run(record, way.name(), || course::whole(record, way, size, ROUNDS))?);
    }
    let title = format!(
        "{} files of {}, {:.1} GB of memory, rounds at least {} s apart",
        size.files,
        size.shape.about,
        size.memory as f64 / 1e9,
        pace.round.as_secs()
    );
    courses.iter().for_each(|course| drawn::keep(record, "paper", course));
    drawn::table(record, &format!("## {title}"), &courses);
    drawn::plots(record, "paper", &title, "end of the round, UTC", &courses, |round| round.clock())?;
    for course in &courses {
        let seconds = Spread::of(course.rounds.iter().map(|round| round.seconds));
        record.verdict(&format!("{}: seconds of a round", course.name), seconds, Bound::Stated);
        let longest = Spread::of(course.rounds.iter().map(|round| round.seconds).reduce(f64::max));
        record.verdict(&format!("{}: longest round, seconds", course.name), longest, Bound::Stated);
    }
    kept.forget()
}

/// Files with a year and with five years of five-minute averages beside ordinary ones.
fn longer(record: &mut Record) -> Result<(), BenchError> {
    let pace = Pace {
        round: Duration::from_secs(record.effort.of(3, 1)),
        give_up: Duration::from_secs(60),
        enough: Duration::from_secs(record.effort.of(120, 15)),
    };
    let mut table = Table::new(&["way", "file", "CPU s", "read MB", "written MB", "longest s"]);
    for way in [Way::Spreading, Way::Advice] {
        let mut first: Option<Ended> = None;
        for shape in [Shape::MRTG, Shape::YEAR, Shape::YEARS] {
            let size = Size {
                files: record.effort.of(1_500, 50),
                shape,
                memory: record.effort.of(128, 64) << 20,
                pace,
            };
            let course = course::whole(record, way, size, ROUNDS)?;
            drawn::keep(
                record,
                "longer",
                &Ended { name: format!("{} {}", way.name(), shape.about), ..course.clone() },
            );
            let of =
                |course: &Ended, of: fn(&course::Round) -> f64| course.rounds.iter().map(of).sum::<f64>();
            table.row([
                way.name().to_owned(),
                shape.about.to_owned(),
                figure(of(&course, |round| round.cpu_s)),
                figure(of(&course, |round| round.read_mb)),
                figure(of(&course, |round| round.written_mb)),
                figure(course.rounds.iter().map(|round| round.seconds).fold(0.0, f64::max)),
            ]);
            let ordinary = first.get_or_insert(course.clone());
            if shape != Shape::MRTG && way == Way::Spreading {
                let ratio = of(&course, |round| round.cpu_s) / of(ordinary, |round| round.cpu_s);
                let name = format!("files of {}: CPU, as a multiple of ordinary ones'", shape.about);
                record.verdict(&name, Spread::of([ratio]), Bound::AtMost(LONGER_MAX));
            }
        }
    }
    record.show("## Files with longer archives", &table);
    if record.effort.quick {
        return Ok(());
    }
    [Shape::MRTG, Shape::YEAR, Shape::YEARS].into_iter().try_for_each(|shape| Tree::give_back(record, shape))
}
