//! The pictures: state in, text out, at all sizes.

use khz_ask::{Cell, Column, Piece, Row};
use khz_model::{Labels, Nanos};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Origin, Sought, Then};
use super::draw::draw;
use super::keys::{Action, KEYS};
use super::look::{Colours, Look};
use super::prompt::Kind;
use super::tape::Tape;

mod past;

const LOOK: Look = Look { colours: Colours::None, unicode: true };
const BEGIN: u64 = 1_796_000_000;

/// Series, kind, places, and what they are in row number `row`.
type Made = (&'static str, bool, u8, fn(u64) -> i128);

const FAST: [Made; 26] = [
    ("cpu.all.user", true, 2, |row| i128::from(row * row / 4)),
    ("cpu.all.system", true, 2, |row| i128::from(row) * 5),
    ("cpu.all.idle", true, 2, |row| i128::from(row * 30 - row * row / 4)),
    ("cpu.all.iowait", true, 2, |row| i128::from(row) * 5),
    ("cpu.idle[0]", true, 2, |row| i128::from(row)),
    ("cpu.idle[1]", true, 2, |row| i128::from(row) * 9),
    ("cpu.idle[2]", true, 2, |row| i128::from(row) * 10),
    ("cpu.idle[3]", true, 2, |_| 0),
    ("mem.total", false, 0, |_| 16 << 30),
    ("mem.available", false, 0, |_| 4 << 30),
    ("mem.cached", false, 0, |_| 2 << 30),
    ("mem.dirty", false, 0, |_| 10 << 20),
    ("pressure.cpu.some.total", true, 6, |row| i128::from(row) * 10_000),
    ("pressure.memory.some.total", true, 6, |_| 0),
    ("pressure.io.some.total", true, 6, |row| i128::from(row) * 50_000),
    ("disk.read_bytes[sda]", true, 0, |row| i128::from(row) << 20),
    ("disk.written_bytes[sda]", true, 0, |_| 0),
    ("disk.io_time[sda]", true, 3, |row| i128::from(row) * 90),
    ("disk.reads[sda]", true, 0, |row| i128::from(row) * 40),
    ("disk.writes[sda]", true, 0, |_| 0),
    ("disk.read_time[sda]", true, 3, |row| i128::from(row) * 480),
    ("disk.write_time[sda]", true, 3, |_| 0),
    ("net.rx_bytes[eth0]", true, 0, |row| i128::from(row) * 1_000),
    ("net.tx_bytes[eth0]", true, 0, |row| i128::from(row) * 3_000),
    ("kernel.procs_running", false, 0, |_| 3),
    ("kernel.procs_blocked", false, 0, |_| 1),
];

fn columns(node: &str, rate: &str, made: &[Made]) -> Piece {
    let unit =
        |name: &str| if name.starts_with("cpu") || name.contains("time") { "seconds" } else { "count" };
    let column = |(series, counter, places, _): &Made| Column {
        series: (*series).to_owned(),
        counter: *counter,
        unit: unit(series).to_owned(),
        places: *places,
    };
    Piece::Columns {
        node: node.to_owned(),
        rate: rate.to_owned(),
        columns: made.iter().map(column).collect(),
    }
}

fn row(node: &str, millis: u64, number: u64, made: &[Made]) -> Piece {
    let time = Nanos(BEGIN * 1_000_000_000 + millis * 1_000_000);
    let cell = |(_, _, places, value): &Made| Cell::Present { units: value(number), places: *places };
    let row = Row { time, clock: time, cells: made.iter().map(cell).collect() };
    Piece::Rows { node: node.to_owned(), lost: 0, rows: vec![row], last: None }
}

/// Pid, name, user, CPU in percent, memory and IO in MiB.
type MadeProcess = (&'static str, &'static str, &'static str, i128, i128, Option<i128>);

const PROCESSES: [MadeProcess; 5] = [
    ("4711", "dd\u{202e}x", "root", 55, 2, Some(12)),
    ("1204", "postgres", "postgres", 31, 1_843, None),
    ("2307", "java", "app", 12, 5_120, None),
    ("871", "khz", "khz", 0, 9, None),
    ("1", "systemd", "root", 0, 14, None),
];

fn processes(node: &str) -> [Piece; 2] {
    let numbers = [
        ("load.1m", 2),
        ("load.5m", 1),
        ("load.15m", 1),
        ("uptime.up", 90_000),
        ("processes.count", 213),
        ("processes.threads", 518),
    ];
    let mut all: Vec<(String, Cell)> = numbers
        .iter()
        .map(|(name, units)| ((*name).to_owned(), Cell::Present { units: *units, places: 0 }))
        .collect();
    for (place, (pid, command, user, cpu, memory, io)) in PROCESSES.iter().enumerate() {
        let labels = Labels::new([("pid", *pid), ("command", *command), ("user", *user)]).unwrap();
        let io = io.map(|io| ("io", "mover", io << 20));
        let kinds = [Some(("cpu", "busiest", *cpu)), Some(("memory", "largest", memory << 20)), io];
        for (number, description, units) in kinds.into_iter().flatten() {
            all.push((format!("process.{number}[{place}]"), Cell::Present { units, places: 0 }));
            all.push((format!("process.{description}[{place}]"), Cell::Info(labels.clone())));
        }
    }
    let column = |(series, _): &(String, Cell)| Column {
        series: series.clone(),
        counter: false,
        unit: "count".into(),
        places: 0,
    };
    let columns = all.iter().map(column).collect();
    let cells = all.into_iter().map(|(_, cell)| cell).collect();
    let time = Nanos::from_secs(BEGIN + 3);
    [
        Piece::Columns { node: node.into(), rate: "1Hz".into(), columns },
        Piece::Rows { node: node.into(), lost: 0, rows: vec![Row { time, clock: time, cells }], last: None },
    ]
}

/// A node of which three seconds have come at 10 Hz.
fn node_app(look: Look) -> App {
    let mut app = App::new(look, Origin::Server, "http://hub".into(), Some("n1".into()), true);
    app.take(0, &columns("n1", "10Hz", &FAST));
    (0..30).for_each(|at| _ = app.take(0, &row("n1", at * 100, at, &FAST)));
    processes("n1").iter().for_each(|piece| _ = app.take(1, piece));
    app
}

const OF_LIST: [Made; 5] = [
    ("cpu.all.user", true, 2, |row| i128::from(row) * 20),
    ("cpu.all.idle", true, 2, |row| i128::from(row) * 80),
    ("mem.total", false, 0, |_| 16 << 30),
    ("mem.available", false, 0, |_| 8 << 30),
    ("load.1m", false, 2, |_| 50),
];
const OF_ODD: [Made; 5] = [
    ("cpu.all.user", true, 2, |row| i128::from(row) * 95),
    ("cpu.all.idle", true, 2, |row| i128::from(row) * 5),
    ("mem.total", false, 0, |_| 16 << 30),
    ("mem.available", false, 0, |_| 8 << 30),
    ("load.1m", false, 2, |_| 50),
];

/// Twelve nodes: n7 works much more than the others, and n3 is down.
fn list_app(look: Look) -> App {
    let mut app = App::new(look, Origin::Server, "http://hub".into(), None, false);
    let nodes = || (1..=12).map(|number| (number, format!("n{number}")));
    let made = |number| if number == 7 { &OF_ODD } else { &OF_LIST };
    for (number, name) in nodes() {
        app.state(&name, if number == 3 { "down" } else { "up" }, Some(Nanos::from_secs(BEGIN - 125)));
        app.take(0, &columns(&name, "1Hz", made(number)));
    }
    for at in 0..10 {
        nodes().for_each(|(number, name)| _ = app.take(0, &row(&name, at * 1_000, at, made(number))));
    }
    app.tick(Nanos::from_secs(BEGIN + 10));
    app
}

fn picture(app: &App, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(app, &mut buffer, area);
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect::<Vec<String>>().join("\n")
}

#[test]
fn a_node_in_80_by_24_has_everything() {
    let picture = picture(&node_app(LOOK), 80, 24);
    for part in [
        "n1 2026-",
        "live 10Hz",
        "CPU 47% of 4",
        "io 12%",
        "MEM 75% of 16G",
        "waits for IO",
        "50%",
        "DISK",
        "sda",
        "10M",
        "90%",
        "NET",
        "eth0",
        "9.8K",
        "29K",
        "PROCESSES by CPU",
        "4711",
        "root",
        "55.0",
        "12M",
        "dd\\u202ex",
        "3 run",
        "? keys",
        "load 2",
    ] {
        assert!(picture.contains(part), "{part} is missing in\n{picture}");
    }
    // Its swap is not known, and so are the memory of the process and how long a request took.
    assert!(!picture.contains("swap") && picture.contains('–'), "{picture}");
}

#[test]
fn every_screen_fits_every_terminal() {
    let looks = [
        LOOK,
        Look { colours: Colours::Many, unicode: true },
        Look { colours: Colours::Sixteen, unicode: false },
    ];
    for look in looks {
        for (width, height) in
            [(0, 0), (1, 1), (2, 3), (20, 5), (59, 13), (80, 24), (120, 40), (200, 50), (500, 200)]
        {
            for mut app in [node_app(look), list_app(look)] {
                for action in [Action::Help, Action::Waterfall, Action::Tiles, Action::OnlyOdd, Action::Time]
                {
                    picture(&app, width, height);
                    assert_eq!(app.act(action), Then::Go);
                    let drawn = picture(&app, width, height);
                    assert!(look.unicode || drawn.is_ascii(), "{drawn}");
                    app.act(Action::Back);
                }
            }
        }
    }
}

#[test]
fn a_small_terminal_shows_the_most_important_numbers() {
    let picture = picture(&node_app(LOOK), 20, 5);
    assert!(picture.contains("cpu  47%") && picture.contains("mem  75%"), "{picture}");
}

#[test]
fn a_list_begins_with_nodes_that_are_down_or_odd() {
    let app = list_app(LOOK);
    let picture = picture(&app, 80, 24);
    let lines: Vec<&str> = picture.lines().collect();
    assert!(lines[1].starts_with("12 nodes, 1 not up, 1 odd - by ODD"), "{picture}");
    assert!(
        lines[3].starts_with("n3") && lines[3].contains("down 2m 1") && lines[3].contains('–'),
        "{picture}"
    );
    assert!(lines[4].starts_with("n7") && lines[4].contains("cpu+") && lines[4].contains("95%"), "{picture}");
    assert!(lines[5].starts_with("n1 ") && lines[5].contains("20%"), "{picture}");
}

/// The hub sends the last row of a node that is down, and the memory has those before it.
#[test]
fn a_list_of_which_nobody_is_up_has_the_time_of_the_khz_that_it_asks() {
    let load: [Made; 1] = [("load.1m", false, 0, |row| i128::from(row))];
    let times = |server: Option<u64>, local: u64| {
        let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), None, true);
        let time = |seconds: u64| Nanos::from_secs(BEGIN + seconds);
        app.state("n1", "down", Some(time(100)));
        app.clock_of_server(server.map(time));
        app.take_old(0, &columns("n1", "1Hz", &load));
        (90..100).for_each(|second| _ = app.take_old(0, &row("n1", second * 1_000, 1, &load)));
        app.take(0, &row("n1", 99_000, 1, &load));
        let mut shown = Vec::new();
        for tick in 0..6 {
            app.tick(time(local + tick));
            shown.push(app.moment().unwrap_or_default().since(time(0)).0 / 1_000_000_000);
        }
        assert!(picture(&app, 100, 24).contains(&format!("down {}m", (shown[5] - 100) / 60)), "{shown:?}");
        shown
    };
    // The clock of this machine is wrong, and does not count.
    assert_eq!(times(Some(400), 7_000), [401, 402, 403, 404, 405, 406]);
    assert_eq!(times(None, 700), [700, 701, 702, 703, 704, 705], "an older khz");
}

