//! The view of a query in a real headless Chromium: over a real khz, and over an engine made up here.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::page::Page;
use khz_browser_test::server::Server;
use khz_browser_test::target_dir;
use serde_json::{Value, json};

/// Allows one browser at a time: on a small machine several would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn run(test: impl Future<Output = ()>) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(test);
}

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

async fn text(page: &Page<'_>, selector: &str) -> String {
    let text = page.eval(&format!("document.querySelector('{selector}').textContent")).await;
    text.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_query_is_drawn_and_listed_and_fits_every_screen() {
    run(async {
        let browser = Browser::start().await;
        let server = with_past(&browser).await;
        for (width, height, theme) in [
            (1280, 900, Theme::Light),
            (390, 844, Theme::Dark),
            (1280, 900, Theme::Dark),
            (390, 844, Theme::Light),
        ] {
            browser.look(width, height, theme).await;
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
            let painted = "(() => { const c = document.querySelector('#query .trace'); \
                return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(byte => byte > 0); })()";
            assert_eq!(page.eval(painted).await, true, "the chart is painted");
            let wide = page.number("document.documentElement.scrollWidth").await;
            assert!(wide <= f64::from(width), "the page is {wide} pixels wide on a screen of {width}");
            let outside = "[...document.querySelectorAll('#query *')].filter(e => e.offsetWidth > 1 && \
                e.getBoundingClientRect().right > innerWidth + 0.5).length";
            assert_eq!(page.number(outside).await, 0.0, "something lies outside the screen");
            let name = format!("query-{width}-{}.png", theme.as_str());
            page.screenshot(&target_dir().join("screenshots").join(name)).await;
        }
        assert_eq!(browser.console_errors().await, Vec::<String>::new());
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
        let server = with_past(&browser).await;
        browser.look(390, 844, Theme::Light).await;
        let page = opened(&browser, &server, "sum(up) +\n  rate(up)").await;
        assert_eq!(page.eval("khz.query.state").await, "failed");
        assert!(
            text(&page, ".query-problem p").await.contains("(column 8)"),
            "{}",
            text(&page, ".query-problem").await
        );
        assert_eq!(text(&page, ".query-problem pre").await, "  rate(up)\n       ^");
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
        let page = opened(&browser, &server, &format!("{evil} (")).await;
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
            json!([[0, 100], [1000, 1002], [0, 1], [-6, 6]]),
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
