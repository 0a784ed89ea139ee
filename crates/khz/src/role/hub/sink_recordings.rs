//! Sinks that are recordings: a thread that writes the rows of channels into files of limited size. It follows the channels over a
//! link, as `khz record --channel` does, so missing rows are counted. The configuration says which files there are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use khz_block::trace::LaneHead;
use khz_channel::Registry;
use khz_client::Access;
use khz_link::LaneKey;
use khz_link::driver::{Event, Events, Following};
use khz_model::{ChannelName, ChannelTerms, Interest, Nanos, NodeName, Notice, Pattern, Rate};
use khz_record::{RecordError, Recorder, Rotation};
use serde_json::json;

use crate::config::sinks::RecordingLimits;
use crate::show::outcome::{Failure, sentence};

/// The time between two writes.
const PERIOD: Duration = Duration::from_secs(1);
/// How long after the end of a subscription its last rows may still come.
const LAST_ROWS: Duration = Duration::from_secs(1);
/// The most bytes that wait for the disk. Beyond it, the oldest rows are dropped, and counted as lost.
pub const QUEUE_BYTES: usize = 64 << 20;

/// The running thread. When this is dropped, the files are complete.
pub struct SinkRecorder {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SinkRecorder {
    /// Starts to record the channels of this list that name the sink, of the hub that `access` reaches.
    pub fn start(
        sink: &str,
        directory: &Path,
        limits: RecordingLimits,
        channels: Arc<Registry>,
        access: &Access,
    ) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| Failure::usage(format!("{}: {error}", directory.display()));
        std::fs::create_dir_all(directory).map_err(unusable)?;
        let settings = access.settings().map_err(|error| Failure::usage(sentence(&error)))?;
        let broken = |error: std::io::Error| Failure::work(format!("cannot start sink {sink}: {error}"));
        let (events_in, events) = Events::with_past(QUEUE_BYTES, Nanos(0)).map_err(broken)?;
        let following = Following::start(settings, events_in).map_err(broken)?;
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            sink: sink.to_owned(),
            directory: directory.to_owned(),
            limits,
            channels,
            revision: None,
            following,
            events,
            recordings: BTreeMap::new(),
            said: String::new(),
        };
        let is_over = stop.clone();
        let thread = std::thread::Builder::new().name("record".into()).spawn(move || work.run(&is_over));
        Ok(SinkRecorder { stop, thread: Some(thread.map_err(broken)?) })
    }
}

impl Drop for SinkRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If it panicked, the message was printed then.
            let _ = thread.join();
        }
    }
}

struct Work {
    sink: String,
    directory: PathBuf,
    limits: RecordingLimits,
    channels: Arc<Registry>,
    /// The revision of the list that it follows.
    revision: Option<u64>,
    following: Following,
    events: Events,
    /// What it records, by the number of the subscription.
    recordings: BTreeMap<u32, Recording>,
    /// The last warning. A disk that is full for an hour causes one line.
    said: String,
}

