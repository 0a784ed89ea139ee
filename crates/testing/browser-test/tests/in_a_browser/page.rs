//! The live page in a real headless Chromium, served by a real khz.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::demo::Demo;
use khz_browser_test::looks::{ALL_SIZES, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::server::{Server, binary};
use khz_browser_test::{root, target_dir};

#[test]
fn the_page_loads_and_moves_at_every_size_and_theme() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        at_each_look(&browser, "page", &ALL_SIZES, async |look| {
            let page = Page::open(&browser, &format!("{}#rate=100&window=1min", server.url())).await;
            assert_it_lives(&page).await;
            assert_theme(&page, look.theme).await;
            page
        })
        .await;
        browser.close().await;
    });
}

#[test]
fn the_head_of_a_page_is_one_line_on_a_usual_screen() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 800, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=1&window=10s", server.url())).await;
        let facts = "[...document.querySelectorAll('.top dl:not([hidden]) > div:not([hidden])')]";
        page.wait(
            "all facts are known",
            &format!("{facts}.every(f => f.lastElementChild.textContent !== '–')"),
        )
        .await;
        let boxes = format!(
            "[...{facts}, ...document.querySelectorAll('.top .name, .top .top-buttons')].map(e => e.getBoundingClientRect())"
        );
        let widths = page.eval(&format!("{boxes}.map(b => Math.round(b.width))")).await;
        let is_line = format!("(boxes => boxes.every(a => boxes.every(b => a.top < b.bottom)))({boxes})");
        page.screenshot(&target_dir().join("screenshots/head-1280.png")).await;
        assert_eq!(
            page.eval(&is_line).await,
            serde_json::Value::Bool(true),
            "parts are {widths} pixels wide"
        );
        browser.close().await;
    });
}

/// Bytes a second and round trip in ms of a slow line: a mobile phone at the edge of its cell.
const SLOW_LINE: (u32, u32) = (20_000, 100);

#[test]
fn over_a_slow_line_the_page_shows_something_before_its_scripts_have_arrived() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        browser.slow_line(SLOW_LINE).await;
        let page = Page::open(&browser, &format!("{}#rate=1&window=10s", server.url())).await;
        let painted = "performance.getEntriesByName('first-contentful-paint')[0].startTime";
        let scripts = "Math.max(...performance.getEntriesByType('resource').map(r => r.responseEnd))";
        let (painted, scripts) = (page.number(painted).await, page.number(scripts).await);
        println!("over {SLOW_LINE:?}: first paint after {painted:.0} ms, all files after {scripts:.0} ms");
        assert!(
            painted < scripts,
            "the first paint is after {painted} ms, not before all files ({scripts} ms)"
        );
        let begun = |file: &str| {
            format!(
                "performance.getEntriesByType('resource').find(r => r.name.endsWith('/{file}'))?.startTime"
            )
        };
        let picture = page.number("performance.getEntriesByName('khz-picture')[0].startTime").await;
        for file in ["part-past.js", "part-rest.js", "part-nodes.js", "later.html", "later.css"] {
            page.wait(&format!("{file} is asked for"), &begun(file)).await;
            let at = page.number(&begun(file)).await;
            assert!(
                at >= picture,
                "the first picture, after {picture} ms, does not wait for {file}: {at} ms"
            );
        }
        let firsts =
            "performance.getEntriesByType('resource').filter(r => /history[?].*rows=6$/.test(r.name)).length";
        assert_eq!(page.number(firsts).await, 1.0, "what was asked for early is not asked for once more");
        let packed = "performance.getEntriesByType('resource').filter(r => /\\.(js|css|html)$/.test(r.name))\
                      .every(r => r.encodedBodySize < r.decodedBodySize)";
        assert_eq!(page.eval(packed).await, serde_json::Value::Bool(true), "all files come compressed");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

/// Notes when the first plot or tile has a painted pixel.
const WATCH: &str = "(() => { const isPainted = (canvas) => { \
    if (!canvas || canvas.width < 2) return false; \
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); \
    for (let i = 3; i < data.length; i += 4) if (data[i] > 0) return true; return false; }; \
    const timer = setInterval(() => { const shown = [...document.querySelectorAll('#board .panel .trace')].slice(0, 1).some(isPainted) \
        || (isPainted(document.querySelector('.tiles canvas')) && /\\d/.test(document.querySelector('[data-total=mean]').textContent)); \
    if (shown) { window.pictureAt = performance.now(); clearInterval(timer); } }, 30); })()";

/// What was asked for until then: when, when its first byte came and its last one, and its bytes with headers.
const ASKED: &str = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]\
    .filter(r => r.startTime < window.pictureAt)\
    .map(r => `    ${[r.startTime, r.responseStart, r.responseEnd].map(Math.round).join(' ')} ${r.transferSize} ${r.name.split('/').pop().slice(0, 40)}`).join('\\n')";

