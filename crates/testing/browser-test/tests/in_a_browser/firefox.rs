//! The page in a real headless Firefox: every view opens, moves and says the same as in Chromium, and no script fails.

use std::net::SocketAddr;

use khz_browser_test::browser::Theme;
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::firefox::{Firefox, program};
use khz_browser_test::run::run;
use khz_browser_test::server::Server;
use khz_browser_test::target_dir;
use khz_http::NodeGroup;
use serde_json::json;

/// How often a busy page is left: without the preference of the tests, Firefox complains more often than every second time.
const LEFT_TIMES: usize = 8;

/// A view: its name, its address, when it is shown, and what it says then.
const OF_A_CLUSTER: [(&str, &str, &str); 9] = [
    ("cluster", "", "khz.view === 'cluster' && khz.known > khz.shown / 2 && khz.repaints > 1"),
    (
        "waterfall",
        "view=waterfall&measure=load&rate=10",
        "khz.waterfall?.known > 0 && khz.waterfall.copies > 20",
    ),
    (
        "compare",
        "view=compare&nodes=node[01-03]",
        "khz.ranges?.rounds > 0 && khz.ranges.panels[0].lines.length === 3",
    ),
    ("compare-empty", "view=compare", "!document.querySelector('.compare-empty').hidden"),
    (
        "sums",
        "view=sums&measure=load",
        "khz.ranges?.rounds > 0 && khz.ranges.panels[2].lines[0].shown === '64'",
    ),
    (
        "node",
        "node=node02&rate=10&window=10s",
        "khz.view === 'node' && khz.state === 'live' && khz.rows > 2 && khz.framesDrawn > 3 && khz.time",
    ),
    (
        "node-more",
        "node=node02&rate=10&window=10s&p=l**load.1m",
        "khz.ranks && khz.own?.length === 1 && document.querySelector('.signal')",
    ),
    (
        "board",
        "view=board&p=l**node[01-02]:load.1m&p=h**=node_load1",
        "khz.own?.length === 2 && khz.own.every(p => !p.isEmpty)",
    ),
    (
        "node-past",
        "node=node02&rate=1&window=1min&from=-",
        "khz.time?.isPast && !khz.time.isLoading && khz.time.panels['All CPUs'] && !khz.time.panels['All CPUs'].isEmpty",
    ),
];

const OF_A_NODE: [(&str, &str, &str); 5] = [
    (
        "alone",
        "rate=10&window=10s",
        "khz.view === 'node' && khz.state === 'live' && khz.rows > 2 && khz.framesDrawn > 3 && khz.time",
    ),
    ("query", "query=up&range=5m", "khz.query?.state === 'shown' && khz.query.series === 1"),
    ("query-empty", "query=", "khz.query?.state === 'idle' && document.activeElement.id === 'question'"),
    (
        "query-wrong",
        "query=up%20%2B",
        "khz.query?.state === 'failed' && document.querySelector('.query-problem').textContent.includes('error')",
    ),
    ("alerts", "alerts=", "khz.alerts?.state === 'shown' && !document.querySelector('.alerts-none').hidden"),
];

#[test]
fn every_view_of_a_cluster_opens_in_firefox() {
    run(async {
        let Some(program) = program() else {
            return khz_skip::skip("there is no Firefox; Debian has it in the package firefox-esr");
        };
        let cluster = Cluster::new(64);
        cluster.names().iter().for_each(|node| cluster.set_down(node.as_str(), false));
        let groups = [NodeGroup { name: "rack1".into(), nodes: "node[01-08]".into() }];
        let door = OpenDoor::open_with(&cluster, SocketAddr::from(([127, 0, 0, 1], 0)), |door| {
            door.groups = groups.into()
        });
        let mut firefox = Firefox::start(&program).await;
        for theme in [Theme::Light, Theme::Dark] {
            firefox.look(1280, 900, theme).await;
            for (name, hash, is_shown) in OF_A_CLUSTER {
                see(&mut firefox, &format!("{}#{}", door.url(), dated(hash)), is_shown, name, theme).await;
            }
        }
        assert_a_node_opens_and_closes(&mut firefox, &door).await;
        firefox.close().await;
    });
}

