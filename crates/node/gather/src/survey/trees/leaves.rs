//! The text of one survey of a tree while it is made, and its lines by folder. It leaves out instances beyond a limit, and counts them;
//! it reads nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use khz_model::Nanos;

use super::{TREE_INSTANCES_MAX, lock};
use crate::clock;
use crate::survey::churn::{Churn, Crowded, NEW_SERIES_TIME, Name, OWN_SOURCE_NAMES_MAX};
use crate::survey::course::Course;
use crate::survey::limited::Seats;
use crate::survey::line::Line;
use crate::survey::threads::Step;
use crate::survey::worker::named;

/// The lines of each folder, by its step.
pub(super) type Lines = HashMap<Step, Vec<Line>>;

/// One survey of a tree: the text, and of which folders it has lines.
pub(in crate::survey) struct Leaves {
    pub(super) text: Vec<u8>,
    /// The lines of the present step.
    pub(super) lines: Vec<Line>,
    pub(super) steps: HashSet<Step>,
    /// The answer of a step is waited for that has never answered.
    pub(super) is_waiting: bool,
    seats: Seats,
    names: Option<Names>,
}

/// The lines of a source where the names of new instances have a limit: which have room is known when all are there.
struct Names {
    churn: Arc<Mutex<Churn>>,
    lines: Vec<(Name, Vec<u8>)>,
}

impl Leaves {
    /// A text whose instances have these places, and whose new ones may have this limit, too.
    pub(super) fn new(seats: Seats, churn: Option<Arc<Mutex<Churn>>>) -> Self {
        Leaves {
            text: Vec::new(),
            lines: Vec::new(),
            steps: HashSet::new(),
            is_waiting: false,
            seats,
            names: churn.map(|churn| Names { churn, lines: Vec::new() }),
        }
    }

    /// False if there is no place for the instance with this name; then the instance counts as left
    /// out.
    pub fn takes(&mut self, name: &[u8]) -> bool {
        self.seats.takes(name)
    }

    /// Adds a line of the present step, whose instance has a place.
    pub fn add(&mut self, line: Line) {
        self.write(&line, false);
        self.lines.push(line);
    }

    /// Adds the lines that another step had when it answered: as they were, or as stuck.
    pub(super) fn add_known(&mut self, step: &Step, lines: &[Line], is_stuck: bool) {
        for line in lines {
            if self.takes(line.begin()) {
                self.write(line, is_stuck);
                self.steps.insert(step.clone());
            }
        }
    }

    fn write(&mut self, line: &Line, is_stuck: bool) {
        let text = match &mut self.names {
            None => &mut self.text,
            Some(names) => {
                let name = lock(&names.churn).series(line.begin(), line.begin().len());
                names.lines.push((name, Vec::new()));
                match names.lines.last_mut() {
                    Some((_, text)) => text,
                    None => return,
                }
            }
        };
        match is_stuck {
            true => line.write_stuck(text),
            false => line.write(text),
        }
    }

    /// All lines are there: reports how many instances had no place, and counts instances whose
    /// names had no room.
    pub(super) fn end(&mut self, course: &mut Course<'_>) {
        let left_out = self.seats.left_out();
        course.left_out += left_out;
        if let Some(Names { churn, lines }) = self.names.take() {
            let mut churn = lock(&churn);
            churn.begin(clock::boot());
            churn.reserve(lines.iter().map(|(name, _)| *name));
            for (name, line) in lines {
                match churn.take([name]) {
                    Ok(()) => self.text.extend(line),
                    Err(_) => course.left_out += 1,
                }
            }
            churn.end();
            if left_out > 0 {
                // Without their number: the log has each other text.
                course.note_of_all(format!(
                    "instances are left out: a source has {TREE_INSTANCES_MAX}, and those that were shown before keep their places"
                ));
            }
            if let Some(why) = churn.recent() {
                course.note_of_all(crowded(why));
            }
        } else if left_out > 0 {
            let what = named(course.subject());
            course.note_left_out(format!(
                "{left_out} instances of {what} are left out: khz shows {TREE_INSTANCES_MAX}, and those that were shown before keep their places"
            ));
        }
    }

    /// The places that are taken.
    pub(super) fn into_seats(self) -> Seats {
        self.seats
    }

    /// True if this folder has a line.
    pub(super) fn has(&self, folder: &[u8]) -> bool {
        self.steps.iter().any(|(item, _)| item == folder)
    }
}

/// Why names have no room, in words.
fn crowded(why: Crowded) -> String {
    match why {
        Crowded::TooMany => {
            format!("instances are left out: their names may have {OWN_SOURCE_NAMES_MAX} bytes together")
        }
        Crowded::TooOften => format!(
            "instances are left out: their names change too often; {OWN_SOURCE_NAMES_MAX} bytes of new ones may come in {} s",
            NEW_SERIES_TIME.0 / Nanos::SECOND.0
        ),
    }
}
