//! A source: one thing that the gather thread reads at one instant, with its parser, its counts and its cost.
//! Reading and parsing happen here. When a source is read, the gather thread decides (`gatherer.rs`, `is_wanted`). After a
//! warm-up they allocate nothing.

use std::path::Path;
use std::sync::Arc;

use khz_model::{Absence, Fault, Nanos, Reading, Refresh, Schema, Series, Stamp};
use khz_parse::own_source::is_own;
use khz_parse::{KernelFile, Outcome, Parser, Pieces, Subject};
use rustix::io::Errno;

use crate::budget::Budget;
use crate::clock;
use crate::given::Given;
use crate::job_door::JobDoor;
use crate::jobs::Jobs;
use crate::kernel_text::KernelText;
use crate::own::OwnNumbers;
use crate::renewal::{has_worn_names, is_worn};
use crate::survey::{Survey, SurveyText};

/// khz tries a missing source again after this time: a kernel module may be loaded later.
const LOOK_AGAIN: Nanos = Nanos::from_secs(10);

/// The counts of a source about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Something of the source existed at least once.
    pub was_there: bool,
    pub gathers: u64,
    pub failures: u64,
    pub full_parses: u64,
    pub late: u64,
    /// The size of the latest text.
    pub bytes: u64,
    pub gather_time: Nanos,
    pub last_gather_time: Nanos,
}

/// One source.
pub(crate) struct Source {
    name: &'static str,
    numbers: Numbers,
    pub counts: Counts,
    pub budget: Budget,
    /// True while its budget holds it back: it is gathered less often than its lanes want.
    pub held_back: bool,
    /// When it was last gathered; `None` before the first time.
    pub gathered: Option<Stamp>,
    /// A copy of the readings for other threads, made on the first request after a gather.
    published: Option<Arc<Published>>,
    /// Until this time it is not read again: it is missing, or it is a description.
    rests_until: Nanos,
    /// For how long it rests after each read; 0: not at all.
    rest: Nanos,
    problem: Option<String>,
    /// What is surveyed for it; `None`: the gather thread reads a file of the kernel itself.
    subject: Option<Subject>,
    /// Why a file of it has no number, in words, while others may have theirs.
    remark: Option<String>,
    /// When it last looked for slots to give back ([`Source::renew_alone`]).
    looked: Nanos,
}

/// The origin of the numbers.
enum Numbers {
    /// A kernel file.
    File { text: KernelText, parser: Box<Parser> },
    /// The numbers that jobs publish.
    Jobs(Box<Jobs>),
    /// The agent's own numbers.
    Own(Box<OwnNumbers>),
}

/// The readings of one source at one instant, for readers outside the gather thread.
#[derive(Debug)]
pub(crate) struct Published {
    pub stamp: Stamp,
    pub series: Arc<Vec<Series>>,
    pub values: Box<[u64]>,
    pub states: Box<[u8]>,
}

impl Source {
    pub fn file(root: &Path, file: &'static KernelFile, budget: Budget) -> Self {
        Self::of_text(KernelText::new(root, file), file, budget)
    }

    /// The same for a file that may be one of the survey's subjects.
    pub fn surveyed(root: &Path, file: &'static KernelFile, budget: Budget, survey: &Arc<Survey>) -> Self {
        match file.pieces {
            Pieces::Survey { subject, .. } if survey.has(subject) => {
                let text = KernelText::of_survey(root, file, SurveyText::new(survey, subject));
                Source { subject: Some(subject), ..Self::of_text(text, file, budget) }
            }
            _ => Self::file(root, file, budget),
        }
    }

    fn of_text(text: KernelText, file: &'static KernelFile, budget: Budget) -> Self {
        let parser = Box::new(Parser::new(file));
        let rest = match file.rest() {
            None => Nanos(0),
            Some(Refresh::Constant) => Nanos(u64::MAX),
            Some(refresh) => refresh.period().unwrap_or_default(),
        };
        Source { rest, ..Self::new(file.name, Numbers::File { text, parser }, budget) }
    }

