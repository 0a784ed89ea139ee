//! `/khz/v1/tour`: what a demo shows, stop by stop, with the place on the page and the command that show it. The page makes a card of
//! it. A khz that is no demo has no stops. It plays nothing.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::response::Response;

use crate::json;
use crate::params::Params;
use crate::refusal::Refusal;
use crate::routes::App;

/// Path of the tour.
pub(crate) const TOUR_PATH: &str = "/khz/v1/tour";

/// Something that happens in a demo.
#[derive(Clone, Debug)]
pub struct Stop {
    /// When, after the begin.
    pub at: Duration,
    /// What happens, in a few words.
    pub title: String,
    /// What one sees of it, and why.
    pub text: String,
    /// The part of the page's address that shows it, after the `#`.
    pub view: String,
    /// The command that shows it in a terminal, without the program and without the address.
    pub command: String,
}

/// The stops of a demo, in their order, and when it has begun.
#[derive(Debug, Default)]
pub struct Tour {
    stops: Vec<Stop>,
    began: OnceLock<Instant>,
}

impl Tour {
    /// A tour that has not begun.
    pub fn new(stops: Vec<Stop>) -> Self {
        Tour { stops, began: OnceLock::new() }
    }

    /// Its stops.
    pub fn stops(&self) -> &[Stop] {
        &self.stops
    }

    /// It begins now, if it has not begun yet.
    pub fn begin(&self) {
        self.began.get_or_init(Instant::now);
    }

    /// How long it has lasted; `None`: it has not begun.
    pub fn lasted(&self) -> Option<Duration> {
        self.began.get().map(Instant::elapsed)
    }
}

/// `GET /khz/v1/tour`
pub(crate) async fn tour(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    Params::parse(request.uri().query(), &[])?;
    let mut out = String::from("{\"lasted\":");
    match app.tour.lasted() {
        Some(lasted) => json::text(&mut out, &seconds(lasted)),
        None => out.push_str("null"),
    }
    out.push_str(",\"stops\":");
    json::list(&mut out, app.tour.stops(), write);
    out.push_str("}\n");
    Ok(json::response(out))
}

fn write(out: &mut String, stop: &Stop) {
    let Stop { at, title, text, view, command } = stop;
    let members =
        [("at", &seconds(*at)), ("title", title), ("text", text), ("view", view), ("command", command)];
    out.push('{');
    for (number, (name, value)) in members.into_iter().enumerate() {
        json::next(out, number);
        json::text(out, name);
        out.push(':');
        json::text(out, value);
    }
    out.push('}');
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}
