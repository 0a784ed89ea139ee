//! Panels of one's own on the page of a node and on boards: adding, moving, sizing and removing them with keys and mouse; what the
//! address keeps; named boards, and the text of a file.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::{Cluster, SPIKE};
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::server::{Server, binary};
use khz_browser_test::target_dir;
use khz_http::{PanelKind, SavedBoard, SavedBoards, SavedPanel, Shows};
use serde_json::json;

/// Three panels: a pattern of all interfaces, a query, a pattern of named nodes.
const PANELS: &str = "p=l**net.rx_bytes&p=s*Load*=node_load1&p=h**node[1-3]:cpu.user";
const SETTLED: &str = "khz.own?.length === 3 && khz.own.every(p => !p.isEmpty)";
const ORDER: &str = "khz.own.map(p => p.title)";

async fn open_board<'a>(browser: &'a Browser, door: &OpenDoor, rest: &str) -> Page<'a> {
    let page = Page::open_bare(browser, &format!("{}#view=board&{rest}", door.url())).await;
    page.wait("a board is shown", "khz.view === 'board' && khz.own").await;
    page
}

/// The middle of the handle of the panel in this place.
async fn handle(page: &Page<'_>, place: usize) -> (f64, f64) {
    let (x, y, w, h) = page.place(&format!(".own:nth-child({place}) .own-handle")).await;
    (x + w / 2.0, y + h / 2.0)
}

#[test]
fn a_board_shows_patterns_and_queries_at_every_size_and_theme() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(8));
        let browser = Browser::start().await;
        for (width, height) in [(1280, 1100), (320, 900), (2560, 1200)] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.look(width, height, theme).await;
                let page = open_board(&browser, &door, PANELS).await;
                for place in 1..=3 {
                    page.eval(&format!("document.querySelector('.own:nth-child({place})').scrollIntoView()"))
                        .await;
                    page.wait("its panel is filled", &format!("!khz.own[{}].isEmpty", place - 1)).await;
                }
                page.eval("scrollTo(0, 0)").await;
                let outside = "[...document.querySelectorAll('button, input, select, .panel, header *')].filter(e => e.offsetWidth > 0 && \
                    (e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)).length";
                assert_eq!(page.number(outside).await, 0.0, "{width}: something lies outside the screen");
                let painted = "[...document.querySelectorAll('.own .trace')].every(c => \
                    c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(byte => byte > 0))";
                page.wait("all are painted", painted).await;
                assert_clean_console(&browser).await;
                let name = format!("screenshots/board-{width}-{}.png", theme.as_str());
                page.screenshot(&target_dir().join(name)).await;
            }
        }
        let page = open_board(&browser, &door, PANELS).await;
        page.wait("all have values", SETTLED).await;
        // Three interfaces of eight nodes; a line of the query for each; a row for each CPU of three nodes.
        let lines = page.eval("khz.own.map(p => p.lines.length)").await;
        assert_eq!(lines, json!([12, 8, 24]));
        let units = page.eval("khz.own.map(p => p.lines[0].unit)").await;
        assert_eq!(units, json!(["bytes/s", "", "CPUs"]), "units are those of the catalogue");
        assert!(page.eval("khz.own[0].why").await.as_str().unwrap().starts_with("12 more of 24 series"));
        browser.close().await;
    });
}

