//! The view of all nodes in a real headless Chromium, served by a real door with made-up nodes.

use std::net::SocketAddr;

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::looks::{ALL_SIZES, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::{root, target_dir};
use khz_http::NodeGroup;
use serde_json::{Value, json};

/// A pixel of each of these tiles, at this share of its width and height: red, green, blue, alpha.
async fn pixels(page: &Page<'_>, names: &[&str], share: (f64, f64)) -> Vec<[u8; 4]> {
    let names = json!(names);
    let (dx, dy) = share;
    let script = format!(
        "(() => {{ const c = document.querySelector('.tiles canvas'), density = c.width / c.clientWidth; \
         const copy = Object.assign(document.createElement('canvas'), {{ width: c.width, height: c.height }}); \
         const read = copy.getContext('2d', {{ willReadFrequently: true }}); read.drawImage(c, 0, 0); \
         const data = read.getImageData(0, 0, c.width, c.height); \
         return {names}.map(name => {{ const t = khz.tile(name); \
         const x = Math.floor((t.x + t.width * {dx}) * density), y = Math.floor((t.y + t.height * {dy}) * density); \
         const at = 4 * (y * c.width + x); return [...data.data.slice(at, at + 4)]; }}); }})()"
    );
    let read = page.eval(&script).await;
    serde_json::from_value(read).expect("four bytes a pixel")
}

#[test]
fn four_thousand_tiles_are_painted_with_every_message() {
    run(async {
        let cluster = Cluster::new(4_096);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        assert_eq!(page.number("khz.nodes").await, 4_096.0);
        assert_eq!(
            page.number("document.querySelectorAll('.tiles *').length").await,
            3.0,
            "no element a node"
        );
        let names: Vec<&str> = cluster.names().iter().map(|name| name.as_str()).collect();
        let seen = pixels(&page, &names, (0.5, 0.5)).await;
        assert!(seen.iter().all(|pixel| pixel[3] == 255), "every tile is painted");
        let colours: std::collections::BTreeSet<_> = seen.iter().collect();
        assert!(colours.len() > 15, "only {} colours", colours.len());
        assert_ordered_by_brightness(&page, &names, &seen).await;
        let before = page.eval("[khz.repaints, khz.messages, performance.now()]").await;
        let (paints, messages) = (before[0].as_f64().unwrap(), before[1].as_f64().unwrap());
        page.wait(
            "five more messages",
            &format!("khz.messages >= {messages} + 5 && khz.repaints >= {paints} + 5"),
        )
        .await;
        let after = page.eval("[khz.repaints, performance.now(), khz.paintMs]").await;
        let seconds = (after[1].as_f64().unwrap() - before[2].as_f64().unwrap()) / 1e3;
        println!(
            "{:.2} paints a second, {:.2} ms each",
            (after[0].as_f64().unwrap() - paints) / seconds,
            after[2].as_f64().unwrap() / after[0].as_f64().unwrap()
        );
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

/// Checks that a higher number has a darker tile, on the light page.
async fn assert_ordered_by_brightness(page: &Page<'_>, names: &[&str], seen: &[[u8; 4]]) {
    let steps = page
        .eval(&format!("{}.map(name => khz.tile(name).down ? -1 : khz.tile(name).step)", json!(names)))
        .await;
    let brightness = |pixel: &[u8; 4]| {
        0.2126 * f64::from(pixel[0]) + 0.7152 * f64::from(pixel[1]) + 0.0722 * f64::from(pixel[2])
    };
    let of = |wanted: fn(i64) -> bool| {
        let tiles = steps
            .as_array()
            .expect("a list of steps")
            .iter()
            .zip(seen)
            .filter(|(step, _)| wanted(step.as_i64().unwrap_or(-1)));
        let (sum, count) =
            tiles.fold((0.0, 0), |(sum, count), (_, pixel)| (sum + brightness(pixel), count + 1));
        assert!(count > 0);
        sum / f64::from(count)
    };
    let (low, middle, high) =
        (of(|step| (0..8).contains(&step)), of(|step| (20..28).contains(&step)), of(|step| step > 40));
    assert!(low > middle + 20.0 && middle > high + 20.0, "{low} {middle} {high}");
}

#[test]
fn a_node_that_goes_down_is_crossed_out_and_counted_and_comes_back() {
    run(async {
        let cluster = Cluster::new(256);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let before = page.number("khz.down").await;
        assert_eq!(before, cluster.down() as f64);
        let scale = page
            .eval("(async () => (await import('/theme-colours.js')).colours.tiles.map(t => t.fill))()")
            .await;
        for (is_down, count) in [(true, before + 1.0), (false, before)] {
            cluster.set_down("node007", is_down);
            page.wait(
                "it is counted",
                &format!(
                    "khz.down === {count} && khz.tile('node007').down === {is_down} && khz.repaints > 0"
                ),
            )
            .await;
            page.wait("it is painted", &format!("(khz.crosses ?? 0) === {count}")).await;
            let [r, g, b, _] = pixels(&page, &["node007"], (0.5, 0.5)).await[0];
            let is_on_the_scale = scale.as_array().unwrap().contains(&json!(format!("rgb({r} {g} {b})")));
            let numbered = page.eval("Number.isFinite(khz.tile('node007').value)").await == Value::Bool(true);
            assert_eq!(is_on_the_scale, !is_down && numbered, "rgb({r} {g} {b}) with down = {is_down}");
        }
        cluster.set_down("node007", true);
        let listed = "document.querySelector('.down-list').textContent.includes('node')";
        page.wait("it is listed", listed).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn unknown_is_hollow_and_never_a_colour_of_the_scale() {
    run(async {
        let cluster = Cluster::new(1_024);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &format!("{}#metric=cpu-pressure", door.url())).await;
        let unknown =
            "khz.known + khz.unknown + khz.down === khz.nodes && khz.unknown > 5 && khz.unknown < 100";
        page.wait("a few have no such source", unknown).await;
        let names: Vec<&str> = cluster.names().iter().map(|name| name.as_str()).collect();
        let blank = page
            .eval(&format!(
                "{}.filter(n => Number.isNaN(khz.tile(n).value) && !khz.tile(n).down)",
                json!(names)
            ))
            .await;
        let blank: Vec<String> = serde_json::from_value(blank).unwrap();
        let blank: Vec<&str> = blank.iter().map(String::as_str).collect();
        assert!(pixels(&page, &blank, (0.5, 0.5)).await.iter().all(|pixel| pixel[3] == 0), "hollow inside");
        let (x, y) = page.tile_middle(blank[0]).await;
        page.point_at(x, y).await;
        page.wait(
            "the tip says so",
            &format!("document.querySelector('.tile-tip').textContent === '{}  unknown'", blank[0]),
        )
        .await;
        browser.close().await;
    });
}

#[test]
fn a_tile_opens_its_node_and_the_back_button_shows_the_tiles() {
    run(async {
        let cluster = Cluster::new(300);
        for node in ["node042", "node043"] {
            cluster.set_down(node, false);
        }
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page =
            Page::open_cluster(&browser, &format!("{}#metric=load&find=node[001-099]", door.url())).await;
        assert_eq!(page.number("khz.shown").await, 99.0);
        let (x, y) = page.tile_middle("node042").await;
        page.click_at(x, y).await;
        page.wait(
            "the node's own view is live",
            "khz.view === 'node' && khz.state === 'live' && khz.rows > 2",
        )
        .await;
        assert_eq!(page.eval("document.querySelector('#node').textContent").await, "node042");
        page.wait(
            "its plots have numbers",
            "khz.panels.find(p => p.title === 'Load').last.some(Number.isFinite)",
        )
        .await;
        assert!(page.eval("location.hash").await.as_str().unwrap().starts_with("#node=node042&rate="));
        page.eval("history.back()").await;
        page.wait(
            "the tiles are back as they were",
            "khz.view === 'cluster' && khz.known > 90 && khz.shown === 99",
        )
        .await;
        assert_eq!(page.eval("document.querySelector('#metric').value").await, "load");
        let (x, y) = page.tile_middle("node043").await;
        page.click_at(x, y).await;
        page.wait(
            "another node",
            "khz.view === 'node' && khz.rows > 2 && document.title.startsWith('node043')",
        )
        .await;
        page.click("#all").await;
        page.wait("the link leads back too", "khz.view === 'cluster' && khz.shown === 99").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_node_that_is_down_says_so_in_its_view_and_is_found_again() {
    run(async {
        let cluster = Cluster::new(70);
        cluster.set_down("node07", true);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(390, 844, Theme::Dark).await;
        let page = Page::open(&browser, &format!("{}#node=node08", door.url())).await;
        page.eval("location.hash = '#node=node07'").await;
        let said = "khz.state === 'down' && /node07 is down, last heard 12 min/.test(document.querySelector('#notice').textContent)";
        page.wait("the page says so", said).await;
        cluster.set_down("node07", false);
        page.wait(
            "it is live again",
            "khz.state === 'live' && khz.rows > 1 && document.querySelector('#notice').hidden",
        )
        .await;
        page.eval("location.hash = '#node=nobody'").await;
        page.wait(
            "an unknown name is no node",
            "/there is no node nobody/.test(document.querySelector('#notice').textContent)",
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn tiles_are_found_sorted_and_opened_with_the_keyboard() {
    run(async {
        let cluster = Cluster::new(512);
        // Those that are down come first.
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let search = |text: &str| {
            format!(
                "(() => {{ const i = document.querySelector('#find'); i.value = '{text}'; i.dispatchEvent(new Event('input')); return khz.shown; }})()"
            )
        };
        for (text, shown) in [("node[001-010],gpu*", 26.0), ("node00?", 9.0), ("nobody", 0.0), ("", 512.0)] {
            assert_eq!(page.number(&search(text)).await, shown, "{text}");
        }
        page.eval(&search("node[9-")).await;
        assert_eq!(
            page.eval("document.querySelector('#find-problem').textContent").await,
            "'[' is never closed"
        );
        page.eval(&search("")).await;
        page.click("[data-sort='value']").await;
        let first = "(() => { const c = document.querySelector('.tiles canvas'); return [c.clientWidth, khz.tile(khz.highest)]; })()";
        let first = page.eval(first).await;
        assert_eq!(
            (&first[1]["x"], &first[1]["y"]),
            (&json!(0), &json!(0)),
            "the highest comes first: {first}"
        );
        page.click("[data-sort='name']").await;
        page.eval("document.querySelector('.tiles canvas').focus()").await;
        for key in ["Home", "ArrowRight", "ArrowRight", "ArrowLeft"] {
            page.press(key).await;
        }
        let tip = "document.querySelector('.tile-tip').textContent";
        page.wait("the tip names the second tile", &format!("/^gpu002  /.test({tip})")).await;
        page.press("ArrowDown").await;
        page.wait("a row below is another group", &format!("!/^gpu/.test({tip})")).await;
        page.press("ArrowUp").await;
        page.wait("and back", &format!("/^gpu/.test({tip})")).await;
        page.press("Enter").await;
        page.wait("the node is opened", "khz.view === 'node' && document.title.startsWith('gpu')").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn it_fits_every_size_and_theme() {
    run(async {
        for nodes in [4_096, 12] {
            let cluster = Cluster::new(nodes);
            let door = OpenDoor::of(&cluster);
            let browser = Browser::start().await;
            at_each_look(&browser, &format!("cluster-{nodes}"), &ALL_SIZES, async |_| {
                let page = Page::open_cluster(&browser, &door.url()).await;
                page.wait("it is painted", "khz.repaints > 1").await;
                page
            })
            .await;
            browser.close().await;
        }
    });
}

#[test]
fn hostlists_mean_the_same_on_the_page_as_in_the_terminal() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(8));
        let browser = Browser::start().await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        for (text, name, expected) in [
            ("node[001-128,200]", "node007", true),
            ("node[001-128,200]", "node7", false),
            ("node[001-128,200]", "node200", true),
            ("r[1-2]n[08-11]*", "r2n11-ib", true),
            ("r[1-2]n[08-11]*", "r3n08", false),
            ("de0", "node0", true),
            ("gpu*, login1", "login1", true),
            ("gpu?", "gpu12", false),
            ("n[0-99999999]", "n31415926", true),
        ] {
            let found = page
                .eval(&format!("(async () => (await import('/hostlist.js')).matcher('{text}')('{name}'))()"))
                .await;
            assert_eq!(found, expected, "{text} {name}");
        }
        for (names, expected) in [
            (json!(["node3", "node7", "node9", "node8"]), "node[3,7-9]"),
            (json!(["n09", "n10", "n11", "login"]), "login,n[09-11]"),
            (json!(["n9", "n10", "n010"]), "n[9-10,010]"),
            (json!(["rack1-n1.ib", "rack1-n2.ib"]), "rack1-n[1-2].ib"),
            (json!([]), ""),
        ] {
            let found =
                page.eval(&format!("(async () => (await import('/hostlist.js')).fold({names}))()")).await;
            assert_eq!(found, expected);
        }
        browser.close().await;
    });
}

#[test]
fn tiles_have_names_and_the_last_minute_up_to_some_hundreds_of_nodes_and_more_are_plain() {
    run(async {
        for (nodes, is_named) in [(2, true), (64, true), (300, true), (1_024, false), (4_096, false)] {
            let cluster = Cluster::new(nodes);
            let door = OpenDoor::of(&cluster);
            let browser = Browser::start().await;
            for (width, height) in [(1280, 900), (360, 740)] {
                browser.look(width, height, Theme::Light).await;
                let page = Page::open_cluster(&browser, &format!("{}#metric=load", door.url())).await;
                let name = cluster.names()[nodes - 1].as_str();
                let font = page.number(&format!("khz.tile('{name}').font")).await;
                let on_a_phone = width < 600 && nodes > 200;
                assert_eq!(font > 0.0, is_named && !on_a_phone, "{nodes} nodes at {width}");
                if font > 0.0 {
                    page.wait(
                        "seconds are in its line",
                        &format!("Number.isFinite(khz.before('{name}', 50))"),
                    )
                    .await;
                    let paint = format!("khz.repaints > {} + 1", page.number("khz.repaints").await);
                    page.wait("it is painted", &paint).await;
                    // Where a line is, some pixels of a tile have the colour of its text.
                    let inked = format!(
                        "(() => {{ const t = khz.tile('{name}'), c = document.querySelector('.tiles canvas'); \
                         const data = c.getContext('2d').getImageData(t.x + t.width - 12, t.y + t.font + 8, 8, t.height - t.font - 8).data; \
                         const colours = new Set(); for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 3).join()); return colours.size; }})()"
                    );
                    assert!(page.number(&inked).await > 1.0, "a line in {nodes} tiles");
                }
                page.screenshot(&target_dir().join(format!("screenshots/tiles-{nodes}-{width}.png"))).await;
                assert_clean_console(&browser).await;
            }
            browser.close().await;
        }
    });
}

#[test]
fn nodes_that_are_down_come_first_and_go_back_when_they_are_up() {
    run(async {
        let cluster = Cluster::new(64);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let before = page.eval("khz.tile('node40')").await;
        cluster.set_down("node40", true);
        page.wait(
            "it is first",
            "khz.tile('node40').down && khz.tile('node40').x === 0 && khz.tile('node40').y < 30",
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/tiles-down-first.png")).await;
        cluster.set_down("node40", false);
        page.wait(
            "it is where it was",
            &format!("khz.tile('node40').y === {} && khz.tile('node40').x === {}", before["y"], before["x"]),
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_second_number_is_a_bar_in_every_tile_and_unknown_has_none() {
    run(async {
        let cluster = Cluster::new(512);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page =
            Page::open_cluster(&browser, &format!("{}#metric=load&mark=cpu-pressure", door.url())).await;
        let names = json!(cluster.names().iter().map(|name| name.as_str()).collect::<Vec<_>>());
        page.wait(
            "marks have numbers",
            &format!("{names}.filter(n => Number.isFinite(khz.tile(n).mark)).length > 400"),
        )
        .await;
        let unknown = page.eval(&format!("{names}.find(n => Number.isNaN(khz.tile(n).mark))")).await;
        let high = page.eval(&format!("{names}.find(n => khz.tile(n).mark > 0.5)")).await;
        let [unknown, high] = [unknown, high].map(|name| name.as_str().expect("there is one").to_owned());
        let paint = format!("khz.repaints > {} + 2", page.number("khz.repaints").await);
        page.wait("it is painted", &paint).await;
        let both = [unknown.as_str(), high.as_str()];
        let inside = pixels(&page, &both, (0.25, 0.62)).await;
        let edge = pixels(&page, &both, (0.25, 0.98)).await;
        assert_eq!(inside[0], edge[0], "unknown has no bar");
        assert_ne!(inside[1], edge[1], "a known one has");
        let (x, y) = page.tile_middle(&high).await;
        page.point_at(x, y).await;
        page.wait(
            "the tip has both",
            "/  ·  CPU pressure [0-9.]+ %/.test(document.querySelector('.tile-tip').textContent)",
        )
        .await;
        let key = "document.querySelector('.mark-key').textContent";
        assert!(page.eval(key).await.as_str().unwrap().contains("CPU pressure, 0 to "));
        page.screenshot(&target_dir().join("screenshots/tiles-mark.png")).await;
        page.eval("(() => { const m = document.querySelector('#mark'); m.value = 'none'; m.dispatchEvent(new Event('change')); })()").await;
        page.wait(
            "the mark is gone",
            "document.querySelector('.mark-key').hidden && !location.hash.includes('mark')",
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

/// Opens a door with groups of nodes in its configuration.
fn open_grouped(cluster: &Cluster) -> OpenDoor {
    let groups = [("rack2", "node[033-064]"), ("rack1", "node[001-032]"), ("accelerated", "gpu*,node001")];
    let groups = groups.map(|(name, nodes)| NodeGroup { name: name.into(), nodes: nodes.into() });
    OpenDoor::open_with(cluster, SocketAddr::from(([127, 0, 0, 1], 0)), |door| door.groups = groups.into())
}

#[test]
fn groups_of_the_configuration_are_blocks_and_a_filter_in_tiles_and_waterfall() {
    run(async {
        let cluster = Cluster::new(128);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let door = open_grouped(&cluster);
        let browser = Browser::start().await;
        for (width, height) in [(1280, 900), (360, 740)] {
            browser.look(width, height, Theme::Light).await;
            let page = Page::open_cluster(&browser, &door.url()).await;
            let order =
                page.eval("['node033', 'node001', 'gpu001', 'node065'].map(n => khz.tile(n).y)").await;
            let order: Vec<f64> = serde_json::from_value(order).unwrap();
            assert!(order.is_sorted_by(|a, b| a < b), "in the order of the file, others last: {order:?}");
            page.screenshot(&target_dir().join(format!("screenshots/groups-tiles-{width}.png"))).await;
            let choose = |list: &str, group: &str| {
                format!(
                    "(() => {{ const g = document.querySelector('{list}'); g.value = '{group}'; g.dispatchEvent(new Event('change')); }})()"
                )
            };
            page.eval(&choose("#group", "accelerated")).await;
            assert_eq!(page.number("khz.shown").await, 5.0, "a node may be in several groups");
            assert!(page.eval("location.hash").await.as_str().unwrap().contains("group=accelerated"));
            page.click("#cluster .views a:nth-child(2)").await;
            page.wait(
                "the waterfall has the same nodes",
                "khz.waterfall && khz.waterfall.known > 3 && khz.waterfall.shown === 5",
            )
            .await;
            page.eval(&choose(".group-choice", "")).await;
            page.wait("all of them", "khz.waterfall.shown === 128 && khz.waterfall.known > 100").await;
            let rows =
                page.eval("[khz.waterfall.order[0], khz.waterfall.order[32], khz.waterfall.order[64]]").await;
            assert_eq!(rows, json!(["node033", "node001", "gpu001"]));
            page.screenshot(&target_dir().join(format!("screenshots/groups-waterfall-{width}.png"))).await;
            assert_clean_console(&browser).await;
        }
        browser.close().await;
    });
}

#[test]
fn a_finger_sees_a_name_before_it_opens_the_node() {
    run(async {
        let cluster = Cluster::new(1_024);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(360, 740, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let (x, y) = page.tile_middle("gpu003").await;
        page.tap_at(x, y).await;
        let tip = "document.querySelector('.tile-tip')";
        page.wait(
            "the name is shown",
            &format!("!{tip}.hidden && {tip}.textContent.startsWith('gpu003  ') && {tip}.textContent.endsWith('touch again to open')"),
        )
        .await;
        assert_eq!(page.eval("khz.view").await, "cluster");
        page.screenshot(&target_dir().join("screenshots/tiles-touched.png")).await;
        page.tap_at(x, y).await;
        page.wait("the second touch opens it", "khz.view === 'node' && document.title.startsWith('gpu003')")
            .await;
        browser.close().await;
    });
}

#[test]
fn metrics_that_nobody_has_are_named_and_stay_to_be_seen() {
    run(async {
        let cluster = Cluster::new(64);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let notice = "document.querySelector('#notice')";
        for (view, name, list) in
            [("", "metric", "#metric"), ("view=waterfall&rate=1&", "measure", ".measure")]
        {
            // Of a metric that the catalogue lacks the server says so; the page itself, of what can be none.
            for (asked, said, shown) in [
                ("no.such_metric", "no.such_metric", "no.such_metric"),
                (
                    "NO/METRIC",
                    "NO/METRIC in the address is no metric: CPU busy, % of all CPUs is shown.",
                    "cpu",
                ),
            ] {
                let url = format!("{}#{view}{name}={}", door.url(), asked.replace('/', "%2F"));
                let page = Page::open_bare(&browser, &url).await;
                page.wait(said, &format!("!{notice}.hidden && {notice}.textContent.includes({said:?})"))
                    .await;
                assert_eq!(
                    page.eval(&format!("document.querySelector('main:not([hidden]) {list}').value")).await,
                    shown
                );
            }
        }
        browser.close().await;
    });
}

/// `KHZ_SCREENSHOT=docs/screenshot.png` writes `docs/cluster.png` beside it.
#[test]
#[ignore = "writes the screenshot of the documentation"]
fn screenshot_of_the_cluster_for_the_documentation() {
    run(async {
        let path = std::env::var("KHZ_SCREENSHOT").unwrap_or_else(|_| "docs/screenshot.png".into());
        let cluster = Cluster::new(4_096);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 880, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        page.wait("all have numbers", "khz.known + khz.down === khz.nodes").await;
        let (x, y) = page.tile_middle("node1042").await;
        page.point_at(x, y).await;
        page.wait("the tip of a tile is shown", "!document.querySelector('.tile-tip').hidden").await;
        page.screenshot(&root().join(path).with_file_name("cluster.png")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

/// A total above the tiles.
async fn total(page: &Page<'_>, fact: &str) -> String {
    let cell = format!("document.querySelector('[data-total={fact}]').textContent");
    page.eval(&cell).await.as_str().unwrap_or_default().to_owned()
}

#[test]
fn nodes_that_left_and_missing_nodes_are_counted_separately() {
    run(async {
        let cluster = Cluster::new(64);
        for node in cluster.names() {
            cluster.set_down(node.as_str(), node.as_str() == "node07");
        }
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let is_shown =
            |fact: &str| format!("!document.querySelector('[data-total={fact}]').parentElement.hidden");
        page.wait("one is down", "khz.down === 1").await;
        for fact in ["left", "missing"] {
            assert_eq!(page.eval(&is_shown(fact)).await, Value::Bool(false), "{fact}: there are none");
        }
        cluster.set_away(&["node08"], &["node09", "node10"]);
        page.wait("two are missing", "document.querySelector('[data-total=missing]').textContent === '2'")
            .await;
        let shown = format!("{} && {}", is_shown("left"), is_shown("missing"));
        assert_eq!(page.eval(&shown).await, Value::Bool(true));
        let totals = [total(&page, "down").await, total(&page, "left").await, total(&page, "missing").await];
        assert_eq!(totals, ["1", "1", "2"]);
        let label = page.eval("document.querySelector('.tiles canvas').getAttribute('aria-label')").await;
        assert!(label.as_str().unwrap().ends_with("1 left, 2 missing"), "{label}");
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn totals_count_the_nodes_that_the_search_finds() {
    run(async {
        let cluster = Cluster::new(256);
        for node in cluster.names() {
            cluster.set_down(node.as_str(), ["node007", "node200"].contains(&node.as_str()));
        }
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(390, 844, Theme::Light).await;
        let page = Page::open_cluster(&browser, &format!("{}#metric=load", door.url())).await;
        page.wait("both are down", "khz.down === 2").await;
        let search = "(() => { const i = document.querySelector('#find'); i.value = 'node[001-010]'; i.dispatchEvent(new Event('input')); })()";
        page.eval(search).await;
        assert_eq!(total(&page, "nodes").await, "10 of 256");
        assert_eq!(total(&page, "down").await, "1");
        assert_eq!(total(&page, "unknown").await, "0");
        let found = "[...Array(10).keys()].map(n => `node${String(n + 1).padStart(3, '0')}`)";
        let facts = "[khz.known, khz.highest, document.querySelector('[data-total=mean]').textContent]";
        let seen = page
            .eval(&format!(
                "[{found}.map(n => khz.tile(n)).filter(t => !t.down).map(t => t.value), {facts}, {found}]"
            ))
            .await;
        let values: Vec<f64> = serde_json::from_value(seen[0].clone()).unwrap();
        assert_eq!((values.len(), &seen[1][0]), (9, &json!(9)));
        assert!(seen[2].as_array().unwrap().contains(&seen[1][1]), "{seen}");
        let mean = values.iter().sum::<f64>() / 9.0;
        let shown: f64 = seen[1][2].as_str().unwrap().parse().unwrap();
        assert!((shown - mean).abs() < 0.006, "{shown} is shown for {mean}");
        let list = "document.querySelector('.down-list').textContent";
        assert_eq!(page.eval(list).await, "Down node007");
        page.screenshot(&target_dir().join("screenshots/found-390.png")).await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn tiles_sorted_by_value_are_in_order_as_soon_as_they_have_numbers() {
    run(async {
        let cluster = Cluster::new(256);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &format!("{}#sort=value", door.url())).await;
        let names = json!(cluster.names().iter().map(|name| name.as_str()).collect::<Vec<_>>());
        let order = format!(
            "{names}.map(n => khz.tile(n)).sort((a, b) => a.y - b.y || a.x - b.x) \
             .map(t => t.down ? 1e300 : Number.isFinite(t.value) ? t.value : -1)"
        );
        for metric in ["load", "memory", "cpu"] {
            // After another metric is chosen, the first frame with its numbers is in order.
            page.eval(&format!(
                "(() => {{ const m = document.querySelector('#metric'); m.value = '{metric}'; m.dispatchEvent(new Event('change')); \
                 window.order = null; const look = () => {{ if (khz.known > 200) window.order = {order}; \
                 else requestAnimationFrame(look); }}; look(); }})()"
            ))
            .await;
            page.wait("it has numbers", "window.order").await;
            let order: Vec<f64> = serde_json::from_value(page.eval("window.order").await).unwrap();
            assert!(order.is_sorted_by(|a, b| a >= b), "{metric}: {order:?}");
        }
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn while_the_hub_is_away_the_page_shows_no_number_of_nodes_that_are_down() {
    run(async {
        let cluster = Cluster::new(64);
        cluster.set_down("node07", true);
        let door = OpenDoor::of(&cluster);
        let browser = Browser::start().await;
        browser.look(390, 844, Theme::Dark).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        page.wait("one is down", "khz.down >= 1").await;
        let address: SocketAddr = door.url()["http://".len()..].trim_end_matches('/').parse().unwrap();
        drop(door);
        page.wait("the page says so", "khz.state === 'waiting'").await;
        for fact in ["down", "mean", "highest"] {
            assert_eq!(total(&page, fact).await, "–", "{fact}");
        }
        assert_eq!(total(&page, "unknown").await, "64");
        let key = "document.querySelector('.down-swatch').textContent.trim()";
        assert_eq!(page.eval(key).await, "down (–)");
        page.screenshot(&target_dir().join("screenshots/away-390.png")).await;
        let _door = OpenDoor::open(&cluster, address);
        page.wait("it is known again", "khz.state === 'live' && khz.down >= 1").await;
        browser.close().await;
    });
}
