//! Faults of simulated nodes: which node has which fault, from when until when, and whether it is silent then. What a fault does to
//! the numbers is in `faults/symptoms.rs`. Everything is a function of the time: the same file gives the same rows.

mod file;
mod symptoms;

use std::path::Path;

use khz_model::{Nanos, NodeName, Pattern};

pub use symptoms::{Moment, Symptoms};

use crate::error::SimulateError;

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// A program takes more and more memory.
    Leak,
    /// A disk answers more and more slowly.
    DyingDisk,
    /// The processors run slowly: the same work takes longer.
    ThrottledCore,
    /// A link loses packets and its carrier, in bursts.
    FlappingLink,
    /// A hypervisor gives the processors to others.
    NoisyNeighbour,
    /// Memory fails page by page.
    CreepingEcc,
    /// Programs write and read more than the disk can do.
    IoStorm,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 7] = [
        FaultKind::Leak,
        FaultKind::DyingDisk,
        FaultKind::ThrottledCore,
        FaultKind::FlappingLink,
        FaultKind::NoisyNeighbour,
        FaultKind::CreepingEcc,
        FaultKind::IoStorm,
    ];

    /// The word for it in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            FaultKind::Leak => "leak",
            FaultKind::DyingDisk => "dying-disk",
            FaultKind::ThrottledCore => "throttled-core",
            FaultKind::FlappingLink => "flapping-link",
            FaultKind::NoisyNeighbour => "noisy-neighbour",
            FaultKind::CreepingEcc => "creeping-ecc",
            FaultKind::IoStorm => "io-storm",
        }
    }
}

/// How a fault ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultEnd {
    /// The node falls silent, as one whose power is gone; after this time it is back, without the fault; `None`: never.
    Down(Option<Nanos>),
    /// All is as before.
    #[default]
    Heals,
    /// It stays as bad as it is at its end.
    Stays,
}

/// A fault of some nodes.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What it is.
    pub kind: FaultKind,
    /// Which nodes have it.
    pub nodes: Pattern,
    /// How long after the start of the simulation it begins.
    pub begin: Nanos,
    /// How long it takes from its begin to its end.
    pub lasts: Nanos,
    /// How bad it becomes: 1 is as bad as its kind can be.
    pub strength: f64,
    /// What comes at its end.
    pub end: FaultEnd,
}

impl Fault {
    /// From when to when its nodes are silent, after the start of the simulation.
    pub fn silence(&self) -> Option<(Nanos, Nanos)> {
        let FaultEnd::Down(back) = self.end else { return None };
        let from = self.begin.0.saturating_add(self.lasts.0);
        Some((Nanos(from), Nanos(back.map_or(u64::MAX, |back| from.saturating_add(back.0)))))
    }
}

/// All faults of a simulation.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    all: Vec<Fault>,
    /// Where each is defined, as FILE:LINE:COLUMN; empty: they are of no file.
    places: Vec<String>,
}

impl Faults {
    /// These faults.
    pub fn new(faults: Vec<Fault>) -> Self {
        Faults { all: faults, places: Vec::new() }
    }

    /// Reads a file (docs/simulate.md).
    ///
    /// # Errors
    /// Returns what is wrong with it, with line and column.
    pub fn read(path: &Path) -> Result<Self, SimulateError> {
        let (places, all) = file::read(path)?.into_iter().unzip();
        Ok(Faults { all, places })
    }

    /// Each fault.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.all.iter()
    }

    /// Each fault, with the place where it is defined: FILE:LINE:COLUMN.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (Option<&str>, &Fault)> {
        let place = |number: usize| self.places.get(number).map(String::as_str);
        self.all.iter().enumerate().map(move |(number, fault)| (place(number), fault))
    }

    /// The faults of a node.
    pub fn of(&self, node: &NodeName) -> Vec<Fault> {
        self.all.iter().filter(|fault| fault.nodes.matches_node(node.as_str())).cloned().collect()
    }
}
