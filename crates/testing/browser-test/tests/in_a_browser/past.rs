//! The past on the page of a node, in a real Chromium: what a door has stored of a made-up node, with a spike, a gap and a beginning.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::{Cluster, SPIKE};
use khz_browser_test::door::OpenDoor;
use khz_browser_test::looks::{DESK_AND_PHONE, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use khz_browser_test::time_zone::AFTER_MIDNIGHT;
use serde_json::Value;

const HOUR: u64 = 3_600;
const LOAD: &str = ".panel[aria-label='Load'] .frame";
const LOADED: &str = "!khz.time.isLoading && khz.time.panels['Load'] && khz.time.inFlight === 0";
const NOTE: &str = "document.querySelector('.timebar-note').textContent";
/// Bytes a second and round trip in ms of a line so slow that answers can be given up.
const SLOW_LINE: (u32, u32) = (100_000, 400);

/// The page of the only node, with a window from one time to another, whose data have come.
async fn window<'a>(browser: &'a Browser, door: &OpenDoor, from: u64, to: u64) -> Page<'a> {
    let page = Page::open(browser, &format!("{}#rate=1&window=1min&from={from}&to={to}", door.url())).await;
    show_load(&page).await;
    page.wait("the data have come", LOADED).await;
    page
}

/// Scrolls to the plot of the load: what is not seen is not fetched.
async fn show_load(page: &Page<'_>) {
    page.eval(&format!("document.querySelector(\"{LOAD}\").scrollIntoView({{ block: 'end' }})")).await;
}

/// Whether a canvas has a painted pixel from one share of its width to another. A copy is read, since Chromium warns of canvases that
/// are read often.
fn painted(canvas: &str, from: f64, to: f64) -> String {
    format!(
        "(() => {{ const c = document.querySelector(\"{canvas}\"), k = document.createElement('canvas'); [k.width, k.height] = [c.width, c.height]; \
         const x = k.getContext('2d', {{ willReadFrequently: true }}); x.drawImage(c, 0, 0); \
         return x.getImageData(c.width * {from}, 0, c.width * ({to} - {from}), c.height).data.some((byte) => byte > 0); }})()"
    )
}

/// Points at a time in the plot of the load, and gives what the tip says.
async fn pointed(page: &Page<'_>, time: f64) -> String {
    show_load(page).await;
    let (left, top, width, height) = page.place(LOAD).await;
    let from = page.number("khz.time.from").await;
    let share = (time - from) / (page.number("khz.time.to").await - from);
    page.point_at(left + share * width, top + 0.7 * height).await;
    let tip = "document.querySelector(\".panel[aria-label='Load'] .tip\")";
    page.wait("the tip is there", &format!("!{tip}.hidden")).await;
    page.eval(&format!("{tip}.textContent")).await.as_str().expect("a text").to_owned()
}

/// The number in the legend of the load of a minute.
async fn load(page: &Page<'_>) -> Value {
    page.eval("document.querySelector(\".panel[aria-label='Load'] .legend b\").textContent").await
}

#[test]
fn a_spike_of_one_row_is_seen_in_a_window_of_half_a_day_and_exactly_when_one_looks_closer() {
    run(async {
        let cluster = Cluster::new(1).with_past(9 * HOUR);
        let (spike, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, since, since + 9 * HOUR).await;
        assert_eq!(page.number("khz.time.panels['Load'].highest").await, SPIKE, "the band reaches up to it");
        assert_eq!(page.number("khz.time.panels['Load'].pointSeconds").await, 60.0);
        page.wait("the page says what a point is", &format!("{NOTE}.includes('points of 1 min')")).await;
        at_each_look(&browser, "past", &DESK_AND_PHONE, async |_| {
            show_load(&page).await;
            page.wait("the load is drawn", &painted(&format!("{LOAD} .trace"), 0.0, 1.0)).await;
            Page { browser: &browser }
        })
        .await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, spike - 30, spike + 30).await;
        assert_eq!(page.number("khz.time.panels['Load'].pointSeconds").await, 0.0, "each row is here");
        let tip = pointed(&page, spike as f64 - 0.2).await;
        assert!(tip.contains(" · −"), "{tip}");
        assert_eq!(load(&page).await, "400.00");
        pointed(&page, spike as f64 + 1.5).await;
        assert_ne!(load(&page).await, "400.00");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_gap_is_blank_and_unknown_and_never_0() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, gap, _) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, gap - 600, gap + 1_200).await;
        // The gap is the middle third.
        let painted = |from: f64, to: f64| painted(&format!("{LOAD} .trace"), from, to);
        assert_eq!(page.eval(&painted(0.35, 0.65)).await, false, "nothing is drawn in the gap");
        assert_eq!(page.eval(&painted(0.05, 0.3)).await, true);
        assert_eq!(page.eval(&painted(0.7, 0.95)).await, true);
        pointed(&page, gap as f64 + 300.0).await;
        page.wait(
            "it is unknown",
            "document.querySelector(\".panel[aria-label='Load'] .legend b\").textContent === '–'",
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn where_the_day_has_just_begun_a_time_of_yesterday_has_its_day() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start_at(AFTER_MIDNIGHT).await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, since - 600, since + 600).await;
        page.wait(
            "the beginning was yesterday",
            &format!(r"/no data before [A-Z][a-z]+ \d+ \d\d:\d\d:\d\d/.test({NOTE})"),
        )
        .await;
        browser.close().await;
    });
}

