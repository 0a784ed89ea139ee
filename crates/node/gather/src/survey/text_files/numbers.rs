//! The numbers of several files: which of them khz can have, one file beside the others. A file is taken whole, or left out with the
//! reason. It reads no files.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use khz_model::Instance;
use khz_model::exposed::is_of_rows;
use khz_model::metric::Text;
use khz_parse::exposition::{Family, Kind, families};
use khz_parse::textfile::{metric_name, series};

use super::super::churn::{Churn, Crowded, Name, TEXT_FILE_NAMES_MAX};

/// The most numbers of all files. A file that goes beyond is left out.
pub const TEXT_FILE_SERIES_MAX: usize = 8_192;
/// The most names of metrics whose first types are remembered. If there are more, types of names that no file has any more are
/// forgotten: their series have lost their slots by then.
pub const TEXT_FILE_KINDS_MAX: usize = 4 * TEXT_FILE_SERIES_MAX;

/// The names of files may not begin with this prefix: khz's own numbers and the numbers of jobs
/// have it.
const OURS: &str = "khz_";

/// Names that the program has itself. Most machines have no such files, and never ask.
static TAKEN: LazyLock<HashSet<Text>> =
    LazyLock::new(|| crate::catalogue().iter().map(|metric| metric.exposition.name.clone()).collect());

/// The type that each name had first: a series keeps it, and so do all series of its name.
#[derive(Default)]
pub(super) struct Kinds {
    hashes: RandomState,
    known: HashMap<u64, Kind>,
}

impl Kinds {
    fn of(&self, metric: &str, said: Kind) -> Kind {
        self.known.get(&self.hashes.hash_one(metric)).copied().unwrap_or(said)
    }

    /// These are the names of the present text.
    fn note<'a>(&mut self, metrics: impl Iterator<Item = (&'a String, Kind)>) {
        let now: HashMap<u64, Kind> =
            metrics.map(|(metric, said)| (self.hashes.hash_one(metric), self.of(metric, said))).collect();
        if self.known.len() + now.len() > TEXT_FILE_KINDS_MAX {
            self.known.clear();
        }
        self.known.extend(now);
    }
}

/// What is in one file.
pub(super) struct Contents<'a> {
    file: String,
    families: Vec<Found<'a>>,
    /// What the file brings.
    names: Vec<Name>,
}

/// A family of a file, and what it is in khz.
struct Found<'a> {
    family: Family<'a>,
    metric: String,
    /// The instance of each sample.
    instances: Vec<Option<Instance>>,
}

impl<'a> Contents<'a> {
    /// Reads a file; `Err`: khz cannot have it, whatever other files say.
    pub fn of(file: String, text: &'a str, kinds: &Kinds, churn: &Churn) -> Result<Self, String> {
        let (mut found, mut metrics) = (Vec::new(), HashSet::new());
        // When it was written is a series, too.
        let mut names = vec![churn.series(("", &file), file.len())];
        for family in families(text).map_err(|error| error.to_string())? {
            let name = family.name;
            if name.starts_with(OURS) || is_of_rows(name) || TAKEN.contains(name) {
                return Err(format!("khz has numbers called {name} itself"));
            }
            let metric = metric_name(name).map_err(|error| error.to_string())?;
            names.push(churn.metric(name));
            if !metrics.insert(metric.clone()) {
                return Err(format!("{name}: khz has small letters only, and so another name is the same"));
            }
            let instances = instances(&family, kinds.of(&metric, family.kind))?;
            names.extend(instances.iter().map(|instance| {
                churn.series((name, instance.as_ref()), instance.as_ref().map_or(0, Instance::bytes))
            }));
            found.push(Found { family, metric, instances });
        }
        Ok(Contents { file, families: found, names })
    }

    /// Returns the contents, if there is room for its numbers.
    pub fn within(self, room: &mut usize) -> Result<Self, String> {
        let count: usize = self.families.iter().map(|found| found.instances.len()).sum();
        match room.checked_sub(count) {
            Some(rest) => *room = rest,
            None => {
                return Err(format!(
                    "with it there would be more than {TEXT_FILE_SERIES_MAX} numbers in such files"
                ));
            }
        }
        Ok(self)
    }

