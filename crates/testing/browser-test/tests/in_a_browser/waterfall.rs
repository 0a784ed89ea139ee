//! The waterfall in a real headless Chromium, served by a real door with made-up nodes.

use std::net::SocketAddr;

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::{Cluster, STAGGER};
use khz_browser_test::door::OpenDoor;
use khz_browser_test::looks::{DESK_AND_PHONE, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use serde_json::{Value, json};

/// Opens the waterfall and waits until most nodes have a number.
async fn visit<'a>(browser: &'a Browser, door: &OpenDoor, more: &str) -> Page<'a> {
    let url = format!("{}#view=waterfall{more}", door.url());
    let page = Page::open_bare(browser, &url).await;
    page.wait(
        "rows have numbers",
        "window.khz && khz.state === 'live' && khz.waterfall && khz.waterfall.known > khz.waterfall.shown / 2 && khz.waterfall.copies > 5",
    )
    .await;
    page
}

/// Presses the pause button, after which nothing moves.
async fn pause(page: &Page<'_>) {
    page.click(".fall-pause").await;
    page.wait("it stands still", "khz.state === 'paused'").await;
    let drawn = "new Promise((then) => requestAnimationFrame(() => requestAnimationFrame(() => then(true))))";
    page.eval(&format!("(async () => await {drawn})()")).await;
}

/// The pixels of these cells (name, steps before the newest): `count` of them from the middle of each to the left.
async fn pixels(page: &Page<'_>, cells: &[(&str, usize)], count: usize) -> Vec<Vec<[u8; 4]>> {
    let script = format!(
        "(() => {{ const c = document.querySelector('.fall-cells'), density = c.width / c.clientWidth; \
         const copy = Object.assign(document.createElement('canvas'), {{ width: c.width, height: c.height }}); \
         const read = copy.getContext('2d', {{ willReadFrequently: true }}); read.drawImage(c, 0, 0); \
         return {}.map(([name, back]) => {{ const t = khz.cell(name, back); \
         const x = Math.floor((t.x + t.width / 2) * density), y = Math.floor((t.y + t.height / 2) * density); \
         const data = read.getImageData(x - {count} + 1, y, {count}, 1).data; \
         return Array.from({{ length: {count} }}, (_, i) => [...data.slice(4 * i, 4 * i + 4)]); }}); }})()",
        json!(cells)
    );
    serde_json::from_value(page.eval(&script).await).expect("four bytes a pixel")
}

/// The middle of a cell, in coordinates of the page.
async fn middle(page: &Page<'_>, name: &str, back: usize) -> (f64, f64) {
    let script = format!(
        "(() => {{ const t = khz.cell('{name}', {back}), box = document.querySelector('.fall-cells').getBoundingClientRect(); \
         return [box.x + t.x + t.width / 2, box.y + t.y + t.height / 2]; }})()"
    );
    let read = page.eval(&script).await;
    (read[0].as_f64().expect("a number"), read[1].as_f64().expect("a number"))
}

const TIP: &str = "document.querySelector('.fall .tile-tip')";

