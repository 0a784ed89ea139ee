//! Ctrl-C and SIGTERM: how a process learns that it has to end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::show::outcome::Failure;

/// The runtime for everything but gathering and the link; it has no threads of its own.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
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

/// Ready at the first SIGHUP, which a terminal sends when it is closed. Where the kernel refuses, never.
pub async fn hangup() {
    match signal(SignalKind::hangup()) {
        Ok(mut hangup) => _ = hangup.recv().await,
        Err(_) => std::future::pending().await,
    }
}

/// A flag that the first signal sets. The next one ends the program at once.
pub fn stop_on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    on_signals(1, move || flag.store(true, Ordering::Relaxed))?;
    Ok(stop)
}

/// Counts signals. The one after `most` of them ends the program at once.
pub fn count_signals(most: u32) -> Result<Arc<AtomicU32>, Failure> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    on_signals(most, move || {
        counted.fetch_add(1, Ordering::Relaxed);
    })?;
    Ok(count)
}

/// Calls `then` at each of the first `most` signals. The next one ends the program at once.
fn on_signals(most: u32, mut then: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    let runtime = runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(mut interrupt), Ok(mut terminate)) = kinds else { return };
            for number in 0.. {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if number == most {
                    std::process::exit(1);
                }
                then();
            }
        });
    });
    Ok(())
}
