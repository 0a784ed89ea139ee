//! What an agent is asked to do: which sources, how often, at what cost. Plain data, checked before anything
//! is started.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::{ByteSize, Nanos, NodeName, Rate};
use khz_parse::KernelFile;

use crate::budget::Budget;
use crate::jobs::JobDoor;
use crate::own::Tally;
use crate::placement::Placement;
use crate::source::Source;

/// Everything an agent needs to know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where `proc/` is looked for: `/`, or the root of a captured host.
    pub root: PathBuf,
    /// This node's name.
    pub node: NodeName,
    /// The sources, in catalogue order.
    pub sources: Vec<SourcePlan>,
    /// Rate of the base lane: every source.
    pub base_rate: Rate,
    /// Rate of the local lane: every source without a rate of its own.
    pub local_rate: Rate,
    /// The agent's ceiling: no lane is faster.
    pub rate_max: Rate,
    /// The agent's ceiling in CPU: share of one core that the gather thread may take (0.1 is 10 %).
    pub cpu_max: f64,
    /// Who asks within this time of a gather shares it.
    pub window: Nanos,
    /// How much the rings of the fixed lanes hold.
    pub ring: RingSize,
    /// The directory for their files, of this node alone; `None`: memory without a name, which ends with the agent.
    pub ring_folder: Option<PathBuf>,
    /// The rings outlive a clean end: the next `khz` alone does not remove them either.
    pub keep_rings: bool,
    /// Where and with which priority the gather thread runs.
    pub placement: Placement,
    /// Where jobs publish numbers of their own; `None`: nowhere.
    pub jobs: Option<Arc<JobDoor>>,
    /// Numbers that other parts of the program count and the agent shows.
    pub tallies: Vec<Tally>,
}

/// How much the rings hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSize {
    /// So many bytes for all fixed lanes together; each lane that readers open takes a sixteenth more, and 1 MiB at
    /// least.
    Bytes(ByteSize),
    /// Each fixed lane holds at least this long, as long as a row takes no more than promised: 2 bytes for each
    /// slot up to 1 Hz, 0.5 from 10 Hz on.
    Span(Nanos),
}

/// One source of a plan.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Which.
    pub file: &'static KernelFile,
    /// A rate of its own, kept exactly, even above the kernel's refresh; `None`: the local lane's.
    pub rate: Option<Rate>,
    /// Share of one core that the source may cost; `None`: [`SOURCE_BUDGET`].
    pub budget: Option<f64>,
}

impl SourcePlan {
    /// The source, not gathered yet.
    pub(crate) fn open(&self, root: &Path) -> Source {
        Source::file(root, self.file, Budget::new(self.budget.unwrap_or(SOURCE_BUDGET)))
    }
}

/// What a source may cost when the plan does not say: half of the agent's own ceiling.
pub const SOURCE_BUDGET: f64 = 0.05;

/// Default ceiling of the gather thread.
pub const CPU_MAX: f64 = 0.10;

/// Default of the rings: hours at 1 Hz, and most of an hour at 10 Hz.
pub const RING: RingSize = RingSize::Bytes(ByteSize(64 << 20));

/// Default merge window.
pub const WINDOW: Nanos = Nanos::from_micros(100);

impl Plan {
    /// Everything that other parts of the program count.
    pub(crate) fn tallies_all(&self) -> Vec<Tally> {
        let jobs = self.jobs.iter().flat_map(|door| door.tallies());
        self.tallies.iter().cloned().chain(jobs).collect()
    }

    /// Every source at the default rates.
    pub fn new(root: impl Into<PathBuf>, node: NodeName) -> Self {
        let hz = |n| Rate::from_hz(n).unwrap_or_else(|| unreachable!("BUG: a default rate is out of range"));
        let source = |&file| SourcePlan { file, rate: None, budget: None };
        Plan {
            root: root.into(),
            node,
            sources: khz_parse::files().iter().map(source).collect(),
            base_rate: hz(1),
            local_rate: hz(10),
            rate_max: hz(1_000),
            cpu_max: CPU_MAX,
            window: WINDOW,
            ring: RING,
            ring_folder: None,
            keep_rings: false,
            placement: Placement::default(),
            jobs: None,
            tallies: Vec::new(),
        }
    }
}
