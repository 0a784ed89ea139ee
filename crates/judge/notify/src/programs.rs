//! The running programs for messages. khz waits at its end until they have ended, so that none outlives it. It does not know what
//! they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The programs that run now.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    /// khz ends: the programs are asked to end, and no new one may begin.
    is_over: AtomicBool,
    running: Mutex<usize>,
    ended: Condvar,
}

/// Permission to run one program. Dropping it means that the program has ended.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Programs);

impl Programs {
    /// Notes the start of a program. `None`: khz ends, so no program may begin.
    pub fn begin(&self) -> Option<Running<'_>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        *running += 1;
        Some(Running(self))
    }

    /// Asks all programs to end, and waits until they have, at most this long.
    pub fn end(&self, most: Duration) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_over.store(true, Ordering::Release);
        let waited = self.ended.wait_timeout_while(running, most, |running| *running > 0);
        drop(waited);
    }

    /// What says that khz ends.
    pub fn is_over(&self) -> &AtomicBool {
        &self.is_over
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_waits_for_what_runs_and_lets_nothing_begin() {
        let programs = Programs::default();
        let running = programs.begin().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !programs.is_over().load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                assert!(programs.begin().is_none());
                drop(running);
            });
            programs.end(Duration::MAX);
            assert_eq!(*programs.running.lock().unwrap(), 0);
        });
        programs.end(Duration::MAX);
    }
}
