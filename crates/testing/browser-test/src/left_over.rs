//! Browsers whose test was killed: chromedriver ends with its test, and leaves the browser running for ever. Ends them.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Ends browsers that a chromedriver started, and that have no parent any more.
pub(crate) fn end_browsers() {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let left_over: Vec<String> =
        numbers.filter(|&pid| is_left_over(pid)).map(|pid| pid.to_string()).collect();
    if !left_over.is_empty() {
        // Those that have just ended by themselves are no error.
        let _ = Command::new("kill").args(&left_over).status();
    }
}

fn is_left_over(pid: u32) -> bool {
    let folder = Path::new("/proc").join(pid.to_string());
    let read = |file| fs::read(folder.join(file)).unwrap_or_default();
    is_orphan(&String::from_utf8_lossy(&read("stat"))) && is_of_driver(&read("cmdline"))
}

/// True if a text of `/proc/PID/stat` says that the parent is the first process. The name before it may have any signs.
fn is_orphan(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_ascii_whitespace().nth(1) == Some("1")
}

/// True for the arguments of a browser that chromedriver started; the processes below it have a type.
fn is_of_driver(arguments: &[u8]) -> bool {
    let mut words = arguments.split(|&byte| byte == 0);
    let is_chromium = words
        .next()
        .is_some_and(|program| program.windows(6).any(|part| part == b"chrome" || part == b"chromi"));
    let words: Vec<&[u8]> = words.collect();
    is_chromium
        && words.contains(&&b"--test-type=webdriver"[..])
        && !words.iter().any(|word| word.starts_with(b"--type="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_browsers_of_a_driver_without_a_parent_are_left_over() {
        assert!(is_orphan("77 (chromium) S 1 77 77 0"));
        assert!(!is_orphan("77 (a) S 1) S 12 1 1 0"));
        let of = |words: &[&str]| words.join("\0").into_bytes();
        assert!(is_of_driver(&of(&[
            "/usr/lib/chromium/chromium",
            "--headless",
            "--test-type=webdriver",
            ""
        ])));
        assert!(!is_of_driver(&of(&["/usr/lib/chromium/chromium", "--headless", ""])));
        assert!(!is_of_driver(&of(&[
            "/usr/lib/chromium/chromium",
            "--type=gpu-process",
            "--test-type=webdriver"
        ])));
        assert!(!is_of_driver(&of(&["khz", "--test-type=webdriver"])));
    }
}
