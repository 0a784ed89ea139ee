//! The newest reading of each series: it looks hour by hour into the past, and at the end into roll-ups.

use std::collections::HashMap;
use std::vec::IntoIter;

use khz_model::{Nanos, NodeName, QueryError, RangeAnswer, RangeContent, RangePart, Reading, Series, Stamp};

use crate::joined::Rows;
use crate::layout::Key;
use crate::range::answer::Asked;
use crate::range::hours::HourFiles;
use crate::range::rows::NodeHour;
use crate::range::strand::{SeriesList, Strand, Strip};
use crate::writer::Content;

/// The answer with the newest readings.
pub(crate) struct NewestAnswer {
    asked: Asked,
    files: HourFiles,
    /// The nodes that are still to come; `None`: before the first.
    nodes: Option<IntoIter<NodeName>>,
    /// The hours, the latest first.
    hours: Vec<u64>,
    /// What was found of a node.
    found: IntoIter<RangePart>,
}

impl NewestAnswer {
    pub fn new(asked: Asked) -> Self {
        let files = HourFiles::new(&asked.reader.files);
        NewestAnswer { asked, files, nodes: None, hours: Vec::new(), found: Vec::new().into_iter() }
    }

    fn begin(&mut self) -> Result<IntoIter<NodeName>, QueryError> {
        self.hours = self.asked.hours()?;
        let mut files = self.files.of_all(self.hours.iter().copied(), &mut self.asked.damage);
        let (from, to) = (self.asked.from, self.asked.to);
        for resolution in self.asked.reader.files.resolutions() {
            files.extend(self.asked.reader.files.files(resolution, from, to, &mut self.asked.damage));
        }
        self.hours.reverse();
        Ok(self.asked.nodes(&files).into_iter())
    }

    fn node(&mut self, node: &NodeName) -> Result<Vec<RangePart>, QueryError> {
        let mut newest: HashMap<Key, RangePart> = HashMap::new();
        for &hour in &self.hours {
            let is_news = |key: &Key| !newest.contains_key(key);
            let Some(mut rows) = NodeHour::of(&mut self.asked, &mut self.files, hour, node.clone())? else {
                continue;
            };
            rows.keep(is_news);
            while let Some(mut part) = rows.next(&mut self.asked) {
                part.step = self.asked.from;
                if let RangeContent::Readings(readings) = &mut part.content {
                    readings.drain(..readings.len().saturating_sub(1));
                }
                newest.insert(Key::of(&part.series), part);
            }
        }
        self.rolled_up(node, &mut newest);
        let mut list = SeriesList::default();
        newest.values().for_each(|part| list.add(std::slice::from_ref(&part.series), &self.asked.patterns));
        let order = list.sorted();
        Ok(order.into_iter().filter_map(|(key, _)| newest.remove(&key)).collect())
    }

    /// Adds what only roll-ups have: the last value of a bucket, with its own time.
    fn rolled_up(&mut self, node: &NodeName, newest: &mut HashMap<Key, RangePart>) {
        let (from, to) = (self.asked.from, self.asked.to);
        for resolution in self.asked.reader.files.resolutions() {
            let files = self.asked.reader.files.files(resolution, from, to, &mut self.asked.damage);
            let strips = Strip::sections(&files, node, &mut self.asked.damage);
            let mut list = SeriesList::default();
            let patterns = self.asked.patterns_of(node);
            strips.iter().for_each(|strip| list.add(strip.series(), &patterns));
            let mut missed = list.sorted();
            missed.retain(|(key, _)| !newest.contains_key(key));
            if missed.is_empty() {
                continue;
            }
            let strand = Strand::of(strips, &mut self.asked.damage);
            for (key, series) in missed {
                if let Some(part) = last_of(&strand, &key, &series, node, (from, to), &mut self.asked) {
                    newest.insert(key, part);
                }
            }
        }
    }
}

/// The last value in a roll-up that lies within the time.
fn last_of(
    strand: &Strand,
    key: &Key,
    series: &Series,
    node: &NodeName,
    (from, to): (Nanos, Nanos),
    asked: &mut Asked,
) -> Option<RangePart> {
    strand.stretches.iter().rev().filter(|stretch| stretch.first < to.0).find_map(|stretch| {
        let (mut last, mut labels) = (None, Vec::new());
        match stretch.joined.column(key, &mut asked.damage) {
            Content::Summaries(track) => track.each_value(|_, summary| {
                if (from..to).contains(&summary.last.time) {
                    last = Some((summary.last.time, Reading::Present(summary.last.bits)));
                }
            }),
            // Of labels, the time within the bucket is not known: only that it is over.
            Content::Readings(track) => {
                let times = &stretch.joined.times;
                for (row, reading) in track.readings() {
                    let time = Nanos(times.beside.get(1).map_or(times.at[row], |lasts| lasts[row]));
                    if (from..to).contains(&time) {
                        last = Some((time, reading));
                    }
                }
                labels = track.labels;
            }
        }
        let (time, reading) = last?;
        let content = RangeContent::Readings(vec![(Stamp { boot: time, real_offset: 0 }, reading)]);
        Some(RangePart { node: node.clone(), series: series.clone(), step: from, content, labels })
    })
}

impl RangeAnswer for NewestAnswer {
    fn next(&mut self) -> Result<Option<RangePart>, QueryError> {
        loop {
            if let Some(part) = self.found.next() {
                return self.asked.give(part);
            }
            if self.nodes.is_none() {
                self.nodes = Some(self.begin()?);
            }
            let Some(node) = self.nodes.as_mut().and_then(Iterator::next) else { return Ok(None) };
            self.found = self.node(&node)?.into_iter();
        }
    }

    fn damage(&mut self) -> Vec<String> {
        self.asked.damages()
    }
}
