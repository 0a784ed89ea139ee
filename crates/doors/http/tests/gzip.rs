//! Packed answers: clients that accept gzip get the same contents in fewer bytes, few enough to show the page
//! soon.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::Arc;

use fake::{FakeNode, Server};
use khz_model::ByteSize;

/// A line of 20 kB a second carries the first part within a second, and a view with its numbers within about three. Headers add
/// about 270 bytes for each file.
const FIRST_PAINT_BYTES: usize = 11_000;
/// The first picture of each view: everything that is loaded before it.
const PICTURE_BYTES: [(&str, usize); 8] = [
    ("node", 46_500),
    ("cluster", 38_000),
    ("waterfall", 40_000),
    ("compare", 35_000),
    ("sums", 35_000),
    ("query", 27_000),
    ("alerts", 36_000),
    ("board", 61_500),
];
/// What comes to a node's page when its first picture is there: its past, then the rest. The search comes to any view.
const LATER_BYTES: [(&str, usize); 3] = [("past", 18_000), ("more", 25_000), ("palette", 8_000)];
/// All files.
const PAGE_BYTES: usize = 188_000;

/// An answer as it came over the wire.
struct Raw {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Raw {
    fn is_packed(&self) -> bool {
        self.headers.get("content-encoding").is_some_and(|coding| coding == "gzip")
    }

    /// The text, unpacked if it came packed.
    fn text(&self) -> String {
        let mut text = String::new();
        match self.is_packed() {
            true => flate2::read::GzDecoder::new(&*self.body).read_to_string(&mut text).unwrap(),
            false => self.body.as_slice().read_to_string(&mut text).unwrap(),
        };
        text
    }
}

fn ask(server: &Server, method: &str, path: &str, headers: &str) -> Raw {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    let bytes = server.raw(request.as_bytes());
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let mut headers: HashMap<String, String> = HashMap::new();
    for (name, value) in lines.map(|line| line.split_once(": ").unwrap()) {
        let values = headers.entry(name.to_ascii_lowercase()).or_default();
        *values = if values.is_empty() { value.to_owned() } else { format!("{values}, {value}") };
    }
    let mut body = bytes[end + 4..].to_vec();
    if headers.contains_key("transfer-encoding") {
        body = of_chunks(&body);
    }
    Raw { status, headers, body }
}

fn of_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        body.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 2 + size + 2..];
    }
}

const GZIP: &str = "Accept-Encoding: gzip, deflate, br\r\n";

/// The page's files as a browser requests them: `/` and the others.
fn files() -> Vec<String> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../web")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| format!("/{}", if name == "index.html" { "" } else { &name })).collect()
}

/// The source of a file of the page.
fn source(name: &str) -> String {
    let path = format!("{}/../../../web/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A module, and all that it imports before it runs.
fn with_imports(module: &str) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![module.to_owned()]);
    while let Some(module) = open.pop() {
        let text = source(&format!("{module}.js"));
        if !found.insert(module) {
            continue;
        }
        let names = text.split("from \"./").skip(1).filter_map(|rest| rest.split_once(".js\""));
        open.extend(names.map(|(name, _)| name.to_owned()));
    }
    found
}

/// What `views.js` says that a view needs: its own module, and the others.
fn listed(view: &str) -> (String, BTreeSet<String>) {
    let text = source("views.js");
    let (_, rest) = text.split_once(&format!("\n  {view}: \"")).expect("the view is listed");
    let mut names = rest.split('"').next().unwrap().split(' ').map(str::to_owned);
    (names.next().unwrap(), names.collect())
}

/// The value of `attribute="..."` in each line of the page that has this mark.
fn named<'t>(page: &'t str, mark: &str, attribute: &str) -> Vec<&'t str> {
    let lines = page.lines().filter(|line| line.contains(mark));
    lines.map(|line| line.split_once(attribute).unwrap().1.split('"').next().unwrap()).collect()
}

