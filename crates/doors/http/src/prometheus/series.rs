//! `/api/v1/series`, `/api/v1/labels` and `/api/v1/label/NAME/values`: which series there were in some time. Names of metrics,
//! nodes and the job need no reading where nothing narrows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use khz_model::Nanos;
use khz_model::exposed::{INSTANCE, JOB, TIME, UP};
use khz_past::{JOB_ID, PastSource};
use khz_promql::{LabelSet, METRIC_NAME, Matcher, Operator, QueryError, Source, selector};

use crate::json;
use crate::limits::{JOB_IDS_MAX, LISTING_REGEXES_MAX, SERIES_LISTED_MAX};
use crate::pages::Writer;
use crate::prometheus::answer::{self, Notes, labels_json};
use crate::prometheus::evaluate::{Asked, Stop, evaluate, jobs};
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::prometheus::names::unescaped;
use crate::routes::App;

/// Parameters of `/api/v1/series` and `/api/v1/labels`.
pub(crate) const SERIES_PARAMS: &[&str] = &["match[]", "start", "end", "limit", "timeout"];
/// Parameters of `/api/v1/label/{name}/values`.
pub(crate) const VALUES_PARAMS: &[&str] = &["name", "match[]", "start", "end", "limit", "timeout"];

/// How far a listing without `start` looks back (ms): what was there today.
const LISTED_BACK: i64 = 86_400_000;

/// What is listed.
struct Wanted {
    selectors: BTreeSet<String>,
    /// After this time, and up to that one (ms).
    span: (i64, i64),
    limit: Option<usize>,
    asked: Asked,
}

/// Label sets, and whether there would be more.
type Sets = (BTreeSet<LabelSet>, bool);

impl Wanted {
    async fn of(request: Request) -> Result<Self, Failure> {
        let form = Form::of(request).await?;
        let end = form.moment("end", form.now)?;
        let start = form.moment("start", end.saturating_sub(LISTED_BACK))?;
        if end < start {
            return Err(Failure::parameter("end", "end timestamp must not be before start time"));
        }
        let (selectors, limit) = (form.selectors()?, form.limit()?);
        let asked = form.asked(form.timeout()?);
        Ok(Wanted { selectors, span: (start.saturating_sub(1), end), limit, asked })
    }

    /// What `list` makes out of the label sets of all series that a selector selects, each once, in order. Without selectors: of
    /// all series. All of it is done on the query's own thread: there may be a hundred thousand.
    async fn listed<T: Send + 'static>(
        self,
        app: &Arc<App>,
        max: usize,
        list: impl Fn(Sets) -> T + Send + Sync + 'static,
    ) -> Result<T, Failure> {
        let (selectors, (after, to)) = (self.selectors, self.span);
        let work = move |source: &dyn Source, stop: &Stop| {
            let (mut all, mut is_cut) = (BTreeSet::new(), false);
            for selector in &read(&selectors, || stop.check())? {
                stop.check()?;
                let (found, is_more) = source.series(selector, after, to, max)?;
                is_cut |= is_more;
                all.extend(found);
                if all.len() > max {
                    is_cut = true;
                    break;
                }
            }
            stop.has_held(all.iter().map(held).sum());
            Ok(list((all, is_cut)))
        };
        evaluate(app, self.asked, work).await
    }
}

/// Roughly the bytes of a label set.
fn held(set: &LabelSet) -> usize {
    size_of::<LabelSet>() + set.iter().len() * 32
}

/// The conditions of each selector; without selectors, no conditions.
pub(super) fn read(
    selectors: &BTreeSet<String>,
    check: impl Fn() -> Result<(), QueryError>,
) -> Result<Vec<Vec<Matcher>>, QueryError> {
    let (mut all, mut regexes) = (Vec::new(), 0);
    for text in selectors {
        check()?;
        let matchers = selector(text).map_err(|error| match error {
            QueryError::Bad(problem) => QueryError::Bad(format!("invalid parameter \"match[]\": {problem}")),
            other => other,
        })?;
        let is_regex = |operator: &Operator| matches!(operator, Operator::Fits(_) | Operator::FitsNot(_));
        regexes += matchers.iter().filter(|matcher| is_regex(&matcher.operator)).count();
        if regexes > LISTING_REGEXES_MAX {
            return Err(QueryError::Bad(format!(
                "all match[] together may have {LISTING_REGEXES_MAX} regular expressions; ask for fewer at once"
            )));
        }
        all.push(matchers);
    }
    if all.is_empty() {
        all.push(Vec::new());
    }
    Ok(all)
}

