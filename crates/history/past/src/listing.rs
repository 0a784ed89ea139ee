//! Lists the series that had a value in some time, with each set of labels that they had. It reads values only where the newest
//! reading of a series does not tell, and passes on no samples.

use khz_model::{Nanos, NodeName, RangeShape, Reach};
use khz_promql::{LabelSet, Matcher, QueryError, SeriesId, Sink};

use crate::chosen::Chosen;
use crate::feed::Feed;
use crate::interval::{Interval, divided};
use crate::labelled::{self, Labelled};
use crate::source::{PastSource, is_named, span};
use crate::unclear::Unclear;
use crate::values::Form;

/// The series after the first moment and up to the second one (ms), at most `limit`. Returns true if there are more.
pub(crate) fn list(
    source: &PastSource,
    matchers: &[Matcher],
    time: (i64, i64),
    limit: usize,
) -> Result<(Vec<LabelSet>, bool), QueryError> {
    up_to(limit, |listed| fill(source, matchers, time, listed))
}

/// The series that `fill` lists, up to a limit. Returns true if there are more.
fn up_to(
    limit: usize,
    fill: impl FnOnce(&mut Listed) -> Result<(), QueryError>,
) -> Result<(Vec<LabelSet>, bool), QueryError> {
    let mut listed = Listed { all: Vec::new(), limit, is_full: false };
    match fill(&mut listed) {
        // The list is full.
        Err(_) if listed.is_full => {}
        filled => filled?,
    }
    Ok((listed.all, listed.is_full))
}

fn fill(
    source: &PastSource,
    matchers: &[Matcher],
    (after, to): (i64, i64),
    sink: &mut Listed,
) -> Result<(), QueryError> {
    let chosen = Chosen::of(matchers, &source.known);
    let (span, reach) = (span(after, to), source.reach());
    let is_wanted = is_named(&chosen, matchers);
    let job = &*source.known.job;
    let mut feed = Feed::new(chosen.form, job, matchers, (after, to), source.end(to));
    let (mut labelled, mut unclear) = (Labelled::default(), Unclear::default());
    source.read(chosen.patterns.clone(), span, RangeShape::Newest, |group| {
        feed.newest(group, &is_wanted, (&mut labelled, &mut unclear), sink)
    })?;
    // The newest value of a bucket may be later than the time, and the values before it are not known.
    let divided = divided(span, &reach);
    source.read_all(&chosen.patterns, &divided, |group, bucket| {
        group.series().for_each(|rows| labelled.note(&rows.series().metric));
        feed.had(group, bucket.unwrap_or_default(), &is_wanted, sink)
    })?;
    labelled.list(source, &chosen, (span, &reach), &is_wanted, &mut feed, sink)?;
    unclear.list(source, &chosen, span, &is_wanted, &mut feed, sink)?;
    derive(source, &chosen, span, &divided, &mut feed, sink)?;
    fill_recorded(source, matchers, (span, &reach), feed.recorded([]), sink)
}

/// Lists the series that are made of the times of rows.
fn derive(
    source: &PastSource,
    chosen: &Chosen,
    span: (Nanos, Nanos),
    divided: &[Interval],
    feed: &mut Feed<'_>,
    sink: &mut Listed,
) -> Result<(), QueryError> {
    if chosen.derived.is_empty() {
        return Ok(());
    }
    let job = &*source.known.job;
    let mut derived = |node: &NodeName| {
        for derived in &chosen.derived {
            let labels = feed.words.plain(derived.name(), node, job);
            feed.list(labels, sink)?;
        }
        Ok(())
    };
    source.read(chosen.clock.clone(), span, RangeShape::Newest, |group| {
        group.node().map_or(Ok(()), &mut derived)
    })?;
    source.read_all(&chosen.clock, divided, |group, _| {
        let is_within = |first: Nanos, last: Nanos| first < span.1 && last >= span.0;
        match group.node().filter(|_| group.has_bucket(is_within)) {
            Some(node) => derived(node),
            None => Ok(()),
        }
    })?;
    Ok(())
}

/// The same as [`list`], of what rules have recorded alone.
pub(crate) fn list_recorded(
    source: &PastSource,
    matchers: &[Matcher],
    (after, to): (i64, i64),
    limit: usize,
) -> Result<(Vec<LabelSet>, bool), QueryError> {
    let feed = Feed::new(Form::Recorded, &source.known.job, matchers, (after, to), source.end(to));
    up_to(limit, |listed| fill_recorded(source, matchers, (span(after, to), &source.reach()), feed, listed))
}

/// Lists series that rules have recorded, by a feed for those.
fn fill_recorded(
    source: &PastSource,
    matchers: &[Matcher],
    (span, reach): ((Nanos, Nanos), &Reach),
    mut feed: Feed<'_>,
    sink: &mut Listed,
) -> Result<(), QueryError> {
    let recorded = Chosen::recorded(matchers, &source.known);
    let mut has_ended = false;
    source.read(recorded.patterns.clone(), span, RangeShape::Newest, |group| {
        has_ended |= feed.newest_recorded(group, sink)?;
        Ok(())
    })?;
    // The newest value of a bucket may be later than the time.
    source.read_all(&recorded.patterns, &divided(span, reach), |group, bucket| {
        feed.had(group, bucket.unwrap_or_default(), |_| true, sink)
    })?;
    if has_ended {
        // Whether these had samples in this time only the rows know.
        labelled::list_within(source, &recorded.patterns, (span, reach), &mut feed, sink)?;
    }
    Ok(())
}

/// Takes series, up to a limit.
struct Listed {
    all: Vec<LabelSet>,
    limit: usize,
    is_full: bool,
}

impl Sink for Listed {
    fn series(&mut self, labels: LabelSet) -> Result<SeriesId, QueryError> {
        if self.all.len() >= self.limit {
            self.is_full = true;
            return Err(QueryError::Cancelled);
        }
        self.all.push(labels);
        Ok(SeriesId(self.all.len() - 1))
    }

    fn samples(&mut self, _: SeriesId, _: &[i64], _: &[f64]) -> Result<(), QueryError> {
        Ok(())
    }
}
