//! Ctrl-C, SIGTERM and SIGHUP: how a process learns that it has to end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;

use rustix::process::{Signal, getpgrp};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};
use tokio::signal::unix::{SignalKind, signal};

use crate::show::outcome::Failure;

/// The runtime opens some files when it starts: it panics where it cannot, so it is not started with less room than for these.
const FILES_OF_RUNTIME: usize = 16;

/// The limit of open files with which every role starts.
const FILES_AT_LEAST: u64 = 256;

/// The runtime for everything but gathering and the link; it has no threads of its own.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    if !khz_door::descriptors::has_room(FILES_OF_RUNTIME) {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        return Err(Failure::work(format!(
            "too few files can be opened: the limit is {limit}, and khz needs {FILES_AT_LEAST} or more. Raise it (LimitNOFILE= in the unit, `ulimit -n` in a shell)"
        )));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| Failure::work(format!("cannot start: {error}")))
}

/// Ready at the first signal.
pub fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Ready at the first SIGHUP from now on, which a terminal sends when it is closed. Never where the kernel refuses, and in a process
/// that outlives its terminal. Call it inside a runtime.
pub fn hangup() -> impl Future<Output = ()> {
    let hangups = if is_hangup_ignored() { None } else { signal(SignalKind::hangup()).ok() };
    async move {
        match hangups {
            Some(mut hangups) => _ = hangups.recv().await,
            None => std::future::pending().await,
        }
    }
}

/// A flag that the first signal sets. The next one ends the program at once.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_signals(1, false, move |_| flag.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Counts signals, SIGHUP among them, and calls `then` at each. The one after `most` of them ends the program at once.
pub fn count_signals(most: u32, then: impl Fn(Signal) + Send + 'static) -> Result<Arc<AtomicU32>, Failure> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    on_signals(most, !is_hangup_ignored(), move |signal| {
        then(signal);
        counted.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(count)
}

/// What a signal means for a program that fills a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    /// It has to end: SIGINT, SIGTERM, SIGHUP, and all others that end a program and may be caught.
    End,
    /// It has to give the terminal back and stop: SIGTSTP.
    Stop,
    /// It goes on after a stop: SIGCONT.
    Continue,
}

/// Signals that end a program which does not catch them. Those of its own faults are left as they are, and SIGBUS has a handler
/// (`ring/guard.rs`).
const ENDING: [Signal; 17] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
    Signal::IO,
    Signal::POWER,
    Signal::STKFLT,
    Signal::SYS,
    Signal::TRAP,
    Signal::ABORT,
];

/// Calls `then` at each signal. The second one that ends the program ends it at once.
pub fn on_terminal_signals(then: impl Fn(TerminalSignal) + Send + 'static) -> Result<(), Failure> {
    let runtime = runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let meanings = ENDING.iter().map(|number| (*number, TerminalSignal::End));
            let others = [(Signal::TSTP, TerminalSignal::Stop), (Signal::CONT, TerminalSignal::Continue)];
            let listener = |(number, meaning): (Signal, TerminalSignal)| {
                Some((signal(SignalKind::from_raw(number.as_raw())).ok()?, meaning))
            };
            let mut listeners: Vec<_> = meanings.chain(others).filter_map(listener).collect();
            let mut ends = 0;
            loop {
                let signal = std::future::poll_fn(|context| {
                    let came = listeners.iter_mut().find_map(|(listener, meaning)| {
                        listener.poll_recv(context).is_ready().then_some(*meaning)
                    });
                    came.map_or(Poll::Pending, Poll::Ready)
                })
                .await;
                ends += u32::from(signal == TerminalSignal::End);
                if ends > 1 {
                    std::process::exit(1);
                }
                then(signal);
            }
        });
    });
    Ok(())
}

/// True if this process was started so that it outlives its terminal (`nohup`).
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_ignored(&status, Signal::HUP)
}

/// True if the text of `/proc/PID/status` says so.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    bits >> (signal.as_raw() - 1) & 1 == 1
}

/// The exit code of a program that has ended, as a shell says it: 128 and the signal, if a signal ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

/// True if Ctrl-C at the terminal comes as a signal to this process and its programs. Where a program takes each key itself, it does not.
pub fn is_in_front() -> bool {
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    let makes_signals = tcgetattr(&terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ISIG));
    makes_signals && tcgetpgrp(&terminal).ok() == Some(getpgrp())
}

/// Calls `then` at each of the first `most` signals. The next one ends the program at once.
fn on_signals(
    most: u32,
    with_hangup: bool,
    mut then: impl FnMut(Signal) + Send + 'static,
) -> Result<(), Failure> {
    let runtime = runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = kinds else { return };
            let mut hangups = with_hangup.then(|| signal(SignalKind::hangup()).ok()).flatten();
            let mut hangup = async || match &mut hangups {
                Some(hangups) => _ = hangups.recv().await,
                None => std::future::pending().await,
            };
            for number in 0.. {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                    () = hangup() => Signal::HUP,
                };
                if number == most {
                    std::process::exit(1);
                }
                then(signal);
            }
        });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ignores_a_signal_is_known_from_its_status() {
        let status = |bits: &str| format!("Name:\tkhz\nSigBlk:\t0000000000000001\nSigIgn:\t{bits}\n");
        for (bits, is_it) in [("0000000000000001", true), ("0000000000001000", false), ("x", false)] {
            assert_eq!(is_ignored(&status(bits), Signal::HUP), is_it, "{bits}");
        }
        assert!(is_ignored(&status("0000000000004000"), Signal::TERM) && !is_ignored("", Signal::HUP));
    }
}
