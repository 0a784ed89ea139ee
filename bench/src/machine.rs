//! The conditions of a run: processor, kernel, compilers, versions, commit, load. Unknown facts are `null`,
//! never guesses; the machine's name is left out.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Changes since the commit. Leaves out the folder of runs: `cargo xtask promises run` writes there after
/// each section, and it is not measured.
const STATUS: [&str; 7] = [
    "status",
    "--porcelain",
    "--untracked-files=no",
    "--",
    ":(top)",
    ":(top,exclude)PROMISES.md",
    ":(top,exclude)bench/promises.toml",
];

/// The machine, the tools and the source, as JSON.
pub fn describe() -> Value {
    json!({
        "processor": cpuinfo("model name"),
        "processors": std::thread::available_parallelism().map(usize::from).ok(),
        "virtual_machine": cpuinfo("flags").is_some_and(|f| f.split(' ').any(|f| f == "hypervisor")),
        "memory": field("/proc/meminfo", "MemTotal"),
        "kernel": line_of("/proc/sys/kernel/osrelease"),
        "kernel_build": line_of("/proc/sys/kernel/version"),
        "frequency_governor": line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_before": line_of("/proc/loadavg"),
        "rustc": first_line("rustc", &["--version"]),
        "cc": first_line("cc", &["--version"]),
        "cc_flags": crate::program::CC[1..].join(" "),
        "valgrind": first_line("valgrind", &["--version"]),
        "commit": first_line("git", &["rev-parse", "HEAD"]),
        "uncommitted_changes": first_line("git", &STATUS).is_some(),
        "procfs_crate": locked("procfs"),
        "sysinfo_crate": locked("sysinfo"),
        "built_for_debugging": cfg!(debug_assertions),
    })
}

/// The description in one paragraph.
pub fn in_words(description: &Value) -> String {
    let text = |key: &str| match &description[key] {
        Value::Null => String::from("unknown"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let changed = if description["uncommitted_changes"] == true { ", with uncommitted changes" } else { "" };
    let virtual_machine = if description["virtual_machine"] == true { ", a virtual machine" } else { "" };
    format!(
        "{} processors {}{}; {} of memory; Linux {}.\n{}; {}.\nCommit {}{}. Load before: {}\n",
        text("processors"),
        text("processor"),
        virtual_machine,
        text("memory"),
        text("kernel"),
        text("rustc"),
        text("cc"),
        text("commit"),
        changed,
        text("load_before"),
    )
}

/// The present load averages, as a sentence.
pub fn load_in_words(when: &str) -> String {
    format!("{when}: {}", line_of("/proc/loadavg").unwrap_or_else(|| String::from("unknown")))
}

fn line_of(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.trim().to_owned())
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|n| n.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn cpuinfo(name: &str) -> Option<String> {
    field("/proc/cpuinfo", name)
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

/// The version of a crate in `Cargo.lock`.
fn locked(name: &str) -> Option<String> {
    let lock = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent()?.join("Cargo.lock")).ok()?;
    let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_versions_are_the_locked_ones() {
        assert!(locked("procfs").unwrap().starts_with("0."));
        assert_eq!(locked("no-such-crate-in-the-lock"), None);
    }

    #[test]
    fn what_cannot_be_found_out_is_null() {
        assert_eq!(json!({ "x": line_of("/no/such/file") })["x"], Value::Null);
        assert_eq!(first_line("/no/such/program", &[]), None);
    }
}
