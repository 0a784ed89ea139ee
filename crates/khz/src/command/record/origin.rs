//! Where rows come from: a hub that has them, or this node itself.

use khz_client::Access;
use khz_model::fold::fold;
use khz_model::{Interest, Pattern};
use khz_record::{RecordError, Recorder};
use khz_trust::ClientFiles;

use super::flags::RecordFlags;
use super::hub_end::Ending;
use super::hub_rows::{HubRows, NOBODY, came_through};
use super::node_rows::NodeRows;
use crate::config::Plan;
use crate::config::addresses::{HubAddress, hub_addresses};
use crate::show::outcome::{Done, Failure, sentence};
use crate::show::table::printable;

/// The hub to record from: the first of `--hub` that answers, else one on this machine; `None`: this node is recorded without a hub.
pub fn find_hub(flags: &RecordFlags, plan: &Plan) -> Result<Option<Access>, Failure> {
    let access = match &flags.hub {
        Some(text) => {
            let named = hub_addresses(text).map_err(Failure::usage)?;
            if named.is_empty() {
                return Err(Failure::usage("--hub names no hub: write HOST or HOST:PORT"));
            }
            let net = |HubAddress { host, port }| khz_link::driver::HubAddress::Net { host, port };
            Access::to(named.into_iter().map(net).collect())
        }
        None if flags.direct => return Ok(None),
        None => match Access::local_in(plan.run_dir.as_deref()) {
            Ok(access) => access,
            Err(_) => return Ok(None),
        },
    };
    let trust = &plan.trust;
    let files = trust.ca.as_ref().map(|ca| match &trust.pair {
        Some((certificate, key)) => ClientFiles::new(ca).with_pair(certificate, key),
        None => ClientFiles::new(ca),
    });
    let token = trust.token.as_ref().map(|place| place.read()).transpose();
    let token = token.map_err(|error| Failure::usage(sentence(&error)))?;
    let run_dir = plan.run_dir.clone();
    let from = plan.bind;
    Ok(Some(Access { files, token, insecure: flags.insecure, run_dir, from, ..access }))
}

/// A hub, or this node.
pub enum Origin {
    /// A hub.
    Hub(Box<HubRows>),
    /// This node, gathered by this process.
    Node {
        /// `None` after the end.
        rows: Option<Box<NodeRows>>,
        /// This node lacks requested series, which was printed on stderr.
        has_misses: bool,
    },
}

/// Requested nodes and series that did not come.
#[derive(Debug, Default)]
pub struct Absent {
    /// Nodes that the hub knows, and that sent nothing.
    pub missing: Vec<String>,
    /// No node has some requested series, which was printed on stderr.
    pub has_misses: bool,
}

impl Absent {
    /// The nodes and series that a hub did not have. They are named on stderr, unless the hub has named them.
    pub fn of(hub: &HubRows, patterns: &[Pattern]) -> Self {
        let (missing, unknown) = hub.missing(patterns);
        let mut unmatched = hub.unmatched();
        unmatched.retain(|pattern| patterns.iter().any(|asked| asked.to_string() == *pattern));
        if !unknown.is_empty() && !hub.has_remarked(NOBODY) {
            crate::show::table::remark!("{NOBODY} {}", printable(&fold(&unknown)));
        }
        for pattern in
            unmatched.iter().filter(|pattern| !hub.has_remarked(&format!("nothing matches {pattern}")))
        {
            crate::show::table::remark!("nothing matches {}", printable(pattern));
        }
        let elsewhere = hub.never_here();
        for (hub, nodes) in &elsewhere {
            let (count, nodes) = (nodes.len(), printable(&fold(nodes)));
            let were = if count == 1 { "was" } else { "were" };
            crate::show::table::remark!("{nodes} {were} at {hub} and not at the recorder's hub: no rows");
        }
        let through = hub.never_direct();
        if !through.is_empty() {
            crate::show::table::remark!("{}", came_through(&through));
        }
        let has_misses =
            !unknown.is_empty() || !unmatched.is_empty() || !elsewhere.is_empty() || !through.is_empty();
        Absent { missing, has_misses }
    }

    /// The end of the command, if the rest was recorded.
    pub fn end(self) -> Done {
        match self.missing.is_empty() && !self.has_misses {
            true => Done::Wholly,
            false => Done::Partly { missing: self.missing },
        }
    }
}

impl Origin {
    /// The hub that was named or runs here, else this node. Rows have begun to come when this returns. `asked`: the patterns whose
    /// series should already exist.
    pub fn start(
        flags: &RecordFlags,
        plan: &Plan,
        interest: &Interest,
        asked: &[Pattern],
    ) -> Result<Self, Failure> {
        match find_hub(flags, plan)? {
            None if interest.channel.is_some() => Err(Failure::usage(
                "channels are kept by a hub, or by a `khz` that runs: name a hub with --hub, or start one here",
            )),
            Some(access) => Ok(Origin::Hub(Box::new(HubRows::start(&access, interest, asked)?))),
            None => {
                let rows = NodeRows::start(plan, interest, asked)?;
                Ok(Origin::Node { has_misses: rows.has_misses, rows: Some(Box::new(rows)) })
            }
        }
    }

    /// Writes the heads of lanes that are known before rows come.
    pub fn begin(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Node { rows: Some(rows), .. } => rows.begin(recorder),
            _ => Ok(()),
        }
    }

    /// Copies what has come since the last call.
    pub fn copy(&mut self, recorder: &mut Recorder) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.copy(recorder),
            Origin::Node { rows: Some(rows), .. } => rows.copy(recorder),
            Origin::Node { rows: None, .. } => Ok(()),
        }
    }

    /// Copies the rest.
    pub fn finish(&mut self, recorder: &mut Recorder, ending: &mut Ending<'_>) -> Result<(), RecordError> {
        match self {
            Origin::Hub(hub) => hub.finish(recorder, ending),
            Origin::Node { rows, .. } => rows.take().map_or(Ok(()), |rows| rows.finish(recorder)),
        }
    }

    /// Why no more rows will come; `None` while they do.
    pub fn refused(&self) -> Option<&str> {
        match self {
            Origin::Hub(hub) => hub.refused(),
            Origin::Node { .. } => None,
        }
    }

    /// Rows that were dropped because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        match self {
            Origin::Hub(hub) => hub.dropped(),
            Origin::Node { .. } => 0,
        }
    }

    /// What was asked for and did not come.
    pub fn absent(&self, patterns: &[Pattern]) -> Absent {
        match self {
            Origin::Hub(hub) => Absent::of(hub, patterns),
            Origin::Node { has_misses, .. } => Absent { has_misses: *has_misses, ..Absent::default() },
        }
    }
}