/// The whole cluster dies, or its hub does: the charts must not look as if all went on.
#[test]
fn charts_of_a_list_go_on_while_nobody_sends() {
    let mut app = list_app(LOOK);
    app.waterfall = true;
    let column = |app: &App, back: usize| -> String {
        let picture = picture(app, 60, 14);
        let lines = picture.lines().skip(2).take(11);
        lines.map(|line| line.chars().nth(59 - back).unwrap_or(' ')).collect::<String>().trim().to_owned()
    };
    assert_ne!(column(&app, 1), "", "{}", picture(&app, 60, 14));
    (1..=20).for_each(|second| _ = app.tick(Nanos::from_secs(BEGIN + 10 + second)));
    let seen = picture(&app, 60, 14);
    assert_eq!((0..15).map(|back| column(&app, back)).collect::<String>(), "", "{seen}");
    assert_ne!(column(&app, 24), "", "{seen}");
    app.waterfall = false;
    let list = picture(&app, 140, 14);
    let chart = list.lines().find(|line| line.starts_with("n1 ")).unwrap_or_default();
    assert!(chart.chars().count() < 140 - 5, "{list}");
}

#[test]
fn a_narrow_list_marks_who_is_down_or_odd_and_in_what() {
    let picture = picture(&list_app(LOOK), 20, 8);
    let lines: Vec<&str> = picture.lines().collect();
    assert!(lines[3].starts_with("n3") && lines[3].contains("down"), "{picture}");
    assert!(lines[4].starts_with("n7") && lines[4].contains("cpu+"), "{picture}");
}

