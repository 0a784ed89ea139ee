//! Whether a thread that waits in the tree has a signal to end. The kernel asks file systems to release such a thread, but
//! fuser 0.18 answers that with ENOSYS; and a thread whose request was sent waits until the request is answered, whatever
//! signals it has. So the mount checks for itself.

/// SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM, as bits of the masks in `/proc/PID/status`.
const TO_END: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;

/// True when a thread has a pending signal that ends programs. 0 stands for threads of other PID namespaces, of which
/// nothing is known.
pub(crate) fn is_interrupted(thread: u32) -> bool {
    thread != 0
        && std::fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| is_to_end(&status))
}

fn is_to_end(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") & TO_END != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unblocked_signals_that_end_programs_count() {
        let status = |pending, shared, blocked| {
            is_to_end(&format!(
                "Name:\tcat\nSigPnd:\t{pending:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
            ))
        };
        assert!(status(1 << 8, 0, 0) && status(0, 1 << 14, 0) && status(0, 2, 1 << 14));
        assert!(!status(0, 0, 0) && !status(0, 2, 2) && !status(1 << 16, 1 << 22, 0));
        assert!(!is_to_end("") && !is_interrupted(0) && !is_interrupted(std::process::id()));
    }
}
