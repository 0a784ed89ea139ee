//! What is wrong, in a real headless Chromium: the strip of signals of a node, now and in a window of the past, and the signals of all
//! nodes, over a real door with made-up nodes.

use std::time::{SystemTime, UNIX_EPOCH};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use serde_json::{Value, json};

const HOUR: u64 = 3_600;
const DETAIL: &str = "document.querySelector('.signal-detail')";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs()
}

/// A cluster in which all nodes are up.
fn cluster(nodes: usize) -> Cluster {
    let cluster = Cluster::new(nodes);
    cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
    cluster
}

/// The element of a signal.
fn signal(id: &str) -> String {
    format!("document.querySelector('[data-signal={id}]')")
}

async fn wait_for(page: &Page<'_>, id: &str, state: &str) {
    page.wait(&format!("{id} is {state}"), &format!("{}?.dataset.state === '{state}'", signal(id))).await;
}

async fn text(page: &Page<'_>, element: &str) -> String {
    page.eval(&format!("{element}.textContent")).await.as_str().unwrap_or_default().to_owned()
}

/// Checks that the first time of day after `mark` in these words is `begin`, or up to a step of the values later.
async fn assert_begins(page: &Page<'_>, words: &str, mark: &str, begin: u64) {
    const STEP: i64 = 5;
    let expected = page.eval(&format!("new Date({begin}000).toTimeString()")).await;
    let after = words.split_once(mark).unwrap_or_else(|| panic!("{words} has {mark}")).1;
    let late = second_of_day(after) - second_of_day(expected.as_str().expect("a text"));
    assert!((0..=STEP).contains(&late.rem_euclid(86_400)), "{words} begins at {expected}");
}

/// The second of the first time of day in a text.
fn second_of_day(text: &str) -> i64 {
    let at = text.find(':').unwrap_or_else(|| panic!("{text} has a time"));
    let part = |from: usize| text[from..from + 2].parse::<i64>().expect("two digits");
    part(at - 2) * 3_600 + part(at + 1) * 60 + part(at + 4)
}

async fn pictures(browser: &Browser, page: &Page<'_>, name: &str) {
    for (width, height) in [(320, 640), (1280, 900), (2560, 1200)] {
        for theme in [Theme::Light, Theme::Dark] {
            browser.look(width, height, theme).await;
            let fits = format!("document.documentElement.scrollWidth <= {width}");
            page.wait("the page fits the screen", &fits).await;
            let file = format!("screenshots/{name}-{width}-{}.png", theme.as_str());
            page.screenshot(&target_dir().join(file)).await;
        }
    }
    browser.look(1280, 900, Theme::Light).await;
}

