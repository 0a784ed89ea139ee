//! Which modules of the page come together, as one file. It does not join them.

/// The parts in order: the name of each, and modules that are in it. Whatever these import is in it too, unless an earlier part has it.
/// A module in no part is a file of its own.
///
/// The first picture of a node is `page` and `node`, that of all nodes is `page`, `nodes` and `cluster`: what comes later must not be
/// in these.
pub const PARTS: &[(&str, &[&str])] = &[
    // The frame, and what both first pictures need.
    ("page", &["main", "ask", "canvas", "measures", "moment", "own-style", "units"]),
    ("node", &["node-view"]),
    // What the views of many nodes share.
    (
        "nodes",
        &[
            "measure-choice",
            "node-choice",
            "node-groups",
            "nodes-view",
            "tile-layout",
            "tile-scale",
            "totals",
        ],
    ),
    ("cluster", &["cluster-view"]),
    ("waterfall", &["waterfall-view"]),
    // What panels of one's own share with queries and the search.
    ("asked", &["own-spec", "query-answer"]),
    ("query", &["query-view"]),
    ("range", &["compare-view", "sums-view"]),
    ("alerts", &["alerts-view"]),
    // What each view gets when its picture is there.
    ("rest", &["alert-count", "beside", "print", "probe"]),
    ("past", &["node-past"]),
    ("own", &["own-panels"]),
    ("more", &["node-more"]),
    ("board", &["own-board"]),
    ("signals", &["signal-chips", "signal-cluster", "signal-detail"]),
    ("node-signals", &["event-node", "signal-node"]),
    ("palette", &["palette"]),
    ("postcard", &["postcard", "postcard-table"]),
];
