//! The parameters of a request of Prometheus' interface: of the URL and of the form in the body. Names that are not known are
//! ignored, as Prometheus does.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use http_body::Body as _;
use khz_door::Caller;

use crate::bodies;
use crate::clock;
use crate::limits::{PATTERNS_MAX, QUERY_TIMEOUT};
use crate::params::decode;
use crate::prometheus::evaluate::Asked;
use crate::prometheus::failure::Failure;
use crate::prometheus::line::Client;
use crate::prometheus::{body_max, times};
use crate::refusal::Refusal;

/// The parameters, those of the body first.
#[derive(Debug)]
pub(crate) struct Form {
    pairs: Vec<(String, String)>,
    /// When the request came (ms since 1970).
    pub now: i64,
    /// Who asks.
    pub client: Client,
    /// The same, as the door knows it.
    pub caller: Option<Caller>,
}

impl Form {
    /// Reads the parameters of a request.
    pub async fn of(request: Request) -> Result<Self, Failure> {
        let now = clock::wall_milliseconds();
        let client = client(&request);
        let caller = request.extensions().get().cloned();
        let query = request.uri().query().unwrap_or_default().to_owned();
        let body = body(request).await?;
        let mut pairs = Vec::new();
        for pair in body.split('&').chain(query.split('&')).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Form { pairs, now, client, caller })
    }

    /// The first value of a parameter; an empty one is none.
    pub fn get(&self, name: &str) -> Option<&str> {
        let first = self.pairs.iter().find(|(other, _)| other == name);
        first.map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// The parameters of these names, in their order.
    pub fn only(self, known: &[&str]) -> Vec<(String, String)> {
        self.pairs.into_iter().filter(|(name, _)| known.contains(&name.as_str())).collect()
    }

    /// A moment (ms since 1970).
    pub fn moment(&self, name: &str, default: i64) -> Result<i64, Failure> {
        let read = self.get(name).map_or(Ok(default), times::moment);
        read.map_err(|problem| Failure::parameter(name, problem))
    }

    /// A moment that must be there.
    pub fn needed_moment(&self, name: &str) -> Result<i64, Failure> {
        times::moment(self.get(name).unwrap_or_default()).map_err(|problem| Failure::parameter(name, problem))
    }

    /// A duration that must be there (ms).
    pub fn needed_duration(&self, name: &str) -> Result<i64, Failure> {
        times::duration(self.get(name).unwrap_or_default())
            .map_err(|problem| Failure::parameter(name, problem))
    }

    /// How long the answer may take: what the client says, and no more than the door allows.
    pub fn timeout(&self) -> Result<Duration, Failure> {
        let Some(text) = self.get("timeout") else { return Ok(QUERY_TIMEOUT) };
        let ms = times::duration(text).map_err(|problem| Failure::parameter("timeout", problem))?;
        // A part of a millisecond is a time, too.
        let time = match text.parse() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            Err(_) => Duration::from_millis(u64::try_from(ms).unwrap_or(0)),
        };
        match time.is_zero() {
            true => Err(Failure::parameter("timeout", "timeout must be positive")),
            false => Ok(time.min(QUERY_TIMEOUT)),
        }
    }

    /// What the work on this request needs to know of it.
    pub fn asked(&self, time: Duration) -> Asked {
        Asked { client: self.client, caller: self.caller.clone(), now: self.now, time }
    }

    /// How many results there may be; `None`: as many as there are.
    pub fn limit(&self) -> Result<Option<usize>, Failure> {
        let Some(text) = self.get("limit") else { return Ok(None) };
        let limit: i64 = text
            .parse()
            .map_err(|_| Failure::parameter("limit", format!("cannot parse {text:?} to a whole number")))?;
        match usize::try_from(limit) {
            Ok(0) => Ok(None),
            Ok(limit) => Ok(Some(limit)),
            Err(_) => Err(Failure::parameter("limit", "limit must be non-negative")),
        }
    }

    /// Every `match[]`, each once. Reading them takes too long for the thread of the door.
    pub fn selectors(&self) -> Result<BTreeSet<String>, Failure> {
        let texts: Vec<&String> =
            self.pairs.iter().filter(|(name, _)| name == "match[]").map(|(_, text)| text).collect();
        if texts.len() > PATTERNS_MAX {
            return Err(Failure::bad(format!(
                "one request takes at most {PATTERNS_MAX} 'match[]' parameters"
            )));
        }
        Ok(texts.into_iter().cloned().collect())
    }
}

/// Who asks.
pub(crate) fn client(request: &Request) -> Client {
    request.extensions().get().copied().unwrap_or(Client(None))
}

/// The form in the body; empty without one.
async fn body(request: Request) -> Result<String, Failure> {
    let Some(max) = body_max(request.method(), request.uri().path()) else { return Ok(String::new()) };
    debug_assert_eq!(*request.method(), Method::POST);
    let is_form =
        |kind: &str| kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(FORM));
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_packed = request.headers().contains_key(header::CONTENT_ENCODING);
    if is_packed || !kind.is_some_and(is_form) {
        return match request.body().is_end_stream() {
            true => Ok(String::new()),
            false => Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("the body of this request is a form, not packed: Content-Type: {FORM}"),
            )
            .into()),
        };
    }
    let bytes = bodies::whole(request, max, "a form").await?;
    String::from_utf8(bytes.into()).map_err(|_| Failure::bad("the body of the request is not UTF-8"))
}

const FORM: &str = "application/x-www-form-urlencoded";
