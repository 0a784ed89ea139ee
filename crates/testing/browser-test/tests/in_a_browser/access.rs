//! Whether everybody can use the page: axe-core finds nothing on any view, the keyboard reaches everything, and pictures as colour-blind
//! people see them are kept to be looked at.

use std::net::SocketAddr;

use khz_browser_test::axe::Axe;
use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::run;
use khz_browser_test::server::Server;
use khz_http::NodeGroup;
use serde_json::{Value, json};

/// The views of a cluster: their addresses, and when they are shown.
const OF_A_CLUSTER: [(&str, &str, &str); 8] = [
    ("cluster", "mark=memory", "khz.view === 'cluster' && khz.known > khz.shown / 2 && khz.repaints > 1"),
    (
        "waterfall",
        "view=waterfall&measure=load&rate=10",
        "khz.waterfall?.known > 0 && khz.waterfall.copies > 20",
    ),
    (
        "compare",
        "view=compare&nodes=node[01-03]&correlation=1",
        "khz.ranges?.rounds > 0 && document.querySelector('.correlations')",
    ),
    ("compare-empty", "view=compare", "!document.querySelector('.compare-empty').hidden"),
    ("sums", "view=sums&measure=load", "khz.ranges?.rounds > 0 && khz.ranges.panels[2].lines.length === 1"),
    (
        "node",
        "node=node02&rate=10&window=10s&p=h**load.*",
        "khz.view === 'node' && khz.state === 'live' && khz.rows > 20 && khz.time && khz.ranks && document.querySelector('.signal') && khz.own.length === 1",
    ),
    (
        "board",
        "view=board&p=l**node[01-02]:load.1m&p=sw**=node_load1",
        "khz.own?.length === 2 && khz.own.every(p => !p.isEmpty)",
    ),
    ("down", "node=node03", "khz.view === 'node' && khz.state === 'down' && khz.time"),
];

/// The views of a single node. The last one is opened in the view before it.
const OF_A_NODE: [(&str, &str, &str); 5] = [
    (
        "alone",
        "rate=10&window=10s",
        "khz.view === 'node' && khz.state === 'live' && khz.rows > 20 && khz.time && khz.ranks && document.querySelector('.signal')",
    ),
    ("query", "query=sort_desc(rate(node_cpu_seconds_total[10s]))&range=5m", "khz.query?.state === 'shown'"),
    ("query-wrong", "query=up%20%2B", "khz.query?.state === 'failed'"),
    ("alerts", "alerts=", "khz.alerts?.state === 'shown'"),
    ("past", "", "khz.time?.isPast && !khz.time.isLoading"),
];

fn cluster() -> (Cluster, OpenDoor) {
    let cluster = Cluster::new(64);
    cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), node.as_str() == "node03"));
    let groups = [NodeGroup { name: "rack1".into(), nodes: "node[01-08]".into() }];
    let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
    let door = OpenDoor::open_with(&cluster, any_port, |door| door.groups = groups.into());
    (cluster, door)
}

/// Opens a view and waits until it is shown.
async fn opened<'b>(browser: &'b Browser, url: &str, hash: &str, is_shown: &str) -> Page<'b> {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    let past = format!("rate=1&window=1min&from={}", now.as_secs() - 5);
    let hash = if hash.is_empty() { &past } else { hash };
    let page = Page::open_bare(browser, &format!("{url}#{hash}")).await;
    page.wait(hash, is_shown).await;
    page
}

