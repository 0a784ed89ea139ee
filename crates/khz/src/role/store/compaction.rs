//! The thread that makes columns of the log, merges and rolls up, and removes what is too old or too much: one step at a
//! time, and only when the machine has nothing else to do. The process may end at any moment: nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use khz_gather::{Placement, Sched};
use khz_model::{Nanos, Repeats};
use khz_store::compact::{Step, Tick};

use super::numbers::Numbers;
use super::{Shared, now_of_rows, pause};
use crate::show::outcome::sentence;

/// The time between two looks whether there is something to do, while rows come.
const PERIOD: Duration = Duration::from_secs(60);

/// After the last row, work goes on for this long: the last hour is merged when it is over. Then the thread sleeps until rows
/// come again.
const WORK_AFTER: Duration = Duration::from_secs(2 * 3_600);

/// An open block that is this old is handed over as far as it has come. Blocks of nodes that send each second end after a
/// minute; those of silent nodes may never end.
const OPEN_MAX: Nanos = Nanos::from_secs(600);

/// The thread's work.
pub(super) struct Compaction {
    shared: Arc<Shared>,
    numbers: Arc<Numbers>,
    /// Set by the first row after a time without rows.
    begun: Arc<AtomicBool>,
    failures: Repeats,
    damages: Repeats,
    start: Instant,
}

impl Compaction {
    pub fn new(shared: Arc<Shared>, numbers: Arc<Numbers>) -> Self {
        // There may be work left from before the start.
        let begun = Arc::new(AtomicBool::new(true));
        let (failures, damages) = (Repeats::default(), Repeats::default());
        Compaction { shared, numbers, begun, failures, damages, start: Instant::now() }
    }

    /// True while the thread wakes up by itself. Otherwise the first commit sets it, and unparks the thread.
    pub fn begun(&self) -> Arc<AtomicBool> {
        self.begun.clone()
    }

    pub fn run(mut self) {
        let idle = Placement { sched: Some(Sched::Idle), ..Placement::default() };
        if let Err(error) = idle.apply() {
            tracing::debug!("compaction: {error}");
        }
        let mut last_row = Instant::now();
        while !self.is_over() {
            if let Some(cluster) = self.shared.cluster.get().and_then(std::sync::Weak::upgrade) {
                cluster.hand_over(OPEN_MAX);
            }
            let rows = self.numbers.rows_come(&self.shared.store);
            if rows {
                last_row = Instant::now();
            }
            self.work();
            if last_row.elapsed() < WORK_AFTER {
                pause(PERIOD, &self.shared.is_over);
            } else {
                self.sleep();
                last_row = Instant::now();
            }
        }
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    /// Sleeps until rows come.
    fn sleep(&self) {
        self.begun.store(false, Ordering::Release);
        while !self.begun.load(Ordering::Acquire) && !self.is_over() {
            std::thread::park();
        }
    }

    /// Does what is to be done.
    fn work(&mut self) {
        let mut has_worked = false;
        while !self.is_over() {
            match self.shared.store.tick_compaction(now_of_rows()) {
                Ok(tick) if tick.is_idle() => break,
                Ok(tick) => self.done(&tick),
                // It is tried again after a minute.
                Err(error) => {
                    let text = sentence(&error);
                    self.warn(
                        |this| &mut this.failures,
                        &format!("rows stay in the log of the store: {text}"),
                    );
                    break;
                }
            }
            has_worked = true;
            self.numbers.count(&self.shared.store);
        }
        if has_worked {
            khz_door::heap::give_back();
        }
        self.numbers.count(&self.shared.store);
    }

    fn done(&mut self, tick: &Tick) {
        for damage in &tick.damage {
            self.warn(|this| &mut this.damages, &format!("{damage}; what is whole is kept"));
        }
        for unit in &tick.removed {
            tracing::info!("the store has removed {unit}: it was too old, or there was no room");
        }
        match tick.step {
            Step::Dropped { rows } => {
                let problem =
                    format!("the log has taken half of the store's room, and {rows} rows of it are dropped");
                self.warn(|this| &mut this.failures, &problem);
            }
            step => tracing::debug!("compaction: {step:?}"),
        }
    }

    /// Logs a problem, at most once a minute.
    fn warn(&mut self, of: impl Fn(&mut Self) -> &mut Repeats, problem: &str) {
        let now = Nanos(self.start.elapsed().as_nanos() as u64);
        if let Some(times) = of(self).happened(now) {
            tracing::warn!("{problem}{times}");
        }
    }
}
