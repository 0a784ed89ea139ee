//! `NODE/status`: how a node is, as lines of text.

use std::fmt::Write;
use std::time::Instant;

use khz_model::{LaneStatus, Nanos};

use crate::cluster::roster::Known;

/// The lines of a node's status. What the hub said may be old: ages count on.
pub(crate) fn text(known: &Known<'_>, is_hub_up: bool, now: Instant) -> String {
    let status = known.status;
    let since = Nanos(now.saturating_duration_since(known.heard).as_nanos() as u64);
    let aged = |time: Nanos| seconds(Nanos(time.0.saturating_add(since.0)));
    // The hub was started again, and the node has not come yet.
    let state = if known.is_listed { status.presence().as_str() } else { "unknown" };
    let mut text = format!("state {state}\n");
    let mut line = |name: &str, value: Option<String>| {
        // Unknown is never a number. Writing to a string cannot fail.
        let _ = writeln!(text, "{name} {}", value.as_deref().unwrap_or("unknown"));
    };
    line("hub", Some(if is_hub_up { "connected" } else { "away" }.to_owned()));
    let newest = status.lanes.iter().filter_map(|lane| lane.age).min();
    line("age_seconds", newest.map(aged));
    line("heard_seconds", status.heard.map(aged));
    line("in_this_state_seconds", status.since.map(aged));
    line("address", status.address.clone());
    line("agent", Some(status.version.clone()).filter(|version| !version.is_empty()));
    line("clock_offset_ns", status.clock_offset.map(|offset| offset.to_string()));
    line("round_trip_ns", status.round_trip.map(|trip| trip.0.to_string()));
    line("connects", Some(status.connects.to_string()));
    for lane in &status.lanes {
        line(&format!("lane {}", lane.name), Some(lane_text(lane, aged)));
    }
    if let Some(problem) = &status.problem {
        line("problem", Some(problem.clone()));
    }
    text
}

fn lane_text(lane: &LaneStatus, aged: impl Fn(Nanos) -> String) -> String {
    let age = lane.age.map_or_else(|| "unknown".to_owned(), aged);
    let rate = lane.rate.to_string();
    let rate = rate.strip_prefix("every ").unwrap_or(&rate);
    let asked = if lane.is_slowed() { format!(" asked {}", lane.asked) } else { String::new() };
    format!(
        "rate {rate}{asked} values {} age_seconds {age} rows {} awaited {} lost {} late {}",
        lane.slots, lane.rows, lane.awaited, lane.lost, lane.late
    )
}

fn seconds(time: Nanos) -> String {
    format!("{}.{:03}", time.0 / 1_000_000_000, time.0 / 1_000_000 % 1_000)
}