#[test]
fn panels_are_moved_widened_changed_and_removed_with_keys_and_the_address_keeps_it() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(4));
        let browser = Browser::start().await;
        browser.look(1280, 1100, Theme::Light).await;
        let page = open_board(&browser, &door, PANELS).await;
        page.wait("all have values", SETTLED).await;
        let [rx, load, cpu] = ["net.rx_bytes", "Load", "node[1-3]:cpu.user"];
        page.eval("document.querySelector('.own:nth-child(1) .own-handle').focus()").await;
        page.press("ArrowRight").await;
        assert_eq!(page.eval(ORDER).await, json!([load, rx, cpu]));
        page.press("End").await;
        assert_eq!(page.eval(ORDER).await, json!([load, cpu, rx]));
        page.press("ArrowLeft").await;
        assert_eq!(page.eval(ORDER).await, json!([load, rx, cpu]));
        let focused = "document.activeElement.getAttribute('aria-label')";
        assert!(page.eval(focused).await.as_str().unwrap().contains(rx), "the handle keeps the focus");
        // Wide, and another kind.
        page.eval("document.querySelector('.own:nth-child(2) .own-width').focus()").await;
        page.press("Enter").await;
        page.eval("document.querySelector('.own:nth-child(2) .own-width').click()").await;
        page.wait("it is wide", "khz.own[1].wide").await;
        page.eval(
            "(() => { const list = document.querySelector('.own:nth-child(1) .own-kind'); list.value = 'line'; list.dispatchEvent(new Event('change')); })()",
        )
        .await;
        page.wait("its lines are drawn", "khz.own[0].kind === 'line' && !khz.own[0].isEmpty").await;
        let kept = page.eval("location.hash").await;
        assert!(kept.as_str().unwrap().contains("p=lw**net.rx_bytes"), "{kept}");
        // Removed: the focus goes to a neighbour. The browser's way back brings it back.
        page.eval("document.querySelector('.own:nth-child(3) .own-away').click()").await;
        assert_eq!(page.eval(ORDER).await, json!([load, rx]));
        assert!(page.eval(focused).await.as_str().unwrap().contains(rx));
        page.eval("history.back()").await;
        page.wait("it is back", &format!("{ORDER}.length === 3")).await;
        // The same address shows the same board.
        let again = page.eval("location.hash.slice('#view=board&'.length)").await;
        let page = open_board(&browser, &door, again.as_str().unwrap()).await;
        page.wait("all have values", SETTLED).await;
        assert_eq!(page.eval(ORDER).await, json!([load, rx, cpu]));
        assert_eq!(page.eval("khz.own.map(p => p.wide)").await, json!([false, true, false]));
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn a_panel_is_dragged_by_its_handle_and_a_window_is_dragged_in_its_picture() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(4));
        let browser = Browser::start().await;
        browser.look(1280, 1100, Theme::Light).await;
        let page = open_board(&browser, &door, PANELS).await;
        page.wait("all have values", SETTLED).await;
        let (from, to) = (handle(&page, 1).await, handle(&page, 3).await);
        page.drag(from, to).await;
        page.wait("it has moved to the end", &format!("{ORDER}[2] === 'net.rx_bytes'")).await;
        assert!(page.eval("location.hash").await.as_str().unwrap().ends_with("net.rx_bytes"));
        // A drag in the picture chooses a time for all panels, and the address has it.
        let (x, y, w, h) = page.place(".own:nth-child(1) .frame").await;
        page.drag((x + w * 0.5, y + h / 2.0), (x + w * 0.75, y + h / 2.0)).await;
        page.wait("the time is in the address", "/from=.*to=/.test(location.hash)").await;
        page.wait("all have values of it", SETTLED).await;
        page.wait(
            "the bar says so",
            "/^Paused at/.test(document.querySelector('#own .timebar-text').textContent)",
        )
        .await;
        // The numbers under the pointer are those of its time.
        page.point_at(x + w * 0.5, y + h * 0.5).await;
        page.wait(
            "the pointer is marked in all panels",
            "[...document.querySelectorAll('.own .cursor')].every(c => !c.hidden)",
        )
        .await;
        page.press("Home").await;
        page.wait("now is shown again", "!/from=/.test(location.hash)").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn panels_of_ones_own_are_on_the_page_of_a_node_and_follow_its_time() {
    run(async {
        let cluster = Cluster::new(8).with_past(3_600);
        let door = OpenDoor::of(&cluster);
        let (spike, ..) = cluster.past();
        let browser = Browser::start().await;
        browser.look(1280, 1100, Theme::Light).await;
        let url =
            format!("{}#node=node3&rate=1&window=1min&p=l**load.1m&p=l*Sum*=sum(node_load1)", door.url());
        let page = Page::open(&browser, &url).await;
        page.wait("both panels are there", "khz.own?.length === 2").await;
        page.eval("document.querySelector('.own').scrollIntoView()").await;
        page.wait("both have values", "khz.own.every(p => !p.isEmpty)").await;
        assert_eq!(page.eval("khz.own.map(p => p.lines.length)").await, json!([1, 1]), "of this node alone");
        page.wait(
            "they are in the address that the page writes",
            "location.hash.endsWith('&p=l**load.1m&p=l*Sum*=sum(node_load1)')",
        )
        .await;
        // The pattern comes with the rows of the page.
        assert_eq!(page.eval("khz.own.map(p => p.isStreamed)").await, json!([true, false]));
        // Its time is theirs: around a moment that only one row knows.
        let (from, to) = (spike - 20, spike + 20);
        let url = format!("{url}&from={from}&to={to}");
        let page = Page::open(&browser, &url).await;
        page.wait("the panel is there", "khz.own?.length === 2").await;
        page.eval("document.querySelector('.own').scrollIntoView()").await;
        page.wait("both have values", "khz.own.every(p => !p.isEmpty)").await;
        page.eval("document.querySelector('.own .frame').focus()").await;
        page.press("Home").await;
        page.wait("now is shown again", "!/from=/.test(location.hash)").await;
        page.eval("history.back()").await;
        page.wait("the spike is shown again", "/from=/.test(location.hash)").await;
        let (x, y, w, h) = page.place(".own .frame").await;
        page.point_at(x + w / 2.0, y + h / 2.0).await;
        page.wait(
            "the peak is named under the pointer",
            &format!("document.querySelector('.own .tip').textContent.includes('{SPIKE:.0}') || khz.own[0].legend.join().includes('{SPIKE:.0}')"),
        )
        .await;
        // As a board, the panels are still about this node.
        page.eval("[...document.querySelectorAll('.own-group button')].find(b => b.textContent === 'Open as a board').click()").await;
        page.wait("a board is shown", "khz.view === 'board' && khz.own?.[0]?.match === 'node3:load.1m'")
            .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn what_cannot_be_shown_says_why() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(4));
        let browser = Browser::start().await;
        browser.look(1280, 1100, Theme::Light).await;
        let page = open_board(&browser, &door, "p=l**no.such_metric&p=l**=sum(").await;
        page.wait(
            "the query says what is wrong with it",
            "/parse error|expected|unclosed|unexpected/i.test(khz.own[1].why)",
        )
        .await;
        page.wait(
            "a pattern of nothing says so",
            "/no answer|no data/.test(document.querySelector('.own:nth-child(1) .veil').textContent)",
        )
        .await;
        // Beyond the limit a panel is refused, with a sentence.
        let many: Vec<String> = (0..24).map(|n| format!("p=l*{n}*load.1m")).collect();
        let page = open_board(&browser, &door, &many.join("&")).await;
        page.wait("all panels are there", "khz.own.length === 24").await;
        page.eval("document.querySelector('#own input').focus()").await;
        browser.cdp("Input.insertText", json!({ "text": "load.5m" })).await;
        page.press("Enter").await;
        page.eval("document.querySelector('.own-form button').click()").await;
        page.wait(
            "it says why not",
            "/at most 24 panels/.test(document.querySelector('#notice').textContent)",
        )
        .await;
        assert_eq!(page.number("khz.own.length").await, 24.0);
        assert_eq!(
            page.eval("document.querySelector('#own input').value").await,
            json!("load.5m"),
            "nothing typed is lost"
        );
        browser.close().await;
    });
}

