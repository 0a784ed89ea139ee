//! The recordings, and the reels made from them: each exists once, however many nodes play it. The number of
//! reels is limited; a request for more is refused.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use khz_model::{ChannelName, Instance, Nanos, Pattern};

use crate::error::SimulateError;
use crate::packed;
use crate::recording::{NUMBERS_MAX, QUIET, Recording};
use crate::reel::Reel;

/// The shortest period that a node grants.
pub const PERIOD_MIN: Nanos = Nanos::from_millis(1);
/// Reels at once: a busy minute at 1,000 Hz takes ten megabytes.
const REELS_MAX: usize = 64;
/// What follows the workload's name in the file name of a recording.
const SUFFIX: &str = "-100hz.khzt";

/// The key of a reel: recording, period, kernel files (none: all of them).
type Title = (usize, Nanos, Vec<String>);

/// Everything that can be played.
#[derive(Debug)]
pub struct Library {
    recordings: Vec<Arc<Recording>>,
    reels: HashMap<Title, Rc<Reel>>,
    /// Reels without bytes, for channels.
    readable: HashMap<(usize, Nanos), Rc<Reel>>,
}

impl Library {
    /// Reads the workloads. Each is the path of a recording, or a name: of a file in `folder` or, without a
    /// folder, of a recording in the program. Rows get `slots` slots: those that change most, and copies of
    /// devices if there are too few; 0: as recorded.
    pub fn read(workloads: &[String], folder: Option<&Path>, slots: usize) -> Result<Self, SimulateError> {
        let recordings = workloads.iter().map(|workload| read(workload, folder));
        Self::of(recordings.collect::<Result<_, _>>()?, slots)
    }

    /// A library of these recordings.
    pub fn of(recordings: Vec<Recording>, slots: usize) -> Result<Self, SimulateError> {
        let recordings = if slots == 0 { recordings } else { busiest(recordings, slots)? };
        let recordings = recordings.into_iter().map(Arc::new).collect();
        Ok(Library { recordings, reels: HashMap::new(), readable: HashMap::new() })
    }

    /// The recordings.
    pub fn recordings(&self) -> &[Arc<Recording>] {
        &self.recordings
    }

    /// A recording with all its slots, at this rate.
    pub fn reel(&mut self, which: usize, period: Nanos) -> Rc<Reel> {
        let recording = &self.recordings[which];
        let make = || Rc::new(Reel::new(recording.clone(), period));
        self.reels.entry((which, period, Vec::new())).or_insert_with(make).clone()
    }

    /// A recording with all its slots, at this rate, for readings one by one; or why not.
    pub fn readable(&mut self, which: usize, period: Nanos) -> Result<Rc<Reel>, String> {
        check_period(period)?;
        if let Some(reel) = self.readable.get(&(which, period)) {
            return Ok(reel.clone());
        }
        if self.readable.len() >= REELS_MAX {
            self.readable.retain(|_, reel| Rc::strong_count(reel) > 1);
        }
        if self.readable.len() >= REELS_MAX {
            return Err(format!("the simulation has channels at {REELS_MAX} different rates already"));
        }
        let reel = Rc::new(Reel::unencoded(self.recordings[which].clone(), period));
        self.readable.insert((which, period), reel.clone());
        Ok(reel)
    }

    /// The rows of a channel of rules that give nothing; or why not.
    pub fn rules(&mut self, channel: &ChannelName) -> Result<Rc<Reel>, String> {
        let title = (usize::MAX, QUIET, vec![channel.as_str().to_owned()]);
        if let Some(reel) = self.reels.get(&title) {
            return Ok(reel.clone());
        }
        self.make_room()?;
        let reel = Rc::new(Reel::new(Arc::new(Recording::of_rules(channel)), QUIET));
        self.reels.insert(title, reel.clone());
        Ok(reel)
    }

    fn make_room(&mut self) -> Result<(), String> {
        if self.reels.len() >= REELS_MAX {
            // Drops reels that no node plays.
            self.reels.retain(|_, reel| Rc::strong_count(reel) > 1);
        }
        match self.reels.len() >= REELS_MAX {
            true => Err(format!("the simulation plays {REELS_MAX} different reels already")),
            false => Ok(()),
        }
    }

