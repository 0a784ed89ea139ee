//! The view of a query in a real headless Chromium: over a real khz, and over an engine made up here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::looks::{DESK_AND_PHONE, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::run;
use khz_browser_test::server::Server;
use serde_json::{Value, json};

/// Opens a query, and waits until it is answered.
async fn opened<'a>(browser: &'a Browser, server: &Server, query: &str) -> Page<'a> {
    let page = Page { browser };
    browser.client.goto("about:blank").await.expect("a blank page opens");
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    browser.client.goto(&format!("{}#query={encoded}&range=5m", server.url())).await.expect("the page opens");
    page.wait(
        "the query is answered",
        "window.khz && khz.query && ['shown', 'failed'].includes(khz.query.state)",
    )
    .await;
    page
}

/// A khz that has some rows of the past.
async fn with_past(browser: &Browser) -> Server {
    let server = Server::start().await;
    let page = Page::open(browser, &format!("{}#rate=10&window=10s", server.url())).await;
    let start = page.number("khz.newest").await;
    page.wait("some past exists", &format!("khz.newest > {start} + 4")).await;
    server
}

/// An engine made up here: it answers "slow" never, "wrong" with an error at a place, and everything else with two waves that
/// have a gap in the middle.
fn made_engine() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

fn answer(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let value = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let (status, text) = match value("query")? {
        query if query.starts_with("slow") => {
            let _ = reader.read_to_end(&mut Vec::new());
            return None;
        }
        query if query.starts_with("wrong") => {
            let error = json!({ "status": "error", "errorType": "bad_data",
                "error": "invalid parameter \"query\": 2:3: parse error: unexpected identifier \"rate\"" });
            (400, error)
        }
        _ => {
            let number = |name: &str| value(name)?.parse::<f64>().ok();
            let (start, end, step) = (number("start")?, number("end")?, number("step")?);
            (200, waves(start, end, step))
        }
    };
    let text = text.to_string();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    reader.get_mut().write_all((head + &text).as_bytes()).ok()
}

/// Two waves, of which the middle fifth is missing in one and no number in the other.
fn waves(start: f64, end: f64, step: f64) -> Value {
    let times: Vec<f64> =
        (0..).map(|i| start + step * f64::from(i)).take_while(|time| *time <= end).collect();
    let series = |name: &str, phase: f64, gap: Option<&str>| {
        let points = times.iter().filter_map(|time| {
            let share = (time - start) / (end - start);
            let value = (0.4..0.6).contains(&share);
            let number = format!("{:.3}", 60.0 + 40.0 * (share * 12.0 + phase).sin());
            Some(json!([time, if value { gap?.to_owned() } else { number }]))
        });
        json!({ "metric": { "__name__": "load", "instance": name }, "values": points.collect::<Vec<_>>() })
    };
    let result = [series("node1", 0.0, None), series("node2", 1.0, Some("NaN"))];
    json!({ "status": "success", "data": { "resultType": "matrix", "result": result },
        "warnings": ["<b>partial</b> data"], "infos": ["an info"] })
}

/// A khz whose queries this engine answers.
async fn over(engine: &str) -> Server {
    let file = std::env::temp_dir().join(format!("khz-query-{}.toml", std::process::id()));
    std::fs::write(&file, format!("[engine]\nurl = \"{engine}\"\n")).expect("a file");
    Server::start_with("127.0.0.1:0", &["--config", file.to_str().expect("a name in UTF-8")]).await
}

/// The shares of the chart's width at which there is any colour but that of the grid and of its numbers.
const COLOURED: &str = "(() => { const c = document.querySelector('#query .trace'); \
    const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, columns = new Set(); \
    for (let i = 0; i < data.length; i += 4) { \
        if (data[i + 3] > 128 && Math.max(data[i], data[i + 1], data[i + 2]) - Math.min(data[i], data[i + 1], data[i + 2]) > 60) \
            columns.add((i / 4) % c.width); } \
    const left = 52 / c.clientWidth, share = [...columns].map(x => (x / c.width - left) / (1 - left)); \
    return [0.2, 0.5, 0.8].map(place => share.some(at => Math.abs(at - place) < 0.05)); })()";

