//! `/khz/v1/jobs`: the jobs of a batch system, listed and shown; and started and ended, by operators. The list itself is the crate
//! `khz-job`; here is who may see what of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use khz_door::Caller;
use khz_job::limits::REQUEST_BYTES_MAX;
use khz_job::{End, Job, JobError, Jobs, Start, Viewer, Wanted};
use khz_model::fold::fold;
use khz_model::hostlist::Hostlist;
use khz_model::http_names::JOBS_PATH;
use khz_model::moment::seconds_text;
use khz_trust::Role;
use tokio::task::spawn_blocking;

use crate::black_box::{AFTER, BEFORE, FreezeWish, NO_BLACK_BOX};
use crate::pages::{self, Writer};
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;
use crate::{bodies, clock, json};

/// Parameters of `/khz/v1/jobs`.
pub(crate) const JOBS_PARAMS: &[&str] = &["user", "node", "state", "at", "last"];
/// Parameters of `/khz/v1/jobs/JOB`: the job is in the path.
pub(crate) const JOB_PARAMS: &[&str] = &["job"];
/// Parameters of `PUT /khz/v1/jobs/JOB`.
const PUT_PARAMS: &[&str] = &["ended"];

/// Jobs of one answer, if it does not say how many, and at most.
const LISTED: usize = 1_000;
const LISTED_MAX: usize = 10_000;
/// What only operators may do.
const CHANGES: &str = "starting and ending jobs";

/// The jobs, as this door shows them.
#[derive(Clone, Debug)]
pub struct JobDesk {
    /// The list.
    pub jobs: Arc<Jobs>,
    /// Readers see only the jobs of their own user.
    pub own_only: bool,
    /// The nodes of a job that fails keep their latest rows, if there is a black box.
    pub freezes_failed: bool,
}

impl JobDesk {
    /// Whose jobs this caller may see.
    pub(crate) fn viewer(&self, caller: &Caller) -> Viewer {
        match caller.role {
            Role::Operator | Role::Hub => Viewer::All,
            _ if !self.own_only => Viewer::All,
            _ => Viewer::User { name: caller.name.clone(), uid: caller.uid },
        }
    }
}

/// The job in `/khz/v1/jobs/JOB`; `None`: it is another path.
pub(crate) fn job_in(path: &str) -> Option<&str> {
    let job = path.strip_prefix(JOBS_PATH)?.strip_prefix('/')?;
    (!job.is_empty() && !job.contains('/')).then_some(job)
}

/// The list, and whose jobs of it this caller may see.
fn desk(app: &App, caller: &Caller) -> Result<(Arc<Jobs>, Viewer), Refusal> {
    let none =
        || Refusal::new(StatusCode::NOT_FOUND, "this khz keeps no list of jobs: ask a hub, with --server");
    let desk = app.jobs.as_ref().ok_or_else(none)?;
    Ok((Arc::clone(&desk.jobs), desk.viewer(caller)))
}

/// `GET /khz/v1/jobs`
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let params = Params::parse(request.uri().query(), JOBS_PARAMS)?;
    let desk = desk(&app, &caller).ok();
    let running = match params.get("state") {
        None | Some("all") => None,
        Some("running") => Some(true),
        Some("ended") => Some(false),
        Some(other) => {
            return Err(Refusal::bad_request(format!("state is running, ended or all, not '{other}'")));
        }
    };
    let now = clock::wall();
    let at = params.get("at").map(|_| params.moment("at", now, "now")).transpose()?;
    let wanted = Wanted {
        user: params.get("user").map(str::to_owned),
        node: params.get("node").map(str::to_owned),
        running,
        at: at.map(clock::milliseconds),
        last: Some(params.count("last", LISTED, LISTED_MAX)?),
    };
    let is_kept = desk.as_ref().is_some_and(|(jobs, _)| jobs.is_kept());
    pages::json(&app, async move |mut writer: Writer| {
        let mut found = Vec::new();
        if let Some((jobs, viewer)) = desk {
            // What is refused is not made.
            let measure = move || (jobs.bytes_of(&wanted, &viewer), jobs, wanted, viewer);
            let (bytes, jobs, wanted, viewer) = spawn_blocking(measure).await?;
            writer.hold(bytes)?;
            found = spawn_blocking(move || jobs.find(&wanted, &viewer)).await?;
        }
        writer.page().push_str("{\"jobs\":[");
        put_all(&mut writer, &found).await?;
        writer.page().push_str("],\"kept\":");
        writer.page().push_str(if is_kept { "true" } else { "false" });
        writer.page().push_str("}\n");
        Ok(writer)
    })
    .await
}

