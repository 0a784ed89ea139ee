//! The view of alerts in a real headless Chromium: over a real hub that judges the rows of a real agent, and over answers made up here
//! in the form of `/api/v1/rules`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::page::Page;
use khz_browser_test::run::run;
use khz_browser_test::server::{Server, binary};
use khz_browser_test::{PATIENCE, target_dir};
use serde_json::{Value, json};

const LOOKS: [(u32, u32, Theme); 4] =
    [(1280, 900, Theme::Light), (390, 844, Theme::Dark), (1280, 900, Theme::Dark), (390, 844, Theme::Light)];

/// An alert that fires as soon as the node is there, one that is pending for long, and a rule that fails.
const RULES: &str = r#"groups:
- name: memory
  interval: 1s
  rules:
  - alert: HasMemory
    expr: node_memory_MemTotal_bytes > 1000
    labels: {severity: critical, team: '<img src=x onerror=document.title=1>'}
    annotations:
      summary: '{{ $labels.instance }} <b>has</b> memory'
      description: 'This is no reason to worry.'
  - alert: WaitsLong
    expr: node_load1 >= 0
    for: 1h
    labels: {severity: info}
  - record: fails
    expr: '{__name__=~"node_load.+"} * on (instance) node_load1'
"#;

/// A hub with rules and an agent, in a directory of their own.
struct Judging {
    hub: Server,
    agent: Child,
    place: PathBuf,
}

