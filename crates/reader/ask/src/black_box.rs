//! What a khz says of its freezes, and what it is asked to freeze.

use khz_model::Nanos;
use khz_model::http_names::BLACK_BOX_PATH;
use serde::{Deserialize, Serialize};

use crate::error::AskError;
use crate::range::PastBytes;
use crate::server::{Server, percent_encoded};

/// The answer to a wish to freeze.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct FreezeBegun {
    /// The number of the freeze.
    pub id: u64,
    /// It was being taken already.
    pub joined: bool,
}

/// Nodes that did the same.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FreezeGroup {
    /// What they did, in a word.
    pub state: String,
    /// Why; may be empty.
    pub text: String,
    /// Their names, as a hostlist.
    pub nodes: String,
    /// How many they are.
    pub count: u64,
}

/// One freeze. Times are seconds.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct FreezeAnswer {
    /// Its number.
    pub id: u64,
    /// `running` or `done`.
    pub state: String,
    /// Why it was begun.
    pub cause: String,
    /// The first causes that joined it.
    pub also: Vec<String>,
    /// How many did.
    pub joined: u64,
    /// The moment, since 1970.
    pub at: String,
    /// Rows from so long before it.
    pub before: String,
    /// Rows until so long after it.
    pub after: String,
    /// The nodes, as a hostlist.
    pub asked: String,
    /// How many they are.
    pub nodes: u64,
    /// What they did.
    pub groups: Vec<FreezeGroup>,
    /// Rows of the recording, once it is done.
    pub rows: u64,
    /// Bytes of the recording, once it is done.
    pub bytes: u64,
    /// From the moment to the last answer of a node.
    pub marked_after: Option<String>,
    /// From the end of the time to the last row.
    pub fetched_after: Option<String>,
    /// Why there is less than there could be.
    pub problem: Option<String>,
}

impl FreezeAnswer {
    /// True if nothing more comes.
    pub fn is_done(&self) -> bool {
        self.state == "done"
    }

    /// How many nodes are in one of these states.
    pub fn count(&self, states: &[&str]) -> u64 {
        let are = self.groups.iter().filter(|group| states.contains(&group.state.as_str()));
        are.map(|group| group.count).sum()
    }
}

#[derive(Deserialize)]
struct All {
    freezes: Vec<FreezeAnswer>,
}

#[derive(Deserialize)]
struct Removed {
    #[allow(dead_code, reason = "the status says it")]
    removed: bool,
}

impl Server {
    /// Has nodes freeze their rings; for operators.
    ///
    /// # Errors
    /// See [`AskError`]; also that no such node exists, or that there are too many freezes.
    pub fn freeze(
        &self,
        nodes: &str,
        (before, after): (Nanos, Nanos),
        because: &str,
    ) -> Result<FreezeBegun, AskError> {
        self.only_at_hub()?;
        let (nodes, because) = (percent_encoded(nodes), percent_encoded(because));
        let times = format!("before={}ns&after={}ns", before.0, after.0);
        self.put_nothing(&format!("{BLACK_BOX_PATH}?nodes={nodes}&{times}&because={because}"))
    }

    /// All freezes, oldest first.
    ///
    /// # Errors
    /// See [`AskError`].
    pub fn freezes(&self) -> Result<Vec<FreezeAnswer>, AskError> {
        self.only_at_hub()?;
        self.get_json::<All>(BLACK_BOX_PATH).map(|all| all.freezes)
    }

    /// One of them.
    ///
    /// # Errors
    /// See [`AskError`]; that there is none is one that is refused.
    pub fn freeze_of(&self, id: u64) -> Result<FreezeAnswer, AskError> {
        self.only_at_hub()?;
        self.get_json(&format!("{BLACK_BOX_PATH}/{id}"))
    }

    /// Removes one; for operators.
    ///
    /// # Errors
    /// The same.
    pub fn remove_freeze(&self, id: u64) -> Result<(), AskError> {
        self.only_at_hub()?;
        self.delete::<Removed>(&format!("{BLACK_BOX_PATH}/{id}")).map(|_| ())
    }

    /// Its recording.
    ///
    /// # Errors
    /// The same.
    pub fn frozen_rows(&self, id: u64) -> Result<PastBytes, AskError> {
        self.only_at_hub()?;
        self.bytes(&format!("{BLACK_BOX_PATH}/{id}/recording"))
    }
}