#[test]
fn every_file_of_the_page_comes_packed_to_clients_that_accept_gzip_with_the_same_contents_but_comments() {
    let server = Server::start(Arc::new(FakeNode::default()));
    for path in files() {
        let (plain, packed) = (ask(&server, "GET", &path, ""), ask(&server, "GET", &path, GZIP));
        assert_eq!((plain.status, packed.status), (200, 200), "{path}");
        assert!(!plain.is_packed() && packed.is_packed(), "{path}");
        assert_only_comments_are_left_out(&path, &plain.text(), &packed.text());
        assert_eq!(packed.headers["content-length"], packed.body.len().to_string(), "{path}");
        let tags = [&plain.headers["etag"], &packed.headers["etag"]];
        assert_ne!(tags[0], tags[1], "{path}: different bytes have different tags");
        for (answer, tag) in [&plain, &packed].into_iter().zip(tags) {
            assert_eq!(answer.headers["vary"], "accept-encoding", "{path}");
            let again = ask(&server, "GET", &path, &format!("{GZIP}If-None-Match: {tag}\r\n"));
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        }
    }
}

/// Lines that are only a comment are empty; all others are the same. None of them is within a text of several lines.
fn assert_only_comments_are_left_out(path: &str, plain: &str, packed: &str) {
    let (plain, packed): (Vec<&str>, Vec<&str>) = (plain.lines().collect(), packed.lines().collect());
    assert_eq!(plain.len(), packed.len(), "{path}");
    let (mut ticks, mut is_inside) = (0, false);
    for (number, (before, after)) in plain.iter().zip(&packed).enumerate() {
        let line = before.trim();
        if before != after {
            assert_eq!(*after, "", "{path}:{}", number + 1);
            let is_comment =
                is_inside || line.starts_with("/*") || (path.ends_with("js") && line.starts_with("//"));
            assert!(is_comment && ticks % 2 == 0, "{path}:{}: {before}", number + 1);
            is_inside = (is_inside || line.starts_with("/*")) && !line.ends_with("*/");
        } else {
            assert!(!is_inside || line.is_empty(), "{path}:{}: a comment goes on", number + 1);
            ticks += line.matches('`').count();
        }
    }
}

/// Without the times that follow from the moment of the answer: of `"heard_time":"1763690000.5"` the name is left.
fn steady(text: &str) -> String {
    let mut pieces = text.split("_time\":\"");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |steady, piece| steady + "_time" + piece.split_once('"').unwrap().1)
}

#[test]
fn answers_are_packed_page_by_page_and_mean_the_same() {
    let server = Server::start(Arc::new(FakeNode::many(700)));
    for path in
        ["/khz/v1/query", "/khz/v1/catalog", "/khz/v1/nodes", "/khz/v1/targets", "/khz/v1/openapi.json"]
    {
        let (plain, packed) = (ask(&server, "GET", path, ""), ask(&server, "GET", path, GZIP));
        assert!(!plain.is_packed() && packed.is_packed(), "{path}");
        let same = steady(&packed.text()) == steady(&plain.text());
        assert!(same, "{path}: the unpacked text differs");
        assert!(
            3 * packed.body.len() < plain.body.len(),
            "{path}: {} of {}",
            packed.body.len(),
            plain.body.len()
        );
        assert!(!packed.headers.contains_key("content-length"), "{path}");
        assert_eq!(packed.headers["vary"], "accept-encoding", "{path}");
    }
    let one = Server::start(Arc::new(FakeNode::default()));
    let metrics = ask(&one, "GET", "/metrics", GZIP);
    assert!(metrics.is_packed());
    assert_eq!(metrics.text(), ask(&one, "GET", "/metrics", "").text());
    assert_eq!(metrics.headers["vary"], "accept, accept-encoding");
}

#[test]
fn answers_stay_unpacked_when_gzip_is_unwanted_or_the_answer_is_short_or_for_head() {
    let server = Server::start(Arc::new(FakeNode::default()));
    for (method, path, headers) in [
        ("GET", "/metrics", "Accept-Encoding: gzip;q=0\r\n"),
        ("GET", "/metrics", "Accept-Encoding: gzip;q=0.1, identity\r\n"),
        ("GET", "/", "Accept-Encoding: br\r\n"),
        ("GET", "/healthz", GZIP),
        ("GET", "/nothing", GZIP),
        ("HEAD", "/metrics", GZIP),
    ] {
        let answer = ask(&server, method, path, headers);
        assert!(!answer.is_packed(), "{method} {path} {headers}");
    }
}

