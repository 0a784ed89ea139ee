//! Each row of the tables in `docs/limits.md` has the numbers of the constants in the code.

use khz_http::limits as http;
use khz_hub::limits as hub;
use khz_link::limits as link;
use khz_mount::limits as mount;
use khz_store::limits as store;
use khz_text::limits as text;

const TEXT: &str = include_str!("../../../../docs/limits.md");

/// The rows of tables that begin with this.
fn rows(what: &str) -> Vec<&'static str> {
    TEXT.lines().filter(|line| line.starts_with(&format!("| {what}"))).collect()
}

/// `65,536`.
fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().ok().expect("a count").to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

/// `64 KiB`.
fn bytes(number: impl TryInto<u64>) -> String {
    let number = number.try_into().ok().expect("bytes");
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = units.into_iter().find(|(unit, _)| number >= *unit && number % unit == 0);
    fits.map_or_else(|| format!("{number} bytes"), |(unit, name)| format!("{} {name}", number / unit))
}

fn seconds(nanos: khz_model::Nanos) -> String {
    format!("{} s", nanos.0 / 1_000_000_000)
}

#[test]
fn every_row_has_the_numbers_of_the_code() {
    let stall = format!("{} s", http::STALL_TIMEOUT.as_secs());
    for (what, numbers) in [
        // HTTP
        ("all answers and events", vec![bytes(http::ANSWERS_BYTES.0)]),
        (
            "scrapes of one node",
            vec![bytes(http::SCRAPE_ANSWERS_BYTES.0), count(http::SCRAPE_SMALL_READINGS as u64)],
        ),
        ("a hub's own numbers at", vec![bytes(http::OWN_ANSWERS_BYTES.0)]),
        ("an answer |", vec![bytes(http::PAGE_BYTES as u64)]),
        ("packing an answer with gzip", vec![bytes(http::PACKER_BYTES)]),
        ("streams and tiles", vec![count(http::STREAMS_MAX as u64)]),
        ("readings that wait for one stream", vec![count(http::BACKLOG_READINGS_MAX as u64)]),
        ("an event of a stream", vec![bytes(http::EVENT_BYTES as u64)]),
        (
            "history of one node",
            vec![count(khz_model::HISTORY_READINGS_MAX as u64), count(http::HISTORY_ROWS_MAX as u64)],
        ),
        ("connections | 512", vec![count(http::CONNECTIONS_MAX as u64), bytes(http::HEAD_BYTES_MAX as u64)]),
        ("readings of a node in a step", vec![count(khz_model::RANGE_STEP_READINGS as u64)]),
        ("hours whose rows are searched", vec![count(store::NEWEST_HOURS as u64)]),
        // Text
        ("pages and layouts of all connections", vec![bytes(text::ANSWERS_BYTES.0)]),
        ("a page |", vec![bytes(text::PAGE_BYTES as u64), bytes(text::PAGE_BYTES_KEPT as u64)]),
        ("connections | 1,024", vec![count(text::CONNECTIONS_MAX as u64)]),
        ("layouts of one connection", vec![count(text::LAYOUTS_MAX as u64)]),
        // Link
        (
            "bytes that wait for all readers",
            vec![
                bytes(hub::READERS_OUT_BYTES_MAX as u64),
                bytes(hub::OUT_BYTES_MAX as u64),
                bytes(hub::OUT_BYTES_MIN as u64),
            ],
        ),
        ("a reader that does not read", vec![bytes(hub::DEAF_BYTES_MAX as u64)]),
        (
            "cursors of all readers at all nodes",
            vec![bytes(hub::FOLLOW_BYTES_MAX), bytes(hub::FOLLOW_BYTES_A_NODE)],
        ),
        ("blocks kept because readers follow", vec![count(hub::BLOCKS_FOR_READERS as u64)]),
        ("the newest row of each lane", vec![format!("{} bytes a slot", hub::BYTES_A_SLOT)]),
        ("interests of one connection", vec![count(hub::SUBSCRIPTIONS_MAX as u64)]),
        (
            "Interest frames in one burst",
            vec![count(link::INTERESTS_AT_ONCE), count(link::INTERESTS_A_SECOND)],
        ),
        ("patterns of one interest", vec![bytes(hub::SUBSCRIPTION_BYTES_MAX as u64)]),
        ("interests of all readers at one node", vec![count(hub::SUBSCRIPTIONS_MAX as u64)]),
        ("what the link's thread does", vec![count(hub::OPERATIONS_A_TURN as u64)]),
        ("search for patterns of an interest", vec![count(hub::MISSES_EFFORT as u64)]),
        (
            "kernel texts that somebody wants",
            vec![bytes(hub::NODE_TEXT_BYTES_MAX), bytes(hub::ALL_TEXT_BYTES_MAX)],
        ),
        (
            "connections; connections without a Hello",
            vec![count(hub::CONNECTIONS_MAX as u64), count(hub::HANDSHAKES_MAX as u64)],
        ),
        ("frames that have begun", vec![bytes(hub::UNFINISHED_BYTES_MAX as u64)]),
        // A node at a hub
        ("one node:", vec![bytes(hub::NODE_BYTES_MAX)]),
        ("the schemas of all nodes", vec![bytes(hub::SCHEMAS_BYTES_MAX)]),
        ("what all nodes hold besides", vec![bytes(hub::NODES_BYTES_MAX), bytes(hub::NODES_BYTES_EACH)]),
        ("a schema |", vec![bytes(hub::SCHEMA_BYTES_MAX as u64), count(hub::SLOTS_MAX as u64)]),
        ("lanes of one node", vec![count(hub::LANES_MAX as u64), count(hub::GENERATIONS_MAX as u64)]),
        (
            "rows that wait for the store's disk",
            vec![bytes(store::ROWS_WAITING_BYTES), bytes(store::BLOCKS_WAITING_BYTES)],
        ),
        ("past blocks of a lane that wait", vec![count(hub::BLOCKS_UNMEASURED_MAX as u64)]),
        ("nodes that are known", vec![count(hub::NODES_MAX as u64), count(hub::NODES_DROPPED as u64)]),
        // A node
        ("lanes at once", vec![count(khz_gather::LANES_MAX as u64)]),
        ("lanes that live on", vec![count(khz_gather::LINGERING_MAX as u64), seconds(khz_gather::LINGER)]),
        ("requests that wait for the gather thread", vec![count(khz_gather::REQUESTS_MAX as u64)]),
        (
            "a value of a label that describes the node",
            vec![bytes(khz_parse::description::DESCRIPTION_VALUE_MAX)],
        ),
        // Both doors
        ("a client that reads slowly", vec![bytes(http::TAKEN_BYTES_MIN), stall]),
        ("a client that reads slowly", vec![bytes(text::TAKEN_BYTES_MIN)]),
    ] {
        let rows = rows(what);
        assert!(!rows.is_empty(), "no row begins with '{what}'");
        for number in numbers {
            let has_number = rows.iter().all(|row| row.contains(&number));
            assert!(has_number, "'{what}' has {number} in the code: {rows:?}");
        }
    }
    assert_eq!(bytes(link::SCHEMA_MAX), bytes(hub::SCHEMA_BYTES_MAX as u64), "hub and readers take the same");
}

#[test]
fn the_text_around_the_tables_has_the_numbers_of_the_code() {
    for number in [
        format!("up to {} names", count(khz_model::choice::NAMED_MAX as u64)),
        format!("an answer takes {}", bytes(http::PAGES_BYTES)),
        format!("turns of {}", count(hub::OPERATIONS_A_TURN as u64)),
        format!("one of up to {}", bytes(hub::LANE_BYTES_KEPT)),
        format!("{} open files a user", count(mount::HANDLES_PER_USER_MAX as u64)),
        format!("{} of kernel texts", bytes(mount::TEXTS_BYTES_MAX as u64)),
        format!("{} of them", bytes(mount::PINNED_PER_USER_MAX as u64)),
        format!("{} requests that wait", count(mount::WAITING_MAX as u64)),
        format!("{} names", count(mount::NAMES_MAX as u64)),
    ] {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line(TEXT).contains(&one_line(&number)), "the text does not say '{number}'");
    }
}
