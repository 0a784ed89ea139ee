//! The time that the page of a node shows: zooming, moving, the address, and back to now, in a real Chromium.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::server::Server;
use khz_browser_test::target_dir;

/// `modifiers` of an event: Ctrl is held, Shift is held.
const CTRL: u32 = 2;
const SHIFT: u32 = 8;
/// The plot in which the tests work, and its time axis.
const PLOT: &str = ".panel .frame";
const AXIS: &str = ".panel .times";
const TEXT: &str = "document.querySelector('.timebar-text').textContent";
const SPAN: &str = "khz.time.to - khz.time.from";

/// A point of an element: shares of its width and height.
async fn point(page: &Page<'_>, selector: &str, (x, y): (f64, f64)) -> (f64, f64) {
    let (left, top, width, height) = page.place(selector).await;
    (left + x * width, top + y * height)
}

/// A page that has shown live rows for some seconds.
async fn live_page<'a>(browser: &'a Browser, server: &Server) -> Page<'a> {
    let page = Page::open(browser, &format!("{}#rate=10&window=10s", server.url())).await;
    let start = page.number("khz.newest").await;
    page.wait("three seconds of rows are there", &format!("khz.newest > {start} + 3")).await;
    page
}

async fn close_to(page: &Page<'_>, expression: &str, expected: f64, tolerance: f64) {
    let found = page.number(expression).await;
    assert!((found - expected).abs() <= tolerance, "{expression} is {found}, not about {expected}");
}

async fn assert_notice(page: &Page<'_>, text: &str) {
    let notice = "document.querySelector('#notice')";
    page.wait(
        &format!("the page says: {text}"),
        &format!("!{notice}.hidden && {notice}.textContent.includes({text:?})"),
    )
    .await;
}

