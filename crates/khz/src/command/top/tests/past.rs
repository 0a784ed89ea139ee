//! The past: which moments are shown, out of which rows, and who was down then.

use std::collections::BTreeMap;
use std::path::PathBuf;

use khz_block::trace::LaneHead;
use khz_block::{Encoder, HEADER_BYTES, SchemaEncoder};
use khz_model::{Series, Stamp};
use khz_record::{Recorder, Recording, Rotation};

use super::*;
use crate::command::top::app::Question;
use crate::command::top::past::{Recorded, Source, ask, bytes_of};
use crate::role::gatherer;

/// A moment, in seconds after [`BEGIN`].
fn at(seconds: i64) -> Nanos {
    Nanos((BEGIN as i64 + seconds) as u64 * 1_000_000_000)
}

/// The moment that is shown, in seconds after [`BEGIN`].
fn shown(app: &App) -> i64 {
    app.moment().map_or(i64::MIN, |moment| (moment.0 / 1_000_000_000) as i64 - BEGIN as i64)
}

/// A row with this number, gathered so long after [`BEGIN`].
fn numbered_row(node: &str, seconds: i64, number: i64, made: &[Made]) -> Piece {
    let mut piece = row(node, 0, number as u64, made);
    if let Piece::Rows { rows, .. } = &mut piece {
        (rows[0].time, rows[0].clock) = (at(seconds), at(seconds));
    }
    piece
}

/// A row of a list. Counters grow with its time.
fn list_row(node: &str, seconds: i64, made: &[Made]) -> Piece {
    numbered_row(node, seconds, seconds + 10_000, made)
}

/// Rows of nodes, one a second, in these spans.
fn tape_of(nodes: &[(&str, std::ops::Range<i64>)]) -> Tape {
    let mut tape = Tape::default();
    for (node, seconds) in nodes {
        tape.take(0, &columns(node, "1Hz", &OF_LIST));
        seconds.clone().for_each(|second| tape.take(0, &list_row(node, second, &OF_LIST)));
    }
    tape
}

fn asked(app: &App) -> Option<Sought> {
    app.question.as_ref().map(|question| question.sought)
}

fn answer(app: &mut App, tape: Tape) {
    let question = app.question.clone().unwrap();
    app.answer(&question, Ok(tape));
}

/// The state and the line of a node in the picture of a list.
fn line(app: &App, node: &str) -> String {
    let picture = picture(app, 100, 24);
    let line = picture.lines().find(|line| line.split(' ').next() == Some(node));
    line.unwrap_or_default().to_owned()
}

#[test]
fn a_dead_nodes_last_row_is_no_moment_that_the_list_has_seen() {
    // Its last row came when the list began: it is ten minutes older than all others.
    let mut app = list_app(LOOK);
    app.take(0, &list_row("n3", -600, &OF_LIST));
    for key in [Action::Minute(-1), Action::Time] {
        match key {
            Action::Time => app.go_to(at(-30)),
            key => _ = app.act(key),
        }
        assert!(asked(&app).is_some() && app.past.is_none(), "n1 would seem to be down");
        app.act(Action::Live);
    }
    // Row by row: all rows that were seen, and then a question.
    let mut steps = 0;
    while app.question.is_none() {
        assert!(line(&app, "n1").contains("20%") || shown(&app) < 2, "{}", picture(&app, 100, 24));
        app.act(Action::Step(-1));
        steps += 1;
    }
    assert_eq!((steps, shown(&app)), (10, 0));
    answer(&mut app, tape_of(&[("n1", -60..1), ("n2", -60..1)]));
    assert_eq!(shown(&app), -1);
    assert!(line(&app, "n1").contains("20%"), "{}", picture(&app, 100, 24));
}

#[test]
fn slow_rows_from_before_are_no_moments_of_a_fast_node() {
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), Some("n1".into()), true);
    app.begin_at_rate(100);
    let slow: [Made; 1] = [("uptime.up", false, 0, |row| i128::from(row))];
    app.take(1, &columns("n1", "1Hz", &slow));
    (-60..1).for_each(|second| _ = app.take(1, &list_row("n1", second, &slow)));
    app.take(0, &columns("n1", "100Hz", &FAST));
    (1..5).for_each(|number| _ = app.take(0, &row("n1", number * 10, number, &FAST)));
    (0..3).for_each(|_| _ = app.act(Action::Step(-1)));
    assert!(app.question.is_none() && app.past.is_some());
    app.act(Action::Step(-1));
    assert!(asked(&app).is_some(), "CPU and memory would be unknown at {:?}", app.moment());
}

