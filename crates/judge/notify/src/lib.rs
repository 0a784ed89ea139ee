//! Sends alerts to all Alertmanagers, and to people by e-mail, webhooks and programs. The crate owns its threads and connections. A
//! caller that passes alerts never waits.
//!
//! Start with two types:
//!
//! - [`Notifier`] has the ways to people. [`Notifier::tell`] takes the alerts of an evaluation pass; [`Notifier::ways`] says what
//!   each way counts, and how it is.
//! - [`Settings`] says who is told. [`try_out`] sends one alert through all of it, and says what came back.
//!
//! There are two kinds of ways. Firing alerts are resent to an Alertmanager again and again (`queue.rs`); it groups, silences and
//! forgets by itself. People and webhooks get each message once (`digest.rs`). Both are state without I/O, and get the time as an
//! argument. A thread for each way (`worker.rs`) carries out the steps of `desk.rs`: it sends the jobs through a door (`door.rs`,
//! `email.rs`, `exec.rs`).
//!
//! The crate does not judge, reads no configuration, and does not know where alerts come from.

#![forbid(unsafe_code)]

mod alert;
mod answer;
mod body;
mod confidential;
mod core;
mod counts;
#[cfg(test)]
mod courses;
mod desk;
mod digest;
mod door;
mod email;
mod error;
mod exec;
mod hour;
mod known;
pub mod limits;
mod lines;
mod memory;
mod message;
mod notifier;
mod now;
mod pauses;
pub mod program;
mod programs;
mod queue;
mod settings;
#[cfg(test)]
mod simulation;
mod smtp;
mod standstill;
mod table;
mod unfit;
mod worker;

pub use alert::{ALERT_NAME, Alert, Labels, fingerprint};
pub use answer::Answer;
pub use confidential::secret_words;
pub use counts::Counts;
pub use digest::Pace;
pub use email::check_address;
pub use error::NotifyError;
pub use memory::ToldLine;
pub use notifier::{Notifier, WayStanding, try_out};
pub use now::go_by;
pub use settings::{AlertmanagerSettings, EmailSettings, ExecSettings, Settings, SmtpTls, WebhookSettings};
pub use worker::Standing;
