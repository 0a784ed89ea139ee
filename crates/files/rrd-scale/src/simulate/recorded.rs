//! Updates out of a trace: each file of the simulation is one of the trace's copies, and does at each step what that did.

use khz_rrd::Result;
use khz_rrd::error::refused;

use super::touch::{Touch, Updates, Way};
use super::trace::{Trace, Used};

/// Updates of a trace, by copy and step.
#[derive(Debug, Clone)]
pub struct Recorded {
    trace: Trace,
    /// For each copy, which updates of the trace are its own, in order.
    updates: Vec<Vec<u32>>,
    /// The step of the first updates, and how many steps all copies have.
    first: u64,
    steps: u64,
    now: u64,
}

impl Recorded {
    /// The updates of `trace`.
    ///
    /// # Errors
    /// Copies that were not updated at the same steps.
    pub fn new(trace: Trace, name: &str) -> Result<Self> {
        let mut updates = vec![vec![]; trace.copies.len()];
        for (number, update) in trace.updates.iter().enumerate() {
            updates[update.copy as usize].push(number as u32);
        }
        let span = |own: &Vec<u32>| {
            let first = own.first().map(|number| trace.updates[*number as usize].time / trace.step);
            (first, own.len() as u64)
        };
        let Some((Some(first), steps)) = updates.first().map(span) else {
            return refused(format!("{name}: copy 0 of the trace has no updates; record it again"));
        };
        if let Some(other) = updates.iter().position(|own| span(own) != (Some(first), steps)) {
            return refused(format!(
                "{name}: copy {other} of the trace has updates at other steps than copy 0; record it again"
            ));
        }
        Ok(Self { trace, updates, first, steps, now: first })
    }

    /// The step of the first updates, and how many steps follow each other.
    pub fn span(&self) -> (u64, u64) {
        (self.first, self.steps)
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

impl Updates for Recorded {
    fn go_to(&mut self, tick: u64) {
        self.now = tick;
    }

    fn pages(&self, file: u32) -> u32 {
        self.trace.copies[file as usize % self.trace.copies.len()].pages
    }

    /// A trace has no order; our engine's is: the header is read, then rows are read or written in the order of the file, and
    /// last the header is written.
    fn of(&self, file: u32, touches: &mut Vec<Touch>) {
        let copy = file as usize % self.trace.copies.len();
        let step = (self.now - self.first) % self.steps;
        let used = &self.trace.updates[self.updates[copy][step as usize] as usize].used;
        let header = self.trace.copies[copy].header;
        let (of_header, rows) = used.split_at(used.partition_point(|used| used.page < header));
        let touch = |used: &Used, way| Touch { first: used.page, count: 1, way };
        touches.extend(of_header.iter().map(|used| touch(used, Way::Read)));
        touches.extend(
            rows.iter().map(|used| touch(used, if used.is_changed { Way::Write } else { Way::Read })),
        );
        touches.extend(of_header.iter().filter(|used| used.is_changed).map(|used| touch(used, Way::Write)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "khz-rrd-trace 1\npage 4096\nstep 300\ncopy 24 1 a\ncopy 12 2 b\nupdate 0 1500 0w 2w 13\n\
                         update 1 1510 0 1w 9w\nupdate 0 1801 0w 2w\nupdate 1 1805 1w\nend 4\n";

    fn touch(first: u32, way: Way) -> Touch {
        Touch { first, count: 1, way }
    }

    #[test]
    fn files_do_what_the_copies_did_in_the_engines_order() {
        let mut recorded = Recorded::new(Trace::decode(TRACE.as_bytes(), "t").unwrap(), "t").unwrap();
        assert_eq!(recorded.span(), (5, 2));
        let touches = |recorded: &Recorded, file| {
            let mut touches = vec![];
            recorded.of(file, &mut touches);
            touches
        };
        recorded.go_to(5);
        let expected =
            [touch(0, Way::Read), touch(2, Way::Write), touch(13, Way::Read), touch(0, Way::Write)];
        assert_eq!(touches(&recorded, 2), expected);
        let expected = [touch(0, Way::Read), touch(1, Way::Read), touch(9, Way::Write), touch(1, Way::Write)];
        assert_eq!(touches(&recorded, 1), expected);
        recorded.go_to(6);
        assert_eq!(touches(&recorded, 3), [touch(1, Way::Read), touch(1, Way::Write)]);
        assert_eq!((recorded.pages(2), recorded.pages(3)), (24, 12));
    }

    #[test]
    fn copies_with_other_steps_are_refused() {
        let text = TRACE.replace("update 1 1805 1w\n", "").replace("end 4", "end 3");
        let told = Recorded::new(Trace::decode(text.as_bytes(), "t").unwrap(), "t").unwrap_err().to_string();
        assert!(told.contains("copy 1 of the trace has updates at other steps"), "{told}");
    }
}
