//! When a node's machine was booted, and when khz was started again on it: out of the time of the boot, and of the CPU time that
//! khz has used, which begins again at 0.

use khz_promql::is_stale;

use crate::events::list::List;
use crate::events::{Event, EventKind, Watch};

/// The kernel says the time of the boot in whole seconds (ms).
const BOOT_ROUNDED: i64 = 1_000;

/// The time of the boot as it comes.
#[derive(Debug, Default)]
pub(super) struct Boots {
    /// The last sample: its time (ms), and the time of the boot (s).
    last: Option<(i64, f64)>,
}

impl Watch for Boots {
    fn sample(&mut self, time: i64, value: f64, list: &mut List) {
        if is_stale(value) || !value.is_finite() {
            return;
        }
        let Some((before, boot)) = self.last.replace((time, value)) else { return };
        let booted = (value * 1_000.0) as i64;
        // A clock that is set moves this time, too; but a boot is after the last row of the run before.
        if value > boot && booted + BOOT_ROUNDED > before && booted <= time {
            list.push(moment(EventKind::Booted, booted.max(before), "booted"));
        }
    }

    fn finish(self, _: &mut List) {}
}

/// The CPU time of khz as it comes.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// The last sample.
    last: Option<(i64, f64)>,
}

impl Watch for Starts {
    fn sample(&mut self, time: i64, value: f64, list: &mut List) {
        if is_stale(value) {
            return;
        }
        let Some((before, used)) = self.last.replace((time, value)) else { return };
        if value < used {
            // From the last row of the run before to the first one of this.
            let text = String::from("khz was started again");
            list.push(Event {
                kind: EventKind::Restarted,
                begin: before,
                end: Some(time),
                is_earlier: false,
                text,
            });
        }
    }

    fn finish(self, _: &mut List) {}
}

/// A boot also restarts khz: both are one event.
pub(super) fn drop_those_of_boots(starts: &mut List, boots: &List) {
    starts.retain(|start| {
        let end = start.end.unwrap_or(start.begin);
        !boots.events().any(|boot| (start.begin..=end).contains(&boot.begin))
    });
}

fn moment(kind: EventKind, begin: i64, text: &str) -> Event {
    Event { kind, begin, end: Some(begin), is_earlier: false, text: text.to_owned() }
}
