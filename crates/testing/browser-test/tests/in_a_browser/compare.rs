//! Several nodes side by side, and all nodes together over time, in a real headless Chromium: served by a real door with
//! made-up nodes, whose past the door's own PromQL reads.

use std::net::SocketAddr;

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::looks::{ALL_SIZES, DESK_AND_PHONE, at_each_look};
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use khz_http::NodeGroup;
use serde_json::json;

/// A cluster in which all nodes are up, and its door, which knows two groups.
fn open(nodes: usize) -> (Cluster, OpenDoor) {
    let cluster = Cluster::new(nodes);
    cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
    let groups = [("rack1", "node[01-08]"), ("accelerated", "gpu*")];
    let groups = groups.map(|(name, nodes)| NodeGroup { name: name.into(), nodes: nodes.into() });
    let set = |door: &mut khz_http::Door| door.groups = groups.into();
    let door = OpenDoor::open_with(&cluster, SocketAddr::from(([127, 0, 0, 1], 0)), set);
    (cluster, door)
}

const BAR: &str = "document.querySelector('#cluster .choice-bar')";

#[test]
fn nodes_that_are_clicked_with_shift_are_compared_with_a_line_each() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        for name in ["node03", "node50"] {
            let (x, y) = page.tile_middle(name).await;
            page.click_with_shift_at(x, y).await;
        }
        page.wait("both are chosen", "khz.chosen.join() === 'node03,node50'").await;
        assert_eq!(page.eval("khz.view").await, "cluster", "a click with Shift opens no node");
        page.eval("document.querySelector('.tiles canvas').focus()").await;
        page.press("Home").await;
        page.press(" ").await;
        page.wait("a key chooses too", "khz.chosen.length === 3").await;
        page.screenshot(&target_dir().join("screenshots/chosen.png")).await;
        page.click("#cluster .compare").await;
        page.wait("the panels have lines", "khz.view === 'compare' && khz.ranges && khz.ranges.rounds > 0")
            .await;
        let panels = page.eval("khz.ranges.panels").await;
        let panels = panels.as_array().unwrap();
        assert!(panels.len() >= 8, "{panels:?}");
        for panel in panels {
            let labels: Vec<&str> = panel["lines"]
                .as_array()
                .unwrap()
                .iter()
                .map(|line| line["label"].as_str().unwrap())
                .collect();
            assert_eq!(labels, ["node01", "node03", "node50"], "in the order of the address: {panel}");
            for line in panel["lines"].as_array().unwrap() {
                assert!(line["points"].as_u64().unwrap() > 100, "{panel}");
            }
        }
        let shown = page.eval("khz.ranges.panels[1].lines[1].shown").await;
        assert!(shown.as_str().unwrap().parse::<f64>().is_ok(), "{shown}");
        page.screenshot(&target_dir().join("screenshots/compare-1280.png")).await;
        page.eval("document.querySelector('.chips button').click()").await;
        page.wait("one is taken away", "khz.ranges.nodes.join() === 'node03,node50' && location.hash.includes('nodes=node%5B03%2C50%5D')").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_finger_chooses_nodes_with_a_button_in_tiles_and_waterfall() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        browser.look(360, 740, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        page.click("#cluster .choose").await;
        page.wait(
            "the bar says what to do",
            &format!("!{BAR}.hidden && /Click or touch up to 8/.test({BAR}.textContent)"),
        )
        .await;
        for name in ["node03", "node05"] {
            page.eval("document.querySelector('.tiles').scrollIntoView()").await;
            let (x, y) = page.tile_middle(name).await;
            page.tap_at(x, y).await;
        }
        page.wait("both are chosen", "khz.chosen.join() === 'node03,node05'").await;
        assert_eq!(page.eval("khz.view").await, "cluster", "no node is opened");
        page.screenshot(&target_dir().join("screenshots/choosing-360.png")).await;
        page.click("#cluster .choose").await;
        page.eval("document.querySelector('.tiles').scrollIntoView()").await;
        let (x, y) = page.tile_middle("node07").await;
        page.tap_at(x, y).await;
        page.wait("without the button a touch opens", "khz.view === 'node'").await;

        let page = Page::open_bare(&browser, &format!("{}#view=waterfall", door.url())).await;
        page.wait(
            "rows are there",
            "window.khz && khz.waterfall && khz.waterfall.known > 30 && khz.waterfall.copies > 5",
        )
        .await;
        page.click("#waterfall .choose").await;
        page.eval("document.querySelector('.fall').scrollIntoView()").await;
        let (left, top, width, _) = page.place(".fall-cells").await;
        let y = page.number("(t => t.y + t.height / 2)(khz.cell('node03', 1))").await;
        // The newest steps stand at the right edge.
        page.tap_at(left + width - 2.0, top + y).await;
        page.wait("the row is chosen", "khz.chosen.join() === 'node03'").await;
        page.click("#waterfall .compare").await;
        page.wait("it is compared", "khz.view === 'compare'").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn no_more_nodes_are_chosen_than_can_be_told_apart() {
    run(async {
        let (cluster, door) = open(64);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Dark).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        for name in cluster.names().iter().skip(10).take(9) {
            let (x, y) = page.tile_middle(name.as_str()).await;
            page.click_with_shift_at(x, y).await;
        }
        let said = "/At most 8 nodes can be compared/.test(document.querySelector('#notice').textContent)";
        page.wait("a sentence says so", said).await;
        assert_eq!(page.number("khz.chosen.length").await, 8.0);
        page.click("#cluster .clear").await;
        page.wait("none is chosen", &format!("khz.chosen.length === 0 && {BAR}.hidden")).await;
        browser.close().await;
    });
}