/// Two boards, and a file that is wrong.
fn saved() -> SavedBoards {
    let panel = |shows| SavedPanel { shows, title: String::new(), kind: PanelKind::Stack, is_wide: true };
    let board = |name: &str, title: &str, shows| SavedBoard {
        name: name.into(),
        title: title.into(),
        panels: vec![panel(shows)],
    };
    SavedBoards {
        folder: Some("/etc/khz/boards".into()),
        boards: vec![
            board("disks", "All disks", Shows::Pattern("disk.read_bytes".into())),
            board("load", "The load", Shows::Query("node_load1".into())),
        ],
        problems: vec!["/etc/khz/boards/b.toml:1:9: not TOML".into()],
    }
}

#[test]
fn named_boards_are_listed_found_shown_and_changed_without_touching_the_file() {
    run(async {
        let address = ([127, 0, 0, 1], 0).into();
        let door = OpenDoor::open_with(&Cluster::new(4), address, |door| door.boards = saved().into());
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        page.click("#boards").await;
        let links = "[...document.querySelectorAll('.own-boards a')].map(a => a.textContent)";
        page.wait("the boards are listed", &format!("{links}.join() === 'All disks,The load'")).await;
        page.wait(
            "the broken file is named",
            "/b.toml:1:9: not TOML/.test(document.querySelector('#own').textContent)",
        )
        .await;
        page.screenshot(&target_dir().join("screenshots/boards-1280-light.png")).await;
        page.click(".own-boards a").await;
        page.wait(
            "the board is shown",
            "/name=disks/.test(location.hash) && khz.own.length === 1 && !khz.own[0].isEmpty",
        )
        .await;
        assert_eq!(page.eval("document.querySelector('#node').textContent").await, json!("All disks"));
        assert_eq!(page.eval("[khz.own[0].kind, khz.own[0].wide]").await, json!(["stack", true]));
        // The palette finds them by title.
        page.press("k").await;
        page.wait("the palette is open", "document.activeElement.id === 'palette-text'").await;
        browser.cdp("Input.insertText", json!({ "text": "the load" })).await;
        page.wait("it is found", "document.querySelector('.palette li[data-kind=board]')").await;
        page.press("Enter").await;
        page.wait("it is shown", "/name=load/.test(location.hash) && khz.own[0]?.query === 'node_load1'")
            .await;
        // A changed board is in the address alone.
        page.click(".own-width").await;
        page.wait(
            "the address has its panels",
            "!/name=/.test(location.hash) && /p=s\\*\\*=node_load1/.test(location.hash)",
        )
        .await;
        assert_clean_console(&browser).await;
        let page = open_board(&browser, &door, "name=nobody").await;
        page.wait(
            "an unknown one is called so",
            "/no board called nobody/.test(document.querySelector('#own').textContent)",
        )
        .await;
        browser.close().await;
    });
}

