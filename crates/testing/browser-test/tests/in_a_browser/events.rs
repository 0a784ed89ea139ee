//! The lane of events of a node, in a real headless Chromium: over a real door with made-up nodes, which were away and booted.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::{BOOTED_BEFORE, Cluster};
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use serde_json::json;

const HOUR: u64 = 3_600;
const TIP: &str = "document.querySelector('.lane-tip')";
const WORDS: &str = "document.querySelector('.events-words').textContent";

async fn window<'a>(browser: &'a Browser, door: &OpenDoor, from: u64, to: u64) -> Page<'a> {
    let page = Page::open(browser, &format!("{}#rate=1&window=1min&from={from}&to={to}", door.url())).await;
    page.wait("the events have come", &format!("/^Events: (\\d|none)/.test({WORDS})")).await;
    page
}

#[test]
fn that_a_node_was_away_and_booted_is_marked_in_the_lane_and_in_each_plot() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, gap, _) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = window(&browser, &door, gap - 600, gap + 1_200).await;
        page.wait("both are there", "document.querySelectorAll('.lane-mark').length === 2").await;
        assert!(page.eval(WORDS).await.as_str().unwrap().starts_with("Events: 2; jobs are not known yet"));
        let kinds = page.eval("[...document.querySelectorAll('.lane-mark')].map((e) => [e.dataset.kind, parseFloat(e.style.left)])").await;
        assert_eq!([&kinds[0][0], &kinds[1][0]], [&json!("down"), &json!("booted")]);
        // The window is half an hour, and the gap its middle third.
        let booted = 100.0 * (1_200.0 - BOOTED_BEFORE as f64) / 1_800.0;
        for (at, share) in [(0, 100.0 / 3.0), (1, booted)] {
            let found = kinds[at][1].as_f64().unwrap();
            assert!((found - share).abs() < 0.5, "{found} is near {share}");
        }
        let marks = "document.querySelector(\".panel[aria-label='Load'] .frame\").querySelectorAll('.plot-mark').length";
        page.eval("document.querySelector(\".panel[aria-label='Load']\").scrollIntoView()").await;
        page.wait("the plot has them, too", &format!("{marks} === 2")).await;
        for (width, height) in [(320, 640), (1280, 900), (2560, 1200)] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.look(width, height, theme).await;
                page.eval("scrollTo(0, 0)").await;
                page.wait(
                    "the page fits the screen",
                    &format!("document.documentElement.scrollWidth <= {width}"),
                )
                .await;
                page.screenshot(
                    &target_dir().join(format!("screenshots/events-{width}-{}.png", theme.as_str())),
                )
                .await;
            }
        }
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn an_event_says_what_it_was_to_mouse_and_keys_and_leads_to_its_time() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, gap, _) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = window(&browser, &door, gap - 600, gap + 1_200).await;
        page.wait("both are there", "document.querySelectorAll('.lane-mark').length === 2").await;
        let (x, y, width, height) = page.place(".lane-mark[data-kind=down]").await;
        page.point_at(x + width / 2.0, y + height / 2.0).await;
        page.wait("the tip says it", &format!("!{TIP}.hidden && /down, for 10 min/.test({TIP}.textContent)"))
            .await;
        page.screenshot(&target_dir().join("screenshots/event-told.png")).await;
        page.point_at(5.0, 5.0).await;
        page.wait("it goes", &format!("{TIP}.hidden")).await;
        page.eval("document.querySelector('.lane-mark').focus()").await;
        page.press("ArrowRight").await;
        page.wait("the next one says it", &format!("!{TIP}.hidden && /booted/.test({TIP}.textContent)"))
            .await;
        let label = page.eval("document.activeElement.getAttribute('aria-label')").await;
        assert!(label.as_str().unwrap().contains("booted"), "{label}");
        assert!(
            (page.number("khz.time.from").await - (gap - 600) as f64).abs() < 1.0,
            "the window has not moved"
        );
        page.eval("document.activeElement.click()").await;
        let booted = gap + 600 - BOOTED_BEFORE;
        page.wait("its time is shown", &format!("Math.abs((khz.time.from + khz.time.to) / 2 - {booted}) < 5 && khz.time.to - khz.time.from < 600")).await;
        page.press("Backspace").await;
        page.wait("and one can go back", &format!("Math.abs(khz.time.from - {}) < 1", gap - 600)).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_time_without_events_says_so_and_a_hub_that_is_away_makes_them_unknown() {
    run(async {
        let cluster = Cluster::new(1).with_past(2 * HOUR);
        let (_, gap, _) = cluster.past();
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = window(&browser, &door, gap + 1_200, gap + 1_800).await;
        page.wait("there are none", &format!("{WORDS}.startsWith('Events: none in this time')")).await;
        assert_eq!(page.number("document.querySelectorAll('.lane-mark').length").await, 0.0);
        drop(door);
        page.press("ArrowLeft").await;
        page.wait("nobody knows", &format!("{WORDS}.startsWith('Events: not known')")).await;
        browser.close().await;
    });
}