#[test]
fn axe_finds_nothing_on_any_view() {
    run(async {
        let axe = match Axe::fetch() {
            Ok(axe) => axe,
            Err(reason) => return khz_skip::skip(reason),
        };
        let (_cluster, door) = cluster();
        let server = Server::start().await;
        let browser = Browser::start().await;
        let mut found = Vec::new();
        for (width, height, theme) in
            [(1280, 900, Theme::Light), (390, 844, Theme::Dark), (1280, 900, Theme::Dark)]
        {
            browser.look(width, height, theme).await;
            let of = |url: String, views: &[(&'static str, &'static str, &'static str)]| {
                views.iter().map(|view| (url.clone(), *view)).collect::<Vec<_>>()
            };
            let views = [of(door.url(), &OF_A_CLUSTER), of(server.url().to_owned(), &OF_A_NODE)].concat();
            for (url, (name, hash, is_shown)) in views {
                let page = opened(&browser, &url, hash, is_shown).await;
                let lines = axe.findings(&page).await;
                found.extend(
                    lines.into_iter().map(|line| format!("{name} {width} {}: {line}", theme.as_str())),
                );
                if name == "alone" {
                    found.extend(in_dialogs(&axe, &page).await);
                }
            }
        }
        assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
        browser.close().await;
    });
}

/// The same with each dialog open.
async fn in_dialogs(axe: &Axe, page: &Page<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (key, dialog) in [("?", "#keys"), ("s", ".save"), ("k", ".palette")] {
        page.eval("document.activeElement?.blur()").await;
        page.press(key).await;
        page.wait("it is open", &format!("document.querySelector('{dialog}')?.open")).await;
        found.extend(axe.findings(page).await.into_iter().map(|line| format!("{dialog}: {line}")));
        page.eval(&format!("document.querySelector('{dialog}').close()")).await;
    }
    found
}

#[test]
fn the_keyboard_reaches_everything_that_can_be_pressed() {
    run(async {
        let (_cluster, door) = cluster();
        let server = Server::start().await;
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        for (url, views) in [(door.url(), &OF_A_CLUSTER[..]), (server.url().to_owned(), &OF_A_NODE[..4])] {
            for (name, hash, is_shown) in views {
                let page = opened(&browser, &url, hash, is_shown).await;
                // Nothing that moves by itself changes what can be pressed meanwhile.
                let wanted = page.eval(&marked()).await;
                let count = wanted.as_array().map_or(0, Vec::len);
                assert!(count > 3, "{name}: {wanted}");
                let mut reached = std::collections::BTreeSet::new();
                // What comes after the first picture takes the keyboard, too.
                for _ in 0..count + 100 {
                    page.press_tab().await;
                    if let Value::String(mark) =
                        page.eval("document.activeElement?.dataset.mark ?? null").await
                    {
                        reached.insert(mark);
                    }
                }
                let missed = page
                    .eval(&format!(
                        "[...document.querySelectorAll('[data-mark]')].filter((e) => e.offsetWidth > 0 && !e.disabled && !{}.includes(e.dataset.mark)).map((e) => e.outerHTML.slice(0, 100))",
                        json!(reached)
                    ))
                    .await;
                assert_eq!(missed, json!([]), "{name}: not reached");
            }
        }
        browser.close().await;
    });
}

/// Marks everything that can be pressed or has keys of its own, and lists the marks. Of a toolbar Tab reaches one thing, and arrow keys
/// the others.
fn marked() -> String {
    "(() => { const all = [...document.querySelectorAll('button, a[href], input, select, textarea, summary, [tabindex=\"0\"]')] \
     .filter((e) => e.offsetWidth > 0 && !e.disabled && getComputedStyle(e).visibility !== 'hidden' && !(e.tabIndex < 0 && e.closest('[role=toolbar]'))); \
     return all.map((e, at) => (e.dataset.mark = `mark${at}`)); })()"
        .to_owned()
}

/// `cargo test -p khz-browser-test --test in_a_browser -- --ignored colour_blind` writes them to `target/screenshots`.
#[test]
#[ignore = "writes pictures to be looked at"]
fn pictures_as_colour_blind_people_see_them() {
    run(async {
        let (cluster, door) = cluster();
        cluster.set_away(&["node05"], &["node06"]);
        let browser = Browser::start().await;
        for theme in [Theme::Light, Theme::Dark] {
            browser.look(1280, 900, theme).await;
            for (name, hash, is_shown) in OF_A_CLUSTER {
                if !["cluster", "waterfall", "node", "compare"].contains(&name) {
                    continue;
                }
                let page = opened(&browser, &door.url(), hash, is_shown).await;
                for kind in ["none", "protanopia", "deuteranopia", "tritanopia", "achromatopsia"] {
                    browser.cdp("Emulation.setEmulatedVisionDeficiency", json!({ "type": kind })).await;
                    page.picture(&format!("sight-{name}-{}-{kind}", theme.as_str())).await;
                }
                browser.cdp("Emulation.setEmulatedVisionDeficiency", json!({ "type": "none" })).await;
            }
        }
        browser.close().await;
    });
}
