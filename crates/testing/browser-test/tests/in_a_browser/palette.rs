//! The palette of the page: what it finds, by keyboard, mouse and finger, and what choosing does.

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::cluster::Cluster;
use khz_browser_test::door::OpenDoor;
use khz_browser_test::page::Page;
use khz_browser_test::run::{assert_clean_console, run};
use khz_browser_test::target_dir;
use serde_json::{Value, json};

const NODES: usize = 64;

/// What the list shows: names and kinds.
const ROWS: &str = "[...document.querySelectorAll('.palette li')].map(row => [row.querySelector('.palette-name').textContent, row.dataset.kind])";
const IS_OPEN: &str = "document.querySelector('.palette') && document.activeElement.id === 'palette-text'";

async fn type_text(page: &Page<'_>, text: &str) {
    page.browser.cdp("Input.insertText", json!({ "text": text })).await;
}

/// Presses Ctrl and a key.
async fn press_with_ctrl(page: &Page<'_>, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        let event = json!({ "type": kind, "key": key, "code": "KeyK", "modifiers": 2 });
        page.browser.cdp("Input.dispatchKeyEvent", event).await;
    }
}

/// Opens the palette with its keys and types.
async fn search(page: &Page<'_>, text: &str) {
    press_with_ctrl(page, "k").await;
    page.wait("the palette is open", IS_OPEN).await;
    type_text(page, text).await;
}

async fn wait_for_row(page: &Page<'_>, name: &str, kind: &str) {
    let row = json!([name, kind]);
    page.wait(
        &format!("{name} is found"),
        &format!("JSON.stringify({ROWS}).includes(JSON.stringify({row}))"),
    )
    .await;
}