    /// The names that it brings.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.names.iter().copied()
    }
}

/// The instances of the samples of a family that is of this kind for khz.
fn instances(family: &Family<'_>, kind: Kind) -> Result<Vec<Option<Instance>>, String> {
    let (mut instances, mut met) = (Vec::with_capacity(family.samples.len()), HashSet::new());
    for sample in &family.samples {
        let (line, name) = (sample.line, family.name);
        if kind == Kind::Counter && sample.value < 0.0 {
            let first = match family.kind {
                Kind::Counter => "",
                _ => ", since that was its first type, which holds until khz starts again",
            };
            return Err(format!("line {line}: {name} is a counter{first}, and below zero"));
        }
        let series = series(family, sample).map_err(|error| format!("line {line}: {error}"))?;
        if !met.insert(series.instance.clone()) {
            return Err(there_already(line, name));
        }
        instances.push(series.instance);
    }
    Ok(instances)
}

fn there_already(line: u32, name: &str) -> String {
    format!("line {line}: {name} has been there with these labels")
}

/// The numbers of several files.
#[derive(Default)]
pub(super) struct Numbers<'a> {
    families: Vec<Family<'a>>,
    /// The place of each family by its name in khz, so that two names do not become one.
    places: HashMap<String, usize>,
    /// The series that were already added.
    seen: HashSet<(usize, Option<Instance>)>,
}

impl<'a> Numbers<'a> {
    /// Adds the numbers of a file, or none of them.
    pub fn add(&mut self, contents: Contents<'a>, churn: &mut Churn) -> Result<(), String> {
        for found in &contents.families {
            self.check(found)?;
        }
        churn.take(contents.names()).map_err(crowded)?;
        for Found { family, metric, instances } in contents.families {
            let next = self.families.len();
            let place = *self.places.entry(metric).or_insert(next);
            self.seen.extend(instances.into_iter().map(|instance| (place, instance)));
            match self.families.get_mut(place) {
                Some(known) => known.samples.extend(family.samples),
                None => self.families.push(helped(family, &contents.file)),
            }
        }
        Ok(())
    }

    /// `Err`: another file has the name, or the same series.
    fn check(&self, Found { family, metric, instances }: &Found<'_>) -> Result<(), String> {
        let name = family.name;
        let Some(&place) = self.places.get(metric) else { return Ok(()) };
        match self.families.get(place) {
            Some(other) if other.name != name => {
                return Err(format!(
                    "{name}: khz has small letters only, and {} of another file is the same then",
                    other.name
                ));
            }
            Some(other) if other.kind != family.kind => {
                return Err(format!("{name}: another file gives it another type"));
            }
            _ => {}
        }
        let mut samples = family.samples.iter().zip(instances);
        match samples.find(|(_, instance)| self.seen.contains(&(place, (*instance).clone()))) {
            Some((sample, _)) => Err(there_already(sample.line, name)),
            None => Ok(()),
        }
    }

    /// The families, each of the type that its name had first.
    pub fn into_families(self, kinds: &mut Kinds) -> Vec<Family<'a>> {
        let Numbers { mut families, places, .. } = self;
        kinds.note(places.iter().filter_map(|(metric, place)| Some((metric, families.get(*place)?.kind))));
        for (metric, place) in &places {
            if let Some(family) = families.get_mut(*place) {
                family.kind = kinds.of(metric, family.kind);
            }
        }
        families
    }
}

/// Why names have no room, in words.
fn crowded(why: Crowded) -> String {
    match why {
        Crowded::TooMany => format!(
            "with it the names and labels of the numbers in such files would have more than {TEXT_FILE_NAMES_MAX} bytes"
        ),
        Crowded::TooOften => format!(
            "its labels change too often: files may bring {TEXT_FILE_SERIES_MAX} new series and {TEXT_FILE_NAMES_MAX} bytes of names in 5 minutes"
        ),
    }
}

/// The family, which says where it is from if it says nothing of itself.
fn helped<'a>(family: Family<'a>, file: &str) -> Family<'a> {
    if family.help.is_empty() {
        Family { help: format!("A number of {file}.").into(), ..family }
    } else {
        family
    }
}
