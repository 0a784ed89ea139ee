//! The end of a recording from a hub: the rows that may still come, and how long to wait for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use khz_link::driver::Event;
use khz_model::fold::fold;
use khz_record::{RecordError, Recorder};

use super::POLL_PERIOD;
use super::hub_rows::HubRows;
use super::progress::some;
use crate::show::table::printable;

/// Rows that are on their way at the end come within this time.
const LAST_ROWS: Duration = Duration::from_secs(5);

/// The longest wait, at the end, for an absent hub and for missed rows. An agent connects again within 4 s after its hub is back,
/// and then sends the rows in its ring.
const MISSED_ROWS: Duration = Duration::from_secs(15);

/// What a user can do at the end of a recording, and sees of it.
pub struct Ending<'a> {
    /// True if the user does not want to wait.
    pub is_wanted: &'a dyn Fn() -> bool,
    /// Prints what the recorder waits for.
    pub say: &'a mut dyn FnMut(&str),
}

impl HubRows {
    /// Waits for the rows gathered until now and for missed ones, cancels the subscription, and takes the rows that are on their
    /// way. Stops waiting if the user wants that.
    pub fn finish(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        self.copy(recorder)?;
        self.copy_missed(recorder, ending)?;
        self.following.unsubscribe(self.interest);
        let until = Instant::now() + LAST_ROWS;
        // The rows of open blocks are already here and come at once, so this does not wait long even if the user wants to stop.
        while !self.open.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            if let Some(event) = self.events.next_within(left.min(POLL_PERIOD)) {
                self.take(event, recorder)?;
            }
        }
        Ok(())
    }

    fn copy_missed(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        let end = Instant::now() + MISSED_ROWS;
        // By then all rows gathered until now have come.
        let mut until = Instant::now() + self.flush;
        let mut is_announced = false;
        loop {
            let now = Instant::now();
            let awaited = self.awaited(recorder, now >= until);
            let wait = match &awaited {
                Some(_) => end.saturating_duration_since(now),
                None => until.min(end).saturating_duration_since(now),
            };
            if wait.is_zero() || self.refused.is_some() || (ending.is_wanted)() {
                return Ok(());
            }
            if let Some(awaited) = awaited.filter(|_| !is_announced && now >= until) {
                is_announced = true;
                let seconds = wait.as_secs_f64().ceil();
                (ending.say)(&format!(
                    "waiting up to {seconds} s for {awaited}; Ctrl-C ends it with what there is"
                ));
            }
            let Some(event) = self.events.next_within(wait.min(POLL_PERIOD)) else { continue };
            // A growing schema is no new lane.
            if matches!(&event, Event::Lane { lane, .. } if !self.open.contains(lane)) {
                until = Instant::now() + self.flush;
            }
            self.take(event, recorder)?;
        }
    }

    /// A description of the rows that may still come. `is_late`: the rows gathered until the end should already be here.
    fn awaited(&self, recorder: &Recorder, is_late: bool) -> Option<String> {
        let owed = recorder.awaited(&self.began);
        let mut words = Vec::new();
        if !owed.is_empty() {
            let rows = owed.values().fold(0u64, |sum, rows| sum.saturating_add(*rows));
            let (rows, owe) = (some(rows, "row", "rows"), if owed.len() == 1 { "owes" } else { "owe" });
            words.push(format!("{rows} that {} still {owe}", printable(&fold(owed.keys()))));
        }
        let away: BTreeSet<&str> = self.out_of_sight.iter().map(|(node, _)| node.as_str()).collect();
        if !away.is_empty() {
            words.push(format!("{}, unheard since the connection broke", printable(&fold(&away))));
        }
        let silent = if is_late { recorder.unheard() } else { BTreeMap::new() };
        let silent: Vec<&str> = silent.into_keys().filter(|node| !away.contains(node)).collect();
        if !silent.is_empty() {
            words.push(format!("{}, silent at the end", printable(&fold(silent))));
        }
        (!words.is_empty()).then(|| words.join(", and for "))
    }
}