/// `/api/v1/series`
pub(crate) async fn series(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let wanted = Wanted::of(request).await?;
    if wanted.selectors.is_empty() {
        return Err(Failure::bad("no match[] parameter provided"));
    }
    let limit = wanted.limit.unwrap_or(SERIES_LISTED_MAX).min(SERIES_LISTED_MAX);
    let first = move |(sets, is_cut): Sets| {
        let is_cut = is_cut || sets.len() > limit;
        let sets: Vec<LabelSet> = sets.into_iter().take(limit).collect();
        (sets, is_cut)
    };
    let (sets, is_cut) = wanted.listed(&app, limit, first).await?;
    let write = async move |mut writer: Writer| {
        writer.hold(sets.iter().map(held).sum::<usize>() as u64)?;
        writer.page().push('[');
        // Each is freed when it is written: to free all at once takes a while.
        for (number, set) in sets.into_iter().enumerate() {
            json::next(writer.page(), number);
            labels_json(writer.page(), &set);
            writer.release(held(&set));
            drop(set);
            writer.turn().await?;
        }
        writer.page().push(']');
        Ok(writer)
    };
    answer::success(&app, notes(is_cut), write).await
}

/// `/api/v1/labels`
pub(crate) async fn labels(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let wanted = Wanted::of(request).await?;
    let limit = wanted.limit;
    let names = |(sets, is_cut): Sets| {
        let names: BTreeSet<&str> = sets.iter().flat_map(LabelSet::iter).map(|(name, _)| &**name).collect();
        (names.into_iter().map(str::to_owned).collect(), is_cut)
    };
    let (names, is_cut) = wanted.listed(&app, SERIES_LISTED_MAX, names).await?;
    list(&app, names, limit, is_cut).await
}

/// `/api/v1/label/NAME/values`
pub(crate) async fn values(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Failure> {
    let Ok(Path(name)) = name else {
        return Err(Failure::bad("invalid label name: it is no UTF-8"));
    };
    let name = unescaped(&name).ok_or_else(|| Failure::bad(format!("invalid label name: {name:?}")))?;
    let wanted = Wanted::of(request).await?;
    let limit = wanted.limit;
    if name == JOB_ID && wanted.selectors.is_empty() {
        let ids = job_ids(&app, &wanted);
        let is_cut = ids.len() == JOB_IDS_MAX;
        return list(&app, ids, limit, is_cut).await;
    }
    if let Some(mut known) = known(&app, &name).filter(|_| wanted.selectors.is_empty()) {
        let mut is_cut = false;
        if !app.query.owners().is_empty() {
            let (recorded, is_more) = recorded(&app, wanted, name).await?;
            known.extend(recorded);
            is_cut = is_more;
        }
        return list(&app, known, limit, is_cut).await;
    }
    let values = move |(sets, is_cut): Sets| {
        let values = sets.iter().map(|set| set.get(&name)).filter(|value| !value.is_empty());
        let values: BTreeSet<&str> = values.collect();
        (values.into_iter().map(str::to_owned).collect(), is_cut)
    };
    let (values, is_cut) = wanted.listed(&app, SERIES_LISTED_MAX, values).await?;
    list(&app, values, limit, is_cut).await
}

/// The ids of jobs that ran in the wanted time.
fn job_ids(app: &App, wanted: &Wanted) -> BTreeSet<String> {
    let Some((jobs, viewer)) = jobs(app, wanted.asked.caller.as_ref()) else { return BTreeSet::new() };
    let (runs, _) = jobs.runs(|_| true, wanted.span, &viewer, JOB_IDS_MAX);
    runs.into_iter().map(|run| run.id).collect()
}

/// The values of a label that are known without reading series.
fn known(app: &App, name: &str) -> Option<BTreeSet<String>> {
    match name {
        METRIC_NAME => {
            let metrics = app.query.metrics();
            let names = metrics.iter().map(|metric| metric.exposition.name.to_string());
            Some(names.chain([UP, TIME].map(str::to_owned)).collect())
        }
        INSTANCE => Some(app.query.nodes().iter().map(ToString::to_string).collect()),
        JOB => Some([app.job.to_string()].into()),
        _ => None,
    }
}

/// The values of a label in what rules have recorded; true: there may be more.
async fn recorded(app: &Arc<App>, wanted: Wanted, name: String) -> Result<(BTreeSet<String>, bool), Failure> {
    let (query, job, (after, to)) = (Arc::clone(&app.query), Arc::clone(&app.job), wanted.span);
    let now = Nanos(u64::try_from(wanted.asked.now).unwrap_or(0).saturating_mul(1_000_000));
    let work = move |_: &dyn Source, stop: &Stop| {
        stop.check()?;
        let source = PastSource::of(query.clone(), job.clone(), now);
        let (sets, is_cut) = source.recorded_series(&[], after, to, SERIES_LISTED_MAX)?;
        let values = sets.iter().map(|set| set.get(&name)).filter(|value| !value.is_empty());
        Ok((values.map(str::to_owned).collect(), is_cut))
    };
    evaluate(app, wanted.asked, work).await
}

async fn list(
    app: &Arc<App>,
    all: BTreeSet<String>,
    limit: Option<usize>,
    is_cut: bool,
) -> Result<Response, Failure> {
    let limit = limit.unwrap_or(usize::MAX);
    let notes = notes(is_cut || all.len() > limit);
    answer::list(app, all.into_iter().take(limit).collect(), notes).await
}

fn notes(is_cut: bool) -> Notes {
    let mut notes = Notes::default();
    if is_cut {
        notes.truncated();
    }
    notes
}
