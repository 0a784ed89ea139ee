//! `/api/v1/series`, `/api/v1/labels` and `/api/v1/label/NAME/values`: which series there were in some time. Names of metrics,
//! nodes and the job need no reading where nothing narrows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use khz_model::exposed::{INSTANCE, JOB, TIME, UP};
use khz_promql::{LabelSet, METRIC_NAME, Matcher, QueryError, Source};

use crate::json;
use crate::limits::SERIES_LISTED_MAX;
use crate::pages::Writer;
use crate::prometheus::answer::{self, Notes, labels_json};
use crate::prometheus::evaluate::evaluate;
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::prometheus::names::unescaped;
use crate::routes::App;

/// Parameters of `/api/v1/series` and `/api/v1/labels`.
pub(crate) const SERIES_PARAMS: &[&str] = &["match[]", "start", "end", "limit"];
/// Parameters of `/api/v1/label/{name}/values`.
pub(crate) const VALUES_PARAMS: &[&str] = &["name", "match[]", "start", "end", "limit"];

/// How far a listing without `start` looks back (ms): what was there today.
const LISTED_BACK: i64 = 86_400_000;

/// What is listed.
struct Wanted {
    selectors: Vec<Vec<Matcher>>,
    /// After this time, and up to that one (ms).
    span: (i64, i64),
    limit: Option<usize>,
    now: i64,
}

impl Wanted {
    async fn of(request: Request) -> Result<Self, Failure> {
        let form = Form::of(request).await?;
        let end = form.moment("end", form.now)?;
        let start = form.moment("start", end.saturating_sub(LISTED_BACK))?;
        if end < start {
            return Err(Failure::parameter("end", "end timestamp must not be before start time"));
        }
        let (selectors, limit) = (form.selectors()?, form.limit()?);
        Ok(Wanted { selectors, span: (start.saturating_sub(1), end), limit, now: form.now })
    }

    /// The label sets of all series that a selector selects, each once, in order. Without selectors: of all series.
    async fn sets(mut self, app: &Arc<App>, max: usize) -> Result<(BTreeSet<LabelSet>, bool), Failure> {
        if self.selectors.is_empty() {
            self.selectors.push(Vec::new());
        }
        let (selectors, (after, to)) = (self.selectors, self.span);
        let work = move |source: &dyn Source, stop: &crate::prometheus::evaluate::Stop| {
            let (mut all, mut is_cut) = (BTreeSet::new(), false);
            for selector in &selectors {
                stop.check()?;
                let (found, is_more) = source.series(selector, after, to, max)?;
                is_cut |= is_more;
                all.extend(found);
            }
            Ok::<_, QueryError>((all, is_cut))
        };
        evaluate(app, self.now, crate::limits::QUERY_TIMEOUT, work).await
    }
}

/// `/api/v1/series`
pub(crate) async fn series(State(app): State<Arc<App>>, request: Request) -> Result<Response, Failure> {
    let wanted = Wanted::of(request).await?;
    if wanted.selectors.is_empty() {
        return Err(Failure::bad("no match[] parameter provided"));
    }
    let limit = wanted.limit.unwrap_or(SERIES_LISTED_MAX).min(SERIES_LISTED_MAX);
    let (sets, mut is_cut) = wanted.sets(&app, limit).await?;
    let mut sets: Vec<LabelSet> = sets.into_iter().collect();
    is_cut |= sets.len() > limit;
    sets.truncate(limit);
    let write = async move |mut writer: Writer| {
        writer.hold(
            sets.iter().map(|set| size_of::<LabelSet>() + set.iter().len() * 32).sum::<usize>() as u64
        )?;
        writer.page().push('[');
        for (number, set) in sets.iter().enumerate() {
            json::next(writer.page(), number);
            labels_json(writer.page(), set);
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
    let (sets, is_cut) = wanted.sets(&app, SERIES_LISTED_MAX).await?;
    let names: BTreeSet<String> =
        sets.iter().flat_map(LabelSet::iter).map(|(name, _)| name.to_string()).collect();
    list(&app, names, limit, is_cut).await
}

/// `/api/v1/label/NAME/values`
pub(crate) async fn values(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Failure> {
    let name = unescaped(&name).ok_or_else(|| Failure::bad(format!("invalid label name: {name:?}")))?;
    let wanted = Wanted::of(request).await?;
    let limit = wanted.limit;
    if let Some(known) = known(&app, &name).filter(|_| wanted.selectors.is_empty()) {
        return list(&app, known, limit, false).await;
    }
    let (sets, is_cut) = wanted.sets(&app, SERIES_LISTED_MAX).await?;
    let values = sets.iter().map(|set| set.get(&name)).filter(|value| !value.is_empty());
    list(&app, values.map(str::to_owned).collect(), limit, is_cut).await
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
