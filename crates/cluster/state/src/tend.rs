//! The thread that sees to it that files of a state directory keep their names. It runs while there is such a file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// How often each file is looked for. Somebody who removes a directory sees it again before he wonders.
pub(crate) const LOOKED_FOR: Duration = Duration::from_secs(2);

/// What has files that must keep their names.
pub trait Tended: Send + Sync {
    /// Looks for each file, and writes it again if it is gone.
    fn tend(&self);
}

/// All that is looked for.
struct Watch {
    all: Vec<Weak<dyn Tended>>,
    has_thread: bool,
}

static WATCH: Mutex<Watch> = Mutex::new(Watch { all: Vec::new(), has_thread: false });

/// Looks for the files of this one from now on, until it is dropped.
pub fn tend<T: Tended + 'static>(one: &Arc<T>) {
    let one: Weak<T> = Arc::downgrade(one);
    let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    watch.all.push(one);
    if !watch.has_thread {
        let begun = std::thread::Builder::new().name("state".into()).spawn(work);
        watch.has_thread = begun.is_ok();
        if let Err(error) = begun {
            tracing::warn!(
                "files of the state directory that somebody removes are not written again: no thread: {error}"
            );
        }
    }
}

/// How many files were written again since the process began, because they were gone.
pub fn renewed() -> Arc<AtomicU64> {
    static RENEWED: OnceLock<Arc<AtomicU64>> = OnceLock::new();
    RENEWED.get_or_init(Arc::default).clone()
}

/// Another file was written again.
pub fn note_renewed(path: &std::path::Path) {
    renewed().fetch_add(1, Ordering::Relaxed);
    tracing::warn!(
        "{}: somebody has removed or replaced this file or its directory; it is written again as khz knows it",
        path.display()
    );
}

fn work() {
    loop {
        std::thread::sleep(LOOKED_FOR);
        let all: Vec<Arc<dyn Tended>> = {
            let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
            watch.all.retain(|one| one.strong_count() > 0);
            if watch.all.is_empty() {
                watch.has_thread = false;
                return;
            }
            watch.all.iter().filter_map(Weak::upgrade).collect()
        };
        all.iter().for_each(|one| one.tend());
    }
}