impl Work {
    fn run(mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.renew();
            self.copy();
            std::thread::park_timeout(PERIOD);
        }
        let all = self.recordings.keys().copied().collect();
        self.end(all);
    }

    fn warn(&mut self, text: String) {
        if text != self.said {
            tracing::warn!("sink {}: {text}", self.sink);
            self.said = text;
        }
    }

    /// Follows the channels that name the sink now. The recordings of other channels end.
    fn renew(&mut self) {
        let revision = self.channels.revision();
        if self.revision.replace(revision) == Some(revision) {
            return;
        }
        let all = self.channels.list();
        let names = all.iter().filter(|kept| kept.definition.to.contains(&self.sink));
        let wanted: Vec<ChannelName> =
            names.filter_map(|kept| ChannelName::new(&kept.definition.name).ok()).collect();
        let gone = self.recordings.iter().filter(|(_, known)| !wanted.contains(&known.channel));
        let gone = gone.map(|(&number, _)| number).collect();
        self.end(gone);
        for channel in wanted {
            if self.recordings.values().any(|known| known.channel == channel) {
                continue;
            }
            // The hub knows the rest, also after a change.
            let terms = Some(Arc::new(ChannelTerms::named(channel.clone())));
            let Some(rate) = Rate::from_hz(1) else { continue };
            let interest =
                Interest { channel: terms, ..Interest::new(vec![Pattern::everything()], rate, false) };
            match self.following.subscribe(&interest, true) {
                Ok(number) => {
                    self.recordings.insert(number, Recording::new(channel));
                }
                Err(error) => self.warn(format!("channel {channel}: {error}")),
            }
        }
    }

    /// Writes what has come.
    fn copy(&mut self) {
        while let Some(event) = self.events.try_next() {
            self.take(event);
        }
        let now = since_boot();
        let mut problems = Vec::new();
        for recording in self.recordings.values_mut() {
            let Some(recorder) = &mut recording.recorder else { continue };
            match recorder.tick(now) {
                Ok(()) => recording.remove_oldest(&self.directory, self.limits),
                Err(error) => problems.push(format!("channel {}: {}", recording.channel, sentence(&error))),
            }
        }
        problems.into_iter().for_each(|text| self.warn(text));
    }

    fn take(&mut self, event: Event) {
        let Some(number) = subscription_of(&event) else { return };
        let Some(recording) = self.recordings.get_mut(&number) else { return };
        if let Some(notice) = notice_of(&event) {
            self.channels.note(recording.channel.as_str(), &notice);
        }
        // The end of a channel that was removed, or no longer names the sink, is no news.
        let is_over = |kept: &khz_channel::Kept| !kept.definition.to.contains(&self.sink);
        if matches!(event, Event::Told { granted: false, .. })
            && self.channels.get(recording.channel.as_str()).map_or(true, |kept| is_over(&kept))
        {
            return;
        }
        if let Err(error) = recording.take(event, &self.directory, self.limits) {
            let text = format!("channel {}: {}", recording.channel, sentence(&error));
            self.warn(text);
        }
    }

    /// Ends these recordings, with the rows of blocks that are not complete.
    fn end(&mut self, numbers: Vec<u32>) {
        numbers.iter().for_each(|&number| self.following.unsubscribe(number));
        let until = Instant::now() + LAST_ROWS;
        let is_open = |all: &BTreeMap<u32, Recording>| {
            numbers.iter().any(|number| all.get(number).is_some_and(|one| !one.open.is_empty()))
        };
        while is_open(&self.recordings)
            && let Some(event) = self.events.next_within(until.saturating_duration_since(Instant::now()))
        {
            self.take(event);
        }
        for recording in
            numbers.iter().filter_map(|number| self.recordings.remove(number)).collect::<Vec<_>>()
        {
            let channel = recording.channel.clone();
            if let Err(error) = recording.finish() {
                self.warn(format!("channel {channel}: {}", sentence(&error)));
            }
        }
    }
}

