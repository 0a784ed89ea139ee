//! Work for several threads, each with a part of it.

use crate::error::BenchError;

/// Does all of it at the same time. Returns what came of each part, or the first error.
pub fn side_by_side<T: Send>(
    work: impl IntoIterator<Item = impl FnOnce() -> Result<T, BenchError> + Send>,
) -> Result<Vec<T>, BenchError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = work.into_iter().map(|part| scope.spawn(part)).collect();
        // All are waited for, also after an error.
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        let bug = |_| Err(BenchError::Reply("BUG: a thread has panicked".into()));
        ended.into_iter().map(|done| done.unwrap_or_else(bug)).collect()
    })
}
