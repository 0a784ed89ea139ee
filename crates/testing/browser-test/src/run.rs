//! Runs a test with a browser.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::browser::Browser;

/// Allows one browser at a time: on a small machine several would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test, alone among those of its program.
pub fn run(test: impl Future<Output = ()>) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
        .block_on(test);
}

/// Checks that the page has written nothing to the console.
pub async fn assert_clean_console(browser: &Browser) {
    assert_eq!(browser.console_errors().await, Vec::<String>::new(), "the console is silent");
}
