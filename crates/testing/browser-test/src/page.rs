//! The live page as a test sees it: what it shows, what `window.khz` counts, and waiting for either. Every wait has a
//! condition, and a bound after which the test fails. Nothing just sleeps.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::PATIENCE;
use crate::browser::Browser;

/// Pause between two checks of a condition.
const CHECK_AGAIN: Duration = Duration::from_millis(50);

/// A page that is open in a browser.
pub struct Page<'a> {
    /// The browser that it is open in.
    pub browser: &'a Browser,
}

impl<'a> Page<'a> {
    /// Opens `url` and waits until rows arrive. The page is always reloaded, even if only the fragment differs.
    pub async fn open(browser: &'a Browser, url: &str) -> Self {
        let page = Page::visit(browser, url).await;
        page.wait("rows arrive", "window.khz && khz.state === 'live' && khz.rows > 1 && khz.time").await;
        page
    }

    /// Opens `url` and waits until most tiles have a number.
    pub async fn open_cluster(browser: &'a Browser, url: &str) -> Self {
        let page = Page::visit(browser, url).await;
        page.wait("tiles have numbers", "window.khz && khz.state === 'live' && khz.known > khz.shown / 2")
            .await;
        page
    }

    /// Opens `url` and waits until the page runs.
    pub async fn open_bare(browser: &'a Browser, url: &str) -> Self {
        let page = Page::visit(browser, url).await;
        page.wait("the page runs", "window.khz").await;
        page
    }

    async fn visit(browser: &'a Browser, url: &str) -> Self {
        browser.client.goto("about:blank").await.expect("a blank page opens");
        browser.client.goto(url).await.unwrap_or_else(|error| panic!("{url} does not open: {error}"));
        Page { browser }
    }

