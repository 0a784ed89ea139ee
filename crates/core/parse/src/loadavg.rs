//! `/proc/loadavg`: `0.52 0.58 0.59 1/389 12345`. The fields are the load averages over 1, 5 and 15 minutes,
//! running and total tasks, and the last process id, which is ignored. The kernel computes the averages every
//! 5 s.

use khz_model::{Fault, Nanos, Unit};

use crate::entry::{Entry, gauge};
use crate::kernel_file::{KernelFile, Pieces};
use crate::sink::Sink;
use crate::text::{split_at_mark, words};

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "loadavg",
    path: "proc/loadavg",
    pieces: Pieces::Whole,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse,
};

/// LOAD_FREQ in include/linux/sched/loadavg.h is 5 s and one tick.
const EVERY_5S: Nanos = Nanos::from_secs(5);

static SCALARS: &[Entry] = &[
    gauge(
        "load.1m",
        "first number",
        Unit::Count,
        "Tasks running or waiting for a disk, average over 1 minute.",
    )
    .places(2)
    .every(EVERY_5S)
    .exposed("node_load1", &[]),
    gauge(
        "load.5m",
        "second number",
        Unit::Count,
        "Tasks running or waiting for a disk, average over 5 minutes.",
    )
    .places(2)
    .every(EVERY_5S)
    .exposed("node_load5", &[]),
    gauge(
        "load.15m",
        "third number",
        Unit::Count,
        "Tasks running or waiting for a disk, average over 15 minutes.",
    )
    .places(2)
    .every(EVERY_5S)
    .exposed("node_load15", &[]),
    gauge("tasks.running", "before the slash", Unit::Count, "Tasks that run or could run now.")
        .exposed("khz_tasks_running", &[]),
    gauge("tasks.total", "behind the slash", Unit::Count, "Processes and threads that exist.")
        .exposed("khz_tasks", &[]),
];

fn parse(sink: &mut Sink<'_>) {
    let mut first = true;
    sink.lines(|sink, line| {
        if !std::mem::take(&mut first) {
            return sink.note(String::from("a second line"), "this file has one line");
        }
        let mut words = words(sink.text(), line);
        let averages = [words.next(), words.next(), words.next()];
        let tasks = words.next().and_then(|word| split_at_mark(sink.text(), word, b'/'));
        match (averages, tasks) {
            ([Some(one), Some(five), Some(fifteen)], Some((running, total))) => {
                [one, five, fifteen, running, total]
                    .into_iter()
                    .enumerate()
                    .for_each(|(i, n)| sink.scalar(i, n));
                sink.ignore(words.rest());
            }
            // Which field is missing cannot be known: every number might belong to its neighbour's field.
            _ => (0..SCALARS.len()).for_each(|scalar| {
                sink.fail_scalar(
                    scalar,
                    Fault::Malformed,
                    "the line is not three averages and running/total",
                );
            }),
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Fault, Reading};

    const RUNNING: usize = 3;

    #[test]
    fn five_fields() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"0.52 0.58 12.59 1/389 12345\n");
        assert_eq!(parser.values(), [52, 58, 1_259, 1, 389]);
        assert_eq!(parser.advance_with(b"0.52 0.58 12.59 3/389 12399\n"), Outcome::InPlace);
        assert_eq!((parser.values()[3], parser.changed()), (3, &[3][..]));
    }

    #[test]
    fn damage_is_failed_never_zero() {
        for text in [
            "",
            "0.52",
            "0.52 0.58 0.59 1/389 12345",
            "a b c d e\n",
            "0.52 0.58 0.59 1389 5\n",
            "0,52 0,58 0,59 1-2 3\n",
        ] {
            let mut parser = Parser::new(&super::FILE);
            parser.advance_with(text.as_bytes());
            assert!(!parser.faults().is_empty(), "{text:?}");
            assert_eq!(parser.reading(RUNNING), Some(Reading::Failed(Fault::Malformed)), "{text:?}");
        }
    }

    #[test]
    fn a_missing_average_is_not_filled_with_the_next() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"0.58 0.59 1/389 12345\n");
        assert!((0..5).all(|slot| parser.reading(slot) == Some(Reading::Failed(Fault::Malformed))));
    }
}
