//! Another engine behind the HTTP door: the one of `[engine]`, with the credentials for it.

use std::sync::Arc;

use khz_ask::{AskError, ForeignServer, Way};
use khz_http::{ASKED_BY, EngineAnswer, EngineError, Question};

use crate::config::Plan;
use crate::show::outcome::{Failure, sentence};

/// An engine, and the credentials for it.
struct OtherEngine {
    engine: khz_ask::Engine,
    server: ForeignServer,
    mark: String,
}

/// The engine of the plan, if it names one. This does not ask it yet: it may start later than khz.
pub fn open(plan: &Plan) -> Result<Option<Arc<dyn khz_http::Engine>>, Failure> {
    let Some(server) = plan.engine.clone() else { return Ok(None) };
    let failed = |problem: String| Failure::usage(format!("engine: {problem}"));
    let engine = khz_ask::Engine::new(&server.url, server.files.clone(), server.timeout);
    let engine = engine.map_err(|error| failed(sentence(&error)))?;
    server.login.authorization().map_err(failed)?;
    Ok(Some(Arc::new(OtherEngine { engine, server, mark: mark() })))
}

/// What no other khz has.
fn mark() -> String {
    let mut bytes = [0; 8];
    // Without random bytes, the process number is still unique on this machine.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    format!("{:x}p{}", u64::from_le_bytes(bytes), std::process::id())
}

impl khz_http::Engine for OtherEngine {
    fn url(&self) -> &str {
        self.engine.url()
    }

    fn mark(&self) -> &str {
        &self.mark
    }

    fn ask(&self, question: &Question) -> Result<Box<dyn EngineAnswer>, EngineError> {
        // The secret is read each time, since it may change while khz runs.
        let authorization = self.server.login.authorization().map_err(EngineError::Unusable)?;
        let headers = self.server.headers.iter().map(|(name, value)| (&**name, &**value));
        let headers: Vec<_> =
            headers.chain(authorization.as_deref().map(|text| ("Authorization", text))).collect();
        let headers = [&headers[..], &[(ASKED_BY, &*question.asked_by)]].concat();
        let way = if question.is_form { Way::Form } else { Way::Get };
        let answer = self.engine.ask(way, &question.path, &question.pairs, &headers);
        answer.map_or_else(|error| Err(meaning(error)), |answer| Ok(Box::new(Begun(answer)) as _))
    }
}

struct Begun(khz_ask::EngineAnswer);

impl EngineAnswer for Begun {
    fn read(&mut self, room: &mut [u8]) -> Result<usize, EngineError> {
        self.0.read(room).map_err(meaning)
    }
}

fn meaning(error: AskError) -> EngineError {
    match error {
        AskError::Engine { status, kind, text } => EngineError::Refused { status, kind, text },
        error @ AskError::Late { .. } => EngineError::Late(sentence(&error)),
        error => EngineError::Unusable(sentence(&error)),
    }
}