    /// The value of a JavaScript expression.
    pub async fn eval(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        let value = self.browser.client.execute(&script, vec![]).await;
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// The value of an expression that is a number.
    pub async fn number(&self, expression: &str) -> f64 {
        let value = self.eval(expression).await;
        value.as_f64().unwrap_or_else(|| panic!("{expression} is not a number, it is {value}"))
    }

    /// Waits until `condition` holds.
    pub async fn wait(&self, what: &str, condition: &str) {
        let start = Instant::now();
        while self.eval(&format!("!!({condition})")).await != Value::Bool(true) {
            if start.elapsed() > PATIENCE {
                let seen = "window.khz && JSON.stringify([khz.state, khz.rate, khz.rows, khz.rateReached])";
                panic!(
                    "waited in vain until {what} ({condition}); the page counts {}",
                    self.eval(seen).await
                );
            }
            tokio::time::sleep(CHECK_AGAIN).await;
        }
    }

    /// Waits until something outside of the page has happened.
    pub async fn wait_for(&self, what: &str, has_happened: impl Fn() -> bool) {
        let start = Instant::now();
        while !has_happened() {
            assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
            tokio::time::sleep(CHECK_AGAIN).await;
        }
    }

    /// Presses the button or other element that `selector` finds.
    pub async fn click(&self, selector: &str) {
        let found = self.browser.client.find(fantoccini::Locator::Css(selector)).await;
        let element = found.unwrap_or_else(|error| panic!("{selector}: {error}"));
        element.click().await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Presses the left mouse button at a point of the page.
    pub async fn click_at(&self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.browser.cdp("Input.dispatchMouseEvent", event).await;
        }
    }

    /// The same with Shift held down.
    pub async fn click_with_shift_at(&self, x: f64, y: f64) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event =
                json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1, "modifiers": 8 });
            self.browser.cdp("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Touches a point of the page with a finger.
    pub async fn tap_at(&self, x: f64, y: f64) {
        let points = json!([{ "x": x, "y": y }]);
        for (kind, points) in [("touchStart", points), ("touchEnd", json!([]))] {
            let event = json!({ "type": kind, "touchPoints": points });
            self.browser.cdp("Input.dispatchTouchEvent", event).await;
        }
    }

    /// Moves the mouse to a point of the page.
    pub async fn point_at(&self, x: f64, y: f64) {
        let event = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.browser.cdp("Input.dispatchMouseEvent", event).await;
    }

    /// Drags with the left mouse button from one point of the page to another.
    pub async fn drag(&self, from: (f64, f64), to: (f64, f64)) {
        const STEPS: u32 = 5;
        let event = |kind: &str, (x, y): (f64, f64)| json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        self.point_at(from.0, from.1).await;
        self.browser.cdp("Input.dispatchMouseEvent", event("mousePressed", from)).await;
        for step in 1..=STEPS {
            let share = f64::from(step) / f64::from(STEPS);
            let at = (from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
            self.browser.cdp("Input.dispatchMouseEvent", event("mouseMoved", at)).await;
        }
        self.browser.cdp("Input.dispatchMouseEvent", event("mouseReleased", to)).await;
    }

    /// Turns the mouse's wheel at a point of the page, with keys held: 1 Alt, 2 Ctrl, 4 Meta, 8 Shift.
    pub async fn wheel(&self, (x, y): (f64, f64), by: f64, keys: u32) {
        let event =
            json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by, "modifiers": keys });
        self.browser.cdp("Input.dispatchMouseEvent", event).await;
    }

    /// Clicks twice at a point of the page.
    pub async fn double_click(&self, (x, y): (f64, f64)) {
        for (kind, count) in
            [("mousePressed", 1), ("mouseReleased", 1), ("mousePressed", 2), ("mouseReleased", 2)]
        {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": count });
            self.browser.cdp("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Fingers at points of the page: `kind` is touchStart, touchMove or touchEnd.
    pub async fn fingers(&self, kind: &str, points: &[(f64, f64)]) {
        let points: Vec<Value> = points.iter().map(|(x, y)| json!({ "x": x, "y": y })).collect();
        self.browser.cdp("Input.dispatchTouchEvent", json!({ "type": kind, "touchPoints": points })).await;
    }

    /// Where an element is: left, top, width and height.
    pub async fn place(&self, selector: &str) -> (f64, f64, f64, f64) {
        let place = format!(
            "(({{ x, y, width, height }}) => [x, y, width, height])(document.querySelector({}).getBoundingClientRect())",
            json!(selector)
        );
        let place = self.eval(&place).await;
        let part = |i: usize| place[i].as_f64().unwrap_or_else(|| panic!("{selector} is at {place}"));
        (part(0), part(1), part(2), part(3))
    }

    /// The middle of a node's tile.
    pub async fn tile_middle(&self, node: &str) -> (f64, f64) {
        let script = format!(
            "(() => {{ const t = khz.tile('{node}'), box = document.querySelector('.tiles canvas').getBoundingClientRect(); \
             return [box.x + t.x + t.width / 2, box.y + t.y + t.height / 2]; }})()"
        );
        let read = self.eval(&script).await;
        (read[0].as_f64().expect("a number"), read[1].as_f64().expect("a number"))
    }

    /// Presses a key on the element that has the focus. Keys have their names in the DOM.
    pub async fn press(&self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.browser
                .cdp("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }))
                .await;
        }
    }

    /// Presses Tab, which moves the focus.
    pub async fn press_tab(&self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 });
            self.browser.cdp("Input.dispatchKeyEvent", key).await;
        }
    }

    /// Rows that arrive for each second of their stamps, measured over at least a second of stamps.
    pub async fn rows_per_second(&self) -> f64 {
        let before = self.eval("[khz.rows, khz.newest]").await;
        let (rows, newest) = (before[0].as_f64().unwrap_or(f64::NAN), before[1].as_f64().unwrap_or(f64::NAN));
        self.wait("a second of rows passes", &format!("khz.newest >= {newest} + 1")).await;
        self.number(&format!("(khz.rows - {rows}) / (khz.newest - {newest})")).await
    }

    /// Saves a screenshot as a PNG file.
    pub async fn screenshot(&self, path: &std::path::Path) {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
        let png = self.browser.client.screenshot().await.expect("Chromium makes a screenshot");
        std::fs::write(path, png).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