    /// The slots of a recording that come from the kernel files that the patterns need, at this rate; or why
    /// not.
    pub fn boost(&mut self, which: usize, period: Nanos, patterns: &[Pattern]) -> Result<Rc<Reel>, String> {
        check_period(period)?;
        let recording = self.recordings[which].clone();
        let file = |slot: usize| &*recording.series[slot].metric.origin.file;
        let is_wanted = |slot: &usize| recording.series[*slot].is_selected(patterns);
        let mut files: Vec<String> =
            (0..recording.slots()).filter(is_wanted).map(|slot| file(slot).to_owned()).collect();
        files.sort_unstable();
        files.dedup();
        if files.is_empty() {
            return Err("the recording has nothing that matches".into());
        }
        let title = (which, period, files);
        if let Some(reel) = self.reels.get(&title) {
            return Ok(reel.clone());
        }
        self.make_room()?;
        let slots: Vec<usize> =
            (0..recording.slots()).filter(|&slot| title.2.iter().any(|one| one == file(slot))).collect();
        let reel = Rc::new(Reel::new(Arc::new(recording.only(&slots)), period));
        self.reels.insert(title, reel.clone());
        Ok(reel)
    }
}

fn check_period(period: Nanos) -> Result<(), String> {
    match period < PERIOD_MIN {
        true => Err("a simulated node gathers 1,000 times a second at most".into()),
        false => Ok(()),
    }
}

fn read(workload: &str, folder: Option<&Path>) -> Result<Recording, SimulateError> {
    match folder {
        _ if workload.contains(['/', '.']) => Recording::read(workload, Path::new(workload)),
        Some(folder) => Recording::read(workload, &folder.join(format!("{workload}{SUFFIX}"))),
        None => Recording::decode(workload, Path::new(workload), &packed::trace_of(workload)?),
    }
}

/// The slots that change most over all recordings, so that nodes of all workloads have the same slots.
fn busiest(recordings: Vec<Recording>, slots: usize) -> Result<Vec<Recording>, SimulateError> {
    let mut changes: HashMap<String, usize> = HashMap::new();
    for recording in &recordings {
        for (series, count) in recording.series.iter().zip(recording.changes()) {
            *changes.entry(series.to_string()).or_default() += count;
        }
    }
    let choose = |recording: Recording| {
        let count = |slot: &usize| changes.get(&recording.series[*slot].to_string()).copied().unwrap_or(0);
        let mut chosen: Vec<usize> = (0..recording.slots()).collect();
        chosen.sort_by_key(|slot| std::cmp::Reverse(count(slot)));
        chosen.truncate(slots);
        chosen.sort_unstable();
        widened(recording.only(&chosen), slots)
    };
    recordings.into_iter().map(choose).collect()
}

