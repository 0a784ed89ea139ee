//! Holds a connection for the two threads that drive it: the link's thread, and the thread that writes rows, which is awake
//! anyway. Only one of them has it at a time, and the thread that writes rows never waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use khz_model::Nanos;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::driver::bell::Bell;
use crate::driver::session::{End, Ended, Pause, Session, sleep};
use crate::driver::{Shared, clock};

/// If the thread that writes rows has stopped, the link's thread waits this much longer for it before it does what is
/// due.
const STOOD_STILL: Nanos = Nanos::SECOND;

/// Where the two threads take and return a connection.
pub(crate) struct Seat<E> {
    session: Mutex<Option<Session<E>>>,
    /// Before this time there is nothing to carry; 0: every row is to be sent at once.
    carries_from: AtomicU64,
    /// Ends the sleep of the link's thread. Other threads that drive the connection set it while the link's
    /// thread sleeps.
    alarm: Option<Alarm>,
}

impl<E> Seat<E> {
    /// A seat that only the link's thread uses.
    pub fn of_one() -> Self {
        Seat { session: Mutex::new(None), carries_from: AtomicU64::new(u64::MAX), alarm: None }
    }

    /// A seat that other threads may use too.
    pub fn of_many() -> Result<Self, Errno> {
        Ok(Seat { alarm: Some(Alarm::new()?), ..Seat::of_one() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Session<E>>> {
        self.session.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<E: End> Seat<E> {
    /// Drives the connection until it ends; only the link's thread calls this.
    pub fn talk(&self, session: Session<E>, shared: &Shared) -> (Session<E>, Ended) {
        let mut own = self.lock();
        let session = own.insert(session);
        let mut turned = self.turn(session, shared);
        loop {
            let pause = match turned {
                Ok(pause) => pause,
                Err(ended) => {
                    self.carries_from.store(u64::MAX, Ordering::Relaxed);
                    return (
                        own.take().unwrap_or_else(|| unreachable!("BUG: a connection that was taken away")),
                        ended,
                    );
                }
            };
            let mut woken = Ok(());
            if let Some(pause) = pause {
                drop(own);
                let is_readable = self.sleep(&pause, shared);
                own = self.lock();
                woken = own.as_mut().map_or(Ok(()), |session| session.wake(is_readable));
            }
            let session =
                own.as_mut().unwrap_or_else(|| unreachable!("BUG: a connection that was taken away"));
            turned = woken.and_then(|()| self.turn(session, shared));
        }
    }

    fn turn(&self, session: &mut Session<E>, shared: &Shared) -> Result<Option<Pause>, Ended> {
        if shared.is_stopped() {
            return Err(Ended::Stopped);
        }
        if let Some((to, text)) = shared.moves.take() {
            return Err(Ended::Moves(to, text));
        }
        let pause = session.turn()?;
        self.note(session);
        Ok(pause)
    }

    /// Notes when the other threads are needed, and when the link's thread is needed.
    fn note(&self, session: &Session<E>) {
        let carries_from = session.end.carries_from().0;
        self.carries_from.store(carries_from, Ordering::Relaxed);
        // If the thread that writes rows sends some every second, the link's thread is needed only when that thread stops.
        let slack = if session.end.is_carried_often() { STOOD_STILL } else { Nanos(0) };
        if let Some(alarm) = &self.alarm {
            alarm.set(session.end.next_wake(), slack);
        }
    }

    /// Sleeps until bytes have come, there is room, the bell rings, or the time has come. `true`: there is
    /// something to read.
    fn sleep(&self, pause: &Pause, shared: &Shared) -> bool {
        let what = (pause.socket.as_fd(), pause.interest);
        // Where nobody else drives the connection while this sleeps, nobody has to set an alarm.
        let is_carried = self.carries_from.load(Ordering::Relaxed) != u64::MAX;
        match self.alarm.as_ref().filter(|_| is_carried) {
            None => sleep(Some(what), &shared.bell, pause.until.since(clock::now())),
            Some(alarm) => alarm.sleep(what, &shared.bell),
        }
    }

    /// Sends the rows that were written just now, on the thread that has written them. If there is more to send, or the link's
    /// thread has the connection, that thread sends them.
    pub fn carry(&self, shared: &Shared) {
        let from = self.carries_from.load(Ordering::Relaxed);
        if from > 0 && clock::now().0 < from {
            return;
        }
        let carried = match self.session.try_lock() {
            Ok(mut session) => self.carry_in(session.as_mut()),
            Err(TryLockError::Poisoned(poisoned)) => self.carry_in(poisoned.into_inner().as_mut()),
            Err(TryLockError::WouldBlock) => false,
        };
        // A flush has its own alarm.
        if !carried && from == 0 {
            shared.bell.ring();
        }
    }

    fn carry_in(&self, session: Option<&mut Session<E>>) -> bool {
        let Some(session) = session else { return true };
        let carried = session.carry();
        if carried {
            self.note(session);
        }
        carried
    }
}

/// A timer that ends a sleep and can be set meanwhile.
struct Alarm {
    timer: OwnedFd,
    set: AtomicU64,
}

impl Alarm {
    fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Alarm { timer: timerfd_create(TimerfdClockId::Boottime, flags)?, set: AtomicU64::new(u64::MAX) })
    }

    /// Goes off at this time, or up to `slack` later. If it is already set within that time, it
    /// stays as it is.
    fn set(&self, at: Nanos, slack: Nanos) {
        let latest = at.0.saturating_add(slack.0);
        if (at.0..=latest).contains(&self.set.load(Ordering::Relaxed)) {
            return;
        }
        let at = Nanos(latest);
        self.set.store(at.0, Ordering::Relaxed);
        // A time in the past goes off at once; zero would mean never.
        let at = at.0.clamp(1, i64::MAX as u64);
        let value = Timespec { tv_sec: (at / 1_000_000_000) as i64, tv_nsec: (at % 1_000_000_000) as i64 };
        let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval: interval, it_value: value };
        // The kernel refuses only an invalid time.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time);
    }

    /// Sleeps until the descriptor is ready, the bell rings or the timer goes off; both are silenced. `true`: something can be
    /// read from the descriptor.
    fn sleep(&self, (fd, interest): (BorrowedFd<'_>, PollFlags), bell: &Bell) -> bool {
        let mut fds = [
            PollFd::new(bell, PollFlags::IN),
            PollFd::new(&self.timer, PollFlags::IN),
            PollFd::from_borrowed_fd(fd, interest),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            // It fails only for a broken descriptor, which the next read reports.
            Err(_) => return true,
        }
        let [rung, over, ready] = fds.map(|fd| fd.revents() & !PollFlags::OUT != PollFlags::empty());
        if rung {
            bell.silence();
        }
        if over {
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
            self.set.store(u64::MAX, Ordering::Relaxed);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use rustix::time::timerfd_gettime;

    use super::*;

    fn now() -> Nanos {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// In how many seconds it goes off, according to the kernel; 0: never.
    fn left(alarm: &Alarm) -> u64 {
        timerfd_gettime(&alarm.timer).unwrap().it_value.tv_sec as u64
    }

    #[test]
    fn an_alarm_goes_off_at_its_time_or_a_little_later_where_it_is_set_to_that() {
        let alarm = Alarm::new().unwrap();
        assert_eq!(left(&alarm), 0, "it is not set");
        let (now, seconds) = (now(), |n: u64| Nanos::from_secs(n));
        let at = |later: u64| Nanos(now.0 + seconds(later).0 + 999_999_999);
        // An hour on a busy machine is not over soon.
        alarm.set(at(10_000), seconds(0));
        assert!((6_400..=10_000).contains(&left(&alarm)), "in {} s", left(&alarm));
        alarm.set(at(8_000), seconds(2_000));
        assert_eq!(alarm.set.load(Ordering::Relaxed), at(10_000).0, "it goes off in time");
        alarm.set(at(30_000), seconds(5_000));
        assert_eq!(alarm.set.load(Ordering::Relaxed), at(35_000).0, "a little later is as good");
        assert!((31_400..=35_000).contains(&left(&alarm)), "in {} s", left(&alarm));
        alarm.set(at(20_000), seconds(1));
        assert!((16_400..=20_001).contains(&left(&alarm)), "in {} s", left(&alarm));
    }
}
