//! Each row of the tables in `docs/limits.md` has the numbers of the constants in the code, and the names of these constants.

use khz_channel::limits as channel;
use khz_http::limits as http;
use khz_hub::limits as hub;
use khz_link::limits as link;
use khz_mount::limits as mount;
use khz_promql::limits as promql;
use khz_remote::limits as remote;
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

fn hours(nanos: khz_model::Nanos) -> String {
    format!("{} h", nanos.0 / 3_600_000_000_000)
}

/// A number as the page writes it, and the expression that it comes from.
type Number = (String, &'static str);

/// The numbers that a row must have.
macro_rules! numbers {
    ($($number:expr),* $(,)?) => { vec![$(($number, stringify!($number))),*] };
}

/// The name of the constant in an expression: `STREAMS_MAX` in `count(http::STREAMS_MAX as u64)`.
fn constant(expression: &str) -> Option<&str> {
    let mut words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_constant = |word: &&str| word.len() > 2 && !word.contains(|c: char| c.is_ascii_lowercase());
    words.rfind(is_constant)
}

#[test]
fn every_row_has_the_numbers_of_the_code() {
    for (what, numbers) in [
        // Remote write and remote read
        ("a packed message", numbers![bytes(remote::PACKED_BYTES_MAX as u64)]),
        ("a message, unpacked", numbers![bytes(remote::UNPACKED_BYTES_MAX as u64)]),
        ("series of a message", numbers![count(remote::SERIES_MAX as u64)]),
        (
            "samples of a message, and labels",
            numbers![count(remote::SAMPLES_MAX as u64), count(remote::MESSAGE_LABELS_MAX as u64)],
        ),
        ("queries of a request to read", numbers![count(remote::QUERIES_MAX as u64)]),
        (
            "conditions of a request to read",
            numbers![count(remote::MATCHERS_MAX as u64), bytes(remote::MATCHER_BYTES_MAX as u64)],
        ),
        ("a packed request to read", numbers![bytes(http::READ_BYTES_MAX as u64)]),
        ("the answer to a request to read", numbers![bytes(remote::ANSWER_BYTES_MAX as u64)]),
        ("bytes of a request to write", numbers![bytes(remote::REQUEST_BYTES as u64)]),
        // HTTP
        ("all answers and events", numbers![bytes(http::ANSWERS_BYTES.0)]),
        (
            "scrapes of one node",
            numbers![bytes(http::SCRAPE_ANSWERS_BYTES.0), count(http::SCRAPE_SMALL_READINGS as u64)],
        ),
        ("a hub's own numbers at", numbers![bytes(http::OWN_ANSWERS_BYTES.0)]),
        ("an answer |", numbers![bytes(http::PAGE_BYTES as u64)]),
        ("packing an answer with gzip", numbers![bytes(http::PACKER_BYTES)]),
        (
            "an answer that holds more than",
            numbers![bytes(http::HELD_BYTES_FREE), bytes(http::HELD_BYTES_RATE)],
        ),
        ("streams and tiles |", numbers![count(http::STREAMS_MAX as u64)]),
        ("readings that wait for one stream", numbers![count(http::BACKLOG_READINGS_MAX as u64)]),
        ("an event of a stream", numbers![bytes(http::EVENT_BYTES as u64)]),
        (
            "history of one node",
            numbers![count(khz_model::HISTORY_READINGS_MAX as u64), count(http::HISTORY_ROWS_MAX as u64)],
        ),
        (
            "connections | 512",
            numbers![count(http::CONNECTIONS_MAX as u64), bytes(http::HEAD_BYTES_MAX as u64)],
        ),
        ("the time of a query in PromQL", numbers![format!("{} s", http::QUERY_TIMEOUT.as_secs())]),
        (
            "the time of a query that has the place",
            numbers![
                format!("{} ms", http::QUERY_TURNS[0].as_millis()),
                format!("{} ms", http::QUERY_TURNS[1].as_millis()),
                format!("{} ms", http::QUERY_TURNS[2].as_millis()),
            ],
        ),
        ("bytes of a query in PromQL", numbers![bytes(http::QUERY_BYTES as u64)]),
        ("series of one listing", numbers![count(http::SERIES_LISTED_MAX as u64)]),
        ("a form in the body", numbers![bytes(http::FORM_BYTES_MAX as u64)]),
        ("readings of a node in a step", numbers![count(khz_model::RANGE_STEP_READINGS as u64)]),
        ("hours whose rows are searched", numbers![count(store::NEWEST_HOURS as u64)]),
        // PromQL
        ("steps of a query in PromQL", numbers![count(promql::STEPS_MAX)]),
        ("how long a query in PromQL takes", numbers![format!("{} s", promql::TIME_MAX.as_secs())]),
        ("samples that a query in PromQL", numbers![count(promql::SAMPLES_MAX)]),
        ("series of a selector", numbers![count(promql::SERIES_MAX as u64)]),
        ("bytes that a query in PromQL holds", numbers![bytes(promql::BYTES_MAX as u64)]),
        ("the text of a query in PromQL", numbers![bytes(promql::TEXT_BYTES_MAX as u64)]),
        ("expressions within expressions", numbers![count(promql::DEPTH_MAX as u64)]),
        (
            "regular expressions of a query",
            numbers![
                count(promql::REGEXES_MAX as u64),
                bytes(promql::REGEX_BYTES_MAX as u64),
                bytes(promql::REGEX_BYTES_OF_A_BYTE as u64)
            ],
        ),
        ("conditions of a selector in PromQL", numbers![count(promql::MATCHERS_MAX as u64)]),
        ("a label that `label_replace`", numbers![bytes(promql::LABEL_BYTES_MAX as u64)]),
        ("ranges that contain the same sample", numbers![count(promql::OPEN_RANGES_MAX as u64)]),
        (
            "memory of the handlers of all channels",
            numbers![bytes(khz_gather::CHANNELS_BYTES.0), bytes(khz_gather::HUB_CHANNELS_BYTES.0)],
        ),
        // Channels
        ("channels | 256", numbers![count(channel::CHANNELS_MAX as u64)]),
        ("those of them that readers", numbers![count(channel::CHANNELS_OF_READERS_MAX as u64)]),
        ("bytes of a definition", numbers![bytes(channel::DEFINITION_BYTES as u64)]),
        ("patterns of a channel", numbers![count(channel::SERIES_MAX as u64)]),
        ("nodes of a channel whose last", numbers![count(channel::NOTED_NODES_MAX as u64)]),
        ("the rate of a reader's channel", numbers![format!("{} Hz", khz_trust::READER_RATE_MAX_HZ)]),
        // Text
        ("pages and layouts of all connections", numbers![bytes(text::ANSWERS_BYTES.0)]),
        ("a page |", numbers![bytes(text::PAGE_BYTES as u64), bytes(text::PAGE_BYTES_KEPT as u64)]),
        ("connections | 1,024", numbers![count(text::CONNECTIONS_MAX as u64)]),
        ("layouts of one connection", numbers![count(text::LAYOUTS_MAX as u64)]),
        // Link
        (
            "bytes that wait for all readers",
            numbers![
                bytes(hub::READERS_OUT_BYTES_MAX as u64),
                bytes(hub::OUT_BYTES_MAX as u64),
                bytes(hub::OUT_BYTES_MIN as u64),
            ],
        ),
        ("a reader that does not read", numbers![bytes(hub::DEAF_BYTES_MAX as u64)]),
        (
            "cursors of all readers at all nodes",
            numbers![bytes(hub::FOLLOW_BYTES_MAX), bytes(hub::FOLLOW_BYTES_A_NODE)],
        ),
        ("blocks kept because readers follow", numbers![count(hub::BLOCKS_FOR_READERS as u64)]),
        ("the newest row of each lane", numbers![format!("{} bytes a slot", hub::BYTES_A_SLOT)]),
        ("interests of one connection", numbers![count(hub::SUBSCRIPTIONS_MAX as u64)]),
        (
            "Interest and Channel frames in one burst",
            numbers![count(link::INTERESTS_AT_ONCE), count(link::INTERESTS_A_SECOND)],
        ),
        ("patterns of one interest", numbers![bytes(hub::SUBSCRIPTION_BYTES_MAX as u64)]),
        (
            "different interests of all readers at one node",
            numbers![count(hub::NODE_SUBSCRIPTIONS_MAX as u64), count(hub::OWN_SUBSCRIPTIONS_MAX as u64)],
        ),
        ("what the link's thread does", numbers![count(hub::OPERATIONS_A_TURN as u64)]),
        ("search for patterns of an interest", numbers![count(hub::MISSES_EFFORT as u64)]),
        (
            "kernel texts that somebody wants",
            numbers![bytes(hub::NODE_TEXT_BYTES_MAX), bytes(hub::ALL_TEXT_BYTES_MAX)],
        ),
        ("connections | 65,536", numbers![count(hub::CONNECTIONS_MAX as u64)]),
        ("connections without a Hello", numbers![count(hub::HANDSHAKES_MAX as u64)]),
        ("frames that have begun", numbers![bytes(hub::UNFINISHED_BYTES_MAX as u64)]),
        // A node at a hub
        ("memory of one node:", numbers![bytes(hub::NODE_BYTES_MAX)]),
        ("the schemas of all nodes", numbers![bytes(hub::SCHEMAS_BYTES_MAX)]),
        ("what all nodes hold besides", numbers![bytes(hub::NODES_BYTES_MAX), bytes(hub::NODES_BYTES_EACH)]),
        ("a schema |", numbers![bytes(hub::SCHEMA_BYTES_MAX as u64), count(hub::SLOTS_MAX as u64)]),
        ("lanes of one node", numbers![count(hub::LANES_MAX as u64)]),
        ("generations of a lane | 8", numbers![count(hub::GENERATIONS_MAX as u64)]),
        ("rows of open blocks that one record", numbers![bytes(store::ROWS_RECORD_BYTES)]),
        ("ended blocks that wait", numbers![bytes(store::BLOCKS_WAITING_BYTES)]),
        ("past blocks of a lane that wait", numbers![count(hub::BLOCKS_UNMEASURED_MAX as u64)]),
        ("nodes that are known", numbers![count(hub::NODES_MAX as u64), count(hub::NODES_DROPPED as u64)]),
        // A node
        ("lanes at once", numbers![count(khz_gather::LANES_MAX as u64)]),
        ("memory of all lanes that readers open", numbers![bytes(khz_gather::LANES_BYTES_MIN.0)]),
        ("memory of the readers at this node", numbers![bytes(khz_gather::READERS_BYTES.0)]),
        (
            "lanes that live on",
            numbers![count(khz_gather::LINGERING_MAX as u64), seconds(khz_gather::LINGER)],
        ),
        ("requests that wait for the gather thread", numbers![count(khz_gather::REQUESTS_MAX as u64)]),
        (
            "a value of a label that describes the node",
            numbers![bytes(khz_parse::description::DESCRIPTION_VALUE_MAX)],
        ),
        (
            "a label `path` of a control group or a disk",
            numbers![bytes(khz_parse::description::DESCRIPTION_PATH_MAX)],
        ),
        // Files of history
        ("rows of a section", numbers![count(store::ROWS_MAX as u64)]),
        ("a column |", numbers![bytes(store::COLUMN_BYTES_MAX as u64)]),
        ("labels of a column", numbers![bytes(store::COLUMN_LABELS_MAX as u64)]),
        ("a layout, index, page or root |", numbers![format!("{} MiB", store::PART_BYTES_MAX >> 20)]),
        ("how far in the future a row may be", numbers![hours(store::FUTURE_MAX)]),
        ("pages of a directory", numbers![count(store::PAGE_NODES as u64), count(store::PAGES_MAX as u64)]),
        ("layouts that a writer remembers", numbers![bytes(store::LAYOUTS_REMEMBERED_BYTES as u64)]),
        ("layouts that readers keep decoded", numbers![count(store::LAYOUTS_DECODED as u64)]),
        ("buckets in one answer", numbers![count(store::BUCKETS_MAX as u64)]),
        ("files in one answer", numbers![count(store::FILES_IN_ANSWER as u64)]),
        ("bytes that all range queries hold", numbers![bytes(store::RANGE_BYTES.0)]),
        ("readings in the answer to a range query", numbers![count(store::RANGE_READINGS_MAX)]),
        ("points of a series in one answer", numbers![count(khz_model::RANGE_POINTS_MAX as u64)]),
        ("files that stay open between questions", numbers![count(store::FILES_KEPT_OPEN as u64)]),
        ("files that are merged at a time", numbers![count(store::FILES_MERGED as u64)]),
        ("further pieces of a unit", numbers![count(store::PIECES_MAX as u64)]),
        ("further pieces of an hour", numbers![count(store::PIECES_MAX_BEFORE_END as u64)]),
        ("hours of which a segment's rows", numbers![count(store::HOURS_AT_ONCE as u64)]),
        ("rows of a node that wait for their section", numbers![bytes(store::NODE_ROWS_BYTES as u64)]),
        // Both doors
        (
            "a client that reads slowly",
            numbers![bytes(http::TAKEN_BYTES_MIN), format!("{} s", http::STALL_TIMEOUT.as_secs())],
        ),
        ("a client that reads slowly", numbers![bytes(text::TAKEN_BYTES_MIN)]),
    ] {
        let (rows, numbers): (_, Vec<Number>) = (rows(what), numbers);
        assert!(!rows.is_empty(), "no row begins with '{what}'");
        for (number, expression) in numbers {
            let has_number = rows.iter().all(|row| row.contains(&number));
            assert!(has_number, "'{what}' has {number} in the code: {rows:?}");
            let name = constant(expression).expect("a constant");
            let has_name = rows.iter().all(|row| row.contains(&format!("`{name}`")));
            assert!(has_name, "'{what}' does not name {name}: {rows:?}");
        }
    }
    assert_eq!(bytes(link::SCHEMA_MAX), bytes(hub::SCHEMA_BYTES_MAX as u64), "hub and readers take the same");
}

#[test]
fn a_hub_has_room_for_all_that_its_own_limits_let_a_node_have() {
    let asked = hub::NODE_SUBSCRIPTIONS_MAX + hub::OWN_SUBSCRIPTIONS_MAX;
    assert!(khz_gather::CHANNELS_MAX >= asked, "readers and the hub may all ask for channels");
    assert!(link::INTERESTS_MAX >= asked + khz_gather::LANES_MAX);
    let lanes = khz_gather::LANES_MAX + khz_gather::CHANNELS_MAX;
    assert!(hub::LANES_MAX >= lanes && link::LANES_MAX >= lanes, "{lanes} lanes of one node");
    let own = channel::KEPT_MAX + khz_rules::limits::CHANNELS_MAX;
    assert!(hub::OWN_SUBSCRIPTIONS_MAX >= own, "{own} channels that are kept or of rules");
}

#[test]
fn the_text_around_the_tables_has_the_numbers_of_the_code() {
    for number in [
        format!("up to {} names", count(khz_model::choice::NAMED_MAX as u64)),
        format!("an answer takes {}", bytes(http::PAGES_BYTES)),
        format!("turns of {}", count(hub::OPERATIONS_A_TURN as u64)),
        format!("has at most {}, it stays", bytes(hub::LANE_BYTES_KEPT)),
        format!("{} open files a user", count(mount::HANDLES_PER_USER_MAX as u64)),
        format!("{} of kernel texts", bytes(mount::TEXTS_BYTES_MAX as u64)),
        format!("{} of texts that", bytes(mount::PINNED_PER_USER_MAX as u64)),
        format!("{} requests that wait", count(mount::WAITING_MAX as u64)),
        format!("{} names", count(mount::NAMES_MAX as u64)),
    ] {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(one_line(TEXT).contains(&one_line(&number)), "the text does not say '{number}'");
    }
}