#[test]
fn the_palette_finds_nodes_views_actions_and_metrics_with_keys_alone() {
    run(async {
        let cluster = Cluster::new(NODES);
        let door = OpenDoor::open_with(&cluster, ([127, 0, 0, 1], 0).into(), |door| {
            door.groups =
                vec![khz_http::NodeGroup { name: "rack7".into(), nodes: "node[01-16]".into() }].into();
        });
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        // A node, by a part of its name.
        search(&page, "node17").await;
        wait_for_row(&page, "node17", "node").await;
        page.press("Enter").await;
        page.wait("its page is shown", "khz.view === 'node' && /node=node17/.test(location.hash)").await;
        // A view: the second row, by an arrow key.
        search(&page, "waterf").await;
        wait_for_row(&page, "Waterfall", "view").await;
        page.press("Enter").await;
        page.wait("the waterfall is shown", "khz.view === 'waterfall'").await;
        // A group leads to its tiles.
        search(&page, "rack7").await;
        wait_for_row(&page, "rack7", "group").await;
        page.press("Enter").await;
        page.wait("only the group is shown", "khz.view === 'cluster' && khz.shown === 16").await;
        // An action presses the page's own button.
        let theme = page.eval("window.khzTheme.current()").await;
        search(&page, "theme").await;
        wait_for_row(&page, "Theme: light or dark", "action").await;
        page.press("Enter").await;
        page.wait("the theme is another one", &format!("window.khzTheme.current() !== {theme}")).await;
        page.eval("localStorage.clear()").await;
        // A metric, with letters left out, becomes a panel of a board.
        search(&page, "netrxby").await;
        wait_for_row(&page, "net.rx_bytes", "metric").await;
        page.press("Enter").await;
        page.wait(
            "a board has the panel",
            "khz.view === 'board' && khz.own?.[0]?.match === 'net.rx_bytes' && khz.own.length === 1",
        )
        .await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_list_is_a_listbox_of_the_field_and_arrows_go_round() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(NODES));
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        // The key alone opens it, too, but not in a field.
        page.press("k").await;
        page.wait("the palette is open", IS_OPEN).await;
        page.wait("rows are there", &format!("{ROWS}.length > 5")).await;
        let chosen = "document.getElementById(document.querySelector('#palette-text').getAttribute('aria-activedescendant'))?.dataset.row";
        let selected = "[...document.querySelectorAll('.palette [aria-selected=true]')].map(row => row.dataset.row).join()";
        let last = page.number(&format!("{ROWS}.length")).await - 1.0;
        for (key, row) in [("ArrowDown", 1.0), ("ArrowUp", 0.0), ("ArrowUp", last), ("ArrowDown", 0.0)] {
            page.press(key).await;
            assert_eq!(page.number(&format!("Number({chosen})")).await, row, "{key}");
            assert_eq!(page.number(&format!("Number({selected})")).await, row, "{key}");
        }
        let roles = page
            .eval(
                "[document.querySelector('#palette-text').getAttribute('role'), document.querySelector('#palette-text').getAttribute('aria-controls'), \
                 document.querySelector('#palette-list').getAttribute('role'), document.querySelector('.palette li').getAttribute('role')]",
            )
            .await;
        assert_eq!(roles, json!(["combobox", "palette-list", "listbox", "option"]));
        page.press("Escape").await;
        page.wait("it is closed", "!document.querySelector('.palette')").await;
        // In a field the letter is a letter.
        page.eval("document.querySelector('#find').focus()").await;
        page.press("k").await;
        assert_eq!(page.eval("document.querySelector('.palette')").await, Value::Null);
        // Ctrl-K in the field opens it, and closes it again.
        press_with_ctrl(&page, "k").await;
        page.wait("it is open again", IS_OPEN).await;
        press_with_ctrl(&page, "k").await;
        page.wait("it is closed again", "!document.querySelector('.palette')").await;
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}

#[test]
fn the_palette_works_with_mouse_and_finger_at_every_size() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(NODES));
        let browser = Browser::start().await;
        for (width, height) in [(1280, 900), (320, 640), (2560, 1200)] {
            for theme in [Theme::Light, Theme::Dark] {
                browser.look(width, height, theme).await;
                let page = Page::open_cluster(&browser, &door.url()).await;
                page.click("#palette-open").await;
                page.wait("the palette is open", IS_OPEN).await;
                type_text(&page, "disk time").await;
                wait_for_row(&page, "disk.io_time", "metric").await;
                let outside = "[...document.querySelectorAll('.palette, .palette li, .palette input, header *')].filter(e => e.offsetWidth > 0 && \
                    (e.getBoundingClientRect().right > innerWidth + 0.5 || e.getBoundingClientRect().left < -0.5)).length";
                assert_eq!(page.number(outside).await, 0.0, "{width}: something lies outside the screen");
                let name = format!("screenshots/palette-{width}-{}.png", theme.as_str());
                page.screenshot(&target_dir().join(name)).await;
                let row = "[...document.querySelectorAll('.palette li')].findIndex(row => row.querySelector('.palette-name').textContent === 'disk.io_time')";
                let row = page.number(row).await;
                let (x, y, w, h) = page.place(&format!(".palette li[data-row='{row}']")).await;
                let middle = (x + w / 2.0, y + h / 2.0);
                match width < 600 {
                    true => page.tap_at(middle.0, middle.1).await,
                    false => page.click_at(middle.0, middle.1).await,
                }
                page.wait("a board has the panel", "khz.own?.[0]?.match === 'disk.io_time'").await;
                assert_clean_console(&browser).await;
            }
        }
        browser.close().await;
    });
}

#[test]
fn a_typed_query_or_pattern_is_offered_as_a_panel() {
    run(async {
        let door = OpenDoor::of(&Cluster::new(NODES));
        let browser = Browser::start().await;
        browser.look(1280, 1000, Theme::Light).await;
        let page = Page::open_cluster(&browser, &door.url()).await;
        for (text, name) in [
            ("=sum(node_load1)", "sum(node_load1)"),
            ("max(node_load1) + 1", "max(node_load1) + 1"),
            ("node[01-03]:load.1m", "node[01-03]:load.1m"),
        ] {
            search(&page, text).await;
            wait_for_row(&page, name, "panel").await;
            let first = page.eval(&format!("{ROWS}[0]")).await;
            assert_eq!(first, json!([name, "panel"]), "{text}");
            page.press("Enter").await;
            page.wait(
                &format!("{name} is a panel"),
                &format!("khz.own?.some(p => (p.match ?? p.query) === {})", json!(name)),
            )
            .await;
        }
        page.wait("all have values", "khz.own.length === 3 && khz.own.every(p => !p.isEmpty)").await;
        let lines = page.eval("khz.own.map(p => p.lines.length)").await;
        assert_eq!(lines, json!([1, 1, 3]));
        assert_clean_console(&browser).await;
        browser.close().await;
    });
}
