//! Kernel texts: files below `/proc` in the kernel's own form. A slow lane reads them in its own threads,
//! which run only while a file is wanted. A file that blocks delays only the readers of that file. The
//! gather thread is not involved.

mod allow;
mod door;
mod list;
mod reader;
mod slow_lane;
mod wants;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use khz_model::{Nanos, Stamp};

pub use allow::{AllowError, AllowList};

use door::TextDoor;
use slow_lane::SlowLane;
use wants::Wants;

/// A longer text is not shown: `/proc/interrupts` of 256 CPUs and 1,000 interrupts has 3 MB.
pub const KERNEL_TEXT_MAX: usize = 4 << 20;

/// No file is read faster than this, for any reader: ticks are 10 ms.
pub const TEXT_PERIOD_MIN: Nanos = Nanos::from_millis(10);

/// Reading texts may take one part in this many of a core: 5 %.
const SHARE: u32 = 20;

/// Reading may spend this much CPU time in advance, for example when a reader opens every file once. After that it
/// pauses until its share has grown again: `AT_ONCE * SHARE` is the time in which this much grows.
const AT_ONCE: Duration = Duration::from_millis(20);

/// A file that is not read within this time is stuck.
const DEADLINE: Duration = Duration::from_secs(1);

/// The most threads that may be stuck in the kernel. If this many are stuck, no file is read until one of
/// them comes back.
pub const STUCK_MAX: usize = 4;

/// The reason why a file is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The allow list does not contain the file, or no list may contain it.
    #[error("{0} is not shown by this node; --proc-allow lists the files that it shows")]
    NotAllowed(String),
    /// The file does not exist.
    #[error("/proc/{0} does not exist on this node")]
    Missing(String),
    /// The file is longer than a text may be.
    #[error("/proc/{path} has more than {} bytes", KERNEL_TEXT_MAX)]
    TooLong {
        /// The file.
        path: String,
    },
    /// Reading the file does not end.
    #[error("/proc/{path} was not read after {} s", DEADLINE.as_secs())]
    Stuck {
        /// The file.
        path: String,
    },
    /// Too many files are stuck.
    #[error("{STUCK_MAX} files are stuck: nothing more is read until one of them comes back")]
    Crowded,
    /// Reading the file failed.
    #[error("cannot read /proc/{path}: {errno}")]
    Failed {
        /// The file.
        path: String,
        /// The kernel's error.
        errno: rustix::io::Errno,
    },
}

/// Takes texts. The slow lane calls it, so each call must be short.
pub trait TextTaker: Send + 'static {
    /// True when the want may get another text: the last one has been sent.
    fn has_room(&mut self, want: u64) -> bool;
    /// The file has a new text.
    fn text(&mut self, want: u64, text: &Arc<[u8]>, stamp: Stamp);
    /// The file was read after this ask ([`Texts::ask`]). If the text was new, [`TextTaker::text`] got it
    /// before.
    fn given(&mut self, want: u64, ask: u32);
    /// The file cannot be shown.
    fn failed(&mut self, want: u64, error: &TextError);
}

/// The counts of the slow lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextCounts {
    /// The number of reads.
    pub reads: u64,
    /// The number of texts that differed from the one before.
    pub texts: u64,
    /// The number of reads that did not end in time.
    pub stuck: u64,
    /// The number of files that could not be shown.
    pub refused: u64,
}

/// The slow lane of texts. Dropping it ends its threads, except those that are stuck in the kernel.
pub struct Texts {
    shared: Arc<Shared>,
}

/// The state that the lane shares with the callers.
struct Shared {
    state: Mutex<State>,
    bell: Condvar,
    door: Arc<TextDoor>,
}

struct State {
    wants: Wants,
    /// The lane, while no thread runs it.
    asleep: Option<SlowLane>,
    is_awake: bool,
    counts: TextCounts,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Texts {
    /// Shows the files below `root` that the list allows; texts go to `taker`. No thread runs yet.
    pub fn new(root: PathBuf, allow: AllowList, taker: impl TextTaker) -> Self {
        let state = State {
            wants: Wants::default(),
            asleep: Some(SlowLane::new(Box::new(taker))),
            is_awake: false,
            counts: TextCounts::default(),
        };
        let door = Arc::new(TextDoor::new(root, allow));
        Texts { shared: Arc::new(Shared { state: Mutex::new(state), bell: Condvar::new(), door }) }
    }

    /// Subscribes to a file, or to the list of all shown files (an empty path), under a number. A number must
    /// not be used for another file later. A second call for the same number changes the pace.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn want(&self, want: u64, path: &str, period: Nanos) -> std::io::Result<()> {
        let mut state = self.shared.lock();
        state.wants.put(want, path, period.max(TEXT_PERIOD_MIN));
        if !state.is_awake {
            slow_lane::start(self.shared.clone())?;
            state.is_awake = true;
        }
        drop(state);
        self.shared.bell.notify_all();
        Ok(())
    }

    /// Asks to read a wanted file at once, as far as [`TEXT_PERIOD_MIN`] and the limit on reading allow. Only
    /// the last ask of a want is answered; the answer holds for the earlier ones too.
    pub fn ask(&self, want: u64, ask: u32) {
        self.shared.lock().wants.ask(want, ask);
        self.shared.bell.notify_all();
    }

    /// Ends a subscription.
    pub fn dismiss(&self, want: u64) {
        self.shared.lock().wants.take(want);
        self.shared.bell.notify_all();
    }

    /// The counts of the lane.
    pub fn counts(&self) -> TextCounts {
        self.shared.lock().counts
    }

    /// True while a thread of the lane runs.
    pub fn is_awake(&self) -> bool {
        self.shared.lock().is_awake
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        self.shared.lock().wants.clear();
        self.shared.bell.notify_all();
    }
}