#[test]
fn since_when_a_node_is_odd_counts_from_its_first_row_over_pauses_and_other_screens() {
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), None, true);
    let load: [Made; 1] = [("load.1m", false, 0, |row| i128::from(row))];
    let nodes = || (0..6).map(|node| format!("n{node}"));
    let send = |app: &mut App, seconds: std::ops::Range<u64>, odd: &dyn Fn(u64) -> bool| {
        nodes().for_each(|node| _ = app.take(0, &columns(&node, "1Hz", &load)));
        for second in seconds {
            for node in nodes() {
                let value = if node == "n2" && odd(second) { 50 } else { 1 };
                app.take(0, &row(&node, second * 1_000, value, &load));
            }
        }
    };
    // It is not odd for three seconds in between, and somebody looks at another node and comes back.
    send(&mut app, 0..100, &|second| second >= 20 && !(60..63).contains(&second));
    let since = |app: &App| {
        app.shown().node("n2").and_then(|node| node.odd_since.first().map(|(_, since)| since.time))
    };
    let second = |second: u64| Some(Nanos::from_secs(BEGIN + second));
    let line = picture(&app, 100, 12).lines().nth(3).unwrap_or_default().to_owned();
    assert!(line.starts_with("n2") && line.contains("load+ 1m"), "{line}");
    assert_eq!(since(&app), second(20));
    app.act(Action::Open);
    app.act(Action::Back);
    // The last row of a node that is down comes when somebody subscribes.
    app.take(0, &row("n5", 3_000, 1, &load));
    send(&mut app, 100..104, &|_| true);
    assert_eq!(since(&app), second(20));
    // Longer than a pause.
    send(&mut app, 104..112, &|_| false);
    assert_eq!(since(&app), None);
    send(&mut app, 112..120, &|_| true);
    assert_eq!(since(&app), second(112));
}

