//! The ways to people, opened as the settings say, and one call that tells all of them. It never waits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use khz_model::printable::printable;

use crate::alert::{Alert, Labels, Told};
use crate::answer::Answer;
use crate::confidential::Confidential;
use crate::core::{Kept, Record};
use crate::counts::Counts;
use crate::digest::{Digest, Job, Pace};
use crate::door::{Alertmanager, Door, Webhook};
use crate::email::Email;
use crate::error::NotifyError;
use crate::exec::Exec;
use crate::memory::{Memory, ToldLine};
use crate::message::Message;
use crate::now::{Now, millis};
use crate::program::STOPPED_AFTER;
use crate::programs::Programs;
use crate::queue::{Batch, Queue};
use crate::settings::{EMAIL, Settings};
use crate::unfit::Unfit;
use crate::worker::{Common, Keep, Standing, Way, Worker, discreet};

/// Tells people about alerts. Its threads end with it.
pub struct Notifier {
    ways: Vec<Arc<dyn Way>>,
    is_over: Arc<AtomicBool>,
    programs: Arc<Programs>,
    /// `None`: nothing outlives a restart.
    memory: Option<Arc<Memory>>,
    unfit: Mutex<Unfit>,
    revision: Arc<AtomicU64>,
}

/// A way as others see it.
#[derive(Clone, Debug)]
pub struct WayStanding {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub counts: Counts,
    /// How it is.
    pub standing: Standing,
}

impl Notifier {
    /// Opens the ways. `state` is a directory where the record of sent messages survives a restart. `None`: people get the messages
    /// again after a restart.
    ///
    /// # Errors
    /// Returns which way cannot be used, and why: an unreadable secret or certificate, or two ways with one name.
    pub fn new(settings: &Settings, state: Option<&Path>) -> Result<Self, NotifyError> {
        settings.check()?;
        let (memory, mut records) = match state.filter(|_| settings.ways() > settings.alertmanagers.len()) {
            Some(directory) => {
                let (memory, records) = Memory::open(directory)?;
                memory.retain(|way| settings.names().any(|name| name == way));
                (Some(Arc::new(memory)), records)
            }
            None => (None, BTreeMap::new()),
        };
        let confidential = Arc::new(Confidential::of(settings));
        let common = Common { is_over: Arc::default(), confidential, revision: Arc::default() };
        let (is_over, revision) = (common.is_over.clone(), common.revision.clone());
        let programs = Arc::<Programs>::default();
        let mut ways: Vec<Arc<dyn Way>> = Vec::new();
        open(settings, &programs, &mut |name, door| {
            ways.push(match door {
                Opened::Queue(resend, door) => {
                    Worker::new(name, Queue::new(resend, Now::read()), door, None, &common)
                }
                Opened::Digest(pace, door) => {
                    let known = records.remove(name).unwrap_or_default();
                    let keep = memory.as_ref().map(|memory| keep(memory.clone(), name.to_owned()));
                    Worker::new(name, Digest::new(pace, known, Now::read()), door, keep, &common)
                }
            });
        })?;
        Ok(Notifier { ways, is_over, programs, memory, unfit: Mutex::default(), revision })
    }

    /// Passes the state of these alerts to all ways, as an evaluation pass found it: all firing alerts, and the resolved ones. Each
    /// pass must list all firing alerts, at least every 5 minutes. An alert that 15 minutes of passes do not list counts as
    /// resolved, since its rule is gone. Without passes, no alert expires. This call never waits.
    pub fn tell(&self, alerts: &[Alert]) {
        let (mut fit, mut unfit) = (Vec::with_capacity(alerts.len()), 0);
        for alert in alerts {
            match alert.fitted() {
                Ok(fitted) => fit.push(fitted),
                Err(problem) => unfit += u64::from(self.name_unfit(alert, &problem)),
            }
        }
        let mut told: Vec<Told<'_>> = fit.iter().map(|alert| Told::new(alert)).collect();
        for way in &self.ways {
            way.clone().tell(&mut told, unfit);
        }
    }

    /// Logs once the name of an alert that no way can send. Returns true if the alert is new.
    fn name_unfit(&self, alert: &Alert, problem: &str) -> bool {
        let is_new = self.unfit.lock().unwrap_or_else(PoisonError::into_inner).is_new(alert);
        if is_new {
            let name: String = printable(alert.name()).chars().take(NAME_CHARS_MAX).collect();
            tracing::warn!("nobody is told of an alert '{name}': {problem}; leave labels out in its rule");
        }
        is_new
    }

    /// What people were told, or may have been told, by ways that send each message once. Another hub with the same ways needs it.
    pub fn told(&self) -> Vec<ToldLine> {
        let of = |way: &Arc<dyn Way>| -> Vec<ToldLine> {
            way.records().iter().map(|record| ToldLine::of(way.name(), record)).collect()
        };
        self.ways.iter().flat_map(of).collect()
    }