#[test]
fn without_room_for_packing_the_answer_comes_unpacked() {
    let server = Server::start_with(Arc::new(FakeNode::many(300)), |door| {
        door.limits.answers = ByteSize(400 * 1024);
    });
    let answer = ask(&server, "GET", "/khz/v1/query", GZIP);
    assert_eq!(answer.status, 200);
    assert!(!answer.is_packed());
    let text: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(text["nodes"].as_array().unwrap().len(), 300);
    server.wait("all memory is released", |c| c.answer_bytes.load(std::sync::atomic::Ordering::Relaxed) == 0);
}

#[test]
fn few_bytes_go_over_a_slow_line_before_the_page_shows_something() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let bytes = |path: &str| {
        let answer = ask(&server, "GET", path, GZIP);
        assert_eq!(answer.status, 200, "{path}");
        answer.body.len()
    };
    let page = ask(&server, "GET", "/", GZIP).text();
    // A browser paints when it has the page, its styles, and all scripts except modules.
    let styles = named(&page, "rel=\"stylesheet\"", "href=\"");
    let blocking: Vec<&str> =
        named(&page, "<script ", "src=\"").into_iter().filter(|name| *name != "main.js").collect();
    assert_eq!((styles.as_slice(), blocking.as_slice()), (&["style.css"][..], &["theme.js"][..]));
    let first = bytes("/") + bytes("/style.css") + bytes("/theme.js");
    assert!(first <= FIRST_PAINT_BYTES, "{first} bytes before the first paint");
    // And there is something to paint before any script runs.
    for shown in ["<h1>", "connecting", "Kilohertz", "data-rate=\"10\""] {
        assert!(page.contains(shown), "{shown}");
    }
    let all: usize = files().iter().map(|path| bytes(path)).sum();
    println!("all: {all} bytes, {first} before the first paint");
    assert!(all <= PAGE_BYTES, "the page has {all} bytes");
    let modules =
        |names: &BTreeSet<String>| names.iter().map(|name| bytes(&format!("/{name}.js"))).sum::<usize>();
    let frame = first + modules(&with_imports("main")) + bytes("/probe.js");
    for (view, most) in PICTURE_BYTES {
        let (own, others) = listed(view);
        let picture = frame + bytes(&format!("/{own}.js")) + modules(&others);
        println!("{view}: {picture} bytes in {} files", others.len() + 9);
        assert!(picture <= most, "the first picture of {view} takes {picture} bytes");
    }
    for (part, most) in LATER_BYTES {
        let (own, others) = listed(part);
        let later = bytes(&format!("/{own}.js")) + modules(&others);
        println!("{part}: {later} bytes in {} files", others.len() + 1);
        assert!(later <= most, "{part} takes {later} bytes");
    }
}

/// A module that only another one names would come a round trip later.
#[test]
fn no_module_of_the_page_waits_for_another_to_name_it() {
    let page = source("index.html");
    let told: BTreeSet<String> =
        named(&page, "modulepreload", "href=\"").into_iter().map(|name| name.replace(".js", "")).collect();
    let mut frame = with_imports("main");
    frame.remove("main");
    assert_eq!(told, frame);
    frame.insert("main".to_owned());
    let there = &frame | &with_imports("node-view");
    let with_past = &there | &with_imports("node-past");
    let parts = LATER_BYTES.map(|(part, _)| part);
    for view in PICTURE_BYTES.map(|(view, _)| view).into_iter().chain(parts) {
        let (own, others) = listed(view);
        let before = match view {
            "past" => &there,
            "more" => &with_past,
            _ => &frame,
        };
        let mut expected = &with_imports(&own) - before;
        expected.remove(&own);
        assert_eq!(others, expected, "what {view} needs");
    }
}

/// Of two elements with one name the second is never found.
#[test]
fn each_part_of_the_page_has_a_name_of_its_own() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let page = ask(&server, "GET", "/", "").text();
    let mut names = BTreeSet::new();
    for part in page.split(" id=\"").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(names.insert(name), "{name} is there twice");
    }
    assert!(names.len() > 10, "{names:?}");
}