#[test]
fn each_way_in_which_a_node_is_odd_has_a_time_of_its_own() {
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), None, true);
    // A row number is the load, and a hundred times the percent of memory that is in use.
    const NUMBERS: [Made; 3] = [
        ("load.1m", false, 0, |row| i128::from(row % 100)),
        ("mem.total", false, 0, |_| 100),
        ("mem.available", false, 0, |row| 100 - i128::from(row / 100)),
    ];
    let nodes = || (0..6).map(|node| format!("n{node}"));
    nodes().for_each(|node| _ = app.take(0, &columns(&node, "1Hz", &NUMBERS)));
    // The memory is odd all the time, the load is odder for a while, and is then too low.
    let (memory, high, low) = (10..100, 30..50, 70..80);
    let mut lines = Vec::new();
    for second in 0..100 {
        for node in nodes() {
            let is_odd = node == "n2";
            let load = match second {
                _ if is_odd && high.contains(&second) => 90,
                _ if is_odd && low.contains(&second) => 0,
                _ => 20,
            };
            let used = if is_odd && memory.contains(&second) { 80 } else { 20 };
            app.take(0, &row(&node, second * 1_000, used * 100 + load, &NUMBERS));
        }
        if [25, 45, 60, 75, 90].contains(&second) {
            lines.push(picture(&app, 100, 12).lines().nth(3).unwrap_or_default().to_owned());
        }
    }
    for (line, expected) in lines.iter().zip(["mem+ 15s", "load+ 15s", "mem+ 50s", "load- 5.0s", "mem+ 1m "])
    {
        assert!(line.starts_with("n2") && line.contains(expected), "{expected}: {lines:#?}");
    }
}

