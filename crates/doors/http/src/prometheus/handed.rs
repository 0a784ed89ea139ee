//! Answers of another engine, handed on as they come: a page is read from the engine when the client has taken the one
//! before. Nothing of the client goes to the engine but the parameters of its question.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use khz_model::http_names::ENGINE_HEADER;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::engine::{ASKED_BY, Engine, EngineAnswer, EngineError, Question, passed_on};
use crate::limits::{PAGE_BYTES, QUERY_TIMEOUT};
use crate::pages::{self, Writer};
use crate::params::decode;
use crate::prometheus::body_max;
use crate::prometheus::brackets::Brackets;
use crate::prometheus::failure::Failure;
use crate::prometheus::form::Form;
use crate::refusal::Refusal;
use crate::routes::App;

/// What a path of label values has around the label's name.
const LABEL: (&str, &str) = ("/api/v1/label/", "/values");

/// The engine's answer to this request; `known` are the parameters of its path.
pub(crate) async fn answer(
    app: &Arc<App>,
    engine: Arc<dyn Engine>,
    known: &[&str],
    request: Request,
) -> Result<Response, Failure> {
    let url = HeaderValue::from_str(engine.url());
    let path = path(request.uri().path())?;
    let is_form = body_max(&Method::POST, &path).is_some();
    let asked_by = request.headers().get(ASKED_BY).map(HeaderValue::as_bytes);
    let asked_by = passed_on(asked_by, engine.mark()).ok_or_else(|| {
        EngineError::Unusable(format!(
            "the engine {} is this khz itself, or asks it: write another address into url of [engine]",
            engine.url()
        ))
    })?;
    let pairs = Form::of(request).await?.only(known);
    let (handed, first) = Handed::begin(app, engine, Question { path, is_form, pairs, asked_by }).await?;
    let write = async move |writer| write(writer, handed, first).await;
    let mut response = pages::json(app, write).await?;
    if let Ok(url) = url {
        response.headers_mut().insert(HeaderName::from_static(ENGINE_HEADER), url);
    }
    Ok(response)
}

/// The path at the engine. The name of a label is decoded and encoded again, so that it stays one segment.
fn path(path: &str) -> Result<String, Failure> {
    let (before, after) = LABEL;
    let Some(name) = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) else {
        return Ok(path.to_owned());
    };
    // In a path, a plus is a plus.
    let name = decode(&name.replace('+', "%2B"))?;
    if name.is_empty() || name == "." || name == ".." {
        return Err(Failure::bad(format!("invalid label name: {name:?}")));
    }
    let mut encoded = String::from(before);
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || byte == b'_' {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(encoded + after)
}

/// An answer that is being handed on. It keeps its turn until its last byte was read, even if its client has left: so not more
/// threads than turns wait for the engine.
struct Handed {
    answer: Box<dyn EngineAnswer>,
    _turn: OwnedSemaphorePermit,
    url: String,
}

impl Handed {
    /// Asks, on a thread of its own, and reads the first page.
    async fn begin(
        app: &App,
        engine: Arc<dyn Engine>,
        question: Question,
    ) -> Result<(Self, Vec<u8>), Failure> {
        let turn = timeout(QUERY_TIMEOUT, Arc::clone(&app.engine_questions).acquire_owned()).await;
        let waited = || EngineError::Late(format!("too many questions wait for {}", engine.url()));
        let turn = turn.map_err(|_| waited())?.map_err(|_| Failure::closing())?;
        let begun = tokio::task::spawn_blocking(move || {
            let answer = engine.ask(&question)?;
            Handed { answer, _turn: turn, url: engine.url().to_owned() }.read()
        });
        Ok(begun.await.map_err(|_| Failure::closing())??)
    }

    /// The next page, on a thread of its own.
    async fn next(self) -> Result<(Self, Vec<u8>), Refusal> {
        let read = tokio::task::spawn_blocking(move || self.read()).await;
        let read = read.map_err(|_| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the door is closing"))?;
        read.map_err(|error| Refusal::new(StatusCode::BAD_GATEWAY, error.to_string()))
    }

    fn read(mut self) -> Result<(Self, Vec<u8>), EngineError> {
        let mut bytes = vec![0; PAGE_BYTES];
        let count = self.answer.read(&mut bytes)?;
        bytes.truncate(count);
        Ok((self, bytes))
    }

    fn no_json(&self, problem: &str) -> Refusal {
        Refusal::new(StatusCode::BAD_GATEWAY, format!("no answer from {}: {problem}", self.url))
    }
}

async fn write(mut writer: Writer, mut handed: Handed, mut bytes: Vec<u8>) -> Result<Writer, Refusal> {
    // The page that is sent, and the one that is read.
    writer.hold(2 * PAGE_BYTES as u64)?;
    let mut brackets = Brackets::default();
    loop {
        let is_last = bytes.len() < PAGE_BYTES;
        if !brackets.take(&bytes) {
            return Err(handed.no_json("what it says is no JSON"));
        }
        if is_last && !brackets.is_closed() {
            return Err(handed.no_json("its answer broke off"));
        }
        writer.send(bytes).await?;
        if is_last {
            return Ok(writer);
        }
        (handed, bytes) = handed.next().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_label_stays_one_segment() {
        for (asked, expected) in [
            ("/api/v1/query", Some("/api/v1/query")),
            ("/api/v1/label/job/values", Some("/api/v1/label/job/values")),
            ("/api/v1/label/a%2Fb%3Fc/values", Some("/api/v1/label/a%2Fb%3Fc/values")),
            ("/api/v1/label/net.rx+x/values", Some("/api/v1/label/net%2Erx%2Bx/values")),
            ("/api/v1/label/%2e%2E/values", None),
            ("/api/v1/label/%zz/values", None),
        ] {
            assert_eq!(path(asked).ok().as_deref(), expected, "{asked}");
        }
    }
}
