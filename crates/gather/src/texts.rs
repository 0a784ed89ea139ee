//! Kernel texts: files below `/proc` as the kernel printed them, for whoever wants to see them. They are read in a slow
//! lane, threads of its own, which run only while something is wanted; a file that blocks keeps nobody waiting but those
//! who want that file. The gather thread knows nothing of it.

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

/// A text longer than this is not shown: `/proc/interrupts` of 256 CPUs and 1,000 interrupts has 3 MB.
pub const KERNEL_TEXT_MAX: usize = 4 << 20;

/// No file is read faster, whoever wants it: ticks are 10 ms.
pub const TEXT_PERIOD_MIN: Nanos = Nanos::from_millis(10);

/// Reading texts may take one part in so many of a core: 5 %.
const SHARE: u32 = 20;

/// So much of a core's time may be taken in one go, as by somebody who looks at all files once.
const AT_ONCE: Duration = Duration::from_millis(20);

/// A file that is not read after so long is stuck.
const DEADLINE: Duration = Duration::from_secs(1);

/// Threads that may be stuck in the kernel. Beyond, nothing is read until one of them comes back.
const STUCK_MAX: usize = 4;

/// Why a file is not shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The allow list has no such file, or nobody may show it.
    #[error("{0} is not shown by this node (--proc-allow says what is)")]
    NotAllowed(String),
    /// There is no such file.
    #[error("/proc/{0} does not exist on this node")]
    Missing(String),
    /// It is longer than a text may be.
    #[error("/proc/{path} has more than {} bytes", KERNEL_TEXT_MAX)]
    TooLong {
        /// The file.
        path: String,
    },
    /// Reading it does not come to an end.
    #[error("/proc/{path} was not read after {} s", DEADLINE.as_secs())]
    Stuck {
        /// The file.
        path: String,
    },
    /// Too many files are stuck.
    #[error("{STUCK_MAX} files are stuck: nothing more is read until one of them comes back")]
    Crowded,
    /// Reading it has failed.
    #[error("cannot read /proc/{path}: {errno}")]
    Failed {
        /// The file.
        path: String,
        /// What the kernel said.
        errno: rustix::io::Errno,
    },
}

/// Who takes texts. The slow lane calls it; what it does must be short.
pub trait TextTaker: Send + 'static {
    /// True when another text of this want may follow: the one before has left.
    fn has_room(&mut self, want: u64) -> bool;
    /// The file's text is this one from here on.
    fn text(&mut self, want: u64, text: &Arc<[u8]>, stamp: Stamp);
    /// The file was read after this was asked for ([`Texts::ask`]): what it had then was told before, if it was news.
    fn given(&mut self, want: u64, ask: u32);
    /// It cannot be shown.
    fn failed(&mut self, want: u64, error: &TextError);
}

/// What has been done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextCounts {
    /// Files read.
    pub reads: u64,
    /// Texts that differed from the one before.
    pub texts: u64,
    /// Files that were not read in time.
    pub stuck: u64,
    /// Files that were not shown.
    pub refused: u64,
}

/// The slow lane of texts. Dropping it ends its threads, but for those that are stuck in the kernel.
pub struct Texts {
    shared: Arc<Shared>,
}

/// What the lane shares with who wants texts.
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
    /// Files below `root`, as far as the list allows; what is read goes to `taker`. No thread runs yet.
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

    /// Wants to see a file, or the list of what may be seen (an empty path); the number says which want it is, and is never
    /// used for another file. Again: at another pace.
    ///
    /// # Errors
    /// The system has no thread for it.
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

    /// Wants a file that is wanted already to be read at once, as far as [`TEXT_PERIOD_MIN`] and what reading may take allow.
    /// The last ask of a want is answered, and so are those before it.
    pub fn ask(&self, want: u64, ask: u32) {
        self.shared.lock().wants.ask(want, ask);
        self.shared.bell.notify_all();
    }

    /// Does not want it any more.
    pub fn dismiss(&self, want: u64) {
        self.shared.lock().wants.take(want);
        self.shared.bell.notify_all();
    }

    /// What has been done so far.
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