#[test]
fn at_the_edge_of_what_is_loaded_no_node_is_down() {
    let mut app = list_app(LOOK);
    app.go_to(at(-500));
    // n2 sends its rows 900 ms after n1.
    let mut tape = tape_of(&[("n1", -560..-480)]);
    tape.take(0, &columns("n2", "1Hz", &OF_LIST));
    for second in -560..-480 {
        let mut piece = list_row("n2", second, &OF_LIST);
        if let Piece::Rows { rows, .. } = &mut piece {
            rows[0].time.0 += 900_000_000;
        }
        tape.take(0, &piece);
    }
    tape.note_seen("n2", at(-561));
    tape.asked(Nanos(at(-560).0 - 500_000_000), at(-480));
    answer(&mut app, tape);
    while app.question.is_none() {
        assert!(line(&app, "n2").contains("50%"), "{}", picture(&app, 100, 24));
        app.act(Action::Step(-1));
    }
    assert!(shown(&app) >= -560);
}

#[test]
fn a_node_that_did_not_exist_at_a_moment_has_not_its_state_of_now() {
    let mut app = list_app(LOOK);
    // n3 has been down since -125, n4 left at -700, n5 came at -100.
    app.state("n4", "left", Some(at(-700)));
    app.state("n5", "up", Some(at(-100)));
    app.go_to(at(-500));
    let mut tape = tape_of(&[("n1", -560..-480)]);
    tape.note_seen("n6", at(-3_000));
    answer(&mut app, tape);
    // Whether it was there is not known.
    for node in ["n3", "n5", "n7"] {
        assert!(line(&app, node).contains("no rows"), "{}", picture(&app, 100, 24));
    }
    assert!(line(&app, "n4").contains("left 3m 20s"), "{}", picture(&app, 100, 24));
    assert!(line(&app, "n6").contains("down 41m"), "{}", picture(&app, 100, 24));
    assert!(line(&app, "n1").contains("20%"), "{}", picture(&app, 100, 24));
    app.act(Action::Live);
    app.go_to(at(-500));
    let mut tape = tape_of(&[("n1", -560..-480)]);
    tape.note_seen("n3", at(-520));
    tape.know_all();
    answer(&mut app, tape);
    let all = picture(&app, 100, 24);
    assert!(all.contains("3 nodes, 2 not up"), "{all}");
    assert!(line(&app, "n3").contains("down 20s") && line(&app, "n4").contains("left"), "{all}");
    assert!(line(&app, "n5").is_empty(), "{all}");
    // Since its state of now began, it says what a node was.
    app.act(Action::Live);
    app.go_to(at(-110));
    let mut tape = tape_of(&[("n1", -170..-100)]);
    tape.know_all();
    answer(&mut app, tape);
    assert!(line(&app, "n3").contains("down 15s"), "{}", picture(&app, 100, 24));
}

#[test]
fn since_when_a_node_was_odd_is_said_of_the_past_too() {
    let mut app = list_app(LOOK);
    // Live: it was odd from its first row on, so perhaps for longer.
    assert!(line(&app, "n7").contains("cpu+ >8.0s"), "{}", picture(&app, 100, 24));
    (0..3).for_each(|_| _ = app.act(Action::Step(-1)));
    assert!(line(&app, "n7").contains("cpu+ >5.0s"), "{}", picture(&app, 100, 24));
    app.act(Action::Live);
    app.go_to(at(-500));
    let names: Vec<String> = (1..=6).map(|number| format!("n{number}")).collect();
    let load = |is_odd: bool| -> [Made; 1] { [("load.1m", false, 0, if is_odd { |_| 50 } else { |_| 1 })] };
    let mut tape = Tape::default();
    for node in &names {
        tape.take(0, &columns(node, "1Hz", &load(false)));
        for second in -560..-480 {
            tape.take(0, &list_row(node, second, &load(node == "n2" && second >= -530)));
        }
    }
    answer(&mut app, tape);
    assert!(line(&app, "n2").contains("load+ 30s"), "{}", picture(&app, 100, 24));
    (0..40).for_each(|_| _ = app.act(Action::Step(-1)));
    assert!(!line(&app, "n2").contains("load"), "{}", picture(&app, 100, 24));
}