#[test]
fn a_step_of_a_list_is_a_row_of_each_node() {
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), None, true);
    let load: [Made; 1] = [("load.1m", false, 0, |row| i128::from(row))];
    let nodes = || (0..6_u64).map(|node| (node, format!("n{node}")));
    nodes().for_each(|(_, node)| _ = app.take(0, &columns(&node, "1Hz", &load)));
    for second in 0..20 {
        // Each a little later than the one before.
        nodes().for_each(|(late, node)| _ = app.take(0, &row(&node, second * 1_000 + late, second, &load)));
    }
    let load_of = |app: &App, node: &str| app.shown().node(node).and_then(|node| node.summary().load);
    for (action, expected) in [(-1, 18.0), (-1, 17.0), (-1, 16.0), (1, 17.0), (1, 18.0)] {
        app.act(Action::Step(action));
        let shown: Vec<Option<f64>> = nodes().map(|(_, node)| load_of(&app, &node)).collect();
        assert_eq!(shown, [Some(expected); 6], "at {:?}", app.moment());
    }
}

#[test]
fn what_could_not_be_shown_is_not_said_of_what_is_shown_then() {
    let mut app = node_app(LOOK);
    assert!(app.refuse("readers have 100 Hz") && app.notice.is_some());
    app.act(Action::Rate(100));
    assert_eq!(app.notice, None);
    let mut app = node_app(LOOK);
    app.say("nothing is known of that time");
    app.act(Action::Step(-1));
    assert_eq!(app.notice, None);
    app.say("nothing is known of that time");
    app.act(Action::Live);
    assert_eq!(app.notice, None);
}

#[test]
fn pasted_text_is_no_keys() {
    let mut app = list_app(LOOK);
    app.pasted("qqqq");
    assert!(picture(&app, 80, 24).contains("pasted text is left out"));
    app.act(Action::Search);
    app.pasted("  n1\nq\n");
    assert!(picture(&app, 80, 24).contains("search: n1"), "{}", picture(&app, 80, 24));
}

#[test]
fn keys_sort_search_and_open() {
    let mut app = list_app(LOOK);
    app.act(Action::Sort(1));
    assert!(picture(&app, 80, 24).lines().nth(3).unwrap().starts_with("n7"), "by CPU");
    app.act(Action::Reverse);
    assert!(picture(&app, 80, 24).lines().nth(3).unwrap().starts_with("n1 "), "the least first");
    app.act(Action::Search);
    "N1".chars().for_each(|c| app.typed(c));
    assert_eq!(app.entered(), None);
    let found = picture(&app, 80, 24);
    assert!(found.contains("4 nodes") && found.contains("/n1"), "{found}");
    app.act(Action::Move(1));
    app.act(Action::Open);
    assert_eq!(app.wanted().unwrap().node.as_deref(), Some("n10"));
    app.act(Action::Back);
    assert_eq!(app.wanted().unwrap().node, None, "the search is still there, and the list");
}

#[test]
fn the_past_is_stepped_through_row_by_row_and_asked_for_where_nobody_here_has_seen_it() {
    let mut app = node_app(LOOK);
    app.act(Action::Step(-1));
    assert!(picture(&app, 80, 24).contains("PAST") && app.past.is_some());
    let at = app.moment().unwrap();
    app.act(Action::Step(-1));
    assert_eq!(at.since(app.moment().unwrap()), Nanos::from_millis(100));
    app.act(Action::Step(1));
    assert_eq!(app.moment(), Some(at));
    app.act(Action::Minute(-1));
    let question = app.question.clone().unwrap();
    let minute_ago = Nanos(at.0 - 60_000_000_000);
    assert_eq!((question.sought, question.node.as_deref()), (Sought::At(minute_ago), Some("n1")));
    assert!(picture(&app, 80, 24).contains("asking for the past"));
    let mut tape = Tape::default();
    tape.take(0, &columns("n1", "", &FAST));
    (0..30).for_each(|number| tape.take(0, &row("n1", number * 1_000, number, &FAST)));
    app.answer(&question, Err("the store has nothing".into()));
    assert!(picture(&app, 80, 24).contains("the store has nothing"));
    app.go_to(minute_ago);
    let question = app.question.clone().unwrap();
    app.answer(&question, Ok(tape));
    assert_eq!(
        app.moment(),
        Some(Nanos::from_secs(BEGIN)),
        "nothing is before it, so the first row after it"
    );
    app.act(Action::Live);
    assert!(app.past.is_none() && picture(&app, 80, 24).contains("live"));
}

