//! The text of one survey of a tree while it is made, and its lines by folder. It leaves out instances beyond a limit, and counts them;
//! it reads nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use khz_model::Nanos;

use super::{TREE_INSTANCES_MAX, lock};
use crate::survey::churn::{Churn, Crowded, NEW_SERIES_TIME, OWN_SOURCE_NAMES_MAX};
use crate::survey::course::Course;
use crate::survey::line::Line;
use crate::survey::threads::Step;

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
    instances: u64,
    /// Where the names of new instances have a limit.
    churn: Option<Arc<Mutex<Churn>>>,
    /// The instances that were left out for it.
    crowded: u64,
}

impl Leaves {
    pub fn new() -> Self {
        Leaves::within(None)
    }

    /// A text whose new instances have this limit, too.
    pub(super) fn within(churn: Option<Arc<Mutex<Churn>>>) -> Self {
        Leaves {
            text: Vec::new(),
            lines: Vec::new(),
            steps: HashSet::new(),
            is_waiting: false,
            instances: 0,
            churn,
            crowded: 0,
        }
    }

    /// Adds a line of the present step, if there is room for its name.
    pub fn add(&mut self, line: Line) {
        if self.has_room_for(&line) {
            line.write(&mut self.text);
            self.lines.push(line);
        }
    }

    /// Adds the lines that another step had when it answered: as they were, or as stuck.
    pub(super) fn add_known(&mut self, step: &Step, lines: &[Line], is_stuck: bool) {
        for line in lines {
            if self.has_room_for(line) {
                match is_stuck {
                    true => line.write_stuck(&mut self.text),
                    false => line.write(&mut self.text),
                }
                self.steps.insert(step.clone());
            }
        }
    }

    fn has_room_for(&mut self, line: &Line) -> bool {
        let Some(churn) = &self.churn else { return true };
        let mut churn = lock(churn);
        let name = churn.series(line.begin(), line.begin().len());
        let is_taken = churn.take([name]).is_ok();
        self.crowded += u64::from(!is_taken);
        is_taken
    }

    /// All names are there: counts those that had no room, and says why.
    pub(super) fn end(&self, course: &mut Course<'_>) {
        let Some(churn) = &self.churn else { return };
        let mut churn = lock(churn);
        churn.end();
        course.left_out += self.crowded;
        let Some(why) = churn.recent() else { return };
        let problem = match why {
            Crowded::TooMany => {
                format!("instances are left out: their names may have {OWN_SOURCE_NAMES_MAX} bytes together")
            }
            Crowded::TooOften => format!(
                "instances are left out: their names change too often; {OWN_SOURCE_NAMES_MAX} bytes of new ones may come in {} s",
                NEW_SERIES_TIME.0 / Nanos::SECOND.0
            ),
        };
        course.note_of_all(problem);
    }

    /// True if there is a line of this folder.
    pub(super) fn has(&self, folder: &[u8]) -> bool {
        self.steps.iter().any(|(item, _)| item == folder)
    }

    /// The text; `None`: there is no instance.
    pub fn into_text(self) -> Option<Vec<u8>> {
        (!self.text.is_empty()).then_some(self.text)
    }

    /// False beyond the limit of instances; then one is counted as left out.
    pub fn has_room(&mut self, course: &mut Course<'_>) -> bool {
        let has_room = self.instances < TREE_INSTANCES_MAX as u64;
        self.instances += u64::from(has_room);
        course.left_out += u64::from(!has_room);
        has_room
    }
}
