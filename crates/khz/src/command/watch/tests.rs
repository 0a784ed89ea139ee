//! Whole outputs of `khz watch`, for streams that are made here.

use std::time::Duration;

use super::*;
use crate::show::order::Sort;
use crate::show::outcome::Done;
use khz_ask::{Cell, Column, Row};
use khz_model::{Notice, RowNumber};

fn rows_of_n1() -> Vec<Piece> {
    let column = |series: &str, counter, unit: &str, places| Column {
        series: series.to_owned(),
        counter,
        unit: unit.to_owned(),
        places,
    };
    let columns = vec![column("net.rx_bytes[eth0]", true, "bytes", 0), column("load.1m", false, "count", 2)];
    let time = |millis: u64| Nanos::from_millis(1_763_690_000_000 + millis);
    let row = |millis, bytes: Option<u64>, load| Row {
        time: time(millis),
        clock: time(millis),
        cells: vec![
            bytes.map_or(Cell::Absent("instance gone".to_owned()), |units| Cell::Present {
                units: units.into(),
                places: 0,
            }),
            Cell::Present { units: load, places: 2 },
        ],
    };
    let node = || "n1".to_owned();
    vec![
        Piece::Columns { node: node(), rate: "10Hz".to_owned(), columns },
        Piece::Rows {
            node: node(),
            lost: 0,
            rows: vec![row(0, Some(1000), 52), row(100, Some(2000), 52)],
            last: None,
        },
        Piece::Rows {
            node: node(),
            lost: 2,
            rows: vec![row(400, Some(500), 61), row(500, None, 61)],
            last: None,
        },
    ]
}

fn screen<W: Write>(size: (usize, usize), order: Order, out: &mut W) -> Screen<'_, W> {
    Screen::new(move || Some(size), Look::plain(None), order, out)
}

fn printed(watch: Watch, as_json: bool, terminal: Option<(usize, usize)>) -> (String, Outcome) {
    let mut pieces = rows_of_n1().into_iter();
    let mut out = Vec::new();
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let outcome = match terminal {
        Some(size) => watch.follow(next, &mut screen(size, Order::default(), &mut out), &mut Vec::new()),
        None => onto(watch, if as_json { Way::Json } else { Way::Lines }, &mut out, next),
    };
    (String::from_utf8(out).unwrap(), outcome)
}

#[test]
fn a_row_is_a_line_and_unknown_is_never_a_number() {
    let (text, outcome) = printed(Watch::default(), false, None);
    assert_eq!(
        text,
        "# n1 at 10Hz\n\
         # time\tnode\tnet.rx_bytes[eth0] (bytes/s)\tload.1m (count)\n\
         1763690000.100000000\tn1\t10000\t0.52\n\
         # n1: rows lost since the start: 2\n\
         1763690000.400000000\tn1\tunknown\t0.61\n\
         1763690000.500000000\tn1\tabsent\t0.61\n"
    );
    assert!(matches!(outcome, Err(Failure::Work(_))), "the feed ended by itself");
}

