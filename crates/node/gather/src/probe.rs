//! Tries each source on this host and reports the result: for `khz check`. It uses no rings, and no thread but that of
//! the surveys.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use khz_model::{Nanos, Reading};
use khz_parse::{KernelFile, Subject};

use crate::budget::Budget;
use crate::clock;
use crate::source::Source;
use crate::survey::{
    SURVEY_STUCK_AFTER, SURVEYS_STUCK_OF_SUBJECT_MAX, Survey, SurveySettings, SurveyText, subject_of,
};

/// The result of trying one source on this host.
#[derive(Clone, Debug)]
pub struct SourceReport {
    /// Its name.
    pub name: &'static str,
    /// The path below the root.
    pub path: String,
    /// The problem in words; `None` if there is none, or if this host does not have the source.
    pub problem: Option<String>,
    /// Why those of its files that should have a number have none, in words; the others may have theirs.
    pub remark: Option<String>,
    /// The number of present readings.
    pub values: usize,
    /// The absent and failed series, with the reason.
    pub missing: Vec<(String, Reading)>,
    /// The size of the text.
    pub bytes: u64,
    /// The median time of a gather; `None` if the source did not work.
    pub gather_time: Option<Nanos>,
}

/// The gathers of a probe: enough for a median, and only some milliseconds in all.
const PROBES: usize = 21;

/// This many steps of one subject may be stuck, and each is given up after its time. If a survey takes longer, it is
/// reported as not read.
const PATIENCE: Nanos = Nanos((SURVEYS_STUCK_OF_SUBJECT_MAX as u64 + 1) * SURVEY_STUCK_AFTER.0);

/// Between two looks at the processes: some ticks of the kernel's clock, in which somebody computes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Tries every source below `root`.
pub fn probe(root: &Path, settings: &SurveySettings) -> Vec<SourceReport> {
    let files = &settings.known;
    let subjects = files.iter().filter_map(|file| subject_of(root, file));
    let survey = Survey::start(root, settings, subjects);
    survey.wait_and_give_up(SURVEY_STUCK_AFTER, PATIENCE);
    // What a process did since the look before is known at the second look only.
    if survey.has(Subject::Processes) {
        std::thread::sleep(BETWEEN_LOOKS);
        survey.ask(Subject::Processes);
        survey.wait_and_give_up(SURVEY_STUCK_AFTER, PATIENCE);
    }
    let reports = files.iter().map(|file| probe_one(root, file, settings, &survey)).collect();
    survey.end();
    reports
}

/// The texts of this machine's surveys, with the paths that they have on a captured host.
pub fn survey_texts() -> Vec<(&'static str, Vec<u8>)> {
    let root = Path::new("/");
    let settings = SurveySettings::default();
    let text_of = |file: &'static KernelFile| Some((file.captured_path(), subject_of(root, file)?));
    let files: Vec<_> = settings.known.iter().filter_map(text_of).collect();
    let survey = Survey::start(root, &settings, files.iter().map(|(_, subject)| *subject));
    survey.wait_and_give_up(SURVEY_STUCK_AFTER, PATIENCE);
    let text = |(path, subject): (&'static str, Subject)| {
        let mut text = Vec::new();
        let length = SurveyText::new(&survey, subject).read(&mut text).ok()?;
        text.truncate(length);
        Some((path, text))
    };
    let texts = files.into_iter().filter_map(text).collect();
    survey.end();
    texts
}

fn probe_one(
    root: &Path,
    file: &'static KernelFile,
    settings: &SurveySettings,
    survey: &Arc<Survey>,
) -> SourceReport {
    let mut source = Source::surveyed(root, file, Budget::unlimited(), survey);
    let mut times = Vec::with_capacity(PROBES);
    let mut room = Vec::new();
    if source.is_surveyed() {
        // The time that counts is that of the survey. Its text is read once.
        source.gather(clock::stamp(), &mut room);
        let made = subject_of(root, file).map_or(Nanos(0), |subject| survey.took(subject));
        times = vec![Nanos(made.0 + source.counts.last_gather_time.0); PROBES];
    } else {
        for _ in 0..PROBES {
            source.gather(clock::stamp(), &mut room);
            times.push(source.counts.last_gather_time);
        }
    }
    times.sort();
    let works = source.counts.bytes > 0;
    let series = source.series();
    let reading = |slot: usize| Reading::from_parts(source.states()[slot], source.values()[slot]);
    let missing = series.iter().enumerate().filter_map(|(slot, series)| match reading(slot) {
        Reading::Present(_) | Reading::Labels(_) => None,
        other => Some((series.to_string(), other)),
    });
    let missing: Vec<_> = missing.collect();
    SourceReport {
        name: file.name,
        path: match subject_of(root, file) {
            Some(Subject::TextFiles) => below_root(&settings.text_files),
            _ => file.path.to_owned(),
        },
        problem: source.problem().filter(|_| source.counts.was_there).map(str::to_owned),
        remark: source.remark().map(str::to_owned),
        values: series.len() - missing.len(),
        missing,
        bytes: source.counts.bytes,
        gather_time: works.then(|| times[PROBES / 2]),
    }
}

/// A path of the configuration, without the slash of the root.
fn below_root(path: &Path) -> String {
    path.strip_prefix("/").unwrap_or(path).to_string_lossy().into_owned()
}