#[test]
fn eight_lines_look_different_and_their_correlation_is_a_table() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        at_each_look(&browser, "compare-8", &ALL_SIZES, async |_| {
            let url = format!("{}#view=compare&nodes=node[01-04,50-53]&range=5m", door.url());
            let page = Page::open_bare(&browser, &url).await;
            page.wait("it is answered", "khz.ranges && khz.ranges.rounds > 0").await;
            let looks = page
                .eval("new Set(khz.ranges.panels[0].lines.map(l => `${l.colour} ${l.dashed}`)).size")
                .await;
            assert_eq!(looks, 8);
            assert_eq!(page.eval("document.querySelectorAll('.correlations').length").await, 0);
            page.click(".correlate").await;
            page.wait("tables are there", "document.querySelectorAll('.correlations').length >= 8").await;
            let cells = page
                .eval("[...document.querySelectorAll('.correlations')].flatMap(t => [...t.querySelectorAll('tbody td')].map(c => c.textContent))")
                .await;
            let cells: Vec<String> = serde_json::from_value(cells).unwrap();
            for cell in &cells {
                let number = cell.replace('−', "-").parse::<f64>();
                assert!(cell.is_empty() || cell == "–" || (-1.0..=1.0).contains(&number.unwrap()), "{cell}");
            }
            assert!(
                cells.iter().any(|cell| cell.starts_with("0.9") || cell == "1.00"),
                "nodes of a job are alike"
            );
            assert!(page.eval("location.hash").await.as_str().unwrap().contains("correlation=1"));
            page.eval("document.querySelector('.compare-panels .frame').focus()").await;
            page.press("ArrowLeft").await;
            page.wait(
                "keys point at a time in all panels",
                "[...document.querySelectorAll('.compare-panels .cursor')].every(c => !c.hidden)",
            )
            .await;
            page
        })
        .await;
        browser.close().await;
    });
}

#[test]
fn without_nodes_or_with_unknown_ones_the_comparison_says_what_to_do() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        browser.look(360, 740, Theme::Light).await;
        let page = Page::open_bare(&browser, &format!("{}#view=compare", door.url())).await;
        page.wait(
            "a sentence says how to choose",
            "khz.view === 'compare' && !document.querySelector('.compare-empty').hidden",
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/compare-empty.png")).await;
        page.eval("location.hash = '#view=compare&nodes=nobody,node01'").await;
        // The other one keeps its place, and is not 0.
        let shown = "khz.ranges?.panels[0]?.lines.map((line) => [line.label, line.points > 0, line.shown === '–'].join()).join(' ')";
        let both = format!("{shown} === 'nobody,false,true node01,true,false'");
        page.wait("one has a line, and the other one is named", &both).await;
        page.eval("location.hash = '#view=compare&nodes=nobody'").await;
        page.wait("nobody has none", "khz.ranges.panels[0].note === 'Nobody has such numbers in this time.'")
            .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn correlation_is_pearsons_and_says_nothing_of_level_lines_or_of_few_times() {
    run(async {
        let (_cluster, door) = open(8);
        let browser = Browser::start().await;
        let page = Page::open_bare(&browser, &door.url()).await;
        let found = page
            .eval(
                "(async () => { const { correlation } = await import('/correlation.js'); \
                 const line = (f, n = 20) => [Array.from({ length: n }, (_, i) => [i, f(i)])]; \
                 const up = line(i => 3 * i + 1), down = line(i => -i), level = line(() => 5), few = line(i => i, 9); \
                 const later = [line(i => i)[0].map(([t, v]) => [t + 1000, v])].flat(); \
                 return [correlation(up, line(i => i)), correlation(up, down), correlation(up, level), correlation(up, few), correlation(up, [later]), \
                 Number(correlation(line(i => i % 2), line(i => i % 4)).toFixed(4))].map(r => Number.isNaN(r) ? 'nothing' : Number(r.toFixed(6))); })()",
            )
            .await;
        assert_eq!(found, json!([1, -1, "nothing", "nothing", "nothing", 0.4472]));
        browser.close().await;
    });
}

#[test]
fn hostlists_become_names_and_patterns_and_are_bounded() {
    run(async {
        let (_cluster, door) = open(8);
        let browser = Browser::start().await;
        let page = Page::open_bare(&browser, &door.url()).await;
        for (call, expected) in [
            (
                "hostlistNames('node[03,08-10],login1', 8)",
                json!(["node03", "node08", "node09", "node10", "login1"]),
            ),
            ("hostlistNames('n[1-99999999]', 3)", json!(["n1", "n2", "n3"])),
            (
                "hostlistNames('r[1-2]n[1-2]-ib, gpu*, n[9-', 8)",
                json!(["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
            ),
            ("hostlistPattern('node[08-10].x,gpu?,io*', 100)", json!("node(?:08|09|10)\\.x|gpu.|io.*")),
            ("hostlistMatcher('node1')('node12')", json!(false)),
            ("hostlistMatcher('node1,gpu*')('gpu7')", json!(true)),
        ] {
            let found = page.eval(&format!("(async () => (await import('/hostlist.js')).{call})()")).await;
            assert_eq!(found, expected, "{call}");
        }
        browser.close().await;
    });
}

#[test]
fn previous_and_next_node_are_in_the_heading_and_keep_the_way_back() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        let (x, y) = page.tile_middle("node09").await;
        page.click_at(x, y).await;
        page.wait("the node is shown", "khz.view === 'node' && khz.rows > 1").await;
        page.click("#next").await;
        page.wait("the next one", "document.title.startsWith('node10') && khz.rows > 1").await;
        page.click("#previous").await;
        page.click("#previous").await;
        page.wait("the one before", "document.title.startsWith('node08') && khz.rows > 1").await;
        assert_eq!(
            page.eval("document.querySelector('#next').getAttribute('aria-label')").await,
            "Next node: node09"
        );
        page.eval("location.hash = '#node=gpu001'").await;
        page.wait(
            "the first has none before",
            "document.title.startsWith('gpu001') && document.querySelector('#previous').hidden",
        )
        .await;
        page.eval("history.go(-2)").await;
        page.wait("the way back leads to the tiles", "khz.view === 'cluster' && khz.known > 30").await;
        assert_eq!(page.eval("document.querySelector('#next').hidden").await, true);
        browser.close().await;
    });
}

