//! The scores as bytes of a file, for the next start of the hub. It opens no file.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{Fate, Score, Scores, Unforetold, Warning};
use crate::limits::{OPEN_WARNINGS_MAX, SCORED_RULES_MAX, UNFORETOLD_MAX};

/// The version of the format.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    since: Option<i64>,
    looked: i64,
    drained_to: i64,
    failures: u64,
    foretold: u64,
    drains: u64,
    unscored: u64,
    rules: BTreeMap<String, Score>,
    open: Vec<OpenWarning>,
    fates: Vec<SavedFate>,
    unforetold: VecDeque<Unforetold>,
}

#[derive(Serialize, Deserialize)]
struct OpenWarning {
    node: String,
    rule: String,
    since: i64,
    fired: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    blind: bool,
}

#[derive(Serialize, Deserialize)]
struct SavedFate {
    node: String,
    down: Option<i64>,
    told: bool,
    failed: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    presumed: bool,
}

impl Scores {
    /// The text of the file, one line.
    pub fn to_text(&self) -> String {
        let open = self.open.iter().flat_map(|(node, all)| all.iter().map(move |warning| (node, warning)));
        let file = File {
            version: VERSION,
            since: self.since,
            looked: self.looked,
            drained_to: self.drained_to,
            failures: self.failures,
            foretold: self.foretold,
            drains: self.drains,
            unscored: self.unscored,
            rules: self.rules.clone(),
            open: open
                .map(|(node, warning)| OpenWarning {
                    node: node.clone(),
                    rule: warning.rule.clone(),
                    since: warning.since,
                    fired: warning.fired,
                    blind: warning.is_blind,
                })
                .collect(),
            fates: self
                .fates
                .iter()
                .map(|(node, fate)| SavedFate {
                    node: node.clone(),
                    down: fate.down,
                    told: fate.is_told,
                    failed: fate.failed,
                    presumed: fate.is_presumed,
                })
                .collect(),
            unforetold: self.unforetold.clone(),
        };
        let mut text = serde_json::to_string(&file).expect("BUG: scores cannot be written as JSON");
        text.push('\n');
        text
    }

    /// Reads such a text. Entries beyond the limits are left out.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("it has version {}, and this khz reads {VERSION}", file.version));
        }
        let mut open: BTreeMap<String, Vec<Warning>> = BTreeMap::new();
        for saved in file.open.into_iter().take(OPEN_WARNINGS_MAX) {
            let OpenWarning { node, rule, since, fired, blind } = saved;
            let warning = Warning { rule, since, fired, is_blind: blind, elsewhere: None };
            open.entry(node).or_default().push(warning);
        }
        let fate = |saved: SavedFate| {
            let SavedFate { node, down, told, failed, presumed } = saved;
            let is_of_before = down.is_some();
            (node, Fate { down, is_told: told, is_presumed: presumed, is_of_before, failed })
        };
        Ok(Scores {
            since: file.since,
            looked: file.looked,
            watched: None,
            drained_to: file.drained_to,
            rules: file.rules.into_iter().take(SCORED_RULES_MAX).collect(),
            open_count: open.values().map(Vec::len).sum(),
            open,
            fates: file.fates.into_iter().map(fate).collect(),
            failures: file.failures,
            foretold: file.foretold,
            drains: file.drains,
            unscored: file.unscored,
            unforetold: file.unforetold.into_iter().take(UNFORETOLD_MAX).collect(),
            has_changed: false,
        })
    }
}
