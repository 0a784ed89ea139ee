//! Measures how smoothly the page runs: dropped frames and Chromium's CPU time, one JSON object a line. It does not judge:
//! PROMISES.md has the bound.
//!
//! `cargo run --release -p khz-browser-test --bin smoothness -- [RATE_HZ] [SECONDS]`

use std::time::{Duration, Instant};

use khz_browser_test::browser::{Browser, Theme};
use khz_browser_test::page::Page;
use khz_browser_test::server::Server;
use serde_json::json;

/// Wait before counting, so that compilation and the first layout are over.
const SETTLE: Duration = Duration::from_secs(3);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise: u64| match arguments.next() {
        None => otherwise,
        Some(text) => text.parse().unwrap_or_else(|_| {
            eprintln!("'{text}' is not a whole number; usage: smoothness [RATE_HZ] [SECONDS]");
            std::process::exit(2);
        }),
    };
    let (rate, seconds) = (number(100), number(20));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime starts").block_on(measure(rate, seconds));
}

async fn measure(rate: u64, seconds: u64) {
    let server = Server::start().await;
    let browser = Browser::start().await;
    browser.look(1280, 1000, Theme::Light).await;
    println!("{}", baseline(&browser, seconds).await);
    for window in ["10s", "1min", "10min"] {
        let url = format!("{}#rate={rate}&window={window}", server.url());
        let page = Page::open(&browser, &url).await;
        println!("{}", one_run(&page, rate, window, seconds).await);
    }
    browser.close().await;
}

/// Chromium with a blank page, for comparison.
async fn baseline(browser: &Browser, seconds: u64) -> serde_json::Value {
    browser.client.goto("about:blank").await.expect("a blank page opens");
    tokio::time::sleep(SETTLE).await;
    let (start, cpu) = (Instant::now(), browser.cpu_seconds());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let passed = start.elapsed().as_secs_f64();
    json!({ "page": "blank", "seconds": rounded(passed), "chromium_cpu_percent": rounded(100.0 * (browser.cpu_seconds() - cpu) / passed) })
}

async fn one_run(page: &Page<'_>, rate: u64, window: &str, seconds: u64) -> serde_json::Value {
    tokio::time::sleep(SETTLE).await;
    let rows = page.number("(khz.resetFrames(), khz.rows)").await;
    let (start, cpu) = (Instant::now(), page.browser.cpu_seconds());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let passed = start.elapsed().as_secs_f64();
    let used = page.browser.cpu_seconds() - cpu;
    let counts = page
        .eval("[khz.framesSeen, khz.framesDropped, khz.framesDrawn, khz.frameMs, khz.drawingMs, khz.rows, khz.lost]")
        .await;
    let count = |i: usize| counts[i].as_f64().unwrap_or(f64::NAN);
    let (seen, dropped) = (count(0), count(1));
    json!({
        "page": "live",
        "rate_hz": rate,
        "window": window,
        "seconds": rounded(passed),
        "frames": seen,
        "frames_per_second": rounded(seen / passed),
        "frame_ms": rounded(count(3)),
        "frames_dropped": dropped,
        "frames_dropped_percent": rounded(100.0 * dropped / (seen + dropped)),
        "frames_painted": count(2),
        "script_ms_per_frame": rounded(count(4) / seen),
        "rows": count(5) - rows,
        "rows_lost": count(6),
        "chromium_cpu_percent": rounded(100.0 * used / passed),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