#[test]
fn a_refused_rate_falls_to_the_next_lower_one_and_says_so() {
    let mut app = node_app(LOOK);
    app.act(Action::Rate(1_000));
    assert_eq!(app.wanted().unwrap().rate, 1_000);
    assert!(app.refuse("readers may ask for 100 Hz at most"));
    assert_eq!(app.wanted().unwrap().rate, 100);
    assert!(
        picture(&app, 120, 24).contains("now 100 Hz: 1000 Hz is refused: readers may ask for 100 Hz at most")
    );
}

#[test]
fn a_khz_that_goes_and_comes_is_told() {
    let mut app = node_app(LOOK);
    app.take(0, &Piece::Gone { text: "it broke off".into(), is_there: false });
    let gone = picture(&app, 80, 24);
    assert!(gone.contains("khz is away") && gone.contains("it broke off; khz asks again"), "{gone}");
    app.take(0, &row("n1", 9_000, 90, &FAST));
    let back = picture(&app, 80, 24);
    assert!(back.contains("live") && !back.contains("khz is away"), "{back}");
}

#[test]
fn a_hub_without_nodes_is_said_to_have_none() {
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), None, true);
    app.knows_nodes(false);
    app.ended("nothing matches cpu.all.*, mem.total".into());
    let picture = picture(&app, 80, 24);
    assert!(picture.contains("the hub has no nodes") && !picture.contains("nothing matches"), "{picture}");
    assert!(!picture.contains("khz is away"), "{picture}");
    app.knows_nodes(true);
    app.ended("it broke off".into());
    assert!(super::tests::picture(&app, 80, 24).contains("it broke off"));
}

#[test]
fn a_gap_of_the_rows_is_a_gap_of_the_charts_and_no_zero() {
    let mut app = node_app(LOOK);
    app.take(0, &row("n1", 5_000, 50, &FAST));
    let curve = app.node().unwrap().curve("cpu", 51, None);
    assert!(curve[50].is_some() && curve[30..50].iter().all(Option::is_none), "{curve:?}");
}

#[test]
fn the_help_shows_every_key_in_80_by_24() {
    let mut app = list_app(LOOK);
    app.act(Action::Help);
    let picture = picture(&app, 80, 24);
    for binding in &KEYS {
        assert!(picture.contains(binding.help), "{} is missing in\n{picture}", binding.help);
    }
    app.act(Action::Move(1));
    assert!(!app.help, "any key ends it");
}

#[test]
fn waterfall_and_tiles_show_every_node() {
    let mut app = list_app(LOOK);
    app.act(Action::Waterfall);
    let fall = picture(&app, 80, 24);
    app.act(Action::Waterfall);
    app.act(Action::Tiles);
    let tiles = picture(&app, 80, 24);
    for number in 1..=12 {
        assert!(
            fall.contains(&format!("n{number} ")) && tiles.contains(&format!("n{number} ")),
            "{fall}\n{tiles}"
        );
    }
    assert!(
        fall.contains("WATERFALL of cpu") && fall.contains('█') && tiles.contains("down"),
        "{fall}\n{tiles}"
    );
}

#[test]
fn a_prompt_takes_a_time() {
    let mut app = node_app(LOOK);
    app.act(Action::Time);
    "14:0x".chars().for_each(|c| app.typed(c));
    app.erased();
    app.typed('3');
    assert_eq!(app.prompt.as_ref().map(|prompt| prompt.kind), Some(Kind::Time));
    assert!(
        picture(&app, 80, 24).contains("go to (14:03, -10m): 14:03_")
            || picture(&app, 80, 24).contains("14:03")
    );
    assert_eq!(app.entered().as_deref(), Some("14:03"));
}