/// `KHZ_BIN=... cargo test -p khz-browser-test --test in_a_browser -- --ignored first_picture --nocapture`
#[test]
#[ignore = "measures, and asserts nothing"]
fn how_long_the_first_picture_takes_over_a_slow_line() {
    run(async {
        let server = Server::start().await;
        let demo = Demo::start(&[]).await;
        let all = "performance.getEntriesByType('resource').filter(r => /(js|css|svg|html)$/.test(r.name)).reduce((sum, r) => sum + r.encodedBodySize, 0)";
        // A minute of past, as of a khz that somebody looks at.
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        for line in [SLOW_LINE, (10_000_000, 0)] {
            let node = format!("{}#rate=10&window=1min", server.url());
            for (view, url) in [("node", node), ("200 nodes", demo.url().to_owned())] {
                let mut times = Vec::new();
                for _ in 0..5 {
                    // A page that a browser keeps for the way back would take its share of the line.
                    let browser = Browser::start().await;
                    browser.look(1280, 1000, Theme::Light).await;
                    browser.cdp("Page.enable", serde_json::json!({})).await;
                    browser
                        .cdp("Page.addScriptToEvaluateOnNewDocument", serde_json::json!({ "source": WATCH }))
                        .await;
                    browser.slow_line(line).await;
                    let page = Page::open_bare(&browser, &url).await;
                    page.wait("there is a picture", "window.pictureAt").await;
                    times.push(page.number("pictureAt").await.round());
                    println!(
                        "  {view}: {:?} ms, {} bytes of files by then",
                        times.last(),
                        page.number(all).await
                    );
                    if let Some(asked) = page.eval(ASKED).await.as_str() {
                        println!("{asked}");
                    }
                    browser.close().await;
                }
                times.sort_by(f64::total_cmp);
                println!("{view} over {line:?}: median {} ms of {times:?}", times[times.len() / 2]);
            }
        }
    });
}

/// Checks that numbers are shown and change, and that plots are painted.
async fn assert_it_lives(page: &Page<'_>) {
    assert_ne!(page.eval("document.querySelector('#node').textContent").await, "Kilohertz");
    let shown = "[...document.querySelectorAll('.panel:not([hidden]) .legend b')].map(b => b.textContent)";
    // On a phone the signals stand before it, and what nobody sees is not written.
    page.eval("document.querySelector('.panel').scrollIntoView({ block: 'center' })").await;
    page.wait(
        "the CPU panel has numbers",
        "/\\d %/.test(document.querySelector('.panel .legend').textContent)",
    )
    .await;
    let before = page.eval(shown).await;
    page.wait("numbers change", &format!("JSON.stringify({shown}) !== JSON.stringify({before})")).await;
    page.wait("plots are painted", "khz.framesDrawn > 10").await;
    let painted = "[...document.querySelectorAll('.panel .trace')].slice(0, 1).every(c => \
        c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(byte => byte > 0))";
    page.wait("the first plot is not blank", painted).await;
    for title in ["All CPUs", "Memory", "Load", "Context switches"] {
        let last = format!("khz.panels.find(p => p.title === '{title}').last.some(Number.isFinite)");
        page.wait(&format!("{title} has values"), &last).await;
    }
    let filled = "[...document.querySelectorAll('.group')].every(g => g.querySelector('.panel:not([hidden])') || \
        g.querySelector('h2 small').textContent)";
    page.wait("every group has plots or says why not", filled).await;
    assert_eq!(page.number("khz.lost").await, 0.0, "no row is lost");
}

/// Checks that the page follows the system's preference, and that the button overrules it.
async fn assert_theme(page: &Page<'_>, theme: Theme) {
    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]";
    let dark = page.number(brightness).await < 128.0;
    assert_eq!(dark, theme == Theme::Dark, "the page is {}", if dark { "dark" } else { "light" });
    page.click("#theme").await;
    assert_eq!(page.number(brightness).await < 128.0, !dark, "the button switches the theme");
    page.click("#theme").await;
    page.eval("localStorage.clear()").await;
}