async fn text(page: &Page<'_>, selector: &str) -> String {
    let text = page.eval(&format!("document.querySelector('{selector}').textContent")).await;
    text.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_query_is_drawn_and_listed_and_fits_every_screen() {
    run(async {
        let browser = Browser::start().await;
        let server = with_past(&browser).await;
        at_each_look(&browser, "query-many", &DESK_AND_PHONE, async |_| {
            let page = opened(&browser, &server, "sort_desc(rate(node_cpu_seconds_total[30s]))").await;
            assert_eq!(
                page.eval("khz.query.state").await,
                "shown",
                "{}",
                text(&page, ".query-problem").await
            );
            let series = page.number("khz.query.series").await;
            assert!(series > 12.0, "{series}");
            assert_eq!(page.number("khz.query.drawn").await, 12.0);
            assert!(text(&page, ".query-more").await.starts_with(&format!("{} more series", series - 12.0)));
            assert_eq!(page.number("document.querySelectorAll('#query .legend li').length").await, 12.0);
            assert_eq!(
                page.number("document.querySelectorAll('#query tbody tr').length").await,
                series.min(200.0)
            );
            page
        })
        .await;
        browser.close().await;
    });
}

#[test]
fn over_an_engine_lines_have_gaps_and_the_page_says_who_answered() {
    run(async {
        let browser = Browser::start().await;
        let engine = made_engine();
        let server = over(&engine).await;
        at_each_look(&browser, "query", &DESK_AND_PHONE, async |_| {
            let page = opened(&browser, &server, "load").await;
            assert_eq!(
                page.eval("khz.query.state").await,
                "shown",
                "{}",
                text(&page, ".query-problem").await
            );
            assert!(text(&page, ".query-state").await.ends_with(&format!("answered by {engine}")));
            assert_eq!(text(&page, ".query-notes").await, "<b>partial</b> dataan info");
            page.wait(
                "the lines are painted, with their gap",
                &format!("JSON.stringify({COLOURED}) === '[true,false,true]'"),
            )
            .await;
            page
        })
        .await;
        browser.close().await;
    });
}

#[test]
fn a_question_that_runs_is_cancelled_by_the_next_one() {
    run(async {
        let browser = Browser::start().await;
        let server = over(&made_engine()).await;
        browser.look(1280, 900, Theme::Light).await;
        let page = opened(&browser, &server, "load").await;
        page.eval(
            "(window.asked = [], window.fetch = (ask => (...words) => { \
            asked.push(words[1].signal); return ask(...words); })(window.fetch), true)",
        )
        .await;
        for query in ["slow", "load"] {
            page.eval(&format!("document.querySelector('#question').value = '{query}'")).await;
            page.click("#run").await;
            if query == "slow" {
                assert_eq!(text(&page, ".query-state").await, "asking…");
                assert_eq!(page.eval("document.querySelector('.query-result').hidden").await, true);
            }
        }
        page.wait("the next one is answered", "khz.query.state === 'shown'").await;
        assert_eq!(page.eval("asked.map(signal => signal.aborted)").await, json!([true, false]));
        browser.close().await;
    });
}

#[test]
fn what_is_typed_is_asked_and_is_in_the_address() {
    run(async {
        let browser = Browser::start().await;
        let server = with_past(&browser).await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open(&browser, server.url()).await;
        page.click("#ask").await;
        page.wait("the view is there", "khz.view === 'query' && document.activeElement.id === 'question'")
            .await;
        page.eval("document.querySelector('#question').value = 'vector(7)'").await;
        page.press("Enter").await;
        page.wait("it is answered", "khz.query.state === 'shown'").await;
        assert_eq!(text(&page, "#query tbody td:nth-child(2)").await, "7");
        assert_eq!(page.eval("location.hash").await, "#query=vector(7)&range=1h");
        page.eval(
            "(document.querySelector('#range').value = '15m', \
            document.querySelector('#range').dispatchEvent(new Event('change')))",
        )
        .await;
        page.wait(
            "the range is asked",
            "khz.query.state === 'shown' && location.hash.endsWith('&range=15m')",
        )
        .await;
        page.click("[data-example='up']").await;
        page.wait(
            "an example is asked",
            "khz.query.state === 'shown' && location.hash.startsWith('#query=up&')",
        )
        .await;
        assert!(text(&page, "#query tbody td").await.starts_with("up{"));
        // A link that is pasted asks again, and the way back leads to the node.
        page.eval("location.hash = '#query=vector(8)&range=5m'").await;
        page.wait(
            "the link is asked",
            "document.querySelector('#query tbody td:nth-child(2)')?.textContent === '8'",
        )
        .await;
        page.click("#all").await;
        page.wait("the node is back", "khz.view === 'node' && khz.state === 'live' && khz.rows > 1").await;
        assert_eq!(browser.console_errors().await, Vec::<String>::new());
        browser.close().await;
    });
}

#[test]
fn an_error_is_shown_with_its_place_and_the_next_query_takes_it_away() {
    run(async {
        let browser = Browser::start().await;
        let server = over(&made_engine()).await;
        browser.look(390, 844, Theme::Light).await;
        let page = opened(&browser, &server, "wrong +\n  rate(up)").await;
        assert_eq!(page.eval("khz.query.state").await, "failed");
        assert!(
            text(&page, ".query-problem p").await.contains("unexpected identifier \"rate\" (column 3)"),
            "{}",
            text(&page, ".query-problem").await
        );
        assert_eq!(text(&page, ".query-problem pre").await, "  rate(up)\n  ^");
        page.eval("document.querySelector('#question').value = 'up'").await;
        page.click("#run").await;
        page.wait("it is answered", "khz.query.state === 'shown'").await;
        assert_eq!(page.eval("document.querySelector('.query-problem').hidden").await, true);
        browser.close().await;
    });
}

#[test]
fn hostile_text_is_text() {
    run(async {
        let browser = Browser::start().await;
        let server = with_past(&browser).await;
        browser.look(390, 844, Theme::Dark).await;
        let evil = "<img src=x onerror=document.title=1>\u{202e}";
        let page =
            opened(&browser, &server, &format!("label_replace(vector(1), \"evil\", '{evil}', \"\", \"\")"))
                .await;
        assert_eq!(page.eval("khz.query.state").await, "shown", "{}", text(&page, ".query-problem").await);
        for place in ["#query tbody td", "#query .legend li"] {
            let shown = text(&page, place).await;
            assert!(shown.contains("<img src=x") && shown.contains("\\u{202e}"), "{place}: {shown}");
        }
        let page = opened(&browser, &server, &format!("\"{evil}")).await;
        assert!(text(&page, ".query-problem").await.contains("<img src=x"));
        assert_eq!(page.number("document.querySelectorAll('#query img').length").await, 0.0);
        assert_eq!(page.eval("document.title").await, "Query · Kilohertz");
        let wide = page.number("document.documentElement.scrollWidth").await;
        assert!(wide <= 390.0, "{wide}");
        browser.close().await;
    });
}

/// Name, expression and expected result, in the page's modules.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "missing_and_unknown_points_are_gaps_and_never_zero",
            "answer.runsOf([[0, '1'], [10, '2'], [40, '3'], [50, 'NaN'], [60, '4'], [70, '+Inf'], [80, '']], 10)",
            json!([[[0, 1], [10, 2]], [[40, 3]], [[60, 4]]]),
        ),
        (
            "a_series_is_written_as_in_promql",
            "[{__name__: 'up', a: 'x\"y'}, {__name__: 'up'}, {a: '1', b: '2'}, {}].map(answer.seriesName)",
            json!(["up{a=\"x\\\"y\"}", "up", "{a=\"1\", b=\"2\"}", "{}"]),
        ),
        (
            "between_gaps_there_is_no_value",
            "[0, 4, 30, 44].map((time) => String(answer.valueAt([[[0, 1], [10, 2]], [[45, 3]]], time, 10)))",
            json!(["1", "1", "NaN", "3"]),
        ),
        (
            "a_place_outside_the_query_is_no_pointer",
            "answer.problemOf('up', '9:9: parse error: x')",
            json!({ "text": "9:9: parse error: x", "pointer": "" }),
        ),
        (
            "an_axis_has_zero_where_values_are_near_it_and_a_level_line_has_room",
            "[[[0, 3], [1, 97]], [[0, 1000], [1, 1002]], [[0, 0]], [[0, -5], [1, 5]]].map((run) => \
                (({low, high}) => [low, high])(chart.verticalScale([{runs: [run]}], 4)))",
            json!([[0, 100], [1000, 1002], [0, 1], [-5, 5]]),
        ),
        (
            "marks_can_be_told_apart",
            "[[1000, 1002], [0, 16e9], [0, 0.0004], [1e300, 1.0000001e300]].map(([from, to]) => { \
                const scale = chart.verticalScale([{runs: [[[0, from], [1, to]]]}], 4); \
                const texts = scale.marks.map(scale.print); return new Set(texts).size === texts.length || texts.length === 2; })",
            json!([true, true, true, true]),
        ),
    ]
}

#[test]
fn the_arithmetic_of_the_chart_keeps_its_promises() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, server.url()).await;
        for (name, expression, expected) in cases() {
            let script = format!(
                "(async () => {{ const answer = await import('/query-answer.js'), chart = await import('/query-chart.js'); \
                 return {expression}; }})()"
            );
            assert_eq!(page.eval(&script).await, expected, "{name}");
        }
        browser.close().await;
    });
}