/// The time since boot, by which a recording tells how old its files are.
fn since_boot() -> Nanos {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// The node's notice, if the event carries one.
fn notice_of(event: &Event) -> Option<Notice> {
    let Event::Told { text, .. } = event else { return None };
    let (node, text) = text.split_once(": ")?;
    Some(Notice::of(NodeName::new(node).ok()?, text))
}

/// The number of the subscription that an event is about.
fn subscription_of(event: &Event) -> Option<u32> {
    match event {
        Event::Lane { interest, .. } | Event::Told { interest, .. } => Some(*interest),
        Event::Schema { lane, .. }
        | Event::Block { lane, .. }
        | Event::Began { lane, .. }
        | Event::Heard { lane, .. }
        | Event::Lost { lane, .. }
        | Event::Closed { lane } => lane.name.strip_prefix("interest")?.parse().ok(),
        Event::Up { .. }
        | Event::Down { .. }
        | Event::Node { .. }
        | Event::Nodes
        | Event::Declined { .. }
        | Event::Elsewhere { .. } => None,
    }
}

/// The recording of one channel.
struct Recording {
    channel: ChannelName,
    /// `None` until its first lane comes.
    recorder: Option<Recorder>,
    /// The number of each lane in the files.
    lanes: HashMap<Arc<LaneKey>, u32>,
    /// Lanes that have not been closed.
    open: HashSet<Arc<LaneKey>>,
    /// The number of files at the last removal of the oldest ones.
    files: u64,
}

impl Recording {
    fn new(channel: ChannelName) -> Self {
        let (lanes, open) = Default::default();
        Recording { channel, recorder: None, lanes, open, files: 0 }
    }

    /// The file names hold the start time of the recording, so that files of earlier starts stay.
    fn begin(&self, directory: &Path, limits: RecordingLimits) -> Result<Recorder, RecordError> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let path = directory.join(format!("{}-{seconds}.khzt", self.channel));
        let rotation = Rotation { bytes: Some(limits.file.0), span: None, keep: None };
        let note = json!({ "program": "khz hub", "channel": self.channel.as_str() });
        Recorder::create(&path, rotation, note.to_string(), since_boot())
    }

    fn take(&mut self, event: Event, directory: &Path, limits: RecordingLimits) -> Result<(), RecordError> {
        if self.recorder.is_none() {
            if !matches!(event, Event::Lane { .. }) {
                return Ok(());
            }
            self.recorder = Some(self.begin(directory, limits)?);
        }
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        let number = |lanes: &HashMap<Arc<LaneKey>, u32>, lane| lanes.get(lane).copied();
        match event {
            Event::Lane { lane, .. } => {
                let next = self.lanes.len() as u32 + 1;
                let number = *self.lanes.entry(lane.clone()).or_insert(next);
                self.open.insert(lane.clone());
                // Rows of a channel come at any time.
                let (node, name, epoch) = (&*lane.node, self.channel.metric(), lane.epoch);
                recorder.lane(&LaneHead { lane: number, node, name: &name, epoch, period: 0 })
            }
            Event::Schema { lane, generation, offset, bytes } => match number(&self.lanes, &lane) {
                Some(number) => recorder.schema(number, generation, offset, &bytes),
                None => Ok(()),
            },
            Event::Block { lane, bytes } => match number(&self.lanes, &lane) {
                Some(number) => recorder.block(number, &bytes),
                None => Ok(()),
            },
            Event::Lost { lane, from, to } => match number(&self.lanes, &lane) {
                Some(number) => recorder.lost(number, from, to),
                None => Ok(()),
            },
            Event::Closed { lane } => {
                self.open.remove(&lane);
                Ok(())
            }
            Event::Told { granted, text, .. } => {
                match text.ends_with(Notice::SENDS_NOW) {
                    true => tracing::info!("channel {}, which a sink records: {text}", self.channel),
                    false if text.is_empty() && granted => {}
                    false => tracing::warn!("channel {}, which a sink records: {text}", self.channel),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Removes the oldest files of the channel, from all starts, until the rest fits.
    fn remove_oldest(&mut self, directory: &Path, limits: RecordingLimits) {
        let Some(recorder) = &self.recorder else { return };
        let files = recorder.counts().files;
        if std::mem::replace(&mut self.files, files) == files {
            return;
        }
        let begin = format!("{}-", self.channel);
        let is_its = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(|name| name.strip_prefix(&begin)).is_some_and(|rest| {
                rest.starts_with(|first: char| first.is_ascii_digit()) && rest.ends_with(".khzt")
            })
        };
        let Ok(folder) = std::fs::read_dir(directory) else { return };
        let paths = folder.filter_map(|entry| Some(entry.ok()?.path())).filter(is_its);
        let mut all: Vec<(SystemTime, PathBuf, u64)> = paths
            .filter_map(|path| {
                let about = std::fs::metadata(&path).ok()?;
                Some((about.modified().ok()?, path, about.len()))
            })
            .collect();
        all.sort();
        // The current file may grow to the full size of a file.
        let mut bytes = all.iter().map(|(_, _, bytes)| bytes).sum::<u64>().saturating_add(limits.file.0);
        for (_, path, length) in all {
            if bytes <= limits.all.0 || path == recorder.path() {
                return;
            }
            // It does not matter if somebody else has removed it.
            let _ = std::fs::remove_file(path);
            bytes = bytes.saturating_sub(length);
        }
    }

    fn finish(self) -> Result<(), RecordError> {
        let Some(recorder) = self.recorder else { return Ok(()) };
        let missing = recorder.missing();
        let note = json!({ "end": "whole", "rows_missing": missing.rows, "gaps": missing.gaps });
        recorder.finish(&note.to_string()).map(|_| ())
    }
}