#[test]
fn what_is_the_matter_with_live_rows_is_not_said_of_the_past() {
    let text = || "rows come when one of these nodes is back".to_owned();
    let notice = || Piece::Notice { nodes: vec!["n1".into()], text: text(), is_refusal: false };
    let mut app = node_app(LOOK);
    app.take(0, &notice());
    assert!(picture(&app, 80, 24).contains("is back"));
    let mut app = node_app(LOOK);
    app.act(Action::Minute(-1));
    app.take(0, &notice());
    answer(&mut app, tape_of(&[("n1", -120..-30)]));
    app.take(0, &notice());
    assert!(!picture(&app, 80, 24).contains("is back"), "{}", picture(&app, 80, 24));
}

#[test]
fn rows_that_were_seen_at_another_rate_are_still_there() {
    let mut app = node_app(LOOK);
    app.act(Action::Rate(1));
    assert!(picture(&app, 80, 24).contains("CPU 47%"), "{}", picture(&app, 80, 24));
    // What khz has in its memory comes again, and then new rows.
    app.take(0, &columns("n1", "1Hz", &FAST));
    for second in [-2, -1, 0, 1, 2, 3, 4] {
        app.take(0, &numbered_row("n1", second, second.max(0) * 10, &FAST));
    }
    app.filled();
    let mut times = Vec::new();
    while app.question.is_none() {
        times.push(app.moment().unwrap_or_default().0.wrapping_sub(at(0).0) as i64 / 100_000_000);
        app.act(Action::Step(-1));
    }
    let seen: Vec<i64> = [40, 30].into_iter().chain((0..30).rev()).chain([-10, -20]).collect();
    assert_eq!(times, seen, "in tenths of a second");
    let mut app = node_app(LOOK);
    app.act(Action::Rate(100));
    assert!(app.refuse("readers have 10 Hz"));
    app.act(Action::Step(-1));
    assert!(app.question.is_none() && app.past.is_some());
}

#[test]
fn while_the_khz_was_away_nothing_was_seen_and_nobody_was_down() {
    for piece in [
        Piece::Gone { text: "it broke off".into(), is_there: false },
        Piece::Server {
            server: "http://hub".into(),
            is_silent: true,
            span: std::time::Duration::from_secs(3),
        },
    ] {
        let mut app = list_app(LOOK);
        app.take(0, &piece);
        for second in 300..310 {
            (1..=12).for_each(|node| _ = app.take(0, &list_row(&format!("n{node}"), second, &OF_LIST)));
        }
        app.go_to(at(200));
        assert_eq!(asked(&app), Some(Sought::At(at(200))));
        app.act(Action::Live);
        while app.question.is_none() {
            assert!(!line(&app, "n1").contains("down"), "{}", picture(&app, 100, 24));
            app.act(Action::Step(-1));
        }
        assert!(shown(&app) >= 300, "{}", shown(&app));
        app.act(Action::Live);
        // What was seen before is still there, and the next row after it is asked for.
        app.go_to(at(8));
        assert_eq!((asked(&app), shown(&app)), (None, 8));
        app.act(Action::Step(1));
        app.act(Action::Step(1));
        assert_eq!(asked(&app), Some(Sought::After(at(9))));
    }
}

/// A recording that is removed after the test.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Records rows of nodes, one a second, in these spans, which consist of tens.
fn record(name: &str, nodes: &[(&str, &[(u64, u64)])]) -> (File, Source) {
    record_at(name, nodes, |_, row| row)
}

