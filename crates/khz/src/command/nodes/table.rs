//! The table of nodes: at most 80 columns, one row a node.

use khz_ask::{LaneStatus, NodeStatus};
use serde_json::Value;

use crate::show::look::Tone;
use crate::show::quantities::{of_count, of_difference, of_span};
use crate::show::table::{Cell, Side, Table};

/// Shown where nothing is known.
const UNKNOWN: &str = "-";

/// On a narrow terminal these columns are left out, the first one first: VERSION, RTT, OFFSET, LATE, EXPECTED, ROWS, RATE, LOST.
const LEAVING: [usize; 8] = [8, 7, 6, 5, 9, 3, 2, 4];

/// The table of these nodes.
pub fn table(all: &[(NodeStatus, &Value)]) -> Table {
    let titles = [
        ("NODE", Side::Left),
        ("STATE", Side::Left),
        ("RATE", Side::Right),
        ("ROWS", Side::Right),
        ("LOST", Side::Right),
        ("LATE", Side::Right),
        ("OFFSET", Side::Right),
        ("RTT", Side::Right),
        ("VERSION", Side::Left),
        ("EXPECTED", Side::Left),
    ];
    // Where no node is expected the column would be empty.
    let has_expected = all.iter().any(|(status, _)| status.expected);
    let columns = titles.len() - usize::from(!has_expected);
    let mut table = Table::new(&titles[..columns], 0).leaving(&LEAVING);
    for (status, _) in all {
        let sum = |count: fn(&LaneStatus) -> u64| match status.lanes.as_slice() {
            [] => UNKNOWN.to_owned(),
            lanes => of_count(lanes.iter().map(count).fold(0, u64::saturating_add)),
        };
        let has_lost = status.lanes.iter().any(|lane| lane.lost > 0);
        let is_away = status.is("down") || status.is("missing");
        let row = [
            status.node.clone().into(),
            Cell::new(state(status), if is_away { Tone::Bad } else { Tone::Plain }),
            known(rates(&status.lanes)),
            known(sum(|lane| lane.rows)),
            Cell::new(sum(|lane| lane.lost), if has_lost { Tone::Bad } else { Tone::Plain }),
            known(sum(|lane| lane.late)),
            known(difference(status.clock_offset.as_deref())),
            known(span(status.round_trip.as_deref())),
            status.version.clone().into(),
            if status.expected { "yes" } else { "no" }.to_owned().into(),
        ];
        table.row(row.into_iter().take(columns));
    }
    table
}

/// What is not known is faint.
fn known(text: String) -> Cell {
    let tone = if text == UNKNOWN { Tone::Faint } else { Tone::Plain };
    Cell::new(text, tone)
}

/// `up 3d`, `down 12s`: how long it has been up, or how long ago it was last heard.
fn state(status: &NodeStatus) -> String {
    let age = if status.up { status.ages.since() } else { status.ages.heard() };
    match age {
        Some(age) => format!("{} {}", status.state(), span(Some(age))),
        None => status.state().to_owned(),
    }
}

/// The rates of all lanes: `1+100Hz`; `1+250<1000Hz` where a reader asked for more.
fn rates(lanes: &[LaneStatus]) -> String {
    let Some((last, others)) = lanes.split_last() else { return UNKNOWN.to_owned() };
    let short = |lane: &LaneStatus| {
        let rate = lane.rate.trim_start_matches("every ");
        match lane.slowed_from() {
            Some(asked) => format!("{}<{asked}", rate.trim_end_matches("Hz")),
            None => rate.to_owned(),
        }
    };
    let others = others.iter().map(short).map(|rate| rate.trim_end_matches("Hz").to_owned());
    others.chain([short(last)]).collect::<Vec<_>>().join("+")
}

/// How far a clock is off, from seconds as a decimal string.
fn difference(seconds: Option<&str>) -> String {
    seconds.and_then(|text| text.parse().ok()).map_or_else(|| UNKNOWN.to_owned(), of_difference)
}

/// A span in its largest unit, from seconds as a decimal string.
pub fn span(seconds: Option<&str>) -> String {
    seconds.and_then(|text| text.parse().ok()).map_or_else(|| UNKNOWN.to_owned(), of_span)
}
