//! What was asked for and nobody has, in the form of the door's JSON.

use khz_model::{Miss, Misses};
use serde::Deserialize;

/// What was asked for and nobody has. It converts from and into [`Misses`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct MissesAnswer {
    nodes: Vec<MissAnswer>,
    patterns: Vec<MissAnswer>,
    #[serde(default)]
    more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct MissAnswer {
    asked: String,
    near: Option<String>,
}

impl From<Misses> for MissesAnswer {
    fn from(misses: Misses) -> Self {
        let miss = |Miss { asked, near }| MissAnswer { asked, near };
        MissesAnswer {
            nodes: misses.nodes.into_iter().map(miss).collect(),
            patterns: misses.patterns.into_iter().map(miss).collect(),
            more: misses.more,
        }
    }
}

impl From<MissesAnswer> for Misses {
    fn from(answer: MissesAnswer) -> Self {
        let miss = |MissAnswer { asked, near }| Miss { asked, near };
        Misses {
            nodes: answer.nodes.into_iter().map(miss).collect(),
            patterns: answer.patterns.into_iter().map(miss).collect(),
            more: answer.more,
        }
    }
}
