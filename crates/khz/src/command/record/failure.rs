//! `--freeze-on-failure`: a recorded program that fails is a cause to freeze the rings of nodes. The hub decides what to freeze. If
//! it cannot be asked, this is only printed.

use khz_model::printable::printable;

use super::flags::RecordFlags;
use crate::command::target::Target;
use crate::config::Plan;
use crate::show::table::remark;

/// The most characters of the command in a cause, since all its words may be long.
const COMMAND_CHARS_MAX: usize = 160;

/// Asks for a freeze if the program has failed and the flags say so. The program has just ended.
pub fn freeze(flags: &RecordFlags, plan: &Plan, code: Option<u8>) {
    let (Some(nodes), Some(code)) = (&flags.freeze_on_failure, code.filter(|&code| code != 0)) else {
        return;
    };
    let nodes = if nodes.is_empty() { plan.node.as_str() } else { nodes };
    let target = Target { server: flags.server.clone(), direct: false };
    let times = (khz_http::FROZEN_BEFORE, khz_http::FROZEN_AFTER);
    let because = cause(&flags.command, code);
    let asked = target.running(plan).and_then(|server| Ok(server.freeze(nodes, times, &because)?));
    match asked {
        Ok(begun) => remark!("freeze {}: {}; khz blackbox show {}", begun.id, printable(&because), begun.id),
        Err(failure) => remark!("nothing is frozen: {failure}"),
    }
}

/// Signals that end programs. A program can also return 128 plus such a number as its own exit code.
const SIGNALS: std::ops::RangeInclusive<u8> = 1..=31;

/// The cause: `mpirun ./program: exit code 1`. After a signal, the code is 128 plus its number, as in shells.
fn cause(command: &[String], code: u8) -> String {
    let words = command.join(" ");
    let words: String = words.chars().take(COMMAND_CHARS_MAX).collect();
    match code.checked_sub(128).filter(|signal| SIGNALS.contains(signal)) {
        Some(signal) => format!("{words}: signal {signal}"),
        None => format!("{words}: exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_names_the_command_and_how_it_ended() {
        let command = ["mpirun", "./program"].map(str::to_owned);
        assert_eq!(cause(&command, 3), "mpirun ./program: exit code 3");
        assert_eq!(cause(&command, 139), "mpirun ./program: signal 11");
        assert_eq!(cause(&command, 255), "mpirun ./program: exit code 255");
    }
}
