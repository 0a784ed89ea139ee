//! Lines of a job on their way from its output to the agent. While the agent takes lines, a job that writes faster waits; while the
//! agent takes none, the job never waits, and the oldest lines are left out and counted. Knows neither names nor sockets.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use khz_gather::{DATAGRAM_MAX, LINES_MAX};

/// Lines that wait: a job that says a hundred numbers a second fills this in ten seconds. Each is short enough for a datagram.
pub const JOB_LINES_MAX: usize = 1_024;

/// Lines that are sent together, as the text of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Together {
    pub text: String,
    /// How many lines these are.
    pub lines: usize,
}

/// The lines that wait.
#[derive(Default)]
pub struct JobLines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    /// The agent takes no lines now.
    is_stuck: bool,
    left_out: u64,
    is_over: bool,
}

impl JobLines {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more line. If there is no room, waits for it, or the oldest line makes room.
    pub fn put(&self, line: String) {
        let has_to_wait = |state: &mut State| state.lines.len() >= JOB_LINES_MAX && !state.is_stuck;
        let state = self.changed.wait_while(self.lock(), has_to_wait);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.lines.len() >= JOB_LINES_MAX {
            state.lines.pop_front();
            state.left_out += 1;
        }
        state.lines.push_back(line);
        self.changed.notify_all();
    }

    /// No more lines come.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits for a line, and takes the oldest ones that are there, as many as an agent takes in one datagram; `None`: there are no
    /// more. No line waits for others to come.
    pub fn take(&self) -> Option<Together> {
        let is_empty = |state: &mut State| state.lines.is_empty() && !state.is_over;
        let state = self.changed.wait_while(self.lock(), is_empty);
        let waiting = &mut state.unwrap_or_else(PoisonError::into_inner).lines;
        let mut taken = Together { text: waiting.pop_front()?, lines: 1 };
        while taken.lines < LINES_MAX {
            let fits = |line: &String| taken.text.len() + 1 + line.len() <= DATAGRAM_MAX;
            if !waiting.front().is_some_and(fits) {
                break;
            }
            let Some(line) = waiting.pop_front() else { break };
            taken.text.push('\n');
            taken.text.push_str(&line);
            taken.lines += 1;
        }
        self.changed.notify_all();
        Some(taken)
    }

    /// From now on the agent takes no lines, or takes them again.
    pub fn stuck(&self, is_stuck: bool) {
        self.lock().is_stuck = is_stuck;
        self.changed.notify_all();
    }

    /// How many lines were left out so far.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_waits_for_room_while_lines_are_taken_and_loses_the_oldest_ones_while_none_are() {
        let lines = JobLines::default();
        let count = 3 * JOB_LINES_MAX;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..count).for_each(|n| lines.put(n.to_string()));
                lines.end();
            });
            let taken: Vec<Together> = std::iter::from_fn(|| lines.take()).collect();
            let taken: Vec<&str> = taken.iter().flat_map(|one| one.text.lines()).collect();
            assert_eq!((taken.len(), taken.last(), lines.left_out()), (count, Some(&"3071"), 0));
        });
        let lines = JobLines::default();
        lines.stuck(true);
        (0..count).for_each(|n| lines.put(n.to_string()));
        lines.end();
        assert_eq!(lines.left_out(), (count - JOB_LINES_MAX) as u64);
        let text = lines.take().unwrap().text;
        assert_eq!(text.lines().next(), Some("2048"), "the newest are left");
    }

    #[test]
    fn lines_that_are_there_share_a_datagram_of_which_an_agent_takes_all() {
        let lines = JobLines::default();
        lines.put("a".to_owned());
        assert_eq!(lines.take(), Some(Together { text: "a".to_owned(), lines: 1 }));
        let all: Vec<String> = (0..LINES_MAX + 2).map(|n| format!("a={n}")).collect();
        let long = "x".repeat(DATAGRAM_MAX);
        all.iter().chain([&long, &all[0]]).for_each(|line| lines.put(line.clone()));
        lines.end();
        let taken: Vec<Together> = std::iter::from_fn(|| lines.take()).collect();
        let counts: Vec<usize> = taken.iter().map(|one| one.lines).collect();
        assert_eq!(counts, [LINES_MAX, 2, 1, 1], "the long one is alone");
        assert!(
            taken.iter().all(|one| one.text.len() <= DATAGRAM_MAX && one.text.lines().count() == one.lines)
        );
        assert_eq!(taken[1].text, format!("{}\n{}", all[LINES_MAX], all[LINES_MAX + 1]));
    }

    #[test]
    fn a_job_that_waits_goes_on_when_the_agent_stands_still() {
        let lines = JobLines::default();
        std::thread::scope(|scope| {
            let job = scope.spawn(|| (0..=JOB_LINES_MAX).for_each(|n| lines.put(n.to_string())));
            // The job is somewhere on its way, or waits for room for its last line.
            lines.stuck(true);
            assert!(job.join().is_ok());
        });
        assert_eq!(lines.left_out(), 1);
    }
}