#[test]
fn the_page_has_the_pictures_of_the_code() {
    let page = include_str!("../../../../../docs/top.md");
    for picture in [picture(&node_app(LOOK), 80, 24), picture(&list_app(LOOK), 110, 17)] {
        assert!(
            page.contains(&format!("```text\n{picture}\n```")),
            "docs/top.md needs this picture:\n{picture}"
        );
    }
}

#[test]
fn the_key_of_the_rate_that_is_there_leaves_the_rows_that_have_come() {
    let mut app = node_app(LOOK);
    let before = picture(&app, 80, 24);
    assert!(before.contains("CPU 47%"), "{before}");
    app.act(Action::Rate(10));
    assert_eq!(picture(&app, 80, 24), before);
    app.act(Action::Pause);
    app.act(Action::Rate(10));
    assert_eq!(picture(&app, 80, 24), before, "it follows the present");
}

#[test]
fn a_node_that_sent_nothing_before_a_moment_of_the_past_was_down_then() {
    let mut app = list_app(LOOK);
    app.go_to(Nanos::from_secs(BEGIN - 1_000));
    let question = app.question.clone().unwrap();
    let mut tape = Tape::default();
    for node in ["n1", "n2"] {
        tape.take(0, &columns(node, "1Hz", &FAST));
        // The second one is silent after half a minute.
        let rows = if node == "n1" { 60 } else { 30 };
        for second in 0..rows {
            let Piece::Rows { node, lost, mut rows, last } = row(node, second * 1_000, second, &FAST) else {
                return;
            };
            rows[0].time = Nanos(rows[0].time.0 - 1_059_000_000_000);
            tape.take(0, &Piece::Rows { node, lost, rows, last });
        }
    }
    app.answer(&question, Ok(tape));
    let picture = picture(&app, 100, 24);
    let line = |name: &str| picture.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(line("n2 ").contains("down 30s") && line("n2 ").contains('–'), "{picture}");
    assert!(!line("n1 ").contains("down"), "{picture}");
}

#[test]
fn nodes_that_the_server_does_not_know_any_more_leave_the_list() {
    let mut app = list_app(LOOK);
    assert!(picture(&app, 80, 24).contains("n3"));
    app.leave_out_all_but(&["n1", "n2"].into());
    let left = picture(&app, 80, 24);
    assert!(!left.lines().any(|line| line.starts_with("n3")), "it is down, and was forgotten: {left}");
    assert!(left.lines().any(|line| line.starts_with("n7")), "a row has come just now: {left}");
}

#[test]
fn names_have_room_for_the_longest_and_are_told_apart_by_their_ends() {
    let mut app = list_app(LOOK);
    let name = "gpu-cluster-rack-a-node1";
    app.state(name, "down", None);
    assert!(picture(&app, 120, 24).contains(name));
    let narrow = picture(&app, 40, 24);
    assert!(narrow.contains("ck-a-node1") && narrow.contains('…'), "{narrow}");
}

/// A tape of the nodes with these numbers of rows, one a second, which begin this long before [`BEGIN`].
fn tape_before(seconds: u64, nodes: &[(&str, u64)]) -> Tape {
    let mut tape = Tape::default();
    for (node, rows) in nodes {
        tape.take(0, &columns(node, "1Hz", &FAST));
        for second in 0..*rows {
            let mut piece = row(node, second * 1_000, second, &FAST);
            if let Piece::Rows { rows, .. } = &mut piece {
                rows[0].time = Nanos(rows[0].time.0 - seconds * 1_000_000_000);
            }
            tape.take(0, &piece);
        }
    }
    tape
}

