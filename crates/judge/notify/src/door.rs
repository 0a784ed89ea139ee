//! Sends one kind of job: the part of a way that does I/O and may take its time.

use std::sync::Arc;

use khz_ask::{ForeignServer, Place};

use crate::alert::Labels;
use crate::answer::{Answer, of_http};
use crate::body;
use crate::digest::Job;
use crate::error::NotifyError;
use crate::queue::Batch;

/// Sends jobs.
pub(crate) trait Door<J>: Send + 'static {
    /// Sends a job, and returns the result. May take as long as its timeout.
    fn send(&mut self, job: &J) -> Answer;

    /// The output of the last job, for doors with an output.
    fn output(&self) -> Option<String> {
        None
    }
}

impl<J> Door<J> for Box<dyn Door<J>>
where
    J: 'static,
{
    fn send(&mut self, job: &J) -> Answer {
        (**self).send(job)
    }

    fn output(&self) -> Option<String> {
        (**self).output()
    }
}

/// An Alertmanager.
pub(crate) struct Alertmanager {
    place: Place,
    external: Arc<Labels>,
}

/// Where an Alertmanager takes alerts, below its URL.
const ALERTS: &str = "/api/v2/alerts";
const JSON: [(&str, &str); 1] = [("Content-Type", "application/json")];

impl Alertmanager {
    pub fn new(name: &str, server: &ForeignServer, external: &Arc<Labels>) -> Result<Self, NotifyError> {
        let mut server = server.clone();
        server.url = format!("{}{ALERTS}", server.url.trim_end_matches('/'));
        Ok(Alertmanager { place: place(name, server)?, external: external.clone() })
    }
}

impl Door<Batch> for Alertmanager {
    fn send(&mut self, job: &Batch) -> Answer {
        of_http(self.place.send(&JSON, &body::batch(job, &self.external)))
    }
}

/// A webhook.
pub(crate) struct Webhook {
    name: String,
    place: Place,
    external: Arc<Labels>,
}

impl Webhook {
    pub fn new(name: &str, server: &ForeignServer, external: &Arc<Labels>) -> Result<Self, NotifyError> {
        Ok(Webhook { name: name.to_owned(), place: place(name, server.clone())?, external: external.clone() })
    }
}

impl Door<Job> for Webhook {
    fn send(&mut self, job: &Job) -> Answer {
        of_http(self.place.send(&JSON, &body::webhook(&job.message, &self.name, &self.external)))
    }
}

/// The place of a server, whose secrets must be there.
fn place(name: &str, server: ForeignServer) -> Result<Place, NotifyError> {
    let way = |problem| NotifyError::Way { name: name.to_owned(), problem };
    server.login.authorization().map_err(way)?;
    Place::new(server).map_err(|source| NotifyError::Server { name: name.to_owned(), source })
}
