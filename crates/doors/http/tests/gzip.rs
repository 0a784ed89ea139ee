//! Packed answers: clients that accept gzip get the same contents in fewer bytes, few enough to show the page
//! soon.

// Helpers of tests are tests too, which clippy's `allow-unwrap-in-tests` does not see.
#![allow(clippy::unwrap_used)]

mod fake;
#[path = "../build/parts.rs"]
mod parts;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::Arc;

use fake::{FakeNode, Server};
use khz_model::ByteSize;
use parts::PARTS;

/// A line of 20 kB a second carries the first part within a second, and the rest of a first picture within about two. Headers add
/// about 400 bytes for each file.
const FIRST_PAINT_BYTES: usize = 8_500;
/// The first picture of each view: the files that are loaded before it, and their bytes. Over a slow line each file takes longer
/// than its bytes.
const PICTURES: [(&str, usize, usize); 9] = [
    ("node", 6, 39_500),
    ("cluster", 7, 32_000),
    ("waterfall", 9, 39_500),
    ("compare", 11, 42_000),
    ("sums", 11, 42_000),
    ("query", 9, 28_500),
    ("alerts", 11, 43_000),
    ("board", 14, 80_000),
    ("palette", 9, 28_500),
];
/// What comes to a node's page when its first picture is there.
const LATER: [(&str, usize, usize); 2] = [("past", 1, 13_500), ("more", 5, 32_000)];
/// All files that a browser asks for.
const PAGE_BYTES: usize = 166_000;

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
    let names = names.map(|name| format!("/{}", if name == "index.html" { "" } else { &name }));
    names.chain(PARTS.iter().map(|(part, _)| format!("/part-{part}.js"))).collect()
}

/// The modules that a module asks for with the mark before their names.
fn names<'t>(text: &'t str, mark: &str) -> BTreeSet<&'t str> {
    let rest = text.split(mark).skip(1);
    rest.filter_map(|rest| rest.split_once(".js\""))
        .map(|(name, _)| name)
        .filter(|name| !name.contains('"'))
        .collect()
}

/// All scripts of the page as a browser gets them, without `.js`.
struct Scripts(HashMap<String, String>);

impl Scripts {
    fn of(server: &Server) -> Scripts {
        let paths = files().into_iter().filter(|path| path.ends_with(".js"));
        let name = |path: &str| path.trim_start_matches('/').trim_end_matches(".js").to_owned();
        Scripts(paths.map(|path| (name(&path), ask(server, "GET", &path, GZIP).text())).collect())
    }

    /// A module, and all that it imports before it runs.
    fn with_imports(&self, module: &str) -> BTreeSet<&str> {
        let (mut found, mut open) = (BTreeSet::new(), vec![module]);
        while let Some(module) = open.pop() {
            let (name, text) = self.0.get_key_value(module).unwrap_or_else(|| panic!("no {module}.js"));
            if found.insert(name.as_str()) {
                open.extend(&names(text, "from \"./") | &names(text, "import \"./"));
            }
        }
        found
    }