#[test]
fn keys_that_are_faster_than_the_past_leave_no_question_of_another_screen() {
    // B, Enter, Backspace in all orders in which the answer may come.
    for answered_after in 0..=3 {
        let mut app = list_app(LOOK);
        let mut begun = app.wanted().unwrap().begun;
        let keys = [Action::Minute(-1), Action::Open, Action::Back, Action::Back];
        let mut answers = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            let focus = app.focus.clone();
            app.act(key);
            answers.extend(app.question.clone());
            if at == answered_after
                && let Some(question) = answers.last().cloned()
            {
                let nodes: Vec<(&str, u64)> = match &question.node {
                    Some(node) => vec![(node.as_str(), 120)],
                    None => vec![("n1", 120), ("n2", 120), ("n7", 120)],
                };
                app.answer(&question, Ok(tape_before(110, &nodes)));
            }
            if app.focus != focus {
                assert_ne!(app.wanted().unwrap().begun, begun, "columns must come again");
                begun = app.wanted().unwrap().begun;
            }
        }
        // Answers that come late are of no use.
        for question in &answers {
            if app.question.as_ref() != Some(question) {
                app.answer(question, Ok(tape_before(110, &[("n1", 120)])));
            }
        }
        assert!(app.question.is_none() && app.past.is_none() && app.focus.is_none(), "{answered_after}");
        assert!(picture(&app, 80, 24).contains("live"), "{answered_after}");
    }
}

#[test]
fn time_goes_on_in_a_list_of_which_no_node_sends_rows() {
    let mut app = list_app(LOOK);
    let before = picture(&app, 80, 24);
    assert!(before.contains("down 2m 1"), "{before}");
    let ticks = 600;
    let is_drawn = (0..ticks).filter(|second| app.tick(Nanos::from_secs(BEGIN + 10 + second))).count();
    assert!(is_drawn > 590, "{is_drawn}");
    let after = picture(&app, 80, 24);
    assert!(after.contains("down 12m"), "{after}");
}

#[test]
fn a_node_of_a_recording_that_was_silent_for_long_stays_in_the_list_as_down() {
    let mut app = App::new(LOOK, Origin::Recording, "run.khzt".into(), None, true);
    app.go_to(Nanos::from_secs(BEGIN));
    let question = app.question.clone().unwrap();
    let mut tape = tape_before(50, &[("n1", 60), ("n2", 60)]);
    tape.note_seen("n3", Nanos::from_secs(BEGIN - 130));
    tape.note_seen("n1", Nanos::from_secs(BEGIN - 51));
    app.answer(&question, Ok(tape));
    let picture = picture(&app, 100, 24);
    assert!(picture.contains("3 nodes, 1 not up"), "{picture}");
    assert!(picture.lines().any(|line| line.starts_with("n3") && line.contains("down 2m 10s")), "{picture}");
}

#[test]
fn a_node_that_had_no_row_at_a_moment_was_down_then_and_the_picture_says_so() {
    let mut app = node_app(LOOK);
    app.go_to(Nanos::from_secs(BEGIN - 500));
    let question = app.question.clone().unwrap();
    app.answer(&question, Ok(tape_before(700, &[("n1", 60)])));
    let heading = picture(&app, 80, 24).lines().next().unwrap_or_default().to_owned();
    assert!(heading.contains("down") && heading.contains("PAST"), "{heading}");
    let at = app.moment().unwrap();
    assert_eq!(at, Nanos::from_secs(BEGIN - 500));
}

#[test]
fn state_time_and_mode_have_room_beside_a_name_of_any_length() {
    let name = "z".repeat(241);
    let mut app = App::new(LOOK, Origin::Server, "http://hub".into(), Some(name.clone()), true);
    app.take(0, &columns(&name, "10Hz", &FAST));
    (0..30).for_each(|at| _ = app.take(0, &row(&name, at * 100, at, &FAST)));
    assert!(picture(&app, 80, 24).lines().next().is_some_and(|line| line.contains("live 10Hz")));
    app.state(&name, "down", None);
    let heading = picture(&app, 80, 24).lines().next().unwrap_or_default().to_owned();
    assert!(
        heading.contains("down") && heading.contains("its last row") && !heading.contains("live"),
        "{heading}"
    );
}

#[test]
fn a_node_that_was_forgotten_and_sends_rows_again_has_numbers() {
    let mut app = list_app(LOOK);
    app.leave_out_all_but(&["n1", "n2"].into());
    assert!(!picture(&app, 80, 24).lines().any(|line| line.starts_with("n3")));
    (20..24).for_each(|at| _ = app.take(0, &row("n3", at * 1_000, at, &OF_LIST)));
    app.state("n3", "up", None);
    let picture = picture(&app, 80, 24);
    assert!(picture.lines().any(|line| line.starts_with("n3") && line.contains("20%")), "{picture}");
}