    pub fn own(numbers: OwnNumbers) -> Self {
        Self::new(crate::own::SOURCE, Numbers::Own(Box::new(numbers)), Budget::unlimited())
    }

    pub fn jobs(door: Arc<JobDoor>) -> Self {
        // One gather takes only a bounded number of datagrams.
        Self::new(crate::jobs::SOURCE, Numbers::Jobs(Box::new(Jobs::new(door))), Budget::unlimited())
    }

    fn new(name: &'static str, numbers: Numbers, budget: Budget) -> Self {
        let counts = Counts::default();
        Source {
            name,
            numbers,
            counts,
            budget,
            held_back: false,
            gathered: None,
            published: None,
            rests_until: Nanos(0),
            rest: Nanos(0),
            problem: None,
            subject: None,
            remark: None,
            looked: Nanos(0),
        }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What is surveyed for it; `None`: the gather thread reads a file of the kernel itself.
    pub fn subject(&self) -> Option<Subject> {
        self.subject
    }

    /// The refresh for a reader that wants some of its metrics, or given names; `None` if the reader wants nothing of it.
    /// `exact`: even where the kernel updates them more slowly.
    pub fn refresh(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        wants_given: impl Fn(&Given) -> bool,
        exact: bool,
    ) -> Option<Nanos> {
        let is_given = || self.given().is_some_and(|given| wants_given(&given));
        match self.kernel_file() {
            Some(file) => {
                let known = file.refresh(is_wanted);
                let refresh = known.or_else(|| is_given().then(|| file.refresh(|_| true)).flatten())?;
                Some(if exact { Nanos(0) } else { refresh.period().unwrap_or(Nanos(0)) })
            }
            // The agent updates its own numbers once a second, and on request.
            None if self.is_own() => {
                crate::own::metrics().iter().any(|metric| is_wanted(&metric.name)).then_some(Nanos::SECOND)
            }
            None => is_given().then_some(Nanos(0)),
        }
    }

    /// The names that programs have given, if it has such.
    pub fn given(&self) -> Option<Given> {
        match &self.numbers {
            Numbers::Jobs(jobs) => Some(jobs.door().given()),
            Numbers::File { parser, .. } => {
                let prefix = parser.file().prefix()?;
                Some(Given::of(prefix, parser.schema().series()))
            }
            Numbers::Own(_) => None,
        }
    }

    pub fn kernel_file(&self) -> Option<&'static KernelFile> {
        match &self.numbers {
            Numbers::File { parser, .. } => Some(parser.file()),
            Numbers::Jobs(_) | Numbers::Own(_) => None,
        }
    }

    /// True if its readings are descriptions, which seldom change.
    pub fn is_description(&self) -> bool {
        self.rest > Nanos(0)
    }

    /// True if only the base lane has it until a reader asks for more.
    pub fn is_only_base(&self) -> bool {
        self.kernel_file().is_some_and(|file| file.only_base)
    }

    /// True if another thread makes its text. Then it is read when there is a new text
    /// ([`Source::is_fresh`]).
    #[inline]
    pub fn is_surveyed(&self) -> bool {
        matches!(&self.numbers, Numbers::File { text, .. } if text.is_surveyed())
    }