/// The same, with the second of each row of a node.
fn record_at(
    name: &str,
    nodes: &[(&str, &[(u64, u64)])],
    second_of: impl Fn(u32, u64) -> u64,
) -> (File, Source) {
    let file = File(std::env::temp_dir().join(format!("khz-top-{name}-{}.khzt", std::process::id())));
    let mut recorder = Recorder::create(&file.0, Rotation::default(), "{}".into(), Nanos(0)).unwrap();
    let metrics = gatherer::metrics();
    let metric = metrics.iter().find(|metric| &*metric.name == "load.1m").unwrap();
    let mut blocks: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    for (number, (node, spans)) in (1..).zip(nodes) {
        let head = LaneHead { lane: number, node, name: "base", epoch: 7, period: 1_000_000_000 };
        recorder.lane(&head).unwrap();
        let mut schema = Vec::new();
        let series = Series { metric: metric.clone(), instance: None };
        SchemaEncoder::new().append(&series, &mut schema).unwrap();
        recorder.schema(number, 1, 0, &schema).unwrap();
        for (from, to) in *spans {
            (*from..*to).step_by(10).for_each(|first| _ = blocks.insert((first, number), number));
        }
    }
    for (first, lane) in blocks.into_keys() {
        let mut encoder = Encoder::new(lane as u16, 1, Nanos::SECOND);
        encoder.resume(first, 1);
        let mut bytes = Vec::new();
        for row in first..first + 10 {
            let boot = Nanos::from_secs(1_000 + second_of(lane, row));
            let stamp = Stamp { boot, real_offset: at(-1_000).0 as i64 };
            match row == first {
                true => encoder.key_row(stamp, 1, |_| (0, 100), &mut bytes),
                false => encoder.delta_row(stamp, 0..1, |_| (0, 100), &mut bytes),
            };
        }
        bytes[..HEADER_BYTES].copy_from_slice(&encoder.close().unwrap().to_bytes());
        recorder.block(lane, &bytes).unwrap();
    }
    recorder.finish("{}").unwrap();
    let source = source_of(&file);
    (file, source)
}

fn source_of(file: &File) -> Source {
    let files = vec![file.0.clone()];
    let span = khz_record::Survey::of(&Recording::of(&files)).unwrap().span().unwrap();
    Source::Recording(Recorded::new(files.clone(), bytes_of(&files), span))
}

fn app_of(source: &Source, node: Option<&str>) -> App {
    let mut app = App::new(LOOK, Origin::Recording, "run.khzt".into(), node.map(str::to_owned), true);
    if let Source::Recording(recorded) = source {
        app.span = Some(recorded.span());
    }
    app
}

/// Answers what is asked, as the loop does.
fn answered(app: &mut App, source: &Source) {
    if let Some(question) = app.question.clone() {
        app.answer(&question, ask(source, None, &question));
    }
}

/// Where this key leads, again and again, until nothing changes.
fn walk(app: &mut App, source: &Source, key: Action) -> Vec<i64> {
    let mut moments = vec![shown(app)];
    loop {
        app.act(key);
        answered(app, source);
        if moments.last() == Some(&shown(app)) {
            return moments;
        }
        moments.push(shown(app));
    }
}

#[test]
fn steps_through_a_recording_come_to_each_row_once_and_end_at_its_ends() {
    let spans: [(&str, &[(u64, u64)]); 3] =
        [("n1", &[(0, 200), (600, 660)]), ("n2", &[(0, 50), (500, 540)]), ("n3", &[(150, 160)])];
    let (_file, source) = record("steps", &spans);
    for node in [None, Some("n1"), Some("n2"), Some("n3")] {
        let of_node = spans.iter().filter(|(name, _)| node.is_none_or(|node| node == *name));
        let mut rows: Vec<i64> = of_node
            .flat_map(|(_, spans)| spans.iter().flat_map(|(from, to)| *from..*to))
            .map(|row| row as i64)
            .collect();
        rows.sort_unstable();
        rows.dedup();
        let mut app = app_of(&source, node);
        app.go_to(at(rows[0]));
        answered(&mut app, &source);
        assert_eq!(walk(&mut app, &source, Action::Step(1)), rows, "{node:?}");
        let end = picture(&app, 80, 24);
        let sentence = match node {
            None | Some("n1") => "this is the end of the recording".to_owned(),
            Some(node) => format!("{node} has no later row in the recording"),
        };
        assert!(end.contains(&sentence), "{end}");
        rows.reverse();
        assert_eq!(walk(&mut app, &source, Action::Step(-1)), rows, "{node:?}");
        let beginning = picture(&app, 80, 24);
        let sentence = match node {
            Some("n3") => "n3 has no earlier row in the recording",
            _ => "this is the beginning of the recording",
        };
        assert!(beginning.contains(sentence), "{beginning}");
    }
}