/// `GET /khz/v1/jobs/JOB`
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let (jobs, viewer) = desk(&app, &caller)?;
    khz_job::check_id(&id)?;
    let runs = jobs.runs_of(&id, &viewer);
    if runs.is_empty() {
        // A caller that may not see it does not learn that it exists.
        return Err(JobError::NotThere(id).into());
    }
    pages::json(&app, async move |mut writer: Writer| {
        writer.hold(runs.iter().map(Job::bytes).sum())?;
        writer.page().push_str("{\"runs\":[");
        put_all(&mut writer, &runs).await?;
        writer.page().push_str("]}\n");
        Ok(writer)
    })
    .await
}

/// `PUT /khz/v1/jobs/JOB`: it has started; with `ended=1`: it has ended.
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let is_end = Params::parse(request.uri().query(), PUT_PARAMS)?.switch("ended")?;
    let (jobs, _) = desk(&app, &caller)?;
    caller.check_operator(CHANGES)?;
    let body = bodies::whole(request, REQUEST_BYTES_MAX, "a job").await?;
    let now = clock::wall_milliseconds();
    if is_end {
        let end = End::from_json(&body)?;
        check_id_in(&end.id, &id)?;
        let was_running = jobs.last(&id).is_some_and(|job| job.end.is_none());
        let job = changed(move || jobs.end(End { id, ..end }, now)).await?;
        let mut unfrozen = None;
        if was_running && has_failed(&job) && app.jobs.as_ref().is_some_and(|desk| desk.freezes_failed) {
            unfrozen = freeze(&app, &job).await;
        }
        return Ok(json::response(answer(&job, &[], unfrozen.as_deref())));
    }
    let start = Start::from_json(&body)?;
    check_id_in(&start.id, &id)?;
    let (nodes, unknown) = Known::of(&app).named(&start.nodes);
    let job = changed(move || jobs.start(Start { id, nodes, ..start }, now)).await?;
    Ok(json::response(answer(&job, &unknown, None)))
}

/// A run that ended with another exit code than 0, or by a signal.
fn has_failed(job: &Job) -> bool {
    job.outcome.as_deref().is_some_and(|outcome| {
        outcome.strip_prefix("exit ").is_some_and(|code| code != "0") || outcome.starts_with("signal ")
    })
}

/// Has the nodes of a job keep their latest rows. The end of the job is acknowledged after that: a hub that is killed then goes on with
/// the freeze. Returns why nothing is frozen; `None`: the nodes are frozen.
async fn freeze(app: &App, job: &Job) -> Option<String> {
    let Some(black_box) = app.black_box.clone() else {
        return Some(NO_BLACK_BOX.to_owned());
    };
    let because = format!("job {} failed: {}", job.id, job.outcome.as_deref().unwrap_or_default());
    let wish = FreezeWish { nodes: job.nodes.clone(), before: BEFORE, after: AFTER, because };
    match spawn_blocking(move || black_box.freeze(&wish)).await {
        Ok(Ok(_)) => None,
        Ok(Err(refusal)) => Some(refusal.text().to_owned()),
        Err(_) => Some("the hub ends".to_owned()),
    }
}

fn check_id_in(body: &str, path: &str) -> Result<(), Refusal> {
    match body.is_empty() || body == path {
        true => Ok(()),
        false => Err(Refusal::bad_request(format!("the body is of job '{body}', and the path of '{path}'"))),
    }
}

/// The names of the nodes that are known. A batch system may call a node by the first part of its name.
struct Known(BTreeMap<String, Option<String>>);

impl Known {
    fn of(app: &App) -> Self {
        let nodes = app.query.nodes();
        let names = || nodes.iter().map(|node| node.as_str());
        let mut known = BTreeMap::new();
        for (short, name) in names().filter_map(|name| Some((name.split_once('.')?.0, name))) {
            // Two nodes of one short name: it names neither.
            known.entry(short.to_owned()).and_modify(|full| *full = None).or_insert(Some(name.to_owned()));
        }
        known.extend(names().map(|name| (name.to_owned(), Some(name.to_owned()))));
        Known(known)
    }

    /// The hostlist with the names by which nodes are known, and the names of which none is.
    fn named(&self, text: &str) -> (String, Vec<String>) {
        // What is no hostlist is refused later, with the reason.
        let Some(names) =
            Hostlist::new(text).ok().filter(Hostlist::is_countable).and_then(|all| all.expand())
        else {
            return (text.to_owned(), Vec::new());
        };
        let mut unknown = Vec::new();
        let full = |name: String| match self.0.get(&name) {
            Some(Some(full)) => full.clone(),
            _ => {
                unknown.push(name.clone());
                name
            }
        };
        let full: Vec<String> = names.into_iter().map(full).collect();
        (fold(&full), unknown)
    }
}

/// A change waits for the disk, so it runs beside the door.
async fn changed(change: impl FnOnce() -> Result<Job, JobError> + Send + 'static) -> Result<Job, Refusal> {
    Ok(spawn_blocking(change).await??)
}