#[test]
fn json_is_one_object_a_row() {
    let (text, _) = printed(Watch::default(), true, None);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            r#"{"node":"n1","time":"1763690000.100000000","rate":"10Hz","lost":0,"values":{"net.rx_bytes[eth0]":"10000","load.1m":"0.52"}}"#,
            r#"{"node":"n1","time":"1763690000.400000000","rate":"10Hz","lost":2,"values":{"net.rx_bytes[eth0]":{"unknown":"the counter went backwards"},"load.1m":"0.61"}}"#,
        ]
    );
    assert!(lines[2].contains(r#""net.rx_bytes[eth0]":{"absent":"instance gone"}"#));
}

#[test]
fn raw_prints_the_totals_and_the_first_row() {
    let (text, _) = printed(Watch { raw: true, count: Some(1), ..Watch::default() }, false, None);
    assert_eq!(
        text,
        "# n1 at 10Hz\n# time\tnode\tnet.rx_bytes[eth0] (bytes)\tload.1m (count)\n1763690000.000000000\tn1\t1000\t0.52\n"
    );
}

#[test]
fn it_stops_after_the_rows_that_were_asked_for() {
    let (text, outcome) = printed(Watch { count: Some(1), ..Watch::default() }, true, None);
    assert_eq!(text.lines().count(), 1);
    assert_eq!(outcome.unwrap(), Done::Wholly);
}

#[test]
fn a_watch_that_has_lost_rows_ends_with_that() {
    let (_, outcome) = printed(Watch { count: Some(2), ..Watch::default() }, true, None);
    assert_eq!(outcome.unwrap(), Done::Lacking { sentence: "rows that are missing: 2".to_owned() });
}

#[test]
fn ticks_before_a_node_counts_again_are_no_lost_rows_and_are_named_if_they_last_a_second() {
    let numbered = |seconds: u64, epoch| {
        let mut rows = rows_of_n1().swap_remove(1);
        if let Piece::Rows { rows, last, .. } = &mut rows {
            *last = Some(RowNumber { epoch, number: 7 });
            for row in rows {
                (row.time.0, row.clock.0) = (row.time.0 + seconds * 1_000_000_000, seconds * 1_000_000_000);
            }
        }
        rows
    };
    let outcome = |pieces: Vec<Piece>| {
        let rows = pieces.iter().filter(|piece| matches!(piece, Piece::Rows { .. })).count();
        let count = Some(2 * rows as u64);
        let (mut pieces, mut out) = (pieces.into_iter(), Vec::new());
        let watch = Watch { raw: true, count, ..Watch::default() };
        let outcome =
            onto(watch, Way::Json, &mut out, || Ok(pieces.next().map(|piece| vec![piece]))).unwrap();
        (String::from_utf8(out).unwrap(), outcome)
    };
    let columns = || rows_of_n1().swap_remove(0);
    let (text, lacking) = outcome(vec![columns(), numbered(0, 5), numbered(3, 6)]);
    assert!(text.lines().all(|line| line.contains(r#""lost":0"#)), "{text}");
    // The last row before is of 0.1 s, and the rate is 10 Hz.
    let sentence = "for 28 ticks there is no row: nodes or their hubs were away".to_owned();
    assert_eq!(lacking, Done::Lacking { sentence: sentence.clone() });
    let killed = |pieces| outcome(pieces).1;
    assert_eq!(outcome(vec![columns(), numbered(0, 5), numbered(1, 6)]).1, Done::Wholly, "8 ticks");
    assert_eq!(outcome(vec![columns(), numbered(0, 5), numbered(3, 5)]).1, Done::Wholly, "it was slow");
    // An agent with a ring goes on with its numbers.
    let changed = |state: &str| Piece::Change {
        nodes: vec!["n1".to_owned()],
        state: state.to_owned(),
        since: "0".to_owned(),
        text: format!("is {state}"),
    };
    let away = |seconds, lost| {
        let mut after = numbered(seconds, 5);
        if let Piece::Rows { lost: rows, .. } = &mut after {
            *rows = lost;
        }
        // The last row before comes after the word.
        vec![columns(), changed("down"), numbered(0, 5), changed("up"), after]
    };
    assert_eq!(killed(away(3, 0)), Done::Lacking { sentence: sentence.clone() });
    assert_eq!(killed(away(1, 0)), Done::Wholly, "8 ticks");
    let lost = "rows that are missing: 28".to_owned();
    assert_eq!(killed(away(3, 28)), Done::Lacking { sentence: lost }, "they are named once");
}

#[test]
fn it_stops_when_its_time_is_over() {
    let (text, outcome) = printed(Watch { until: Some(Instant::now()), ..Watch::default() }, true, None);
    assert_eq!((text.as_str(), outcome.unwrap()), ("", Done::Wholly));
}

#[test]
fn lost_rows_are_counted_once_before_the_first_row_after_each_loss() {
    let after = |lost| {
        let mut rows = rows_of_n1().swap_remove(2);
        if let Piece::Rows { lost: present, .. } = &mut rows {
            *present = lost;
        }
        rows
    };
    let mut pieces = [rows_of_n1().swap_remove(0), after(1), after(0), after(3)].into_iter();
    let mut out = Vec::new();
    let watch = Watch { raw: true, ..Watch::default() };
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let _ = watch.follow(next, &mut Lines::new(false, &mut out), &mut Vec::new());
    let text = String::from_utf8(out).unwrap();
    let is_title = |line: &&str| line.starts_with("# n1 at ") || line.starts_with("# time");
    let first = |line: &'_ str| line.split('\t').next().map(str::to_owned);
    let kinds: Vec<String> = text.lines().filter(|line| !is_title(line)).filter_map(first).collect();
    assert_eq!(
        kinds,
        [
            "# n1: rows lost since the start: 1",
            "1763690000.400000000",
            "1763690000.500000000",
            "1763690000.400000000",
            "1763690000.500000000",
            "# n1: rows lost since the start: 4",
            "1763690000.400000000",
            "1763690000.500000000",
        ],
        "{text}"
    );
}

#[test]
fn other_columns_hide_no_row_and_forget_no_loss() {
    let [columns, rows, lossy] = <[Piece; 3]>::try_from(rows_of_n1()).unwrap();
    let mut other = columns.clone();
    if let Piece::Columns { columns, .. } = &mut other {
        columns[0].series = "net.rx_bytes[eth1]".to_owned();
    }
    let later = |millis: u64| {
        let mut rows = rows.clone();
        if let Piece::Rows { rows, .. } = &mut rows {
            rows.iter_mut().for_each(|row| row.clock.0 += millis * 1_000_000);
        }
        rows
    };
    let pieces = [columns, rows.clone(), lossy, other, later(1_000), later(2_000)];
    let mut pieces = pieces.into_iter();
    let mut out = Vec::new();
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let _ = Watch::default().follow(next, &mut Lines::new(true, &mut out), &mut Vec::new());
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lost: Vec<u64> = lines.iter().map(|line| line["lost"].as_u64().unwrap()).collect();
    assert_eq!(lost, [0, 2, 2, 2, 2, 2, 2], "only the very first row is not shown: {lines:?}");
}

/// The same rows of two nodes, with the same notice before and after.
fn two_nodes() -> Vec<Piece> {
    let notice = || Piece::Notice {
        nodes: vec!["n2".to_owned(), "n1".to_owned()],
        text: "1000Hz is above the ceiling".to_owned(),
        is_refusal: false,
    };
    let other = rows_of_n1().into_iter().map(|feed| match feed {
        Piece::Columns { rate, columns, .. } => Piece::Columns { node: "n2".to_owned(), rate, columns },
        Piece::Rows { lost, rows, last, .. } => Piece::Rows { node: "n2".to_owned(), lost, rows, last },
        other => other,
    });
    let mut pieces = vec![notice()];
    for (one, two) in rows_of_n1().into_iter().zip(other) {
        pieces.extend([one, two]);
    }
    pieces.push(notice());
    pieces
}

#[test]
fn several_nodes_are_rows_of_one_screen_and_a_notice_is_printed_once() {
    let (mut out, mut remarks) = (Vec::new(), Vec::new());
    let mut pieces = two_nodes().into_iter();
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let outcome =
        Watch::default().follow(next, &mut screen((80, 24), Order::default(), &mut out), &mut remarks);
    assert!(outcome.is_err(), "the feed ended by itself");
    assert_eq!(String::from_utf8(remarks).unwrap(), "khz: n[1-2]: 1000Hz is above the ceiling\n");
    let text = String::from_utf8(out).unwrap();
    assert_eq!(
        text.rsplit("\x1b[J").next().unwrap(),
        "2 nodes at 10Hz   2025-11-21 01:53:20.500 UTC   4 rows lost\n\
         NODE  net.rx_bytes[eth0]  load.1m\n\
         n1                absent     0.61\n\
         n2                absent     0.61\n"
    );
}

#[test]
fn that_rows_come_at_another_rate_than_requested_is_said_once() {
    let mut remarks = Vec::new();
    let mut pieces = two_nodes().into_iter().filter(|piece| !matches!(piece, Piece::Notice { .. }));
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let watch = Watch { asked: Some("7Hz".parse().unwrap()), ..Watch::default() };
    let _ = watch.follow(next, &mut Lines::new(true, &mut Vec::new()), &mut remarks);
    let said = String::from_utf8(remarks).unwrap();
    assert!(said.starts_with("khz: rows come at 10Hz instead of 7Hz: up to its base rate"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_notice_is_printed_again_after_another_one() {
    let notice =
        |text: &str| Piece::Notice { nodes: vec!["n1".to_owned()], text: text.to_owned(), is_refusal: false };
    let notices = ["slow", "slow", "as asked", "slow"].map(notice);
    let (mut pieces, mut remarks) = (notices.into_iter(), Vec::new());
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let _ = Watch::default().follow(next, &mut Lines::new(true, &mut Vec::new()), &mut remarks);
    let printed = String::from_utf8(remarks).unwrap();
    assert_eq!(printed, "khz: n1: slow\nkhz: n1: as asked\nkhz: n1: slow\n");
}

/// n1 goes and comes back, and so does the server; rows come before and after.
fn changes() -> Vec<Piece> {
    let change = |state: &str, text: &str| Piece::Change {
        nodes: vec!["n1".to_owned()],
        state: state.to_owned(),
        since: "1763690591.500000000".to_owned(),
        text: text.to_owned(),
    };
    let server = |is_silent, seconds| Piece::Server {
        server: "http://hub1:7070".to_owned(),
        is_silent,
        span: Duration::from_secs(seconds),
    };
    let mut pieces = rows_of_n1();
    let last = pieces.pop();
    pieces.extend([change("down", "is down since 02:03:11 UTC: silent for too long"), server(true, 3)]);
    pieces.extend([server(false, 75), change("up", "is back since 02:03:11 UTC")]);
    pieces.extend(last);
    pieces
}

#[test]
fn a_change_is_printed_once_on_stderr_and_as_an_event() {
    let (mut out, mut remarks) = (Vec::new(), Vec::new());
    let mut pieces = changes().into_iter();
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let _ = Watch::default().follow(next, &mut Lines::new(true, &mut out), &mut remarks);
    assert_eq!(
        String::from_utf8(remarks).unwrap(),
        "khz: n1 is down since 02:03:11 UTC: silent for too long\n\
         khz: http://hub1:7070 has not been heard for 3 s; rows come when it is back\n\
         khz: http://hub1:7070 is back; it was not heard for 1m\n\
         khz: n1 is back since 02:03:11 UTC\n"
    );
    let out = String::from_utf8(out).unwrap();
    let events: Vec<&str> = out.lines().filter(|line| line.contains("\"event\"")).collect();
    assert_eq!(
        events,
        [
            r#"{"event":"node","node":"n1","state":"down","since":"1763690591.500000000"}"#,
            r#"{"event":"server","server":"http://hub1:7070","state":"silent","silent_seconds":"3.000000000"}"#,
            r#"{"event":"server","server":"http://hub1:7070","state":"back","silent_seconds":"75.000000000"}"#,
            r#"{"event":"node","node":"n1","state":"up","since":"1763690591.500000000"}"#,
        ]
    );
}

#[test]
fn on_a_screen_the_numbers_of_a_node_that_is_gone_are_marked_until_it_is_back() {
    let drawn_of = |pieces: Vec<Piece>| {
        let mut out = Vec::new();
        let mut pieces = pieces.into_iter();
        let next = || Ok(pieces.next().map(|feed| vec![feed]));
        let _ =
            Watch::default().follow(next, &mut screen((80, 24), Order::default(), &mut out), &mut Vec::new());
        String::from_utf8(out).unwrap()
    };
    let all = changes();
    let gone = drawn_of(all[..3].to_vec());
    let last = gone.rsplit("\x1b[J").next().unwrap();
    assert!(last.starts_with("n1 at 10Hz   2025-11-21 01:53:20.100 UTC   down\n"), "{last}");
    assert!(last.contains("load.1m"), "the table is there: {last}");
    let back = drawn_of(all);
    let last = back.rsplit("\x1b[J").next().unwrap();
    assert!(last.starts_with("n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost\n"), "{last}");
}

#[test]
fn nodes_with_the_same_columns_share_a_header() {
    let mut out = Vec::new();
    let mut pieces = two_nodes().into_iter();
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let watch = Watch { count: Some(4), ..Watch::default() };
    watch.follow(next, &mut Lines::new(false, &mut out), &mut Vec::new()).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "# n1 at 10Hz\n\
         # time\tnode\tnet.rx_bytes[eth0] (bytes/s)\tload.1m (count)\n\
         1763690000.100000000\tn1\t10000\t0.52\n\
         1763690000.100000000\tn2\t10000\t0.52\n\
         # n1: rows lost since the start: 2\n\
         1763690000.400000000\tn1\tunknown\t0.61\n\
         1763690000.500000000\tn1\tabsent\t0.61\n"
    );
}

#[test]
fn the_screen_fits_the_terminal() {
    let (text, _) = printed(Watch::default(), false, Some((80, 24)));
    let last = text.rsplit("\x1b[J").next().unwrap();
    assert_eq!(
        last,
        "n1 at 10Hz   2025-11-21 01:53:20.500 UTC   2 rows lost\n\
         SERIES               NOW  TREND\n\
         net.rx_bytes[eth0]  absent: instance gone\n\
         load.1m             0.61  ▁█\n"
    );
    let (narrow, _) = printed(Watch::default(), false, Some((20, 3)));
    let plain = narrow.rsplit("\x1b[J").next().unwrap();
    assert!(plain.lines().count() <= 3 && plain.lines().all(|line| line.chars().count() <= 20), "{plain}");
}

#[test]
fn a_channel_that_was_refused_until_the_end_has_not_ended_well_if_no_row_came() {
    let notice = |text: &str, is_refusal| Piece::Notice {
        nodes: vec!["n1".to_owned()],
        text: text.to_owned(),
        is_refusal,
    };
    let end = |pieces: Vec<Piece>| {
        let watch = Watch { is_past: true, ..Watch::default() };
        let mut feed = Some(pieces);
        onto(watch, Way::Lines, &mut Vec::new(), || Ok(feed.take()))
    };
    let refused = || notice("channel hot: it has no memory left", true);
    assert!(matches!(end(vec![refused()]), Err(Failure::Work(text)) if text.ends_with("by n1")));
    assert!(matches!(end(vec![refused(), notice(Notice::SENDS_NOW, false)]), Ok(Done::Wholly)));
    let again = Piece::Again { away: Duration::ZERO };
    assert!(!matches!(end(vec![refused(), again]), Err(Failure::Work(_))));
    let mut rows = rows_of_n1();
    rows.truncate(2);
    rows.insert(0, refused());
    assert!(matches!(end(rows), Ok(Done::Wholly)));
}

/// What is on the screen at the end.
fn picture_of(pieces: Vec<Piece>, size: (usize, usize), order: Order) -> String {
    let (mut out, mut pieces) = (Vec::new(), pieces.into_iter());
    let next = || Ok(pieces.next().map(|feed| vec![feed]));
    let _ = Watch::default().follow(next, &mut screen(size, order, &mut out), &mut Vec::new());
    String::from_utf8(out).unwrap().rsplit("\x1b[J").next().unwrap().to_owned()
}

#[test]
fn an_order_ranks_the_series_of_all_nodes_and_what_is_unknown_comes_last() {
    let ranked = picture_of(two_nodes(), (80, 24), Order { sort: Some(Sort::Value), top: Some(3) });
    assert_eq!(
        ranked,
        "2 nodes at 10Hz   2025-11-21 01:53:20.500 UTC   4 rows lost   3 of 4 series\n\
         NODE  SERIES                 NOW  TREND\n\
         n1    load.1m               0.61  ▁█\n\
         n2    load.1m               0.61  ▁█\n\
         n1    net.rx_bytes[eth0]  absent\n"
    );
}

#[test]
fn a_series_of_several_nodes_has_a_trend() {
    let pieces = two_nodes().into_iter().map(|mut piece| {
        match &mut piece {
            Piece::Columns { columns, .. } => drop(columns.remove(0)),
            Piece::Rows { rows, .. } => rows.iter_mut().for_each(|row| drop(row.cells.remove(0))),
            _ => {}
        }
        piece
    });
    assert_eq!(
        picture_of(pieces.collect(), (80, 24), Order::default()),
        "2 nodes at 10Hz   2025-11-21 01:53:20.500 UTC   4 rows lost\n\
         NODE  load.1m  TREND\n\
         n1       0.61  ▁█\n\
         n2       0.61  ▁█\n"
    );
}

#[test]
fn a_screen_fits_every_terminal_also_one_that_changes_its_size() {
    use std::cell::Cell;
    for order in [Order::default(), Order { sort: Some(Sort::Name), top: None }] {
        for columns in (1..120).chain([500]) {
            let text = picture_of(two_nodes(), (columns, 24), order);
            assert!(text.lines().all(|line| crate::show::fit::columns(line) <= columns), "{columns}: {text}");
        }
        let size = Cell::new((80, 24));
        let (mut out, mut pieces) = (Vec::new(), two_nodes().into_iter());
        let mut screen = Screen::new(|| Some(size.get()), Look::plain(None), order, &mut out);
        let next = || {
            size.set((size.get().0 - 5, 24));
            Ok(pieces.next().map(|feed| vec![feed]))
        };
        let _ = Watch::default().follow(next, &mut screen, &mut Vec::new());
        drop(screen);
        let text = String::from_utf8(out).unwrap();
        let last = text.rsplit("\x1b[2J").next().unwrap();
        assert!(text.contains("\x1b[H\x1b[2J"), "the old lines may be anywhere: {text:?}");
        let plain = last.rsplit("\x1b[J").next().unwrap();
        assert!(plain.lines().all(|line| crate::show::fit::columns(line) <= size.get().0 + 5), "{plain}");
    }
}

#[test]
fn foreign_names_move_no_cursor_of_the_screen() {
    let mut pieces = rows_of_n1();
    if let Piece::Columns { columns, .. } = &mut pieces[0] {
        columns[1].series = "fs.size[/a\u{202e}\x1b[2J名]".to_owned();
    }
    let text = picture_of(pieces, (60, 24), Order::default());
    assert!(text.contains("fs.size[/a\\u202e?[2J名]"), "{text}");
}