#[test]
fn a_recording_that_is_still_being_written_goes_on_after_its_end() {
    for node in [None, Some("n1")] {
        let (file, _) = record("growing", &[("n1", &[(0, 200)]), ("n2", &[(0, 200)])]);
        let whole = std::fs::read(&file.0).unwrap();
        std::fs::write(&file.0, &whole[..whole.len() * 2 / 3]).unwrap();
        let source = source_of(&file);
        // Who writes it has it locked.
        let written = std::fs::File::options().append(true).open(&file.0).unwrap();
        written.lock().unwrap();
        let mut app = app_of(&source, node);
        app.go_to(at(100));
        answered(&mut app, &source);
        let end = walk(&mut app, &source, Action::Step(1)).pop().unwrap();
        assert!((101..199).contains(&end), "{end}");
        std::io::Write::write_all(&mut &written, &whole[whole.len() * 2 / 3..]).unwrap();
        app.act(Action::Step(1));
        answered(&mut app, &source);
        assert_eq!(shown(&app), end + 1, "{node:?}");
        // F goes to the end of now.
        (0..9).for_each(|_| {
            app.act(Action::Minute(1));
            answered(&mut app, &source);
        });
        let picture_of = |app: &App| picture(app, 100, 24);
        assert!(shown(&app) == 199 && picture_of(&app).contains("so far"), "{}", picture_of(&app));
        drop(written);
        // Its writer ends it.
        std::fs::write(&file.0, &whole).unwrap();
        let source = source_of(&file);
        app.act(Action::Minute(1));
        answered(&mut app, &source);
        let end = picture_of(&app);
        assert!(end.contains("this is the end of the recording") && !end.contains("so far"), "{end}");
    }
}

#[test]
fn rows_after_a_pause_within_a_block_are_there() {
    let nodes: [(&str, &[(u64, u64)]); 2] = [("n1", &[(0, 1_000)]), ("n2", &[(0, 10)])];
    // n2 stands still for ten minutes after its fifth row.
    let second_of = |lane, row| if lane == 2 && row >= 5 { row + 600 } else { row };
    let (_file, source) = record_at("pause", &nodes, second_of);
    let mut app = app_of(&source, Some("n2"));
    app.go_to(at(607));
    answered(&mut app, &source);
    let heading = picture(&app, 80, 24).lines().next().unwrap_or_default().to_owned();
    assert!(shown(&app) == 607 && !heading.contains("down"), "{heading}");
    app.go_to(at(4));
    answered(&mut app, &source);
    assert_eq!(walk(&mut app, &source, Action::Step(1)), [4, 605, 606, 607, 608, 609]);
}

#[test]
fn a_moment_between_the_rows_of_a_node_shows_it_as_down_and_f_goes_on_from_there() {
    let spans: [(&str, &[(u64, u64)]); 3] =
        [("n1", &[(0, 1_000)]), ("n2", &[(0, 50), (900, 950)]), ("n3", &[(800, 1_000)])];
    let (_file, source) = record("moments", &spans);
    let mut app = app_of(&source, Some("n2"));
    app.go_to(at(700));
    answered(&mut app, &source);
    let heading = picture(&app, 80, 24).lines().next().unwrap_or_default().to_owned();
    assert!(shown(&app) == 700 && heading.contains("down"), "{heading}");
    app.act(Action::Step(1));
    answered(&mut app, &source);
    assert_eq!(shown(&app), 900);
    // The end of the recording is later than the last row of the node.
    app.go_to(at(5_000));
    answered(&mut app, &source);
    let end = picture(&app, 80, 24);
    assert!(shown(&app) == 999 && end.contains("this is the end") && end.contains("down"), "{end}");
    app.act(Action::Step(1));
    answered(&mut app, &source);
    assert_eq!(shown(&app), 999, "it does not go back");
    app.act(Action::Step(-1));
    answered(&mut app, &source);
    assert_eq!(shown(&app), 949);
    let mut app = app_of(&source, None);
    app.go_to(at(700));
    answered(&mut app, &source);
    assert!(line(&app, "n2").contains("down 10m"), "{}", picture(&app, 100, 24));
    assert!(line(&app, "n3").is_empty(), "it has no row yet: {}", picture(&app, 100, 24));
    assert!(!line(&app, "n1").contains("down"), "{}", picture(&app, 100, 24));
}