impl Judging {
    async fn start() -> Self {
        let place = std::env::temp_dir().join(format!("khz-alerts-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&place);
        let path = |name: &str| place.join(name).to_str().expect("a name in UTF-8").to_owned();
        std::fs::create_dir_all(place.join("rules")).expect("a directory");
        std::fs::write(place.join("rules/memory.yml"), RULES).expect("a file");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let link = free.expect("a free port").to_string();
        let (rules, state, store, run) = (path("rules"), path("state"), path("store"), path("run"));
        let words = ["hub", "--node", "hub", "--link-listen", &link, "--text-listen", "none"];
        let more = ["--rules", &rules, "--state-dir", &state, "--store", &store, "--run-dir", &run];
        let hub = Server::start_with("127.0.0.1:0", &[&words[..], &more].concat()).await;
        let agent = Command::new(binary())
            .args(["agent", "--node", "n1", "--hub", &link, "--sources", "loadavg,meminfo,uptime"])
            .args(["--run-dir", &run])
            .env("KHZ_RING_DIR", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("an agent starts");
        Judging { hub, agent, place }
    }

    /// Waits until one alert fires, one is pending, a rule has failed, and there is a point to draw: the page asks for points from 15
    /// minutes before the alert, 4 s apart. The nodes themselves say when an alert begins, so it may fire before the group is
    /// evaluated.
    async fn fires(&self, browser: &Browser) {
        const ASK: &str = "(async () => { \
            const ask = async (path) => (await (await fetch(path)).json()); \
            const { firing, pending } = await ask('khz/v1/rules'); \
            const rules = (await ask('api/v1/rules')).data.groups.flatMap(({ rules }) => rules); \
            const failed = rules.filter(({ health }) => health === 'err').length; \
            const alerts = (await ask('api/v1/alerts')).data.alerts; \
            const begun = Math.floor(Date.parse(alerts.find(({ state }) => state === 'firing')?.activeAt) / 1e3); \
            if (!begun) return [firing, pending, failed]; \
            const range = new URLSearchParams({ query: 'node_memory_MemTotal_bytes', start: begun - 900, end: Math.floor(Date.now() / 1e3), step: 4 }); \
            return [firing, pending, failed, (await ask(`api/v1/query_range?${range}`)).data.result.length]; })()";
        browser.client.goto(self.hub.url()).await.expect("the page opens");
        let page = Page { browser };
        let start = Instant::now();
        loop {
            let counts = page.eval(ASK).await;
            if counts == json!([1, 1, 1, 1]) {
                return;
            }
            assert!(start.elapsed() < PATIENCE * 2, "firing, pending, failed, series: {counts}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Judging {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

/// Opens a part of the page, even if it is open already.
async fn opened<'a>(browser: &'a Browser, server: &Server, hash: &str) -> Page<'a> {
    browser.client.goto("about:blank").await.expect("a blank page opens");
    browser.client.goto(&format!("{}#{hash}", server.url())).await.expect("the page opens");
    Page { browser }
}

async fn text(page: &Page<'_>, selector: &str) -> String {
    let text = page.eval(&format!("document.querySelector({})?.textContent ?? ''", json!(selector))).await;
    text.as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_alert_that_fires_has_its_summary_its_rule_its_times_and_a_plot_and_its_text_is_text() {
    run(async {
        let browser = Browser::start().await;
        let judging = Judging::start().await;
        judging.fires(&browser).await;
        for (width, height, theme) in LOOKS {
            browser.look(width, height, theme).await;
            let page = opened(&browser, &judging.hub, "alerts=HasMemory&instance=n1").await;
            page.wait("the alert is open, with its plot", "window.khz?.alerts?.plots[0] === 'shown'").await;
            assert_eq!(
                page.eval("[khz.alerts.firing, khz.alerts.pending, khz.alerts.rules]").await,
                json!([1, 1, 2])
            );
            assert_eq!(text(&page, ".alerts-state").await, "1 alert fires, 1 is pending (2 rules)");
            let line = text(&page, ".alert-rule > summary").await;
            for part in ["critical", "HasMemory", "firing ", "n1 <b>has</b> memory"] {
                assert!(line.contains(part), "{part}: {line}");
            }
            assert!(text(&page, ".alert-rule:nth-child(2) > summary").await.contains("pending "));
            let detail = text(&page, ".alert-detail").await;
            for part in [
                "This is no reason to worry.",
                "There since",
                "Fires since",
                "Group",
                "node_memory_MemTotal_bytes > 1000",
                "team=<img src=x",
                "alert if > 1000",
            ] {
                assert!(detail.contains(part), "{part}: {detail}");
            }
            assert!(
                text(&page, ".alerts-notes").await.starts_with("The rule fails of the group memory fails: ")
            );
            assert_eq!(
                page.number("document.querySelectorAll('#alerts img, #alerts b').length").await,
                2.0,
                "the numbers of the legend"
            );
            assert_eq!(page.eval("document.title").await, "Alerts · Kilohertz");
            page.assert_fits().await;
            let name = format!("alerts-{width}-{}.png", theme.as_str());
            page.screenshot(&target_dir().join("screenshots").join(name)).await;
        }
        let page = Page { browser: &browser };
        let links = page
            .eval("[...document.querySelectorAll('.alert-links a')].map(a => a.getAttribute('href'))")
            .await;
        assert_eq!(links[0], "#query=node_memory_MemTotal_bytes%7Binstance%3D%22n1%22%7D&range=1h");
        // The node's page begins a quarter of an hour before the alert, and ends when the plot does.
        let time = "(() => { const [[, name, from, to]] = document.querySelectorAll('.alert-links a')[1].hash.matchAll(/^#node=(.*)&from=(.*)&to=(.*)$/g); \
                    return [name, (Date.now() - Date.parse(from)) / 1e3, (Date.now() - Date.parse(to)) / 1e3]; })()";
        let (name, from, to): (String, f64, f64) =
            serde_json::from_value(page.eval(time).await).expect("a node and its window");
        assert!(name == "n1" && from > 890.0 && from - to >= 900.0 && to > -2.0, "{links}");
        page.click(".alert-links a").await;
        page.wait("the query is asked", "khz.query?.state === 'shown' && khz.query.series === 1").await;
        // The count stands above every view, and leads to the alerts.
        page.wait("the head has the number", "khz.firing === '1'").await;
        page.click("#alerts-link").await;
        page.wait("the alerts are back", "khz.view === 'alerts' && khz.alerts?.state === 'shown'").await;
        assert_eq!(browser.console_errors().await, Vec::<String>::new());
        browser.close().await;
    });
}

/// Has the page get a made-up answer of `/api/v1/rules`: a rule that fires at 4,096 nodes, one with two series of a node of which one is
/// pending, and one that fails.
const MADE_UP: &str = "(() => { \
    const ago = (seconds) => new Date(Math.floor(Date.now() / 1e4) * 1e4 - seconds * 1e3).toISOString(); \
    const at = { active: ago(400), fired: ago(100) }; \
    const alert = (labels, more) => ({ labels: { alertname: 'A', ...labels }, annotations: { summary: `it is hot at ${labels.instance}` }, \
        state: 'firing', activeAt: at.active, firedAt: at.fired, \
        value: '9.1e+01', ...more }); \
    const rule = (name, alerts, more) => ({ name, query: `${name} > 1`, duration: 300, health: 'ok', type: 'alerting', alerts, ...more }); \
    const names = Array.from({ length: 4096 }, (_, i) => `node${String(i + 1).padStart(4, '0')}`); \
    window.made = { groups: [{ name: 'g', file: '/rules/a.yml', rules: [ \
        rule('TooHot', names.map(instance => alert({ instance, severity: 'warning' }))), \
        rule('Fan', [alert({ instance: 'node7', fan: '1', severity: 'page' }), \
            alert({ instance: 'node7', fan: '2', severity: 'page' }, { state: 'pending', firedAt: undefined })]), \
        rule('Broken', [], { health: 'err', lastError: '1:3: it is wrong' })] }] }; \
    window.fetch = (ask => (path, ...rest) => !String(path).startsWith('api/v1/rules') ? ask(path, ...rest) : Promise.resolve( \
        new Response(JSON.stringify({ status: 'success', data: window.made, warnings: ['the rule files have errors: a.yml:3:1: no'] }))))(window.fetch); \
    location.hash = 'alerts='; return true; })()";

#[test]
fn many_nodes_of_one_rule_are_one_line_which_opens_and_stays_open() {
    run(async {
        let browser = Browser::start().await;
        let server = Server::start().await;
        for (width, height, theme) in LOOKS {
            browser.look(width, height, theme).await;
            let page = opened(&browser, &server, "").await;
            page.wait(
                "the page is there",
                "window.khz?.view === 'node' && document.querySelector('#node').textContent",
            )
            .await;
            page.eval(MADE_UP).await;
            page.wait("the alerts are listed", "khz.alerts?.state === 'shown'").await;
            assert_eq!(
                page.eval("[khz.alerts.firing, khz.alerts.pending, khz.alerts.rules]").await,
                json!([4097, 1, 2])
            );
            // The worst comes first, however few nodes have it.
            let lines =
                page.eval("[...document.querySelectorAll('.alert-rule')].map(row => row.textContent)").await;
            let lines: Vec<String> = serde_json::from_value(lines).expect("texts");
            assert!(lines[0].contains("Fan") && lines[0].contains("1 firing, 1 pending"), "{lines:?}");
            for part in ["TooHot", "4,096 firing, the newest for ", "4,096 nodes: node[0001-4096]"] {
                assert!(lines[1].contains(part), "{part}: {lines:?}");
            }
            let notes = text(&page, ".alerts-notes").await;
            assert!(
                notes.contains("a.yml:3:1: no")
                    && notes.contains("The rule Broken of the group g fails: 1:3: it is wrong"),
                "{notes}"
            );
            let elements = "document.querySelectorAll('#alerts *').length";
            assert!(page.number(elements).await < 100.0, "no element for each alert");
            page.assert_fits().await;
            let name = format!("alerts-many-{width}-{}.png", theme.as_str());
            page.screenshot(&target_dir().join("screenshots").join(name)).await;

            page.eval("document.querySelector('.alert-rule:nth-child(2) > summary').focus()").await;
            page.eval("document.activeElement.click()").await;
            page.wait(
                "its alerts are listed",
                "document.querySelectorAll('.alert-rule:nth-child(2) .alert').length === 50",
            )
            .await;
            page.wait("the address has it", "location.hash === '#alerts=TooHot'").await;
            assert!(
                text(&page, ".alert-rule:nth-child(2) > .alert-body").await.contains("4,046 more alerts")
            );
            assert!(page.number(elements).await < 1_000.0, "a limited number of elements");
            page.assert_fits().await;
            let name = format!("alerts-open-{width}-{}.png", theme.as_str());
            page.screenshot(&target_dir().join("screenshots").join(name)).await;
            // A refresh that changes the order leaves open what is open, and the focus where it is.
            page.eval("(window.made.groups[0].rules[1].alerts = [], khz.refreshAlerts())").await;
            page.wait(
                "the other rule is gone",
                "khz.alerts.rules === 1 && document.querySelectorAll('.alert-rule').length === 1",
            )
            .await;
            assert_eq!(
                page.number("document.querySelectorAll('.alert-rule[open] .alert').length").await,
                50.0
            );
            assert_eq!(page.eval("document.activeElement.tagName").await, "SUMMARY");
        }
        assert_eq!(browser.console_errors().await, Vec::<String>::new());
        browser.close().await;
    });
}

#[test]
fn a_khz_without_rules_says_how_to_get_some_and_one_that_is_gone_has_an_unknown_number() {
    run(async {
        let browser = Browser::start().await;
        let mut server = Server::start_on("127.0.0.1:0").await;
        browser.look(390, 844, Theme::Light).await;
        let page = opened(&browser, &server, "").await;
        let head = "[khz.firing, document.querySelector('#alerts-link').dataset.state, document.querySelector('#alerts-link').title]";
        page.wait("it is known that there are no rules", "window.khz?.firing === ''").await;
        assert_eq!(page.eval(head).await, json!(["", "quiet", "This khz evaluates no rules"]));
        page.click("#alerts-link").await;
        page.wait("the view is there", "khz.alerts?.state === 'shown'").await;
        assert!(text(&page, ".alerts-none").await.contains("khz hub --rules DIR"));
        page.assert_fits().await;
        server.kill().await;
        page.eval("khz.refreshAlerts()").await;
        page.wait("it is not known any more", "khz.alerts.state === 'failed'").await;
        assert_eq!(text(&page, ".alerts-state").await, "It is not known what fires.");
        assert!(
            text(&page, ".alerts-problem").await.starts_with("the server cannot be reached. Trying again…")
        );
        assert_eq!(page.eval(head).await, json!(["–", "unknown", "It is not known how many alerts fire"]));
        browser.close().await;
    });
}

/// Name, expression and expected result, in the page's modules.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        (
            "the_worst_comes_first_then_the_newest_and_what_fires_before_what_is_pending",
            "(() => { const rule = (name, severity, state, at) => ({ name, alerts: [{ labels: { severity }, annotations: {}, state, activeAt: at, firedAt: at, value: '1' }] }); \
                return list.listOf({ groups: [{ name: 'g', file: 'f', rules: [rule('a', 'critical', 'pending', '2026-01-01T00:00:09Z'), rule('b', 'info', 'firing', '2026-01-01T00:00:08Z'), \
                rule('c', 'warning', 'firing', '2026-01-01T00:00:01Z'), rule('d', 'warning', 'firing', '2026-01-01T00:00:02Z'), rule('e', 'odd', 'firing', '2026-01-01T00:00:02Z'), \
                rule('f', 'CRITICAL', 'firing', '2026-01-01T00:00:00Z')] }] }).rules.map(({ name }) => name).join(''); })()",
            json!("fedcba"),
        ),
        (
            "pending_and_firing_time_are_told_apart",
            "[{ isFiring: true, fired: 60e3, since: 60e3 }, { isFiring: true, fired: NaN, since: 0 }, { isFiring: false, fired: NaN, since: 0 }].map((alert) => list.sinceText(alert, 120e3))",
            json!(["firing 1 min", "firing, there 2 min", "pending 2 min"]),
        ),
        (
            "a_value_keeps_what_it_is",
            "['9.25e+00', 'NaN', '+Inf', '1.5e+300', '0e+00', '', '2.5276059648e+10', '3.333333333e-01'].map(list.numberText)",
            json!(["9.25", "NaN", "+Inf", "1.5e+300", "0", "", "25276059648", "0.333333"]),
        ),
        (
            "the_series_of_an_alert_are_those_with_its_labels",
            "[{ instance: 'n1', team: 'x' }, { instance: 'n3' }].map((labels) => list.seriesOfAlert([{ metric: { __name__: 'a', instance: 'n1', device: 'sda' } }, { metric: { instance: 'n2' } }], labels).length)",
            json!([1, 2]),
        ),
    ]
}

#[test]
fn the_list_keeps_its_promises() {
    run(async {
        let server = Server::start().await;
        let browser = Browser::start().await;
        let page = opened(&browser, &server, "").await;
        page.wait("the page is there", "window.khz").await;
        for (name, expression, expected) in cases() {
            let script = format!(
                "(async () => {{ const list = await import('/alert-list.js'); return {expression}; }})()"
            );
            assert_eq!(page.eval(&script).await, expected, "{name}");
        }
        browser.close().await;
    });
}