fn answer(job: &Job, unknown: &[String], unfrozen: Option<&str>) -> String {
    let mut out = String::from("{\"job\":");
    put(&mut out, job);
    out.push_str(",\"unknown\":");
    json::text(&mut out, &fold(unknown));
    if let Some(why) = unfrozen {
        out.push_str(",\"unfrozen\":");
        json::text(&mut out, why);
    }
    out.push_str("}\n");
    out
}

/// Jobs, one after the other, with a turn for others after each.
async fn put_all<'a>(writer: &mut Writer, jobs: impl IntoIterator<Item = &'a Job>) -> Result<(), Refusal> {
    for (number, job) in jobs.into_iter().enumerate() {
        json::next(writer.page(), number);
        put(writer.page(), job);
        writer.turn().await?;
    }
    Ok(())
}

/// A job.
fn put(out: &mut String, job: &Job) {
    out.push_str("{\"id\":");
    json::text(out, &job.id);
    out.push_str(",\"run\":");
    json::number(out, job.run);
    if !job.alias.is_empty() {
        out.push_str(",\"alias\":");
        json::text(out, &job.alias);
    }
    for (member, text) in [(",\"name\":", &job.name), (",\"user\":", &job.user), (",\"nodes\":", &job.nodes)]
    {
        out.push_str(member);
        json::text(out, text);
    }
    out.push_str(",\"uid\":");
    match job.uid {
        Some(uid) => json::number(out, u64::from(uid)),
        None => out.push_str("null"),
    }
    out.push_str(",\"begin\":");
    json::text(out, &seconds_text(job.begin));
    out.push_str(",\"end\":");
    json::text_or_null(out, job.end.map(seconds_text).as_deref());
    out.push_str(",\"outcome\":");
    json::text_or_null(out, job.outcome.as_deref());
    out.push_str(",\"source\":");
    json::text(out, job.source.word());
    out.push('}');
}

impl From<JobError> for Refusal {
    fn from(error: JobError) -> Self {
        let status = match error {
            JobError::Id { .. }
            | JobError::Nodes { .. }
            | JobError::Alias { .. }
            | JobError::Time(_)
            | JobError::Unreadable(_) => StatusCode::BAD_REQUEST,
            JobError::Unknown(_) | JobError::NotThere(_) => StatusCode::NOT_FOUND,
            JobError::NotLogged(_) | JobError::Log { .. } | JobError::State(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Refusal::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_job_is_one_part_of_its_path() {
        for (path, job) in [
            ("/khz/v1/jobs/4711", Some("4711")),
            ("/khz/v1/jobs", None),
            ("/khz/v1/jobs/", None),
            ("/khz/v1/jobs/4711/end", None),
            ("/khz/v1/jobsx", None),
        ] {
            assert_eq!(job_in(path), job, "{path}");
        }
    }

    #[test]
    fn a_node_has_its_whole_name_if_the_first_part_says_which_it_is() {
        let mut known = BTreeMap::new();
        for (name, full) in [("n1.a", Some("n1.a")), ("n1", Some("n1.a")), ("n2", None), ("n3", Some("n3"))] {
            known.insert(name.to_owned(), full.map(str::to_owned));
        }
        let (nodes, unknown) = Known(known).named("n[1-4]");
        assert_eq!((&*nodes, unknown.join(",")), ("n1.a,n[2-4]", "n2,n4".to_owned()));
    }

    #[test]
    fn a_reader_sees_its_own_jobs_where_the_configuration_says_so_and_an_operator_all() {
        let caller = |role, name: Option<&str>, uid| Caller {
            role,
            shown: String::new(),
            is_named: name.is_some(),
            name: name.map(str::to_owned),
            uid,
        };
        let job = Job { user: "ann".into(), uid: Some(1_001), ..jobs_of_nobody() };
        for (own_only, role, name, uid, sees) in [
            (false, Role::Reader, None, None, true),
            (true, Role::Reader, None, None, false),
            (true, Role::Reader, None, Some(1_001), true),
            (true, Role::Reader, None, Some(1_002), false),
            (true, Role::Reader, Some("ann"), None, true),
            (true, Role::Reader, Some("bob"), None, false),
            (true, Role::Operator, None, None, true),
            (true, Role::Hub, None, None, true),
        ] {
            let desk = JobDesk { jobs: Arc::new(Jobs::in_memory()), own_only, freezes_failed: false };
            let viewer = desk.viewer(&caller(role, name, uid));
            assert_eq!(viewer.sees(&job), sees, "{own_only} {role} {name:?} {uid:?}");
        }
        let nobody = Viewer::User { name: Some(String::new()), uid: None };
        assert!(!nobody.sees(&jobs_of_nobody()), "a job without a user is no one's own");
    }

    fn jobs_of_nobody() -> Job {
        let jobs = Jobs::in_memory();
        jobs.start(Start { id: "7".into(), nodes: "n1".into(), ..Start::default() }, 1).unwrap()
    }
}