#[test]
fn the_rate_chosen_on_the_page_is_the_rate_of_the_rows() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        for rate in [100.0, 1.0, 10.0] {
            page.click(&format!("[data-rate='{rate}']")).await;
            assert_eq!(page.number("khz.rate").await, rate);
            assert_rows_arrive_at(&page, rate).await;
        }
        // Any number in between can be typed. A larger one becomes the largest that is offered.
        type_rate(&page, "25").await;
        assert_rows_arrive_at(&page, 25.0).await;
        type_rate(&page, "99999").await;
        let most = page.number("Number(document.querySelector('#rate').max)").await;
        assert_eq!(page.number("khz.rate").await, most);
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_page_whose_node_is_at_its_ceiling_says_so_and_what_to_do() {
    run(async {
        let ceiling = ["--cpu-max", "0.1%"];
        let server = Server::start_with("127.0.0.1:0", &ceiling).await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, &format!("{}#rate=1000&window=10s", server.url())).await;
        let said = "document.querySelector('#slowed').textContent";
        page.wait("the page says that it is slowed", &format!("/ instead of 1000 Hz/.test({said})")).await;
        let text = page.eval(said).await.to_string();
        assert!(text.contains("cpu_max") && text.contains("khz check"), "{text}");
        assert_eq!(
            page.number("document.querySelector('#slowed').offsetHeight > 0 ? 1 : 0").await,
            1.0,
            "it is seen"
        );
        // At a rate that the node can keep, the page reports only that others are slowed, or nothing once that is over.
        page.click("[data-rate='1']").await;
        page.wait("it is not slowed any more", &format!("!/ instead of /.test({said})")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

async fn type_rate(page: &Page<'_>, digits: &str) {
    let script = format!(
        "(() => {{ const i = document.querySelector('#rate'); i.value = '{digits}'; \
         i.dispatchEvent(new Event('change')); return true; }})()"
    );
    page.eval(&script).await;
}

/// Checks the rate to a factor of two, which tells these rates apart. A loaded machine may miss ticks, and a second may
/// have one row more; so this asserts no timing.
async fn assert_rows_arrive_at(page: &Page<'_>, rate: f64) {
    page.wait("the new stream is measured", "Number.isFinite(khz.rateReached)").await;
    let reached = page.rows_per_second().await;
    assert!(reached > rate / 2.0 && reached < rate * 2.0 + 1.0, "{reached} rows/s at {rate} Hz");
}

#[test]
fn history_is_there_before_the_stream_has_brought_it() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        // During the first visit the node gathers some history. The second visit must show it at once.
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        let start = page.number("khz.newest").await;
        page.wait("five seconds of past exist", &format!("khz.newest > {start} + 5")).await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        page.wait("older rows than the stream's are drawn", "khz.newest - khz.oldest > 4 && khz.rows < 40")
            .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_check_of_the_console_finds_errors() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = Page::open(&browser, server.url()).await;
        page.eval("fetch('/no-such-file').then(() => console.error('heard'))").await;
        let errors = browser.console_errors().await;
        assert!(errors.iter().any(|error| error.contains("heard")), "{errors:?}");
        browser.close().await;
    });
}