    /// What the frame of the page asks for when a view, or another part, is wanted.
    fn asked(&self, view: &str) -> BTreeSet<&str> {
        let mark = format!("{view}: () => ");
        let line = self.0["part-page"].lines().find(|line| line.starts_with(&mark));
        names(line.expect("the view is there"), "import(\"./")
    }
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

/// Lines that are empty or only a comment are not there, all others have no indent. Nothing of this is within a text of several lines.
fn assert_only_comments_are_left_out(path: &str, plain: &str, packed: &str) {
    let mut packed = packed.lines().peekable();
    let (mut is_text, mut is_comment) = (false, false);
    for (number, line) in plain.lines().enumerate() {
        let place = format!("{path}:{}: {line}", number + 1);
        let kept = if is_text { line } else { line.trim_start() };
        let is_code = is_text || (!kept.is_empty() && !is_comment);
        if is_code && packed.peek().is_some_and(|next| *next == kept) {
            packed.next();
            is_text ^= path.ends_with("js") && line.matches('`').count() % 2 == 1;
            continue;
        }
        assert!(!is_text, "{place}: within a text");
        let is_begun = is_comment || kept.starts_with("/*");
        let is_remark = path.ends_with("js") && kept.starts_with("//");
        assert!(kept.is_empty() || is_begun || is_remark, "{place}");
        is_comment = is_begun && !kept.contains("*/");
        assert!(!is_begun || is_comment || kept.ends_with("*/"), "{place}");
    }
    assert_eq!(packed.next(), None, "{path}");
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
    let (modules, blocking): (Vec<&str>, Vec<&str>) =
        named(&page, "<script ", "src=\"").into_iter().partition(|name| name.starts_with("part-"));
    assert_eq!(styles, ["style.css"]);
    assert_eq!(
        (modules.as_slice(), blocking.as_slice()),
        (&["part-page.js"][..], &["early.js", "theme.js"][..])
    );
    let first = bytes("/") + bytes("/style.css") + bytes("/theme.js") + bytes("/early.js");
    assert!(first <= FIRST_PAINT_BYTES, "{first} bytes before the first paint");
    // And there is something to paint before any script runs.
    for shown in ["<h1>", "connecting", "Kilohertz", "data-rate=\"10\""] {
        assert!(page.contains(shown), "{shown}");
    }
    let scripts = Scripts::of(&server);
    let stubs = |path: &String| path.ends_with(".js") && bytes(path) < 150;
    let all: usize = files().iter().filter(|path| !stubs(path)).map(|path| bytes(path)).sum();
    println!("all: {all} bytes, {first} before the first paint");
    assert!(all <= PAGE_BYTES, "the page has {all} bytes");
    let of = |names: &BTreeSet<&str>| names.iter().map(|name| bytes(&format!("/{name}.js"))).sum::<usize>();
    for (view, files_most, most) in PICTURES {
        let asked = &scripts.asked(view) | &BTreeSet::from(["part-page"]);
        let is_first = ["node", "cluster"].contains(&view);
        let (others, later) = if is_first { (4, 0) } else { (6, bytes("/later.html") + bytes("/later.css")) };
        let (count, picture) = (asked.len() + others, first + of(&asked) + later);
        println!("{view}: {picture} bytes in {count} files");
        assert!(count <= files_most, "the first picture of {view} takes {count} files");
        assert!(picture <= most, "the first picture of {view} takes {picture} bytes");
    }
    let node = scripts.with_imports("part-node");
    let mut there = node.clone();
    for (part, files_most, most) in LATER {
        let asked = &scripts.asked(part) - &there;
        there.extend(&asked);
        println!("{part}: {} bytes in {} files", of(&asked), asked.len());
        assert!(
            asked.len() <= files_most && of(&asked) <= most,
            "{part} takes {} bytes: {asked:?}",
            of(&asked)
        );
    }
}

/// A file that only another one names would come a round trip later.
#[test]
fn no_script_of_the_page_waits_for_another_to_name_it() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let page = ask(&server, "GET", "/", GZIP).text();
    let scripts = Scripts::of(&server);
    assert_eq!(scripts.with_imports("part-page"), BTreeSet::from(["part-page"]));
    // What is fetched before the modules run is what they then ask for.
    for (attribute, view) in [("data-node=\"", "node"), ("data-nodes=\"", "cluster")] {
        let early: BTreeSet<&str> = named(&page, "early.js", attribute)[0]
            .split(' ')
            .map(|file| file.trim_end_matches(".js"))
            .collect();
        assert_eq!(early, &scripts.asked(view) | &BTreeSet::from(["part-page"]), "{view}");
    }
    let mut groups = 0;
    for (name, text) in &scripts.0 {
        // Each of these is one question: `import("./x.js")`, or several of them within `Promise.all([...])`.
        for line in text.lines().filter(|line| line.contains("import(\"./")) {
            let asked = names(line, "import(\"./");
            let there = &scripts.with_imports(name) | &asked;
            for wanted in &asked {
                let needed = scripts.with_imports(wanted);
                assert!(
                    needed.is_subset(&there),
                    "{name}.js asks for {wanted}.js, which then needs {needed:?}: {line}"
                );
            }
            groups += 1;
        }
    }
    assert!(groups > 20, "{groups}");
}

#[test]
fn each_module_has_one_place_and_is_the_same_under_its_own_name() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let scripts = Scripts::of(&server);
    let mut places: HashMap<&str, &str> = HashMap::new();
    for (name, text) in &scripts.0 {
        for module in
            text.lines().filter_map(|line| line.strip_prefix("const $")?.strip_suffix(" = (() => {"))
        {
            assert_eq!(places.insert(module, name), None, "{module} is in two parts");
        }
    }
    assert!(places.len() > 80, "{places:?}");
    for (module, part) in places {
        let own = &scripts.0[&module.replace('_', "-")];
        assert!(own.contains(&format!("\"./{part}.js\"")), "{own}");
    }
}

/// Beside each script it would take a tenth of a second of a slow line.
#[test]
fn the_policy_of_the_page_comes_with_pages_and_answers_but_not_with_their_scripts_and_styles() {
    let server = Server::start(Arc::new(FakeNode::default()));
    for (path, has_policy) in [
        ("/", true),
        ("/later.html", true),
        ("/khz/v1/nodes", true),
        ("/metrics", true),
        ("/part-page.js", false),
        ("/style.css", false),
    ] {
        let answer = ask(&server, "GET", path, GZIP);
        assert_eq!(answer.headers.contains_key("content-security-policy"), has_policy, "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
    }
}

/// Of two elements with one name the second is never found.
#[test]
fn each_part_of_the_page_has_a_name_of_its_own() {
    let server = Server::start(Arc::new(FakeNode::default()));
    let page = ask(&server, "GET", "/", "").text() + &ask(&server, "GET", "/later.html", "").text();
    let mut names = BTreeSet::new();
    for part in page.split(" id=\"").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(names.insert(name), "{name} is there twice");
    }
    assert!(names.len() > 10, "{names:?}");
}
