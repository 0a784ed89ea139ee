//! Gathering: sources, lanes, budgets, ticks and the merge window. One thread reads every source at its time,
//! writes rows into the rings of its lanes, and answers requests. It never waits.

#![deny(unsafe_code)]

mod agent;
mod asked;
mod budget;
mod catalogue;
mod channel_memory;
mod channel_rows;
mod clock;
mod cost;
mod elsewhere;
mod error;
mod gatherer;
mod given;
mod handled;
mod handler_cost;
mod inbox;
mod job_door;
mod job_names;
mod jobs;
mod kernel_text;
mod lane;
mod lane_handle;
mod lane_memory;
mod lane_set;
mod machine;
#[cfg(test)]
mod made_up;
mod outside;
mod own;
mod own_files;
mod own_memory;
mod page;
mod past;
mod placement;
mod plan;
mod probe;
pub mod publication;
mod query;
mod readings;
mod recent;
mod renewal;
mod rings;
mod sched;
mod source;
mod source_names;
mod source_set;
mod subscription;
mod survey;
mod texts;
pub mod ticks;
mod waiting;

pub use agent::{Agent, Ending};
pub use budget::{GatherLimits, percent};
pub use catalogue::catalogue;
pub use channel_memory::{CHANNELS_BYTES, HUB_CHANNELS_BYTES};
pub use channel_rows::ChannelRows;
pub use error::GatherError;
pub use gatherer::{CHANNEL_LINGER, CHANNELS_MAX, LANES_MAX, LINGER, LINGERING_MAX};
pub use handled::WantedBy;
pub use inbox::REQUESTS_MAX;
pub use job_door::JobDoor;
pub use job_names::{JobNameError, JobNames};
pub use jobs::{
    DATAGRAM_MAX, DATAGRAMS_AT_ONCE, JOB_METRICS_MAX, JOB_NAMES_BYTES_MAX, JOB_SERIES_MAX,
    LINE_BYTES_A_SECOND, LINES_A_SECOND, LINES_MAX,
};
pub use kernel_text::TEXT_BYTES_MAX;
pub use lane::Call;
pub use lane_handle::{LaneHandle, LaneRing, Lanes, Prompt};
pub use lane_memory::LANES_BYTES_MIN;
pub use machine::Machine;
pub use outside::{OutsideLane, OutsideRows, ProgramCounts, ProgramWish, Programs};
pub use own::Tally;
pub use placement::{CpuList, Placement, PlacementError, Sched};
pub use plan::{Handlers, Plan, RingSize, SOURCE_BUDGET, SourcePlan, UnknownHandlers};
pub use probe::{SourceReport, probe, survey_texts};
pub use renewal::{
    GENERATION_TIME, GENERATION_TIME_MIN, GONE_FOR, GONE_NAMES_MIN, GONE_SHARE, GONE_SLOTS_MANY,
    GONE_SLOTS_MIN,
};
pub use source_set::SOURCES_MAX;
pub use subscription::READERS_BYTES;
pub use survey::{
    CONTROL_GROUP_FILE_BYTES_MAX, CONTROL_GROUPS_DEPTH_MAX, CONTROL_GROUPS_MAX, INTERFACES_MAX, MOUNTS_MAX,
    NEW_SERIES_TIME, OWN_SOURCE_NAMES_MAX, PROCESS_FILES_MAX, PROCESS_PLACES, PROCESS_PLACES_MAX,
    PROCESSES_BUDGET, PROCESSES_MAX, SESSIONS_MAX, SURVEY_BUDGET, SURVEY_PERIOD_MIN, SURVEY_STUCK_AFTER,
    SURVEYS_PATIENCE, SURVEYS_STUCK_MAX, SURVEYS_STUCK_OF_SUBJECT_MAX, SurveySettings, TEXT_FILE_BYTES_MAX,
    TEXT_FILE_KINDS_MAX, TEXT_FILE_NAMES_MAX, TEXT_FILE_SERIES_MAX, TEXT_FILES_BYTES_MAX, TEXT_FILES_MAX,
    TREE_INSTANCES_MAX, TREE_SLOW_READ, TREE_SLOW_READS_MAX, UTMP_BYTES_MAX, control_groups_folder,
};
pub use texts::{
    AllowError, AllowList, KERNEL_TEXT_MAX, STUCK_MAX as TEXTS_STUCK_MAX, TEXT_PERIOD_MIN, TextCounts,
    TextError, TextTaker, Texts,
};
