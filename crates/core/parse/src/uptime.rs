//! `/proc/uptime`: `442.81 873.80`, seconds since boot (suspend included), and idle seconds summed over CPUs.

use khz_model::{Fault, Nanos, Unit};

use crate::entry::{Entry, counter, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::words;

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "uptime",
    path: "proc/uptime",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse,
};

/// The kernel prints hundredths of a second.
const PRINTED: Nanos = Nanos::from_millis(10);

static SCALARS: &[Entry] = &[
    gauge("uptime.up", "first number", Unit::Seconds, "Time since boot, suspend included.")
        .places(2)
        .every(PRINTED)
        .exposed("khz_uptime_seconds", &[]),
    counter("uptime.idle", "second number", Unit::Seconds, "Idle time since boot, summed over all CPUs.")
        .places(2)
        .every(PRINTED)
        .exposed("khz_idle_seconds_total", &[]),
];

const UP: usize = 0;
const IDLE: usize = 1;

fn parse(sink: &mut Sink<'_>) {
    let mut first = true;
    sink.lines(|sink, line| {
        if !std::mem::take(&mut first) {
            return sink.note(String::from("a second line"), "this file has one line");
        }
        let mut words = words(sink.text(), line);
        match (words.next(), words.next()) {
            (Some(up), Some(idle)) => {
                sink.scalar(UP, up);
                sink.scalar(IDLE, idle);
                sink.ignore(words.rest());
            }
            // Which of the two is present cannot be known.
            _ => [UP, IDLE].into_iter().for_each(|scalar| {
                sink.fail_scalar(scalar, Fault::Malformed, "the line does not have two numbers");
            }),
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};

    #[test]
    fn hundredths_of_a_second() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"442.81 873.80\n");
        assert_eq!(parser.values(), [44_281, 87_380]);
        assert_eq!(parser.advance_with(b"442.82 873.81\n"), Outcome::InPlace);
        assert_eq!(parser.values(), [44_282, 87_381]);
        assert_eq!(parser.advance_with(b"1442.82 873.81\n"), Outcome::Full);
        assert_eq!(parser.values(), [144_282, 87_381]);
    }
}