#[test]
fn sums_and_quantiles_of_all_nodes_are_lines_over_time_and_a_group_is_a_part_of_them() {
    run(async {
        let (_cluster, door) = open(64);
        let browser = Browser::start().await;
        at_each_look(&browser, "sums", &DESK_AND_PHONE, async |_| {
            let page = Page::open_bare(&browser, &format!("{}#view=sums&measure=load", door.url())).await;
            page.wait("it is answered", "khz.ranges && khz.ranges.rounds > 0").await;
            let panels =
                page.eval("khz.ranges.panels.map(p => p.lines.map(l => [l.label, Number(l.shown)]))").await;
            let panels: Vec<Vec<(String, f64)>> = serde_json::from_value(panels).unwrap();
            let labels: Vec<&str> = panels[1].iter().map(|(label, _)| label.as_str()).collect();
            assert_eq!(labels, ["highest", "95 % are below", "median", "5 % are below", "lowest"]);
            assert!(panels[1].is_sorted_by(|a, b| a.1 >= b.1), "{panels:?}");
            assert_eq!(panels[2][0], ("nodes".to_owned(), 64.0));
            let (lowest, highest) = (panels[1][4].1, panels[1][0].1);
            assert!((lowest * 64.0..=highest * 64.0).contains(&panels[0][0].1), "a sum: {panels:?}");
            page.eval("(() => { const g = document.querySelector('.sums-group'); g.value = 'rack1'; g.dispatchEvent(new Event('change')); })()").await;
            page.wait("a part of them", "khz.ranges.panels[2].lines[0]?.shown === '8'").await;
            page.eval("(() => { const g = document.querySelector('.sums-measure'); g.value = 'cpu'; g.dispatchEvent(new Event('change')); })()").await;
            page.wait(
                "shares have a mean",
                "khz.ranges.panels[0].lines[0]?.label === 'mean' && khz.ranges.panels[2].lines.length === 1",
            )
            .await;
            assert!(page.eval("location.hash").await.as_str().unwrap().contains("measure=cpu&group=rack1"));
            page
        })
        .await;
        browser.close().await;
    });
}

#[test]
fn panels_of_the_past_say_why_they_have_nothing_and_go_on_when_the_hub_is_back() {
    run(async {
        let (cluster, door) = open(8);
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = Page::open_bare(&browser, &format!("{}#view=sums", door.url())).await;
        page.wait("it is answered", "khz.ranges && khz.ranges.rounds > 0 && khz.state === 'live'").await;
        let address: SocketAddr = door.url()["http://".len()..].trim_end_matches('/').parse().unwrap();
        drop(door);
        page.wait(
            "the page says so",
            "khz.state === 'waiting' && khz.ranges.panels[0].note === 'the server cannot be reached'",
        )
        .await;
        let shown = page.eval("khz.ranges.panels[0].lines.map((line) => line.shown)").await;
        assert_eq!(shown, json!(["–"]), "what nobody renews is not what is now");
        let _door = OpenDoor::open(&cluster, address);
        page.wait("it goes on", "khz.state === 'live'").await;
        let notes = page.eval("khz.ranges.panels.map(p => p.note)").await;
        assert_eq!(notes, json!(["", "", ""]));
        browser.close().await;
    });
}
