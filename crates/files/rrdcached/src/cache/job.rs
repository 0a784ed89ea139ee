//! One write of a file: the writer's input from the state, and its result.

use super::backlog::{FileId, Flags, Taken};
use super::state::State;
use crate::disk::HeaderImage;
use khz_rrd::error::{Result, refused};

/// The samples of a file on their way to it.
pub struct Job {
    pub id: FileId,
    pub name: String,
    pub taken: Taken,
    /// Some of the samples come from the log, and the file may have them.
    pub is_replayed: bool,
    /// Seconds of the newest sample in the file as the daemon knows it; 0 where it does not.
    pub on_disk: u32,
    /// The checkpoint interval of the write.
    pub epoch: u64,
    /// Whether the log has an image of the file's header from this interval.
    pub has_image: bool,
    /// Which file the image is of; see [`crate::disk::Identity::sum`].
    pub identity: u32,
    /// Images, one of which must be put back before the write.
    pub torn: Option<Vec<HeaderImage>>,
    /// The file has other data sources than its samples were taken for.
    pub has_other_sources: bool,
    /// Whether the claim on the file ends with the write.
    pub ends_claim: bool,
    pub outcome: Result<Written>,
    _in_progress: InProgress,
}

/// What a write did.
pub struct Written {
    /// Samples that the file refused for good.
    pub refused: u32,
    /// Why, where there are any.
    pub why_refused: Option<String>,
    /// Stamp of the newest sample in the file, in microseconds.
    pub newest: i64,
}

/// Stands for a write that is not accounted for yet. A panic before that would leave the count of writes wrong, and the
/// next checkpoint would wait for ever with all writes paused. So the process ends; the log has everything.
struct InProgress;

impl Drop for InProgress {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Job {
    /// Takes the samples of a file out.
    pub fn new(state: &mut State, id: FileId) -> Self {
        let taken = state.backlog.take(id);
        let name = state.backlog.name(id).to_string();
        let torn = state.torn.remove(&name);
        let (file, epoch) = (state.backlog.file(id), state.writes.epoch());
        Self {
            id,
            name,
            taken,
            is_replayed: file.is(Flags::REPLAYED),
            on_disk: file.on_disk(),
            epoch,
            has_image: file.imaged() != 0 && file.imaged() == epoch as u32,
            identity: file.identity(),
            torn,
            has_other_sources: false,
            ends_claim: true,
            outcome: refused("not written yet"),
            _in_progress: InProgress,
        }
    }

    /// Remembers whether the log has an image of the file's header, and the image that is still to be put back.
    pub fn settle(&mut self, state: &mut State) {
        state.backlog.set_image(self.id, self.has_image.then_some(self.epoch as u32), self.identity);
        if let Some(torn) = self.torn.take() {
            state.torn.insert(&self.name, torn);
        }
    }

    /// A description of the dropped samples.
    ///
    /// # Errors
    /// Why the write failed.
    pub fn dropped(self) -> Result<Option<String>> {
        let (name, count, written) = (self.name, self.taken.count(), self.outcome?);
        let dropped = |why| format!("{name}: {} of {count} updates are dropped: {why}", written.refused);
        Ok(written.why_refused.map(dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_before_a_write_is_accounted_for_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;
        const CHILD: &str = "KHZ_RRD_PANICS";
        if std::env::var_os(CHILD).is_none() {
            let test = "cache::job::tests::a_panic_before_a_write_is_accounted_for_ends_the_process";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let output = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
            // Not the harness's own end of a test that failed.
            assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
            return;
        }
        let mut state = State::default();
        let id = state.backlog.find_or_add("a.rrd").unwrap();
        let job = Job::new(&mut state, id);
        panic!("while {} is written", job.name);
    }
}