#[test]
fn a_paused_page_takes_no_rows_until_it_goes_on() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(390, 844, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=100&window=10s", server.url())).await;
        page.click("#pause").await;
        page.wait("the page says so", "khz.state === 'paused'").await;
        let rows = page.number("khz.rows").await;
        // Frames prove that time passes in the page. In sixty frames a hundred rows would come at 100 Hz.
        let frames = page.number("khz.framesSeen").await;
        page.wait("sixty frames pass", &format!("khz.framesSeen > {frames} + 60")).await;
        assert_eq!(page.number("khz.rows").await, rows);
        page.click("#pause").await;
        page.wait("rows arrive again", &format!("khz.state === 'live' && khz.rows > {rows}")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn values_can_be_read_with_the_keyboard_and_with_the_pointer() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Dark).await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        page.eval("document.querySelector('.panel .frame').focus()").await;
        page.press("ArrowLeft").await;
        page.wait(
            "the cursor has words",
            "/−0.05 s/.test(document.querySelector('.panel .tip').textContent)",
        )
        .await;
        assert_eq!(page.eval("document.querySelector('.panel .cursor').hidden").await, false);
        page.press("Escape").await;
        page.wait("it goes away", "document.querySelector('.panel .cursor').hidden").await;
        let place = page.eval(
            "(({x, y}) => [x, y])(document.querySelectorAll('.panel .frame')[1].getBoundingClientRect())",
        );
        let place = place.await;
        let (x, y) = (place[0].as_f64().unwrap() + 60.0, place[1].as_f64().unwrap() + 20.0);
        let moved = serde_json::json!({ "type": "mouseMoved", "x": x, "y": y });
        browser.cdp("Input.dispatchMouseEvent", moved).await;
        let every = "[...document.querySelectorAll('.panel:not([hidden]) .cursor')].slice(0, 2).every(c => !c.hidden)";
        page.wait("every plot marks the instant", every).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_server_that_goes_away_is_shown_and_found_again() {
    run(async {
        let mut server = Server::start().await;
        if !server.is_own() {
            return khz_skip::skip("the server of KHZ_URL is not ours to end");
        }
        let browser = Browser::start().await;
        browser.look(390, 844, Theme::Dark).await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        let address = server.address().to_owned();
        server.kill().await;
        page.wait("the page says so", "khz.state === 'waiting' && !document.querySelector('#notice').hidden")
            .await;
        let shown = "/\\d/.test(document.querySelector('.panel .legend').textContent)";
        page.wait("old numbers are not shown as new ones", &format!("!{shown}")).await;
        let rows = page.number("khz.rows").await;
        let _again = Server::start_on(&address).await;
        page.wait("it finds the new one", &format!("khz.state === 'live' && khz.rows > {rows}")).await;
        assert_eq!(page.eval("document.querySelector('#notice').hidden").await, true);
        browser.close().await;
    });
}

/// `KHZ_SCREENSHOT=docs/screenshot.png cargo test -p khz-browser-test --test in_a_browser -- --ignored screenshot`
#[test]
#[ignore = "writes the screenshot of the documentation, which takes a minute of data"]
fn screenshot_for_the_documentation() {
    run(async {
        let path = std::env::var("KHZ_SCREENSHOT").unwrap_or_else(|_| "docs/screenshot.png".into());
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1240, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=100&window=1min", server.url())).await;
        for _ in 0..2 {
            // Two waits, since one is bounded. They fill three quarters of the window.
            let newest = page.number("khz.newest").await;
            page.wait("the window fills", &format!("khz.newest > {newest} + 23")).await;
        }
        page.screenshot(&root().join(path)).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn cpus_whose_counters_do_not_move_are_unknown_and_never_busy() {
    run(async {
        // A captured machine: its files do not change.
        let host = root().join("fixtures/linux-6.1-qemu64");
        let server = Server::start_with("127.0.0.1:0", &["--root", host.to_str().unwrap()]).await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
        let start = page.number("khz.newest").await;
        page.wait("two seconds of rows are there", &format!("khz.newest > {start} + 2")).await;
        let each = "khz.panels.find(p => p.title === 'Each of 64 CPUs')";
        assert_eq!(page.number(&format!("{each}.last.length")).await, 64.0);
        assert_eq!(page.number(&format!("{each}.last.filter(Number.isFinite).length")).await, 0.0);
        let legend = |title: &str| {
            format!("document.querySelector('.panel[aria-label=\"{title}\"] .legend').textContent")
        };
        assert_eq!(page.eval(&legend("Each of 64 CPUs")).await, "0 %100 %mean –busiest –");
        assert!(page.eval(&legend("All CPUs")).await.as_str().unwrap().ends_with("busy –"));
        let painted = "(() => { const c = document.querySelector('.panel.heat .trace'); \
            return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter(b => b > 0).length; })()";
        assert_eq!(page.number(painted).await, 0.0, "cells of unknown CPUs stay clear");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn what_a_job_publishes_is_on_the_page_of_its_node() {
    run(async {
        let folder = target_dir().join(format!("tmp/page-jobs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let run_dir = ["--run-dir", folder.to_str().unwrap()];
        let server = Server::start_with("127.0.0.1:0", &run_dir).await;
        let publish = |words: &[&str]| {
            let done = std::process::Command::new(binary()).arg("publish").args(words).args(run_dir).output();
            let done = done.expect("khz publishes");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        let browser = Browser::start().await;
        for (width, height) in [(1280, 1400), (390, 844)] {
            browser.look(width, height, Theme::Light).await;
            let page = Page::open(&browser, &format!("{}#rate=10&window=10s", server.url())).await;
            publish(&["queue[left lane,rank=1]=17", "free=3221225472", "drift=-17", "--unit", "bytes"]);
            let words = "[...document.querySelectorAll('section[aria-label=\"Published by jobs\"] .panel')].map(p => p.textContent).join()";
            let group = "document.querySelector('section[aria-label=\"Published by jobs\"]')";
            page.wait("the group is there", &format!("!{group}.hidden")).await;
            page.eval(&format!("{group}.scrollIntoView()")).await;
            page.wait(
                "the gauges are shown",
                &format!(
                    "/job.free[^,]*3.00 GiB/.test({words}) && /job.queue.left lane,rank=1.[^,]*17 B/.test({words}) \
                     && /job.drift[^,]*−17 B/.test({words})"
                ),
            )
            .await;
            page.assert_fits().await;
            page.picture(&format!("jobs-{width}")).await;
            assert_clean_console(&browser).await;
        }
        browser.close().await;
        let _ = std::fs::remove_dir_all(folder);
    });
}