#[test]
fn a_window_that_ends_before_it_begins_and_an_unknown_comparison_are_named() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = live_page(&browser, &server).await;
        let to = page.number("khz.time.to").await;
        let window = format!("from={to:.3}&to={:.3}&compare=2h", to - 2.0);
        let page = Page::open(&browser, &format!("{}#rate=10&window=10s&{window}", server.url())).await;
        close_to(&page, "khz.time.from", to - 2.0, 0.002).await;
        close_to(&page, "khz.time.to", to, 0.002).await;
        assert_notice(
            &page,
            "The window in the address ends before it begins: it is shown the other way round.",
        )
        .await;
        assert_notice(&page, "compare=2h in the address is not known: there are before, 1h, 1d, 1w.").await;
        page.screenshot(&target_dir().join("screenshots/turned-window.png")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn clock_times_stand_on_the_axes_and_beside_the_pointer() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = live_page(&browser, &server).await;
        let axis = format!("document.querySelector('{AXIS}').textContent");
        page.wait(
            "the axis has clock times",
            &format!(r"/\d\d:\d\d:\d\d.*−10 s.*\d\d:\d\d:\d\d.*now$/.test({axis})"),
        )
        .await;
        // The last of them is the time of the newest row.
        let shown = "[...document.querySelectorAll('.panel .times span:last-child b')][0].textContent";
        let clock =
            "[0, 1, 2].map((back) => new Date((khz.time.to - back) * 1000).toTimeString().slice(0, 8))";
        page.wait("it is that of the newest row", &format!("{clock}.includes({shown})")).await;
        let (x, y) = point(&page, PLOT, (0.4, 0.6)).await;
        page.point_at(x, y).await;
        let tip = "document.querySelector('.panel .tip').textContent";
        page.wait(
            "the pointer has the time to the millisecond",
            &format!(r"/^\d\d:\d\d:\d\d\.\d\d\d · −6\.\d\d s/.test({tip})"),
        )
        .await;
        let marked = "[...document.querySelectorAll('.panel .cursor')].filter((c) => !c.hidden).length > 3";
        page.wait("all plots mark the instant", marked).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_drag_in_one_plot_shows_that_time_in_all_and_live_goes_back() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = live_page(&browser, &server).await;
        let before = page.number(SPAN).await;
        close_to(&page, SPAN, 10.0, 0.1).await;
        page.drag(point(&page, PLOT, (0.75, 0.5)).await, point(&page, PLOT, (0.95, 0.5)).await).await;
        page.wait("a window of the past is shown", "khz.time.isPast").await;
        close_to(&page, SPAN, before * 0.2, 0.1).await;
        page.wait(
            "the page says so",
            &format!(r"/^Paused at \d\d:\d\d:\d\d\.\d\d\d … \d\d:\d\d:\d\d/.test({TEXT})"),
        )
        .await;
        let panels = "Object.values(khz.time.panels)";
        page.wait("all panels show it", &format!("{panels}.length > 3 && {panels}.every((p) => !p.isEmpty)"))
            .await;
        let painted = "(() => { const c = document.querySelector('.panel .trace'); \
            return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(byte => byte > 0); })()";
        page.wait("it is painted", painted).await;
        let rows = page.number("khz.rows").await;
        page.wait("rows come all the same", &format!("khz.state === 'live' && khz.rows > {rows} + 5")).await;
        assert_eq!(page.eval("khz.time.isPast").await, true, "the window stays");
        // Closer still, back by a double-click, and back by the browser.
        page.drag(point(&page, PLOT, (0.2, 0.5)).await, point(&page, PLOT, (0.7, 0.5)).await).await;
        page.wait("half of it is shown", &format!("Math.abs({SPAN} - {}) < 0.1", before * 0.1)).await;
        page.double_click(point(&page, PLOT, (0.5, 0.5)).await).await;
        page.wait("the first window is back", &format!("Math.abs({SPAN} - {}) < 0.1", before * 0.2)).await;
        page.eval("history.back()").await;
        page.wait("the one before is back", &format!("Math.abs({SPAN} - {}) < 0.1", before * 0.1)).await;
        page.eval("history.go(-2)").await;
        page.wait(
            "the address without a window is live",
            "!khz.time.isPast && !location.hash.includes('from=')",
        )
        .await;
        page.eval("history.forward()").await;
        page.wait("forward shows the window", "khz.time.isPast").await;
        page.click("#live").await;
        page.wait("it is live again", &format!("!khz.time.isPast && {TEXT} === 'Live: the last 10 s'")).await;
        assert_eq!(page.eval("location.hash.includes('from=')").await, false);
        let drawn = page.number("khz.framesDrawn").await;
        page.wait("and moves", &format!("khz.framesDrawn > {drawn} + 10")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn wheel_and_keys_zoom_and_move_and_an_ordinary_wheel_scrolls_the_page() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 800, Theme::Dark).await;
        let page = live_page(&browser, &server).await;
        page.wheel(point(&page, PLOT, (0.5, 0.5)).await, 120.0, 0).await;
        page.wait("the page is scrolled", "scrollY > 0").await;
        assert_eq!(page.eval("khz.time.isPast").await, false, "the wheel alone does not zoom");
        page.eval("scrollTo(0, 0)").await;
        let rested = "performance.now() - (window.scrolledLast ??= performance.now()) > 400";
        page.wait("the wheel that scrolled rests", rested).await;
        page.wheel(point(&page, AXIS, (0.5, 0.5)).await, -200.0, 0).await;
        page.wait("the wheel on the axis zooms", &format!("khz.time.isPast && {SPAN} < 9")).await;
        page.wait("the movement is in the address", "location.hash.includes('from=')").await;
        let span = page.number(SPAN).await;
        page.wheel(point(&page, PLOT, (0.5, 0.5)).await, -200.0, CTRL).await;
        page.wait("so does Ctrl in a plot", &format!("{SPAN} < {span} - 0.5")).await;
        let (span, from) = (page.number(SPAN).await, page.number("khz.time.from").await);
        page.wheel(point(&page, PLOT, (0.5, 0.5)).await, -100.0, SHIFT).await;
        page.wait("Shift moves", &format!("khz.time.from < {from} - 0.1")).await;
        close_to(&page, SPAN, span, 0.01).await;
        let from = page.number("khz.time.from").await;
        page.drag(point(&page, AXIS, (0.3, 0.5)).await, point(&page, AXIS, (0.6, 0.5)).await).await;
        page.wait(
            "the axis can be dragged",
            &format!("Math.abs(khz.time.from - {from} + 0.3 * {span}) < 0.1"),
        )
        .await;
        for (key, expected) in [("+", span / 2.0), ("-", span), ("-", span * 2.0)] {
            page.press(key).await;
            page.wait(&format!("{key} zooms"), &format!("Math.abs({SPAN} - {expected}) < 0.05")).await;
        }
        let from = page.number("khz.time.from").await;
        page.press("ArrowLeft").await;
        page.wait("the arrow moves", &format!("khz.time.from < {from} - 0.1")).await;
        page.press("?").await;
        page.wait("the keys are listed", "document.querySelector('#keys').open").await;
        page.screenshot(&target_dir().join("screenshots/time-keys.png")).await;
        page.click("#keys button").await;
        page.wait("and go away", "!document.querySelector('#keys').open").await;
        page.press("Home").await;
        page.wait("Home is live", "!khz.time.isPast").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn two_fingers_zoom_and_one_moves_the_axis() {
    run(async {
        let server = Server::start().await;
        for theme in [Theme::Light, Theme::Dark] {
            // Fingers of one page are no fingers of the next one in the same browser.
            let browser = Browser::start().await;
            browser.look(360, 800, theme).await;
            browser.cdp("Emulation.setTouchEmulationEnabled", serde_json::json!({ "enabled": true })).await;
            let page = live_page(&browser, &server).await;
            page.eval(&format!("document.querySelector('{PLOT}').scrollIntoView({{ block: 'center' }})"))
                .await;
            // Fingers keep their height, also if something above the plot appears meanwhile.
            let (left, top, wide, high) = page.place(PLOT).await;
            let at = |share: f64| (left + share * wide, top + 0.5 * high);
            page.fingers("touchStart", &[at(0.4)]).await;
            page.fingers("touchStart", &[at(0.4), at(0.6)]).await;
            page.fingers("touchMove", &[at(0.3), at(0.7)]).await;
            page.fingers("touchMove", &[at(0.2), at(0.8)]).await;
            page.fingers("touchEnd", &[]).await;
            page.wait(
                "fingers that part zoom",
                &format!("khz.time.isPast && Math.abs({SPAN} - 10 / 3) < 0.3"),
            )
            .await;
            page.wait("the address has it", "location.hash.includes('from=')").await;
            // The legend has the numbers of the whole window again, so that nothing moves any more.
            page.wait("nothing is pointed at", "document.querySelector('.panel .cursor').hidden").await;
            let from = page.number("khz.time.from").await;
            page.eval(&format!("document.querySelector('{AXIS}').scrollIntoView({{ block: 'center' }})"))
                .await;
            let (left, top, wide, high) = page.place(AXIS).await;
            let on = |share: f64| (left + share * wide, top + 0.5 * high);
            page.fingers("touchStart", &[on(0.3)]).await;
            page.fingers("touchMove", &[on(0.5)]).await;
            page.fingers("touchMove", &[on(0.7)]).await;
            page.fingers("touchEnd", &[]).await;
            page.wait("a finger moves the axis", &format!("khz.time.from < {from} - 0.5")).await;
            page.eval("scrollTo(0, 0)").await;
            page.assert_fits().await;
            page.screenshot(&target_dir().join(format!("screenshots/time-360-{}.png", theme.as_str()))).await;
            page.click("#live").await;
            page.wait("Live is live", "!khz.time.isPast").await;
            assert_clean_console(&browser).await;
            browser.close().await;
        }
    });
}

#[test]
fn a_paused_page_can_be_zoomed_and_goes_on_live() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = live_page(&browser, &server).await;
        page.click("#pause").await;
        page.wait(
            "it is paused",
            &format!("khz.state === 'paused' && khz.time.isPast && /^Paused at/.test({TEXT})"),
        )
        .await;
        page.press("+").await;
        page.wait("it zooms", &format!("Math.abs({SPAN} - 5) < 0.1")).await;
        page.click("#live").await;
        page.wait("it goes on", "khz.state === 'live' && !khz.time.isPast").await;
        assert_eq!(page.eval("document.querySelector('#pause').textContent").await, "Pause");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn an_address_shows_its_time_also_with_seconds_and_a_wrong_one_shows_now() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = live_page(&browser, &server).await;
        let from = page.number("khz.time.to").await - 3.0;
        page.wait("a second passes", &format!("khz.time.to > {from} + 4")).await;
        for window in [
            format!("from={from:.3}&to={:.3}", from + 2.0),
            page.eval(&format!(
                "`from=${{new Date({from} * 1000).toISOString()}}&to=${{new Date({from} * 1000 + 2000).toISOString()}}`"
            ))
            .await
            .as_str()
            .unwrap()
            .to_owned(),
        ] {
            let page = Page::open(&browser, &format!("{}#rate=10&window=10s&{window}", server.url())).await;
            close_to(&page, "khz.time.from", from, 0.002).await;
            close_to(&page, "khz.time.to", from + 2.0, 0.002).await;
            page.wait("the data come", "!khz.time.isLoading && khz.time.panels['Load'] && !khz.time.panels['Load'].isEmpty").await;
            assert_eq!(page.eval("/from=.*Z&to=.*Z/.test(location.hash)").await, true);
        }
        let page =
            Page::open(&browser, &format!("{}#rate=10&window=10s&from=yesterday&to=-1", server.url())).await;
        assert_eq!(page.eval("khz.time.isPast").await, false);
        assert_notice(&page, "from=yesterday in the address is no time. to=-1 in the address is no time.")
            .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}