    /// True unless it is surveyed and its latest text was read already.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        !matches!(&self.numbers, Numbers::File { text, .. } if !text.is_fresh())
    }

    /// True for the agent's own numbers.
    pub fn is_own(&self) -> bool {
        matches!(self.numbers, Numbers::Own(_))
    }

    /// The socket of the jobs, if they are the source.
    pub fn job_door(&self) -> Option<&Arc<JobDoor>> {
        match &self.numbers {
            Numbers::Jobs(jobs) => Some(jobs.door()),
            Numbers::File { .. } | Numbers::Own(_) => None,
        }
    }

    pub fn own_numbers(&mut self) -> Option<&mut OwnNumbers> {
        match &mut self.numbers {
            Numbers::Own(own) => Some(own),
            Numbers::File { .. } | Numbers::Jobs(_) => None,
        }
    }

    /// The current number of slots; the schema only grows until [`Source::renew`].
    #[inline]
    pub fn slots(&self) -> usize {
        self.values().len()
    }

    #[inline]
    pub fn values(&self) -> &[u64] {
        match &self.numbers {
            Numbers::File { parser, .. } => parser.values(),
            Numbers::Jobs(jobs) => &jobs.readings().values,
            Numbers::Own(own) => &own.readings().values,
        }
    }

    #[inline]
    pub fn states(&self) -> &[u8] {
        match &self.numbers {
            Numbers::File { parser, .. } => parser.states(),
            Numbers::Jobs(jobs) => &jobs.readings().states,
            Numbers::Own(own) => &own.readings().states,
        }
    }

    #[inline]
    pub fn changed(&self) -> &[u32] {
        match &self.numbers {
            Numbers::File { parser, .. } => parser.changed(),
            Numbers::Jobs(jobs) => &jobs.readings().changed,
            Numbers::Own(own) => &own.readings().changed,
        }
    }

    /// The series of the slots.
    pub fn series(&self) -> &[Series] {
        self.schema().series()
    }

    fn schema(&self) -> &Schema {
        match &self.numbers {
            Numbers::File { parser, .. } => parser.schema(),
            Numbers::Jobs(jobs) => &jobs.readings().schema,
            Numbers::Own(own) => &own.readings().schema,
        }
    }

    /// The problem of the last gather, in words.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Why the first file of a survey that should have a number has none, in words.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Reads the text into `room` and parses it. All sources share `room`, so that it stays in the cache.
    /// Afterwards, `changed` names the slots with a new reading.
    #[inline]
    pub fn gather(&mut self, now: Stamp, room: &mut Vec<u8>) {
        if let Numbers::Jobs(jobs) = &mut self.numbers {
            let start = clock::boot();
            jobs.gather(now, room);
            self.counts.was_there = true;
            self.count(start, now);
            return;
        }
        let Numbers::File { text, parser } = &mut self.numbers else {
            // The gather thread has already put the agent's own numbers in.
            self.counts.gathers += 1;
            self.gathered = Some(now);
            return;
        };
        if now.boot < self.rests_until || !text.is_fresh() {
            parser.keep();
            self.gathered = Some(now);
            return;
        }
        let start = clock::boot();
        parser.expect();
        match text.read(room) {
            Ok(length) => {
                self.counts.was_there = true;
                let outcome = parser.advance(room, length);
                self.counts.bytes = length as u64;
                if outcome == Outcome::Full {
                    self.after_full_parse();
                }
            }
            Err(errno) => self.lost(errno, now),
        }
        if self.rest > Nanos(0) {
            self.begin_rest(now);
        }
        self.count(start, now);
    }

    /// Leaves a description alone for a while.
    #[cold]
    fn begin_rest(&mut self, now: Stamp) {
        let Numbers::File { text, .. } = &mut self.numbers else { return };
        text.close();
        self.rests_until = Nanos(now.boot.0.saturating_add(self.rest.0));
    }

    #[inline]
    fn count(&mut self, start: Nanos, now: Stamp) {
        let took = clock::boot().since(start);
        self.counts.gathers += 1;
        self.counts.gather_time.0 += took.0;
        self.counts.last_gather_time = took;
        self.budget.spend(took);
        self.gathered = Some(now);
    }

    #[cold]
    fn after_full_parse(&mut self) {
        let Numbers::File { text, parser } = &self.numbers else { return };
        self.counts.full_parses += 1;
        let faults = parser.faults();
        let problem = faults.first().map(|fault| format!("{}: {fault}", text.path().display()));
        self.counts.failures += u64::from(problem.is_some());
        if problem.is_some() && problem != self.problem {
            tracing::warn!(
                source = self.name,
                more = faults.len() - 1,
                "{}",
                problem.as_deref().unwrap_or_default()
            );
        }
        self.problem = problem;
        let remark = text.problem();
        if let Some(remark) = remark
            && is_told(parser.file())
            && self.remark.as_deref() != Some(remark)
        {
            tracing::warn!(source = self.name, "{remark}");
        }
        self.remark = remark.map(str::to_owned);
    }

    #[cold]
    fn lost(&mut self, errno: Errno, now: Stamp) {
        let Numbers::File { text, parser } = &mut self.numbers else { return };
        text.close();
        let missing = matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV);
        // A survey knows which of its folders it is.
        let problem = match text.problem() {
            Some(problem) => problem.to_owned(),
            None => format!("{}: {}", text.path().display(), std::io::Error::from(errno)),
        };
        if missing {
            parser.lose(Reading::Absent(Absence::NoSource));
            // A survey looks again by itself.
            let rest = if text.is_surveyed() { 0 } else { LOOK_AGAIN.0 };
            self.rests_until = Nanos(now.boot.0 + rest);
        } else {
            let fault = if errno == Errno::TIMEDOUT { Fault::Stuck } else { Fault::Unreadable };
            parser.lose(Reading::Failed(fault));
            self.counts.was_there = true;
            self.counts.failures += 1;
            if self.problem.as_deref() != Some(&problem) {
                tracing::warn!(source = self.name, "{problem}");
            }
        }
        self.problem = Some(problem);
        self.remark = None;
    }

    /// The number of slots whose instances have been gone for at least `age` (those of jobs:
    /// [`crate::jobs::STALE_AFTER`]). Instances count as gone from the first call on, so call it now and then.
    pub fn slots_gone(&mut self, now: Nanos, age: Nanos) -> usize {
        match &mut self.numbers {
            Numbers::File { parser, .. } => parser.slots_gone(now, age),
            Numbers::Jobs(jobs) => jobs.slots_gone(now),
            Numbers::Own(own) => own.slots_gone(now, age),
        }
    }

    /// The number of slots that a renewal would free, if there are enough of them or their names are long.
    pub fn worn(&mut self, now: Nanos, age: Nanos) -> Option<usize> {
        let gone = self.slots_gone(now, age);
        let (names, names_gone) = match &self.numbers {
            Numbers::File { parser, .. } => parser.names(),
            Numbers::Jobs(_) | Numbers::Own(_) => (0, 0),
        };
        (is_worn(gone, self.slots()) || has_worn_names(names_gone, names)).then_some(gone)
    }

    /// Begins with new slots, without those that [`Source::slots_gone`] counts. The others keep their readings, and
    /// the file is read as before.
    #[cold]
    pub fn renew(&mut self, now: Nanos, age: Nanos) {
        match &mut self.numbers {
            Numbers::File { parser, .. } => parser.renew(now, age),
            Numbers::Jobs(jobs) => jobs.renew(now),
            Numbers::Own(own) => own.renew(now, age),
        }
        self.published = None;
    }

    /// Renews itself if it is worn, at most once a second: for a source that is in no lane.
    pub fn renew_alone(&mut self, now: Nanos, age: Nanos) {
        if now.since(self.looked) < Nanos::SECOND {
            return;
        }
        self.looked = now;
        if self.worn(now, age).is_some() {
            self.renew(now, age);
        }
    }

    /// The readings for other threads; the same `Arc` until the next gather.
    pub fn publish(&mut self) -> Option<Arc<Published>> {
        let stamp = self.gathered?;
        if let Some(published) = &self.published
            && published.stamp == stamp
        {
            return Some(published.clone());
        }
        let series = self.schema().shared();
        let published =
            Arc::new(Published { stamp, series, values: self.values().into(), states: self.states().into() });
        self.published = Some(published.clone());
        Some(published)
    }
}

/// True for surveys that write a log line when a number is missing. These are surveys of a configuration, since nobody else knows
/// these files, and of processes, since processes of other users may be hidden. Nobody can repair the files of a driver.
fn is_told(file: &KernelFile) -> bool {
    is_own(file) || matches!(file.pieces, Pieces::Survey { subject: Subject::Processes, .. })
}

#[cfg(test)]
mod tests;