#[test]
fn twelve_signals_say_how_a_node_is_and_what_is_not_known_looks_different() {
    run(async {
        let cluster = cluster(64);
        cluster.fill_memory("node03", now() - 300, now() + HOUR);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#node=node03", door.url())).await;
        wait_for(&page, "memory", "bad").await;
        assert_eq!(page.number("document.querySelectorAll('#signals [data-signal]').length").await, 12.0);
        wait_for(&page, "memory-pressure", "ok").await;
        // A node without file systems has none that is full, and none that is empty.
        wait_for(&page, "filesystem", "absent").await;
        assert_eq!(text(&page, &format!("{}.querySelector('b')", signal("filesystem"))).await, "not here");
        assert!(
            text(&page, &format!("{}.querySelector('b')", signal("memory"))).await.starts_with("98.0 % · ")
        );
        let looks = page
            .eval("['memory', 'memory-pressure', 'filesystem'].map((id) => { const e = document.querySelector(`[data-signal=${id}]`), s = getComputedStyle(e); return [s.borderStyle + s.borderWidth + s.backgroundColor + s.borderColor, e.querySelector('path').getAttribute('d')]; })")
            .await;
        let looks = looks.as_array().unwrap();
        for part in 0..2 {
            let mut different: Vec<&Value> = looks.iter().map(|look| &look[part]).collect();
            different.dedup();
            assert_eq!(different.len(), 3, "each state differs in colour and in shape: {looks:?}");
        }
        pictures(&browser, &page, "signals").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn an_opened_signal_says_since_when_how_others_are_and_leads_to_its_plot_by_mouse_and_keys() {
    run(async {
        let cluster = cluster(64);
        let begin = now() - 300;
        cluster.fill_memory("node03", begin, now() + HOUR);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#node=node03", door.url())).await;
        wait_for(&page, "memory", "bad").await;
        page.click("[data-signal=memory]").await;
        page.wait(
            "others are known",
            &format!("/63 other nodes have .* % to .* %/.test({DETAIL}.textContent)"),
        )
        .await;
        let words = text(&page, DETAIL).await;
        assert_begins(&page, &words, "since ", begin).await;
        assert!(
            words.contains(
                "warning from 90.0 % on, until below 87.0 %; bad from 95.0 % on, until below 93.0 %"
            ),
            "{words}"
        );
        pictures(&browser, &page, "signal-opened").await;
        page.click(".signal-detail .linked").await;
        page.wait(
            "its plot has the keyboard",
            "document.activeElement.closest('.panel')?.getAttribute('aria-label') === 'Memory'",
        )
        .await;
        // By keys: one stop for the tabulator, arrows within, and the window stays where it is.
        page.eval("document.querySelector('[data-signal=memory]').focus()").await;
        page.press("ArrowRight").await;
        page.wait("the next one has it", "document.activeElement.dataset.signal === 'memory-pressure'").await;
        assert_eq!(page.eval("khz.time.isPast").await, false);
        assert_eq!(
            page.number("document.querySelectorAll('#signals [tabindex=\"0\"][data-signal]').length").await,
            1.0
        );
        page.eval("document.activeElement.click()").await;
        page.wait(
            "it is opened instead",
            &format!("/^.?Memory pressure: ok/.test({DETAIL}.querySelector('h2').textContent)"),
        )
        .await;
        page.eval("document.querySelector('.signal-detail button').focus()").await;
        page.press("Escape").await;
        page.wait(
            "Escape closes it",
            &format!("{DETAIL}.hidden && document.activeElement.dataset.signal === 'memory-pressure'"),
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn in_a_window_of_the_past_each_signal_is_as_it_was_at_its_worst() {
    run(async {
        let cluster = Cluster::new(1).with_past(6 * HOUR);
        let (_, gap, since) = cluster.past();
        let node = cluster.names()[0].to_string();
        cluster.fill_memory(&node, since + HOUR, since + HOUR + 600);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let window = |from: u64, to: u64| format!("{}#rate=1&window=1min&from={from}&to={to}", door.url());
        let page = Page::open(&browser, &window(since + HOUR - 600, since + HOUR + 1_200)).await;
        wait_for(&page, "memory", "bad").await;
        let label = page.eval(&format!("{}.getAttribute('aria-label')", signal("memory"))).await;
        assert_begins(&page, label.as_str().unwrap(), "bad, 98.0 %, from ", since + HOUR).await;
        wait_for(&page, "filesystem", "absent").await;
        page.screenshot(&target_dir().join("screenshots/signals-past.png")).await;
        let page = Page::open(&browser, &window(since + 2 * HOUR, since + 2 * HOUR + 600)).await;
        wait_for(&page, "memory", "ok").await;
        // Beside the gap there are few rows, which make nothing look worse than it was.
        let page = Page::open(&browser, &window(gap - 600, gap + 1_200)).await;
        wait_for(&page, "queue", "ok").await;
        // In the gap nothing is known: not even that all was well.
        let page = Page::open(&browser, &window(gap + 200, gap + 500)).await;
        page.wait(
            "the window is answered",
            &format!("/nothing is known of it/.test({}?.title)", signal("memory")),
        )
        .await;
        for id in ["memory", "cpu", "disk"] {
            wait_for(&page, id, "unknown").await;
        }
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_trouble_that_is_older_than_what_is_shown_is_searched_in_the_past() {
    run(async {
        let cluster = Cluster::new(1).with_past(6 * HOUR);
        let node = cluster.names()[0].to_string();
        let begin = now() - 2 * HOUR - 60;
        cluster.fill_memory(&node, begin, now() + HOUR);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        let page = Page::open(&browser, &door.url()).await;
        wait_for(&page, "memory", "bad").await;
        // "or earlier" stands there until the search has found it.
        let title = format!("{}.title", signal("memory"));
        page.wait("it is found", &format!("/since/.test({title}) && !/or earlier/.test({title})")).await;
        assert_begins(&page, page.eval(&title).await.as_str().unwrap(), "since ", begin).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn while_the_hub_is_away_nothing_is_known_of_any_signal() {
    run(async {
        let cluster = cluster(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open(&browser, &format!("{}#node=node03", door.url())).await;
        wait_for(&page, "memory", "ok").await;
        drop(door);
        wait_for(&page, "memory", "unknown").await;
        let states = page.eval("[...new Set([...document.querySelectorAll('#signals [data-signal]')].map((e) => e.dataset.state + e.querySelector('b').textContent))]").await;
        assert_eq!(states, json!(["unknownunknown"]));
        page.screenshot(&target_dir().join("screenshots/signals-away.png")).await;
        browser.close().await;
    });
}

#[test]
fn of_a_node_that_is_down_nothing_is_known() {
    run(async {
        let cluster = cluster(64);
        cluster.set_down("node03", true);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_bare(&browser, &format!("{}#node=node03", door.url())).await;
        page.wait("the strip says why", &format!("/the node is down/.test({}?.title)", signal("memory")))
            .await;
        wait_for(&page, "memory", "unknown").await;
        browser.close().await;
    });
}

#[test]
fn of_all_nodes_the_signals_in_trouble_are_counted_and_lead_to_their_nodes() {
    run(async {
        let cluster = cluster(64);
        for node in ["node03", "node41"] {
            cluster.fill_memory(node, now() - 300, now() + HOUR);
        }
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        wait_for(&page, "memory", "bad").await;
        assert_eq!(text(&page, &format!("{}.querySelector('b')", signal("memory"))).await, "2 bad");
        assert_eq!(
            page.eval(&format!("{}.hidden", signal("filesystem"))).await,
            true,
            "only trouble is shown"
        );
        let words = text(&page, "document.querySelector('.signal-words')").await;
        assert!(words.starts_with("Trouble on "), "{words}");
        pictures(&browser, &page, "signals-all").await;
        page.click("[data-signal=memory]").await;
        page.wait("the nodes are named", &format!("{DETAIL}.textContent.includes('node[03,41]')")).await;
        page.screenshot(&target_dir().join("screenshots/signals-all-opened.png")).await;
        page.click(".signal-detail a[href='#node=node41']").await;
        page.wait("the node is shown", "khz.view === 'node'").await;
        wait_for(&page, "memory", "bad").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_page_of_documentation_has_the_thresholds_of_the_table() {
    run(async {
        let door = OpenDoor::of(&cluster(1));
        let browser = Browser::start().await;
        let page = Page::open_bare(&browser, &door.url()).await;
        let rows = "import('/signal-table.js').then(({ SIGNALS }) => SIGNALS.map(({ name, format, warning, bad, hold }) => \
             `| ${name} | ${format(warning.enter)} | ${format(warning.leave)} | ${bad ? format(bad.enter) : '–'} | ${bad ? format(bad.leave) : '–'} | ${hold} s |`))";
        let rows: Vec<String> = serde_json::from_value(page.eval(rows).await).unwrap();
        assert_eq!(rows.len(), 12);
        let documented = include_str!("../../../../../docs/page.md");
        for row in rows {
            assert!(documented.contains(&row), "docs/page.md lacks the line {row}");
        }
        browser.close().await;
    });
}