    /// Retries to write what people were told, if the last write failed and a retry is due. Call it once a second.
    pub fn catch_up(&self) {
        if let Some(memory) = &self.memory
            && let Err(error) = memory.catch_up()
        {
            // The log warned of this when the record changed.
            tracing::debug!("what people were told is not kept: {}", khz_ask::sentence(&error));
        }
    }

    /// This number changes when the result of [`Notifier::told`] changes.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Relaxed)
    }

    /// Another hub has sent these messages, by ways with the same names. This hub does not send them again.
    pub fn adopt(&self, lines: impl IntoIterator<Item = ToldLine>) {
        let mut records: BTreeMap<String, Vec<Record>> = BTreeMap::new();
        for (way, record) in lines.into_iter().filter_map(ToldLine::record) {
            records.entry(way).or_default().push(record);
        }
        for way in &self.ways {
            if let Some(records) = records.remove(way.name()) {
                way.clone().adopt(records);
            }
        }
    }

    /// Another hub sends messages about these alerts from now on. This hub forgets them, and sends no message about their end.
    pub fn release(&self, is_meant: &dyn Fn(&Labels) -> bool) {
        self.ways.iter().for_each(|way| way.release(is_meant));
    }

    /// The ways, in the order of the settings: Alertmanagers, e-mail, webhooks, programs.
    pub fn ways(&self) -> Vec<WayStanding> {
        let standing = |way: &Arc<dyn Way>| WayStanding {
            name: way.name().to_owned(),
            counts: way.counts(),
            standing: way.standing(),
        };
        self.ways.iter().map(standing).collect()
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // A running request may take as long as its timeout, so nothing waits for it.
        self.ways.iter().for_each(|way| way.ring());
        // Asks each program to end, and kills it two seconds later.
        self.programs.end(STOPPED_AFTER);
    }
}

/// Sends one alert through all ways now, or through the way of this name. Returns the result for each.
///
/// # Errors
/// Returns which way cannot be used, or that no way has this name.
pub fn try_out(
    settings: &Settings,
    name: Option<&str>,
    alert: &Alert,
) -> Result<Vec<(String, Answer)>, NotifyError> {
    settings.check()?;
    if let Some(name) = name.filter(|name| !settings.names().any(|known| known == *name)) {
        let known = settings.names().collect::<Vec<_>>().join(", ");
        return Err(NotifyError::Unknown { name: name.to_owned(), known });
    }
    let (alert, at) = (Arc::new(alert.clone()), Now::read());
    let confidential = Confidential::of(settings);
    let mut answers = Vec::new();
    open(settings, &Arc::default(), &mut |known, door| {
        if name.is_some_and(|name| name != known) {
            return;
        }
        let answer = match door {
            Opened::Queue(_, mut door) => {
                let believed_until = at.wall.saturating_add(TRIED_FOR);
                let batch = Batch { alerts: vec![(0, alert.clone())], believed_until, has_parts: false };
                discreet(&confidential, &mut door, &batch).0
            }
            Opened::Digest(_, mut door) => {
                let message = Message {
                    name: Some(alert.name().into()),
                    firing: u64::from(alert.is_firing()),
                    resolved: u64::from(!alert.is_firing()),
                    alerts: vec![alert.clone()],
                    left_out: 0,
                    is_repeat: false,
                    at: at.wall,
                };
                discreet(&confidential, &mut door, &Job::of(message)).0
            }
        };
        answers.push((known.to_owned(), answer));
    })?;
    Ok(answers)
}

/// Letters of an alert's name that are logged.
const NAME_CHARS_MAX: usize = 100;
/// How long the server believes the alert of a trial, in ms.
const TRIED_FOR: i64 = 5 * 60_000;

/// A door, with what its core needs.
enum Opened {
    Queue(u64, Box<dyn Door<Batch>>),
    Digest(Pace, Box<dyn Door<Job>>),
}

/// Opens the door of each way, in their order.
fn open(
    settings: &Settings,
    programs: &Arc<Programs>,
    each: &mut dyn FnMut(&str, Opened),
) -> Result<(), NotifyError> {
    let external: Arc<Labels> = Arc::new(settings.labels.clone());
    for way in &settings.alertmanagers {
        let door = Alertmanager::new(&way.name, &way.server, &external)?;
        each(&way.name, Opened::Queue(millis(way.resend).max(1), Box::new(door)));
    }
    if let Some(way) = &settings.email {
        each(EMAIL, Opened::Digest(way.pace, Box::new(Email::new(EMAIL, way, &external)?)));
    }
    for way in &settings.webhooks {
        let door = Webhook::new(&way.name, &way.server, &external)?;
        each(&way.name, Opened::Digest(way.pace, Box::new(door)));
    }
    for way in &settings.execs {
        each(&way.name, Opened::Digest(way.pace, Box::new(Exec::new(way, &external, programs))));
    }
    Ok(())
}

fn keep(memory: Arc<Memory>, name: String) -> Keep {
    Box::new(move |kept: Kept| memory.keep(&name, &kept).map_err(|error| khz_ask::sentence(&error)))
}