#[test]
fn the_text_that_the_page_gives_for_a_file_is_read_by_khz() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(4));
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let odd = "p=hw*a %22quoted%22 %5C title*=node_load1%7Binstance%3D~%22n.*%22%7D";
        let page = open_board(&browser, &door, &format!("title=My%20disks&{odd}&{PANELS}")).await;
        page.wait("all panels are there", "khz.own.length === 4").await;
        page.eval("[...document.querySelectorAll('#own button')].find(b => b.textContent === 'Save as a file').click()").await;
        page.wait("the text is shown", "document.querySelector('.own-file[open] pre')").await;
        let said = page.eval("document.querySelector('.own-file').textContent").await;
        assert!(said.as_str().unwrap().contains("/etc/khz/boards/my-disks.toml"), "{said}");
        page.screenshot(&target_dir().join("screenshots/board-file-1280-light.png")).await;
        let text = page.eval("document.querySelector('.own-file pre').textContent").await;
        let folder = std::env::temp_dir().join(format!("khz-browser-boards-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder is made");
        std::fs::write(folder.join("my-disks.toml"), text.as_str().expect("a text"))
            .expect("the file is written");
        let shown = folder.display().to_string();
        let checked = std::process::Command::new(binary()).args(["config", "--boards", &shown]).output();
        let checked = checked.expect("khz runs");
        assert!(checked.status.success(), "{text}\n{}", String::from_utf8_lossy(&checked.stderr));
        let server = Server::start_with("127.0.0.1:0", &["--boards", &shown]).await;
        let page = Page::open_bare(&browser, &format!("{}#view=board&name=my-disks", server.url())).await;
        page.wait("khz serves the board", "khz.own?.length === 4").await;
        assert_eq!(page.eval("khz.own[0].title").await, json!("a \"quoted\" \\ title"));
        assert_eq!(page.eval("khz.own.map(p => p.kind)").await, json!(["heat", "line", "stack", "heat"]));
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
        browser.close().await;
    });
}
