//! What a recording holds: lanes, series, times, and what is missing.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use khz_model::{Nanos, Pattern, Series, Stamp};

use crate::RecordError;
use crate::chunks::Reach;
use crate::clocks::ClockSet;
use crate::coverage::{Coverage, Gap, Missing, between_epochs};
use crate::recording::{Event, Lane, Recording};

/// One lane of a recording.
#[derive(Clone, Debug)]
pub struct LaneSurvey {
    /// The lane.
    pub lane: Lane,
    /// Time between rows; 0: they come at any time.
    pub period: Nanos,
    /// The series of all its generations, in order of appearance.
    pub series: Vec<Series>,
    /// Rows.
    pub rows: u64,
    /// Values: slots of every row.
    pub values: u64,
    /// When its first row was gathered.
    pub first: Option<Stamp>,
    /// When its last row was gathered.
    pub last: Option<Stamp>,
    coverage: Coverage,
    /// The silence since the epoch before.
    since_before: Option<Gap>,
}

/// What a recording holds.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The lanes, in order of appearance.
    pub lanes: Vec<LaneSurvey>,
    /// The clocks that were set while it was recorded, as they were before.
    pub clocks: Vec<ClockSet>,
    /// The recorder's notes: JSON objects.
    pub notes: Vec<String>,
    /// How far each file could be read.
    pub reached: Vec<(PathBuf, Reach)>,
}

/// Notes that are kept; the recorder writes one at each end of a file.
const NOTES_MAX: usize = 1_000;

impl Survey {
    /// Reads a recording once.
    pub fn of(recording: &Recording) -> Result<Self, RecordError> {
        let mut survey = Survey::default();
        let reached = recording.read(|event| survey.take(event))?;
        survey.reached = reached;
        survey.join_epochs();
        Ok(survey)
    }

    /// Notes the silences between the epochs of each lane.
    fn join_epochs(&mut self) {
        let mut spans: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
        for (place, LaneSurvey { lane, coverage, .. }) in self.lanes.iter().enumerate() {
            let span = coverage.span().map(|span| (place, span));
            spans.entry((&lane.node, &lane.name)).or_default().extend(span);
        }
        let silences: Vec<_> = spans.into_values().flat_map(between_epochs).collect();
        for (place, gap) in silences.into_iter().filter(|(_, gap)| gap.is_silence() || gap.rows > 0) {
            self.lanes[place].since_before = Some(gap);
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Lane(place, lane, period) => match self.lanes.get_mut(place) {
                Some(known) => known.period = period,
                None => self.lanes.push(LaneSurvey::new(lane.clone(), period)),
            },
            Event::Columns(place, columns) => self.lanes[place].columns(&columns),
            Event::Block(block) => {
                let (lane, slots) = (&mut self.lanes[block.lane], u64::from(block.header.slots));
                // A lane without a period has rows at any time.
                if lane.period > Nanos(0) {
                    lane.period = block.header.period;
                }
                let period = lane.period;
                block.rows(|number, row| lane.row(number, row.stamp(), period, slots));
            }
            Event::ClockSet(set) => self.clocks.push(set.clone()),
            Event::Lost(place, from, to) => self.lanes[place].coverage.lost(from, to),
            Event::Note(note) => {
                if self.notes.len() < NOTES_MAX {
                    self.notes.push(note.to_owned());
                }
            }
        }
    }

    /// When the first and the last row of all lanes were gathered, by the wall clock.
    pub fn span(&self) -> Option<(Nanos, Nanos)> {
        let first = self.lanes.iter().filter_map(|lane| Some(lane.first?.real())).min()?;
        let last = self.lanes.iter().filter_map(|lane| Some(lane.last?.real())).max()?;
        Some((first, last))
    }

    /// A sentence for every place of damage, and for a file that is cut off.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (path, reach) in &self.reached {
            let path = path.display();
            for damage in &reach.damage {
                let passed = match damage.bytes {
                    0 => String::new(),
                    bytes => format!("; {bytes} bytes were skipped"),
                };
                problems.push(format!("{path}: byte {}: {}{passed}", damage.offset, damage.problem));
            }
            let more = reach.damages - reach.damage.len() as u64;
            if more > 0 {
                problems.push(format!("{path}: {more} more places of damage"));
            }
            if let Some(at) = reach.cut_off {
                problems.push(format!(
                    "{path}: the last chunk, from byte {at} on, is cut off: the file is still being written, or its \
                     writer was killed"
                ));
            }
        }
        problems
    }
}

impl LaneSurvey {
    fn new(lane: Lane, period: Nanos) -> Self {
        LaneSurvey {
            lane,
            period,
            series: Vec::new(),
            rows: 0,
            values: 0,
            first: None,
            last: None,
            coverage: Coverage::default(),
            since_before: None,
        }
    }

    fn columns(&mut self, columns: &[Series]) {
        // Series rarely change their slots: usually all of them are where they were.
        let is_elsewhere = |(slot, series): &(usize, &Series)| self.series.get(*slot) != Some(*series);
        let elsewhere: Vec<&Series> =
            columns.iter().enumerate().filter(is_elsewhere).map(|(_, series)| series).collect();
        if elsewhere.is_empty() {
            return;
        }
        let name = |series: &Series| series.to_string();
        let known: HashSet<String> = self.series.iter().map(name).collect();
        self.series.extend(elsewhere.into_iter().filter(|series| !known.contains(&name(series))).cloned());
    }

    fn row(&mut self, number: u64, stamp: Stamp, period: Nanos, slots: u64) {
        self.rows += 1;
        self.values += slots;
        self.coverage.row(number, stamp, period);
        if self.first.is_none_or(|first| stamp.real() < first.real()) {
            self.first = Some(stamp);
        }
        if self.last.is_none_or(|last| stamp.real() > last.real()) {
            self.last = Some(stamp);
        }
    }

    /// What is missing of the lane.
    pub fn missing(&self) -> Missing {
        self.coverage.missing()
    }

    /// The places where something is missing, in the order of the rows; first the silence since the epoch before.
    pub fn gaps(&self) -> Vec<Gap> {
        self.since_before.into_iter().chain(self.coverage.gaps()).collect()
    }

    /// True when the node and one of the series are selected.
    pub fn is_selected(&self, patterns: &[Pattern]) -> bool {
        self.series.iter().any(|series| self.selects(patterns, series))
    }

    /// True when a pattern selects this series of this node.
    pub fn selects(&self, patterns: &[Pattern], series: &Series) -> bool {
        patterns.is_empty() || selects(patterns, &self.lane.node, series)
    }
}

/// True when a pattern selects this series of this node.
pub fn selects(patterns: &[Pattern], node: &str, series: &Series) -> bool {
    patterns.iter().any(|pattern| {
        pattern.matches_node(node) && pattern.matches_series(&series.metric.name, series.instance.as_ref())
    })
}