#[test]
fn before_the_beginning_the_page_says_that_there_is_nothing_and_why() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Dark).await;
        let page = window(&browser, &door, since - 600, since + 600).await;
        page.wait("the bar says when it begins", &format!(r"/no data before \d\d:\d\d:\d\d/.test({NOTE})"))
            .await;
        let why = "document.querySelector('.strip-why').textContent";
        page.wait(
            "and below the overview stands why",
            &format!("/^No data before .*keeps no history on a disk/.test({why})"),
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/past-beginning.png")).await;
        let page = window(&browser, &door, since - 2 * HOUR, since - HOUR).await;
        page.wait(
            "an empty plot says so",
            &format!("document.querySelector(\"{LOAD} .veil\").textContent === 'no data'"),
        )
        .await;
        browser.close().await;
    });
}

#[test]
fn a_window_that_moves_back_is_there_and_what_nobody_wants_any_more_is_given_up() {
    run(async {
        let cluster = Cluster::new(1).with_past(12 * HOUR);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, since + 3 * HOUR, since + 3 * HOUR + 600).await;
        page.press("ArrowLeft").await;
        page.wait("it is there", LOADED).await;
        let fetched = page.number("khz.time.fetched").await;
        page.press("ArrowRight").await;
        page.wait("it is there again", LOADED).await;
        assert_eq!(page.number("khz.time.fetched").await, fetched, "nothing is fetched twice");
        browser.slow_line(SLOW_LINE).await;
        for _ in 0..4 {
            page.press("-").await;
            page.wait(
                "it is loading, and says so",
                &format!("khz.time.isLoading && {NOTE}.includes('loading…')"),
            )
            .await;
            assert!(page.number("khz.time.inFlight").await <= 2.0, "two requests at a time");
        }
        page.wait("requests of windows before were given up", "khz.time.aborted > 0").await;
        browser.slow_line((10_000_000, 1)).await;
        page.wait("the last window comes", LOADED).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_overview_shows_all_that_is_kept_and_its_handle_moves_the_window() {
    run(async {
        let cluster = Cluster::new(1).with_past(6 * HOUR);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=1&window=10min", door.url())).await;
        page.wait("the strip is there", "!document.querySelector('.strip-window').hidden").await;
        let painted = &painted(".strip .trace", 0.0, 1.0);
        page.wait("it is painted", painted).await;
        let from = "Number(document.querySelector('[data-part=from]').getAttribute('aria-valuemin'))";
        page.wait("it begins at the first row", &format!("Math.abs({from} - {since}) <= 1")).await;
        let part = |name: &str| format!("[data-part={name}]");
        let middle = async |name: &str| {
            let (x, y, w, h) = page.place(&part(name)).await;
            (x + w / 2.0, y + h / 2.0)
        };
        let (_, _, width, _) = page.place(".strip").await;
        // Half of the strip to the left: three hours back.
        let (x, y) = middle("body").await;
        page.drag((x, y), (x - width / 2.0, y)).await;
        page.wait(
            "the window is moved",
            &format!("khz.time.isPast && Math.abs(khz.time.to - {}) < 300", since + 3 * HOUR),
        )
        .await;
        page.wait("with its length", "Math.abs(khz.time.to - khz.time.from - 600) < 1").await;
        page.wait(
            "its data have come, and the address has it",
            &format!("{LOADED} && location.hash.includes('from=')"),
        )
        .await;
        let (x, y) = middle("from").await;
        page.drag((x, y), (x - width / 6.0, y)).await;
        page.wait("its begin is moved", "Math.abs(khz.time.to - khz.time.from - 4200) < 120").await;
        // With keys.
        let (from, to) = (page.number("khz.time.from").await, page.number("khz.time.to").await);
        page.eval("document.querySelector('[data-part=to]').focus()").await;
        page.press("ArrowRight").await;
        page.wait(
            "a key moves its end",
            &format!("khz.time.to > {to} + 60 && Math.abs(khz.time.from - {from}) < 1"),
        )
        .await;
        page.eval("document.querySelector('[data-part=body]').focus()").await;
        page.press("PageDown").await;
        page.wait("and all of it", &format!("khz.time.from < {from} - 600")).await;
        page.press("Home").await;
        page.wait("to the beginning", &format!("Math.abs(khz.time.from - {since}) < 2")).await;
        let spoken = "document.querySelector('[data-part=body]').getAttribute('aria-valuetext')";
        page.wait(
            "a screen reader hears it",
            &format!(r"/\d\d:\d\d:\d\d … .*\d\d:\d\d:\d\d/.test({spoken})"),
        )
        .await;
        at_each_look(&browser, "overview", &DESK_AND_PHONE, async |_| {
            page.wait("it is drawn", painted).await;
            Page { browser: &browser }
        })
        .await;
        page.eval("(() => { const s = document.querySelector('#overview select'); s.value = 'load'; s.dispatchEvent(new Event('change')); return true; })()").await;
        page.wait(
            "another quantity is shown",
            &format!("document.querySelector('.strip-note').textContent === '' && {painted}"),
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_khz_without_a_past_says_so_in_the_overview() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(1).without_past());
        let browser = Browser::start().await;
        browser.look(360, 800, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#rate=1&window=1min", door.url())).await;
        let said = "document.querySelector('.strip-note').textContent";
        page.wait("it says why", &format!("/keeps no history/.test({said})")).await;
        assert_eq!(page.eval("document.querySelector('.strip-window').hidden").await, true);
        // What the page itself has seen can be looked at all the same.
        let start = page.number("khz.newest").await;
        page.wait("some rows are there", &format!("khz.newest > {start} + 3")).await;
        page.press("+").await;
        show_load(&page).await;
        page.wait(
            "a window is shown",
            "khz.time.isPast && khz.time.panels['Load'] && !khz.time.panels['Load'].isEmpty",
        )
        .await;
        browser.close().await;
    });
}

#[test]
fn a_node_that_is_down_still_shows_its_past() {
    run(async {
        let cluster = Cluster::new(3).with_past(2 * HOUR);
        cluster.set_down("node2", true);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        browser
            .client
            .goto(&format!("{}#node=node2&from={}&to={}", door.url(), since + 60, since + 660))
            .await
            .unwrap();
        let page = Page { browser: &browser };
        page.wait("its data have come", &format!("window.khz && khz.state === 'down' && khz.time && {LOADED} && !khz.time.panels['Load'].isEmpty")).await;
        page.wait("its disk has a panel", "khz.panels.some((p) => p.title === 'nvme0n1' && !p.hidden)").await;
        page.wait("the overview, too", "!document.querySelector('.strip-window').hidden").await;
        // Its way back to all nodes leads over the windows that were shown.
        page.press("+").await;
        page.wait(
            "the address has it",
            "location.hash.includes('node=node2') && khz.time.to - khz.time.from < 400",
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_window_can_be_compared_with_the_hour_before() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, _, since) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = window(&browser, &door, since + HOUR + 1_200, since + HOUR + 1_500).await;
        let choose = "(() => { const s = document.querySelector('#compared'); s.value = '1h'; s.dispatchEvent(new Event('change')); return true; })()";
        page.eval(choose).await;
        page.wait("the hour before has come", &format!("{LOADED} && khz.time.panels['Load'].isCompared"))
            .await;
        page.wait("the bar says so", &format!("{NOTE}.includes('dashed: the hour before')")).await;
        let tip = pointed(&page, (since + HOUR + 1_300) as f64).await;
        assert!(tip.contains("1 min ") && tip.contains(", before "), "{tip}");
        page.wait("the address has it", "location.hash.includes('compare=1h')").await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.look(1280, 1000, theme).await;
            page.screenshot(&target_dir().join(format!("screenshots/compare-1280-{}.png", theme.as_str())))
                .await;
        }
        let address = page.eval("location.href").await.as_str().expect("an address").to_owned();
        let page = Page::open(&browser, &address).await;
        show_load(&page).await;
        page.wait("the address shows it again", &format!("{LOADED} && khz.time.panels['Load'].isCompared"))
            .await;
        browser.look(360, 800, Theme::Light).await;
        let wide = page.number("document.documentElement.scrollWidth").await;
        assert!(wide <= 360.0, "the page is {wide} pixels wide");
        page.eval("scrollTo(0, 0)").await;
        page.screenshot(&target_dir().join("screenshots/compare-360-light.png")).await;
        // An hour before the beginning there is nothing, and the page does not pretend.
        page.eval(&format!("location.hash = `from={}&to={}&compare=1h`", since + 600, since + 900)).await;
        show_load(&page).await;
        page.wait(
            "nothing is kept of it",
            &format!("{LOADED} && {NOTE}.includes('of which nothing is kept')"),
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_link_to_all_nodes_leads_over_the_windows_that_were_shown() {
    run(async {
        let cluster = Cluster::new(70);
        cluster.set_down("node42", false);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &format!("{}#metric=load", door.url())).await;
        let place = "(() => { const t = khz.tile('node42'), box = document.querySelector('.tiles canvas').getBoundingClientRect(); \
            return [box.x + t.x + t.width / 2, box.y + t.y + t.height / 2]; })()";
        let place = page.eval(place).await;
        page.click_at(place[0].as_f64().expect("a place"), place[1].as_f64().expect("a place")).await;
        page.wait("the node is live", "khz.view === 'node' && khz.rows > 2").await;
        for steps in [1, 2] {
            page.press("+").await;
            page.wait("it is zoomed", &format!("khz.time.isPast && history.state.steps === {steps}")).await;
        }
        page.click("#all").await;
        page.wait("the tiles are back", "khz.view === 'cluster' && location.hash.includes('metric=load')")
            .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}