#[test]
fn where_no_later_row_is_known_a_step_leads_to_the_present() {
    let mut app = node_app(LOOK);
    app.go_to(at(-500));
    answer(&mut app, tape_of(&[("n1", -560..-480)]));
    (0..19).for_each(|_| _ = app.act(Action::Step(1)));
    assert_eq!(shown(&app), -481);
    app.act(Action::Step(1));
    let question: Question = app.question.clone().unwrap();
    assert_eq!(question.sought, Sought::After(at(-481)));
    app.answer(&question, Ok(tape_of(&[("n1", -560..-480)])));
    assert!(app.past.is_none() && app.question.is_none());
    // At the beginning of all that is known, the same row stays.
    app.go_to(at(-900));
    answer(&mut app, tape_of(&[("n1", -560..-480)]));
    assert_eq!(shown(&app), -560);
    app.act(Action::Step(-1));
    answer(&mut app, tape_of(&[("n1", -560..-480)]));
    let first = picture(&app, 80, 24);
    assert!(shown(&app) == -560 && first.contains("nothing is known of the time before"), "{first}");
}

/// A hub that began after the node was down has no rows of it in its memory.
#[test]
fn a_node_that_is_away_and_has_no_rows_in_memory_opens_with_its_last_row_of_the_store() {
    let away = || {
        let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), Some("n1".into()), true);
        app.state("n1", "down", Some(at(100)));
        app.clock_of_server(Some(at(400)));
        app
    };
    let mut app = away();
    app.filled();
    assert_eq!(asked(&app), Some(Sought::UpTo(at(400))));
    answer(&mut app, tape_of(&[("n1", 40..60)]));
    let seen = picture(&app, 100, 24);
    assert!(
        shown(&app) == 59 && seen.contains("PAST") && seen.contains("n1 is down: this is its last row"),
        "{seen}"
    );
    app.act(Action::Live);
    let heading = picture(&app, 100, 24).lines().next().unwrap_or_default().to_owned();
    assert!(heading.contains("down no row is known here") && !heading.contains("its last"), "{heading}");
    // The keys go back from the present.
    for (key, sought) in
        [(Action::Step(-1), Sought::UpTo(Nanos(at(400).0 - 1))), (Action::Minute(-1), Sought::At(at(340)))]
    {
        let mut app = away();
        app.act(key);
        assert_eq!(asked(&app), Some(sought));
    }
    // One that is up, or has rows, is live.
    let mut app = away();
    app.state("n1", "up", None);
    app.filled();
    assert_eq!(asked(&app), None);
    let mut app = node_app(LOOK);
    app.state("n1", "down", Some(at(100)));
    app.filled();
    assert_eq!(asked(&app), None);
}

#[test]
fn where_nobody_keeps_rows_a_time_before_is_said_to_be_unknown() {
    let mut app = App::new(LOOK, Origin::Kernel, "n1".into(), Some("n1".into()), false);
    let said = |app: &App| app.notice.clone().map(|(text, _)| text).unwrap_or_default();
    app.go_to(at(-500));
    assert!(app.past.is_none() && said(&app).contains("nobody has kept that time"), "{}", said(&app));
    app.take(0, &columns("n1", "10Hz", &FAST));
    (0..30).for_each(|number| _ = app.take(0, &row("n1", number * 100, number, &FAST)));
    for key in [Action::Minute(-1), Action::Step(-1), Action::Step(-1)] {
        app.act(key);
    }
    app.go_to(at(-500));
    assert!(shown(&app) == 0 && said(&app).contains("nobody has kept the time before"), "{}", said(&app));
}

#[test]
fn a_recording_that_cannot_be_read_any_more_is_never_live() {
    let (file, source) = record("gone", &[("n1", &[(0, 50)]), ("n2", &[(0, 50)])]);
    let mut app = app_of(&source, None);
    app.go_to(at(20));
    answered(&mut app, &source);
    std::fs::remove_file(&file.0).unwrap();
    app.act(Action::Open);
    answered(&mut app, &source);
    let seen = picture(&app, 100, 24);
    assert!(!seen.contains("live") && seen.contains("cannot be read"), "{seen}");
}

#[test]
fn a_recording_of_which_every_block_is_damaged_is_said_to_be_damaged() {
    let (file, _) = record("damaged", &[("n1", &[(0, 10)])]);
    let whole = std::fs::read(&file.0).unwrap();
    let mut sentences = std::collections::BTreeSet::new();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x55;
        std::fs::write(&file.0, &bytes).unwrap();
        if let Err(failure) = super::super::of_recording(LOOK, vec![file.0.clone()], &[]) {
            let sentence = failure.to_string();
            sentences.insert(sentence.rsplit(": ").next().unwrap_or_default().to_owned());
        }
    }
    assert!(sentences.contains("it is damaged"), "{sentences:?}");
    assert!(!sentences.contains("there are no rows in it"), "{sentences:?}");
}