#[test]
fn every_row_has_the_colour_of_its_number_and_the_tip_says_node_time_and_value() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = visit(&browser, &door, "&measure=load&rate=10").await;
        assert_eq!(page.number("khz.waterfall.shown").await, 64.0);
        page.wait("forty steps came", "Number.isFinite(khz.cell('node20', 40).value)").await;
        pause(&page).await;
        let cells: Vec<(&str, usize)> = ["node03", "node20", "node60"]
            .into_iter()
            .flat_map(|name| [5, 20, 40].map(|back| (name, back)))
            .collect();
        let seen = pixels(&page, &cells, 1).await;
        let expected = page
            .eval(&format!(
                "(async () => {{ const {{ colours }} = await import('/theme-colours.js'); const {{ TileScale }} = await import('/tile-scale.js'); \
                 const scale = new TileScale({{ least: 1 }}); \
                 scale.top = Number(document.querySelector('#waterfall .scale-marks span:last-child').textContent.replace(/ or more/, '')); \
                 return {}.map(([name, back]) => colours.tiles[scale.step(khz.cell(name, back).value)].fill); }})()",
                json!(cells)
            ))
            .await;
        for ((cell, pixel), expected) in cells.iter().zip(&seen).zip(expected.as_array().unwrap()) {
            let [r, g, b, _] = pixel[0];
            assert_eq!(&json!(format!("rgb({r} {g} {b})")), expected, "{cell:?}");
        }
        let (x, y) = middle(&page, "node20", 40).await;
        page.point_at(x, y).await;
        page.wait("the tip is shown", &format!("!{TIP}.hidden")).await;
        let tip = page.eval(&format!("{TIP}.textContent")).await;
        let value = page.number("khz.cell('node20', 40).value").await;
        let parts: Vec<&str> = tip.as_str().unwrap().split("  ").collect();
        assert_eq!(parts[0], "node20");
        assert!(parts[1].len() == "14:03:20.3".len() && parts[1].contains('.'), "{tip}");
        assert!((parts[2].parse::<f64>().unwrap() - value).abs() < 0.01, "{tip} for {value}");
        page.click_at(x, y).await;
        page.wait("the node is opened", "khz.view === 'node' && document.title.startsWith('node20')").await;
        page.eval("history.back()").await;
        page.wait("the waterfall is back", "khz.view === 'waterfall' && khz.waterfall?.shown === 64").await;
        assert!(page.eval("location.hash").await.as_str().unwrap().contains("measure=load&rate=10"));
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_program_that_starts_on_one_node_after_the_other_is_seen_to_do_so() {
    run(async {
        let cluster = Cluster::new(16);
        for node in cluster.names() {
            cluster.set_down(node.as_str(), false);
        }
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        let page = visit(&browser, &door, "&measure=tasks.running&rate=100").await;
        cluster.begin_program();
        page.wait("it runs on all", "khz.cell('node16', 10).value === 100").await;
        pause(&page).await;
        let begins = "khz.waterfall.order.map((name) => { let back = 0; while (khz.cell(name, back).value !== 100) back++; \
             while (khz.cell(name, back).value === 100) back++; return khz.waterfall.edge - back + 1; })";
        let begins: Vec<i64> = serde_json::from_value(page.eval(begins).await).unwrap();
        let apart = i64::try_from(STAGGER.0 / 10_000_000).unwrap();
        assert_eq!(begins.len(), 16);
        for pair in begins.windows(2) {
            assert!((pair[1] - pair[0] - apart).abs() <= 1, "{begins:?}");
        }
        page.screenshot(&target_dir().join("screenshots/waterfall-staggered.png")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn down_unknown_and_no_row_look_different_from_each_other_and_from_zero() {
    run(async {
        let cluster = Cluster::new(256);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        for theme in [Theme::Light, Theme::Dark] {
            for node in cluster.names() {
                cluster.set_down(node.as_str(), ["node007", "node008", "node009"].contains(&node.as_str()));
            }
            cluster.set_away(&["node008"], &["node009"]);
            browser.look(1280, 1400, theme).await;
            let page = visit(&browser, &door, "&measure=cpu-pressure&rate=10").await;
            let word = |name: &str, back: usize| format!("khz.cell('{name}', {back}).word");
            for (name, expected) in [("node007", "down"), ("node008", "left"), ("node009", "missing")] {
                page.wait(expected, &format!("{} === '{expected}'", word(name, 1))).await;
            }
            page.wait("thirty steps", "khz.waterfall.copies > 40").await;
            cluster.set_down("node020", true);
            // No row comes any more; the node is known as down when the list of nodes says so.
            page.wait("it is down", &format!("{} === 'down'", word("node020", 9))).await;
            pause(&page).await;
            let unknown =
                page.eval("khz.waterfall.order.find((name) => khz.cell(name, 12).word === 'unknown')").await;
            let unknown = unknown.as_str().expect("some nodes have no such source").to_owned();
            let zero = page
                .eval("(async () => { const { colours } = await import('/theme-colours.js'); return colours.tiles[0].fill.match(/\\d+/g).map(Number); })()")
                .await;
            let zero: Vec<u8> = serde_json::from_value(zero).unwrap();
            let names = ["node007", "node008", "node009", unknown.as_str()];
            let cells: Vec<(&str, usize)> = names.iter().map(|name| (*name, 12)).collect();
            let mut seen = pixels(&page, &cells, 8).await;
            seen.push(vec![[zero[0], zero[1], zero[2], 255]; 8]);
            // A step before the page was open.
            seen.push(vec![[0; 4]; 8]);
            for (at, one) in seen.iter().enumerate() {
                assert!(
                    seen[..at].iter().all(|other| other != one),
                    "kind {at} looks like another: {seen:?}"
                );
            }
            let (x, y) = middle(&page, &unknown, 12).await;
            page.point_at(x, y).await;
            page.wait("the tip says so", &format!("{TIP}.textContent.endsWith('  unknown')")).await;
            let name = format!("screenshots/waterfall-kinds-{}.png", theme.as_str());
            page.screenshot(&target_dir().join(name)).await;
        }
        browser.close().await;
    });
}

#[test]
fn what_is_painted_is_copied_and_only_new_steps_are_drawn() {
    run(async {
        let cluster = Cluster::new(500);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = visit(&browser, &door, "&measure=cpu&rate=10").await;
        let before = page.eval("[khz.waterfall.repaints, khz.waterfall.copies]").await;
        let copies = before[1].as_u64().unwrap();
        page.wait("it goes on", &format!("khz.waterfall.copies > {copies} + 20")).await;
        assert_eq!(page.eval("khz.waterfall.repaints").await, before[0], "no paint of everything");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn rows_are_found_sorted_and_grouped_and_nobody_is_an_empty_picture_with_a_sentence() {
    run(async {
        let cluster = Cluster::new(128);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = visit(&browser, &door, "&measure=load&rate=10&find=gpu*,node[001-010]").await;
        assert_eq!(page.number("khz.waterfall.shown").await, 14.0);
        let order = page.eval("khz.waterfall.order").await;
        assert_eq!((&order[0], &order[13]), (&json!("gpu001"), &json!("node010")));
        page.click("[data-order='value']").await;
        let means = "khz.waterfall.order.map((name) => khz.cell(name, 0).y)";
        let tops: Vec<f64> = serde_json::from_value(page.eval(means).await).unwrap();
        assert!(tops.is_sorted(), "{tops:?}");
        let other = page.eval("khz.waterfall.order").await;
        assert_ne!(order, other, "by value it is another order");
        page.click("[data-order='group']").await;
        page.wait("the address keeps it", "location.hash.includes('sort=group')").await;
        assert_eq!(page.eval("khz.waterfall.order").await, order, "groups are in the order of their names");
        let gap = "khz.cell('node001').y - khz.cell('gpu004').y - khz.cell('gpu004').height";
        assert!(page.number(gap).await >= 20.0, "a heading stands between groups");
        page.eval("(() => { const i = document.querySelector('#waterfall .find'); i.value = 'nobody'; i.dispatchEvent(new Event('input')); })()").await;
        page.wait(
            "a sentence says so",
            "document.querySelector('.fall-note').textContent === 'No node has such a name.'",
        )
        .await;
        page.eval("(() => { const i = document.querySelector('#waterfall .find'); i.value = 'node[9-'; i.dispatchEvent(new Event('input')); })()").await;
        assert_eq!(
            page.eval("document.querySelector('.fall-problem').textContent").await,
            "'[' is never closed"
        );
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn keys_choose_node_and_time_pause_and_open() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = visit(&browser, &door, "&measure=load&rate=10").await;
        page.eval("document.querySelector('.fall-cells').focus()").await;
        for key in ["ArrowDown", "ArrowDown", "ArrowLeft"] {
            page.press(key).await;
        }
        let said = "document.querySelector('.fall-said').textContent";
        page.wait("it is spoken", &format!("{said}.startsWith(`${{khz.waterfall.order[2]}}  `)")).await;
        page.press(" ").await;
        page.wait("Space pauses", "khz.state === 'paused'").await;
        page.press("End").await;
        let edge = page.eval(said).await;
        page.press("ArrowLeft").await;
        page.wait("a step earlier", &format!("{said} !== {edge}")).await;
        page.press("Home").await;
        page.wait("the oldest is from before the page was open", &format!("{said}.endsWith('not received')"))
            .await;
        page.press(" ").await;
        page.wait("it goes on", "khz.state === 'live' && khz.waterfall.known > 10").await;
        page.press("Escape").await;
        page.wait("Escape takes the cursor away", &format!("{TIP}.hidden")).await;
        page.press("ArrowDown").await;
        page.press("Enter").await;
        page.wait("Enter opens the node", "khz.view === 'node' && khz.rows > 1").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn more_nodes_than_a_rate_allows_are_refused_with_a_sentence_and_a_search_helps() {
    run(async {
        let cluster = Cluster::new(1_024);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_bare(&browser, &format!("{}#view=waterfall&rate=100", door.url())).await;
        page.wait(
            "the server's sentence is shown",
            "/1024 nodes at 100Hz are 102400 numbers a second/.test(document.querySelector('#notice').textContent)",
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/waterfall-refused.png")).await;
        page.eval("(() => { const i = document.querySelector('#waterfall .find'); i.value = 'node[0001-0064]'; i.dispatchEvent(new Event('input')); })()").await;
        page.wait("those have numbers", "khz.state === 'live' && khz.waterfall.known > 32").await;
        assert_eq!(page.number("khz.waterfall.nodes").await, 64.0);
        browser.close().await;
    });
}

#[test]
fn while_the_hub_is_away_time_stands_and_what_passed_was_not_received() {
    run(async {
        let cluster = Cluster::new(32);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(360, 740, Theme::Dark).await;
        let page = visit(&browser, &door, "&measure=load&rate=10").await;
        page.wait("thirty steps", "Number.isFinite(khz.cell('node01', 30).value)").await;
        let address: SocketAddr = door.url()["http://".len()..].trim_end_matches('/').parse().unwrap();
        drop(door);
        page.wait("the page says so", "khz.state === 'waiting'").await;
        let mean = "document.querySelector('[data-total=mean]').textContent";
        assert_eq!(page.eval(mean).await, "–");
        let edge = page.number("khz.waterfall.edge").await;
        let _door = OpenDoor::open(&cluster, address);
        page.wait("it goes on", &format!("khz.state === 'live' && khz.waterfall.edge > {edge} + 20")).await;
        let gap = format!("khz.cell('node01', khz.waterfall.edge - {edge} - 1).word");
        assert_eq!(page.eval(&gap).await, "not received");
        let before = format!("khz.cell('node01', khz.waterfall.edge - {edge} + 8).word");
        assert_eq!(page.eval(&before).await, "", "what was there before is kept");
        browser.close().await;
    });
}

#[test]
fn memory_is_bounded_and_wrong_clocks_are_named() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(8));
        let browser = Browser::start().await;
        let page = visit(&browser, &door, "").await;
        let cells = "const { WaterfallCells } = await import('/waterfall-cells.js'); const cells = new WaterfallCells(); \
             const names = (n) => Array.from({ length: n }, (_, i) => `n${i}`);";
        let sizes = format!(
            "(async () => {{ {cells} return [1, 2048, 2049, 4096, 9000].map((n) => {{ cells.begin(names(n), 1e7); \
             return [cells.count, cells.columns, cells.values.length <= 1 << 22]; }}); }})()"
        );
        let expected = json!([
            [1, 2048, true],
            [2048, 2048, true],
            [2049, 1024, true],
            [4096, 1024, true],
            [4096, 1024, true]
        ]);
        assert_eq!(page.eval(&sizes).await, expected);
        let filled = format!(
            "(async () => {{ {cells} cells.begin(names(3), 1e9); \
             cells.take({{ now: 1000, steps: [{{ step: 1000, runs: [[0, 5, null]] }}] }}); \
             cells.take({{ now: 1003, steps: [{{ step: 1002, runs: [[0, 7]] }}, {{ step: 9000, runs: [[1, 1]] }}] }}); \
             cells.takeAway({{ down: [2], left: [], missing: [] }}); cells.advance(1004); \
             return [[0, 1000], [1, 1000], [2, 1000], [0, 1001], [0, 1002], [2, 1004], [0, 999]] \
             .map(([at, step]) => {{ const {{ state, value }} = cells.cell(at, step); return [state, value]; }}) \
             .concat([[...cells.astray]]); }})()"
        );
        let kept = format!(
            "(async () => {{ {cells} cells.begin(['a', 'b'], 1e9); \
             cells.take({{ now: 1000, steps: [{{ step: 1000, runs: [[0, 5, 6]] }}] }}); \
             cells.begin(['b', 'c'], 1e9); const of = (at) => {{ const {{ state, value }} = cells.cell(at, 1000); return [state, value]; }}; \
             const rows = [of(0), of(1), cells.newest[0]]; cells.begin(['b', 'c'], 1e8); return [...rows, cells.edge]; }})()"
        );
        assert_eq!(
            page.eval(&kept).await,
            json!([[1, 6], [3, Value::Null], 6, -1]),
            "a node that stays keeps its row"
        );
        let found = page.eval(&filled).await;
        let none = Value::Null;
        let expected = json!([[1, 5], [2, none], [0, none], [0, none], [1, 7], [4, none], [3, none], [1]]);
        assert_eq!(found, expected);
        browser.close().await;
    });
}

#[test]
fn at_a_row_a_second_it_begins_with_what_the_hub_remembers() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page =
            Page::open_bare(&browser, &format!("{}#view=waterfall&measure=load&rate=1", door.url())).await;
        page.wait(
            "minutes are there at once",
            "khz.waterfall && Number.isFinite(khz.cell('node20', 200)?.value)",
        )
        .await;
        assert!(page.number("khz.waterfall.copies").await < 100.0);
        page.wait("it is painted", "khz.waterfall.copies > 2").await;
        page.screenshot(&target_dir().join("screenshots/waterfall-past.png")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_pause_is_in_the_address_which_opens_with_what_is_remembered_and_stands_still() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = visit(&browser, &door, "&measure=load&rate=1").await;
        assert_eq!(page.eval("location.hash.includes('paused')").await, false);
        pause(&page).await;
        assert_eq!(page.eval("location.hash.includes('&paused=1')").await, true);
        let address = page.eval("location.href").await.as_str().unwrap().to_owned();
        let page = Page::open_bare(&browser, &address).await;
        page.wait("it stands still", "khz.state === 'paused' && khz.waterfall").await;
        assert_eq!(page.eval("location.href").await, address.as_str());
        assert_eq!(
            page.eval("Number.isFinite(khz.cell('node20', 200)?.value)").await,
            true,
            "the past is there"
        );
        page.click(".fall-pause").await;
        page.wait("it goes on", "khz.state === 'live' && !location.hash.includes('paused')").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn it_fits_every_size_and_theme() {
    run(async {
        for nodes in [1, 5, 64, 500, 4_096] {
            let cluster = Cluster::new(nodes);
            if nodes < 6 {
                cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
            }
            let door = OpenDoor::of(&cluster);
            let browser = Browser::start().await;
            at_each_look(&browser, &format!("waterfall-{nodes}"), &DESK_AND_PHONE, async |_| {
                let page = visit(&browser, &door, "&measure=cpu&rate=10").await;
                page.wait("some seconds are there", "khz.waterfall.copies > 60").await;
                page
            })
            .await;
            browser.close().await;
        }
    });
}