/// Adds slots: further copies of the recorded devices and processors, under other names.
fn widened(recording: Recording, slots: usize) -> Result<Recording, SimulateError> {
    let (has, rows) = (recording.slots(), recording.rows());
    let instances: Vec<usize> = (0..has).filter(|&slot| recording.series[slot].instance.is_some()).collect();
    if has >= slots {
        return Ok(recording);
    }
    if instances.is_empty() || slots * rows > NUMBERS_MAX {
        return Err(SimulateError::Slots { asked: slots, limit: has.max(NUMBERS_MAX / rows) });
    }
    let copies = instances.iter().copied().cycle().take(slots - has);
    let chosen: Vec<usize> = (0..has).chain(copies).collect();
    let mut wide = recording.only(&chosen);
    for (number, series) in wide.series[has..].iter_mut().enumerate() {
        let copied = series.instance.clone().unwrap_or_else(|| Instance::from_kernel(b""));
        series.instance = Some(copied.with_name_end(&format!("-copy{}", number / instances.len() + 1)));
    }
    Ok(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::{recording_of, trace_of};

    fn library() -> Library {
        Library::of(vec![recording_of(60, 20, |tick, slot| (0, tick * slot as u64))], 0).unwrap()
    }

    #[test]
    fn nodes_of_one_workload_share_one_reel() {
        let mut library = library();
        let period = Nanos::from_millis(10);
        assert!(Rc::ptr_eq(&library.reel(0, period), &library.reel(0, period)));
        assert!(!Rc::ptr_eq(&library.reel(0, period), &library.reel(0, Nanos::SECOND)));
    }

    #[test]
    fn the_busiest_slots_are_kept_in_their_order() {
        let changing = [7, 11, 30];
        let reading = |tick: u64, slot: usize| (0, if changing.contains(&slot) { tick } else { 5 });
        let library = Library::of(vec![recording_of(60, 20, reading)], 3).unwrap();
        let whole = recording_of(60, 20, reading);
        let names =
            |recording: &Recording| recording.series.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected: Vec<String> = changing.iter().map(|&slot| names(&whole)[slot].clone()).collect();
        assert_eq!(names(&library.recordings()[0]), expected);
        let error = Library::of(vec![whole], 1_000).unwrap_err();
        assert!(
            matches!(error, SimulateError::Slots { asked: 1_000, .. }),
            "it has no device that can be copied"
        );
    }

    #[test]
    fn devices_are_copied_where_slots_are_missing() {
        let mut recording = recording_of(3, 20, |tick, slot| (0, tick * slot as u64));
        recording.series[2].instance = Some(Instance::from_kernel(b"eth0"));
        let library = Library::of(vec![recording], 5).unwrap();
        let recording = &library.recordings()[0];
        let names: Vec<_> = recording.series[2..].iter().filter_map(|one| one.instance.as_ref()).collect();
        assert_eq!(
            names.iter().map(|name| name.name()).collect::<Vec<_>>(),
            ["eth0", "eth0-copy1", "eth0-copy2"]
        );
        assert!((0..20).all(|row| recording.value(row, 4) == recording.value(row, 2)));
    }

    #[test]
    fn a_boost_has_the_files_that_it_needs_and_too_many_are_refused() {
        let mut library = library();
        let slots = library.recordings()[0].slots();
        let one = Pattern::new(&library.recordings()[0].series[0].metric.name).unwrap();
        let reel = library.boost(0, PERIOD_MIN, std::slice::from_ref(&one)).unwrap();
        assert!((1..slots).contains(&reel.slots()));
        assert!(library.boost(0, Nanos(PERIOD_MIN.0 - 1), std::slice::from_ref(&one)).is_err());
        assert!(library.boost(0, PERIOD_MIN, &[Pattern::new("no.such").unwrap()]).is_err());
        let held: Vec<_> = (2..)
            .map_while(|n| library.boost(0, Nanos(PERIOD_MIN.0 * n), std::slice::from_ref(&one)).ok())
            .collect();
        assert_eq!(held.len(), REELS_MAX - 1);
        drop(held);
        assert!(library.boost(0, Nanos::SECOND, &[one]).is_ok());
    }

    #[test]
    fn every_workload_of_the_program_is_a_minute_that_can_be_played() {
        let names: Vec<String> = packed::workloads().map(String::from).collect();
        let library = Library::read(&names, None, 0).unwrap();
        for recording in library.recordings() {
            assert!((5_900..6_100).contains(&recording.rows()), "{}: {}", recording.name, recording.rows());
            assert!(recording.changes().iter().any(|&count| count > 1_000), "{}", recording.name);
        }
    }

    #[test]
    fn workloads_are_names_in_the_folder_or_paths() {
        let folder = std::env::temp_dir().join(format!("khz-simulate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("calm-100hz.khzt");
        std::fs::write(&path, trace_of(5, &[0, 1, 2], |tick, _| (0, tick))).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let library = Library::read(&["calm".into(), path], Some(&folder), 0).unwrap();
        assert_eq!((library.recordings().len(), library.recordings()[1].rows()), (2, 3));
        let error = Library::read(&["storm".into()], Some(&folder), 0).unwrap_err().to_string();
        assert!(error.contains("storm-100hz.khzt"), "{error}");
        let error = Library::read(&["storm".into()], None, 0).unwrap_err().to_string();
        assert!(
            error.contains("'storm'") && error.contains("compile, idle, mempressure, netcopy"),
            "{error}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
