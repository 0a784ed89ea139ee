//! The state that the log gives when khz starts: past runs, runs in hand, and due retries. Reads no file.

use std::collections::HashMap;

use crate::desk::Desk;
use crate::ledger::Ledger;
use crate::record::{Again, Event, Key, Line};

/// The state according to the lines so far.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub ledger: Ledger,
    pub desk: Desk,
    /// Runs that may go on: their alerts, and the number of attempts.
    begun: HashMap<u64, (Key, u32)>,
}

impl Past {
    /// Takes the next line. `now`: ms since 1970.
    pub fn take(&mut self, line: &Line, now: i64) {
        match &line.event {
            Event::Begin { attempt, about } => {
                let key = about.key();
                self.desk.restore(key.clone(), now);
                // A running attempt is not repeated.
                self.desk.note(&key, None);
                self.begun.insert(line.run, (key, *attempt));
            }
            Event::Held { about, .. } => _ = self.desk.restore(about.key(), now),
            Event::Kept { key, again } => {
                self.desk.restore(key.clone(), now);
                self.desk.note(key, *again);
                if let Some(Again { run, attempts, .. }) = again {
                    self.begun.insert(*run, (key.clone(), *attempts));
                }
            }
            Event::End { again, .. } => self.ended(line.run, *again),
        }
        self.ledger.take(line);
    }

    /// An attempt has ended, and the next one is due at this time; `None`: there is none.
    fn ended(&mut self, run: u64, again: Option<i64>) {
        let Some((key, attempts)) = self.begun.remove(&run) else { return };
        self.desk.note(&key, again.map(|at| Again { run, attempts, at }));
        if again.is_some() {
            self.begun.insert(run, (key, attempts));
        }
    }
}
