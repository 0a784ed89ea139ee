//! Acts on alerts: runs programs, drains nodes of Slurm, requeues their jobs, has nodes sample faster. Owns its threads and the
//! audit log; the judge who hands it alerts never waits.
//!
//! Start with two types:
//!
//! - [`Actor`] has the actions. [`Actor::tell`] takes the alerts of an evaluation pass; [`Actor::actions`] and [`Actor::runs_after`] say
//!   what each has done.
//! - [`Settings`] says what the actions are. An alert only names them, in its annotation [`ANNOTATION`].
//!
//! `named.rs` reads the annotation. `desk.rs` remembers which alerts are in hand, so that each acts once. `ledger.rs` holds back
//! what is too often. `log.rs` writes each step to the disk before it is done, and `past.rs` is what it says at a start. `lane.rs` is the
//! queue of an action and `worker.rs` its thread; `command.rs` and `slurm.rs` are what it does.
//!
//! The crate does not judge, reads no configuration, and opens no socket. No word of a command line comes from an alert, except
//! the name of a node that Slurm itself has confirmed.

#![forbid(unsafe_code)]

mod actor;
mod command;
mod counts;
mod desk;
mod error;
mod host;
mod lane;
mod ledger;
pub mod limits;
mod log;
mod named;
mod outputs;
mod past;
mod record;
mod said;
mod settings;
mod slurm;
mod worker;

pub use actor::{ActionStanding, Actor, Nodes};
pub use counts::Counts;
pub use error::ActionError;
pub use host::{host_of, is_host_name};
pub use named::{ANNOTATION, names};
pub use record::{Outcome, Run};
pub use settings::{Action, Boost, Freeze, Kind, Settings, Slurm};
pub use slurm::drain_by_hand;
