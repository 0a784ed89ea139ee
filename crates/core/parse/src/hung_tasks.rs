//! `/proc/sys/kernel/hung_task_detect_count`: how many tasks the kernel has found that waited for longer than
//! `hung_task_timeout_secs` (120 s) and could not be woken. Since Linux 6.13, if the kernel looks for such tasks.

use khz_model::Unit;

use crate::entry::{Entry, counter};
use crate::kernel_file::{KernelFile, Pieces};
use crate::kernel_values;
use crate::survey::SURVEY_PERIOD;

/// The file.
pub static FILE: KernelFile = KernelFile {
    name: "hung_tasks",
    path: "proc/sys/kernel/hung_task_detect_count",
    pieces: Pieces::Value,
    only_base: false,
    scalars: SCALARS,
    groups: &[],
    parse: kernel_values::number,
};

static SCALARS: &[Entry] = &[counter(
    "kernel.hung_tasks",
    "the number",
    Unit::Count,
    "Tasks that the kernel has found hung: they waited for more than two minutes and could not be woken.",
)
.every(SURVEY_PERIOD)
.exposed("node_kernel_hung_tasks_total", &[])];

#[cfg(test)]
mod tests {
    use crate::{Outcome, Parser};
    use khz_model::{Fault, Reading};

    #[test]
    fn one_number() {
        let mut parser = Parser::new(&super::FILE);
        parser.advance_with(b"17\n");
        assert_eq!((parser.faults(), parser.values()), (&[][..], &[17][..]));
        assert_eq!(parser.advance_with(b"19\n"), Outcome::InPlace);
        for text in ["", "x\n", "\n", "1", "1\n2\n"] {
            parser.advance_with(text.as_bytes());
            assert_eq!(parser.reading(0), Some(Reading::Failed(Fault::Malformed)), "{text:?}");
        }
    }
}
