//! The card of a demo in a real headless Chromium, over a real `khz demo`; and the moving picture of the README, which is made of it.

use std::path::Path;
use std::time::Duration;

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::demo::Demo;
use khz_browser_test::moving_picture::MovingPicture;
use khz_browser_test::page::Page;
use khz_browser_test::run::run;
use khz_browser_test::{root, target_dir};

async fn text(page: &Page<'_>, selector: &str) -> String {
    let text = page.eval(&format!("document.querySelector('{selector}')?.textContent ?? ''")).await;
    text.as_str().unwrap_or_default().to_owned()
}

async fn opened<'a>(browser: &'a Browser, demo: &Demo) -> Page<'a> {
    browser.client.goto("about:blank").await.expect("a blank page opens");
    browser.client.goto(demo.url()).await.expect("the page opens");
    Page { browser }
}

/// Presses the button until that stop is shown.
async fn back_to(page: &Page<'_>, title: &str) {
    while !text(page, ".tour-title").await.contains(title) {
        page.click(".tour-button[aria-label=\"Stop before\"]").await;
    }
}

#[test]
fn the_card_follows_the_demo_leads_to_what_it_names_and_goes_when_it_is_closed() {
    run(async {
        let demo = Demo::start(&["--nodes", "40", "--speed", "8"]).await;
        let browser = Browser::start().await;
        browser.look(1280, 900, Theme::Light).await;
        let page = opened(&browser, &demo).await;
        page.wait("the card is there", "document.querySelector('.tour-title')?.textContent").await;
        assert!(text(&page, ".tour-next").await.starts_with("Next in 0:"));
        page.wait("two stops", "document.querySelector('.tour-title').textContent.includes('leak memory')")
            .await;

        // Who looks back is not taken away from what he looks at.
        back_to(&page, "becomes slow").await;
        let command = text(&page, ".tour code").await;
        assert!(
            command.starts_with("khz query ") && command.contains(" --server http://127.0.0.1:"),
            "{command}"
        );
        page.click(".tour-link").await;
        page.wait(
            "its view",
            "khz.view === 'cluster' && document.querySelector('#metric').value === 'cpu.all.steal'",
        )
        .await;
        page.wait("only the job", "khz.shown === 12").await;
        assert_eq!(page.eval("location.search").await, "?tour", "the card stays");
        page.wait("the end", "document.querySelector('.tour-next').textContent === ''").await;
        assert!(text(&page, ".tour-title").await.contains("becomes slow"));
        page.click(".tour-button[aria-label=\"Next stop\"]").await;
        assert!(text(&page, ".tour-title").await.contains("leak memory"));
        page.click(".tour-link").await;
        page.wait("the node", "khz.view === 'node' && document.title.startsWith('node')").await;

        for (width, height, theme) in
            [(1280, 900, Theme::Dark), (390, 844, Theme::Light), (320, 568, Theme::Dark)]
        {
            browser.look(width, height, theme).await;
            let outside = "(() => { const { left, right, top, bottom } = document.querySelector('.tour').getBoundingClientRect(); \
                return left < 0 || top < 0 || right > innerWidth || bottom > innerHeight; })()";
            assert_eq!(page.eval(outside).await, false, "the card is on the screen at {width}");
            page.screenshot(&target_dir().join(format!("screenshots/tour-{width}-{}.png", theme.as_str())))
                .await;
        }
        page.click(".tour-button[aria-label=\"Close the tour\"]").await;
        assert_eq!(
            page.eval("[document.querySelector('.tour'), location.search]").await,
            serde_json::json!([null, ""])
        );
        assert_eq!(browser.console_errors().await, Vec::<String>::new(), "the console is silent");
        browser.close().await;
    });
}

/// Pause between two frames.
const FRAME: Duration = Duration::from_millis(500);

/// `KHZ_MOVING_PICTURE=docs/demo.webp cargo test -p khz-browser-test --test in_a_browser -- --ignored moving`
#[test]
#[ignore = "writes the moving picture of the documentation, which takes a minute"]
fn moving_picture_for_the_documentation() {
    run(async {
        let path = std::env::var("KHZ_MOVING_PICTURE").unwrap_or_else(|_| "docs/demo.webp".into());
        let demo = Demo::start(&["--speed", "1.7"]).await;
        let browser = Browser::start().await;
        browser.look(1080, 720, Theme::Light).await;
        let page = opened(&browser, &demo).await;
        page.wait(
            "tiles have numbers",
            "khz.known > 0 && khz.known === khz.nodes && document.querySelector('.tour')",
        )
        .await;
        let mut picture = MovingPicture::new(1080, 720);
        film(&page, &mut picture, 5).await;
        for (stop, look, frames) in [
            ("becomes slow", "khz.shown === 64 && khz.known > 0", 8),
            ("leak memory", "khz.view === 'node' && (scrollTo(0, 330), true)", 14),
            ("write a checkpoint", "khz.shown === 200 && khz.known > 0 && (scrollTo(0, 0), true)", 9),
            (" dies", "khz.down > 0", 7),
            ("The storm is over", "khz.alerts?.firing > 3", 5),
        ] {
            let is_there = format!("document.querySelector('.tour-title').textContent.includes('{stop}')");
            page.wait("the stop", &is_there).await;
            page.click(".tour-link").await;
            page.wait("the view", look).await;
            film(&page, &mut picture, frames).await;
        }
        page.click("#alerts summary").await;
        film(&page, &mut picture, 6).await;
        picture.write(&root().join(Path::new(&path)));
        browser.close().await;
    });
}

/// Takes so many frames.
async fn film(page: &Page<'_>, picture: &mut MovingPicture, frames: usize) {
    for _ in 0..frames {
        let shot = serde_json::json!({ "format": "webp", "quality": 82 });
        let answer = page.browser.cdp("Page.captureScreenshot", shot).await;
        picture.push(answer["data"].as_str().expect("a picture in base64"), FRAME);
        tokio::time::sleep(FRAME).await;
    }
}
