//! The plan of an agent: which sources, how often, at what cost. It is plain data, checked before the agent
//! starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use khz_model::{ByteSize, Nanos, NodeName, Rate};
use khz_parse::KernelFile;

use crate::budget::{Budget, GatherLimits, apart};
use crate::job_door::JobDoor;
use crate::outside::Programs;
use crate::own::Tally;
use crate::placement::Placement;
use crate::source::Source;
use crate::survey::{SubjectPlan, Survey, SurveySettings, limits_of, subject_of};

/// All settings of an agent.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory that contains `proc/`: `/`, or the root of a captured host.
    pub root: PathBuf,
    /// The name of this node.
    pub node: NodeName,
    /// The sources, in catalogue order.
    pub sources: Vec<SourcePlan>,
    /// The rate of the base lane, which has every source.
    pub base_rate: Rate,
    /// The rate of the local lane, which has every source without its own rate.
    pub local_rate: Rate,
    /// The agent's highest rate: no lane is faster.
    pub rate_max: Rate,
    /// The agent's CPU ceiling: the share of one core that the gather thread may take (0.1 is 10 %).
    pub cpu_max: f64,
    /// The merge window: a request within this time after a gather shares it.
    pub window: Nanos,
    /// The size of the rings of the fixed lanes.
    pub ring: RingSize,
    /// The directory for their files, used by this node only; `None`: anonymous memory, which ends with the
    /// agent.
    pub ring_folder: Option<PathBuf>,
    /// True if the rings outlive a clean end; then the next `khz` alone does not remove them either.
    pub keep_rings: bool,
    /// The CPUs and the priority of the gather thread.
    pub placement: Placement,
    /// What of the surveys is a setting.
    pub survey: SurveySettings,
    /// The entrance for numbers that jobs publish; `None`: jobs cannot publish.
    pub jobs: Option<Arc<JobDoor>>,
    /// What channels may request from this node.
    pub handlers: Handlers,
    /// What executes the programs of channels; `None`: this node executes none.
    pub programs: Option<Arc<dyn Programs>>,
    /// Numbers that other parts of the program count and the agent shows.
    pub tallies: Vec<Tally>,
}

/// What channels may ask of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handlers {
    /// Nothing: channels are refused.
    None,
    /// Plans: expressions and conditions, whose cost is bounded.
    #[default]
    Plans,
    /// Plans, and programs that operators send.
    Programs,
}

/// A text that is none of [`Handlers`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither none, plans nor programs: write what channels may ask of this node")]
pub struct UnknownHandlers(String);

impl std::str::FromStr for Handlers {
    type Err = UnknownHandlers;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Handlers::None),
            "plans" => Ok(Handlers::Plans),
            "programs" => Ok(Handlers::Programs),
            _ => Err(UnknownHandlers(text.to_owned())),
        }
    }
}

impl std::fmt::Display for Handlers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Handlers::None => "none",
            Handlers::Plans => "plans",
            Handlers::Programs => "programs",
        })
    }
}

/// The size of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSize {
    /// This many bytes for all lanes together: three quarters for the rows of the fixed ones. A quarter, but at least [`LANES_BYTES_MIN`],
    /// is for all that lanes hold that readers open.
    ///
    /// [`LANES_BYTES_MIN`]: crate::LANES_BYTES_MIN
    Bytes(ByteSize),
    /// Each fixed lane holds at least this much time, if its rows are no larger than promised: 2 bytes for
    /// each slot up to 1 Hz, 0.5 from 10 Hz on.
    Span(Nanos),
}

/// One source of a plan.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// The kernel file.
    pub file: &'static KernelFile,
    /// Its own rate, kept exactly, even above the kernel's refresh; `None`: the local lane's rate.
    pub rate: Option<Rate>,
    /// The share of one core that the source may cost; `None`: [`SOURCE_BUDGET`].
    pub budget: Option<f64>,
}

impl SourcePlan {
    /// Opens the source; it has no readings yet.
    pub(crate) fn open(&self, root: &Path, survey: &Arc<Survey>) -> Source {
        Source::surveyed(root, self.file, Budget::new(self.budget.unwrap_or(SOURCE_BUDGET)), survey)
    }
}

impl SourcePlan {
    /// The limits that apply if a gather, or a survey, takes this long.
    pub fn limits(&self, root: &Path, gather: Nanos) -> GatherLimits {
        match subject_of(root, self.file) {
            Some(subject) => limits_of(subject, self.budget, Some(gather)),
            None => {
                let share = self.budget.unwrap_or(SOURCE_BUDGET);
                GatherLimits { share, period_min: Some(apart(gather, share)) }
            }
        }
    }
}

/// The budget of a source without a budget of its own, as a share of one core: one source alone does not use up the usual
/// ceiling (`cpu_max`).
pub const SOURCE_BUDGET: f64 = 0.05;

impl Plan {
    /// What is surveyed, how often, and the budget for it.
    pub(crate) fn subjects(&self) -> Vec<SubjectPlan> {
        let period = |source: &SourcePlan| {
            let usual = source.file.refresh(|_| true).and_then(|refresh| refresh.period());
            source.rate.map(Rate::period).or(usual).unwrap_or_default()
        };
        let subject = |source: &SourcePlan| {
            let subject = subject_of(&self.root, source.file)?;
            Some(SubjectPlan { subject, period: period(source), budget: source.budget })
        };
        self.sources.iter().filter_map(subject).collect()
    }

    /// The tallies of all other parts of the program.
    pub(crate) fn tallies_all(&self) -> Vec<Tally> {
        let jobs = self.jobs.iter().flat_map(|door| door.tallies());
        self.tallies.iter().cloned().chain(jobs).collect()
    }

    /// A plan with every source and without a ceiling, for tests and benchmarks. The program sets every field; the defaults
    /// of its settings are in `khz/config/settings.rs` alone.
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
            cpu_max: 1.0,
            window: Nanos::from_micros(100),
            ring: RingSize::Bytes(ByteSize(64 << 20)),
            ring_folder: None,
            keep_rings: false,
            placement: Placement::default(),
            survey: SurveySettings::default(),
            jobs: None,
            handlers: Handlers::default(),
            programs: None,
            tallies: Vec::new(),
        }
    }
}