#[test]
fn every_view_of_a_node_opens_in_firefox_and_what_is_empty_says_so() {
    run(async {
        let Some(program) = program() else {
            return khz_skip::skip("there is no Firefox; Debian has it in the package firefox-esr");
        };
        let server = Server::start().await;
        let mut firefox = Firefox::start(&program).await;
        for theme in [Theme::Light, Theme::Dark] {
            firefox.look(1280, 900, theme).await;
            for (name, hash, is_shown) in OF_A_NODE {
                see(&mut firefox, &format!("{}#{hash}", server.url()), is_shown, name, theme).await;
            }
        }
        firefox.close().await;
    });
}

/// A window of the last two minutes, in place of "-".
fn dated(hash: &str) -> String {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    hash.replace("from=-", &format!("from={}&to={}", now.as_secs() - 130, now.as_secs() - 10))
}

/// Opens a view, waits until it is shown, and checks that no script has failed and that the theme is the one that was asked for.
async fn see(firefox: &mut Firefox, url: &str, is_shown: &str, name: &str, theme: Theme) {
    firefox.open(url).await;
    firefox.wait(name, &format!("window.khz && ({is_shown})")).await;
    let brightness =
        firefox.eval("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]").await;
    assert_eq!(brightness.as_f64().expect("a number") < 128.0, theme == Theme::Dark, "{name}");
    let wide = firefox.eval("document.documentElement.scrollWidth <= innerWidth").await;
    assert_eq!(wide, json!(true), "{name} is wider than the window");
    let picture = format!("screenshots/firefox-{name}-{}.png", theme.as_str());
    firefox.screenshot(&target_dir().join(picture)).await;
    assert_eq!(firefox.console_errors().await, Vec::<String>::new(), "{name}");
}

/// From the tiles to a node, to the time before, and back.
async fn assert_a_node_opens_and_closes(firefox: &mut Firefox, door: &OpenDoor) {
    firefox.open(&door.url()).await;
    firefox.wait("tiles have numbers", "window.khz?.known > 0").await;
    let press = |key: &str| {
        format!(
            "document.querySelector('.tiles canvas').dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true, cancelable: true }}))"
        )
    };
    firefox.eval(&press("Home")).await;
    firefox.eval(&press("Enter")).await;
    firefox.wait("the node is opened", "khz.view === 'node' && khz.rows > 1 && khz.time").await;
    firefox.eval("document.querySelector('[data-time=earlier]').click()").await;
    firefox.wait("a window of the past is shown", "khz.time.isPast && location.hash.includes('from=')").await;
    firefox.eval("document.querySelector('#all').click()").await;
    firefox.wait("the tiles are back", "khz.view === 'cluster' && khz.known > 0").await;
    assert_eq!(firefox.console_errors().await, Vec::<String>::new());
}

#[test]
fn the_check_of_firefox_finds_errors() {
    run(async {
        let Some(program) = program() else {
            return khz_skip::skip("there is no Firefox; Debian has it in the package firefox-esr");
        };
        let server = Server::start().await;
        let mut firefox = Firefox::start(&program).await;
        firefox.open(server.url()).await;
        firefox
            .eval("(console.error('heard'), setTimeout(() => { throw new Error('thrown'); }), true)")
            .await;
        firefox.wait("the timer has ended", "new Promise((done) => setTimeout(() => done(true), 50))").await;
        let errors = firefox.console_errors().await;
        assert!(errors.iter().any(|error| error.contains("heard")), "{errors:?}");
        assert!(errors.iter().any(|error| error.contains("thrown")), "{errors:?}");
        firefox.close().await;
    });
}

#[test]
fn no_script_of_a_page_that_is_left_is_said_to_have_timed_out() {
    run(async {
        let Some(program) = program() else {
            return khz_skip::skip("there is no Firefox; Debian has it in the package firefox-esr");
        };
        let server = Server::start().await;
        let mut firefox = Firefox::start(&program).await;
        for _ in 0..LEFT_TIMES {
            firefox.open(server.url()).await;
            // Firefox keeps no page that hears "unload": it ends its process. This one runs with hardly a pause.
            let busy = "(function busy() {
                const end = performance.now() + 100;
                while (performance.now() < end);
                setTimeout(busy);
                return true;
            })(addEventListener('unload', () => {}))";
            firefox.eval(busy).await;
        }
        firefox.open(server.url()).await;
        let mut errors = firefox.console_errors().await;
        // It also complains of modules that were not loaded to the end.
        errors.retain(|error| error.contains("terminated"));
        assert_eq!(errors, Vec::<String>::new());
        firefox.close().await;
    });
}
