//! The chores that run cargo: every test, a benchmark, the pictures of the page.

use std::path::Path;

use crate::{java, mutants, needs, older, rerun, skipped, static_program, step};

/// Checks the format, lints (those of the fuzz targets too), every test of every crate, the page in a real browser, and the libraries for
/// the JVM. At the end, failed or
/// not, lists the skipped tests.
pub fn run(slow: bool) -> Result<(), String> {
    needs::install()?;
    skipped::forget()?;
    let done = steps(slow);
    eprint!("\n{}{}", skipped::told(), rerun::told());
    done
}

fn steps(slow: bool) -> Result<(), String> {
    step::run("cargo fmt --all --check", &[], &[])?;
    step::run("cargo clippy --workspace --all-targets --quiet -- -D warnings", &[], &[])?;
    fuzz_targets()?;
    rerun::tests(&["--workspace", "--quiet"], &usual())?;
    java()?;
    if slow {
        slow_tests()?;
    }
    Ok(())
}

/// Lints the fuzz targets, which are no members of the workspace: nothing else compiles them, and they use what others
/// change. Without the fuzzer itself this takes half a minute the first time, and needs no C++ compiler.
fn fuzz_targets() -> Result<(), String> {
    let lint = "cargo clippy --manifest-path fuzz/Cargo.toml --lib --bins --no-default-features --quiet";
    step::run(lint, &["--", "-D", "warnings"], &[])
}

/// The same tests with many more cases, new ones in each run.
fn slow_tests() -> Result<(), String> {
    let many = [("PROPTEST_CASES", "100000")];
    step::run("cargo test --release -p khz-model -p khz-parse -p khz-block --quiet", &[], &many)?;
    step::run(
        "cargo test --release -p khz-ring -p khz-gather -p khz-http --quiet -- --include-ignored",
        &[],
        &[],
    )?;
    // A day in which ten thousand instances an hour come and go.
    let day = "cargo test --release -p khz-gather --lib --quiet -- ten_thousand";
    step::run(day, &[], &[("KHZ_CHURN_HOURS", "24")])?;
    step::run("cargo test --release -p khz-link --quiet", &[], &[("KHZ_LINK_SEEDS", "5000")])?;
    let worlds = "cargo test --release -p khz-hub --lib --quiet -- simulation storm";
    step::run(worlds, &[], &[("KHZ_HUB_SEEDS", "5000")])?;
    step::run("cargo test --release -p khz --test cluster --quiet -- --include-ignored", &[], &[])?;
    step::run("cargo test --release -p khz-mount --quiet -- --include-ignored", &[], &[])?;
    step::run("cargo test --release -p khz --test mount --quiet -- --include-ignored", &[], &[])?;
    // Receivers are gone for ten minutes.
    let receivers = "cargo test --release -p khz --test program --quiet -- remote_write";
    step::run(receivers, &[], &[("KHZ_REMOTE_OUTAGE", "600")])?;
    // Kills processes that record.
    step::run("cargo test --release -p khz --test program --quiet -- --ignored record", &[], &[])?;
    // A thousand kills of a process that stores, and losses of power: each case has five.
    step::run("cargo test --release -p khz-store --test kill --quiet -- --ignored", &[], &[])?;
    step::run("cargo test --release -p khz-store --test power --quiet", &[], &[("KHZ_STORE_SEEDS", "1000")])?;
    older::run()?;
    // This feature is not in the default build.
    step::run("cargo test -p khz --features parquet --quiet parquet", &[], &[])?;
    // Each case has three kills.
    step::run(
        "cargo test --release -p khz-rrdcached --test daemon --quiet",
        &[],
        &[("KHZ_RRD_CASES", "334")],
    )?;
    // Each case has four lives, each ended by a power loss or a kill.
    let power = "cargo test --release -p khz-rrdcached --test power --quiet";
    step::run(power, &[], &[("KHZ_RRD_CASES", "3000")])?;
    // Compares sequences of command lines with rrdtool.
    step::run(
        "cargo test --release -p khz-rrdcached --test fuzz --quiet",
        &[],
        &[("KHZ_RRD_CASES", "5000")],
    )?;
    step::run("cargo test --release -p khz-rrd --lib --quiet", &[], &many)?;
    let rrd = "cargo test --release -p khz-rrd --quiet --test differential --test commands --test foreign";
    step::run(rrd, &[], &[("KHZ_RRD_CASES", "2000")])?;
    needs::install_for_rrd()?;
    step::run("cargo test --release -p khz-rrdcached --test moving --quiet -- --ignored", &[], &[])?;
    step::run("cargo test -p khz --test program --quiet -- --ignored rrdtools_tests", &[], &[])?;
    guest_tests()?;
    // About an hour: changes of the code that tests must notice.
    mutants::slow()
}

/// Changes of the clock, units under systemd, the figure of eight nodes: on machines under QEMU, one test after the other.
fn guest_tests() -> Result<(), String> {
    needs::install_for_guests()?;
    static_program::build()?;
    step::run("cargo test -p khz-guest-test --quiet -- --include-ignored --test-threads=1", &[], &[])
}

/// Tests at a time: most of them wait for processes, so that two cores serve four.
const TESTS_AT_A_TIME: &str = "4";

/// The environment of the usual run.
fn usual() -> Vec<(&'static str, &'static str)> {
    let is_set = std::env::var_os("RUST_TEST_THREADS").is_some();
    let threads = (!is_set).then_some(("RUST_TEST_THREADS", TESTS_AT_A_TIME));
    same_cases().into_iter().chain(threads).collect()
}

/// Property tests draw the same cases in every run, so that results differ only by the change under test.
/// `--slow`, or another seed, draws new ones.
pub fn same_cases() -> Vec<(&'static str, &'static str)> {
    match std::env::var_os("PROPTEST_RNG_SEED") {
        Some(_) => Vec::new(),
        None => vec![("PROPTEST_RNG_SEED", "20261121")],
    }
}

/// Writes the reference pages in docs/. The test that compares them with the tables does the work.
pub fn reference() -> Result<(), String> {
    step::run("cargo test -p khz --bin khz --quiet reference", &[], &[("KHZ_REFERENCE", "write")])
}

/// The tests of the page use the program that was just built.
fn browser_tests(more: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let khz = built()?;
    let env: Vec<_> = [("KHZ_BIN", khz.as_str())].into_iter().chain(env.iter().copied()).collect();
    let words = ["--workspace", "--test", "in_a_browser", "--quiet", "--"];
    rerun::tests(&[&words[..], more].concat(), &env)
}

/// Builds the libraries for the JVM, and tests them with the program, or with the one that KHZ_PROGRAM names.
pub fn java() -> Result<(), String> {
    let khz = std::env::var("KHZ_PROGRAM").or_else(|_| built())?;
    java::run(&khz)
}

/// Builds the program, and returns its path.
fn built() -> Result<String, String> {
    step::run("cargo test --workspace --no-run --quiet --test program", &[], &[])?;
    let khz = step::target().join("debug/khz");
    Ok(khz.to_str().ok_or("the target directory's name is not UTF-8")?.to_owned())
}

/// Draws the picture in the README from the running page.
pub fn screenshot() -> Result<(), String> {
    needs::install()?;
    let picture = step::root().join("docs/screenshot.png");
    let picture = picture.to_str().ok_or("the project's path is not UTF-8")?;
    browser_tests(&["--ignored", "screenshot"], &[("KHZ_SCREENSHOT", picture)])
}

/// Draws the moving picture in the README from a running demo.
pub fn moving_picture() -> Result<(), String> {
    needs::install()?;
    let picture = step::root().join("docs/demo.webp");
    let picture = picture.to_str().ok_or("the project's path is not UTF-8")?;
    browser_tests(&["--ignored", "moving_picture"], &[("KHZ_MOVING_PICTURE", picture)])
}

/// Runs a benchmark, optimised; its own `--help` explains it.
pub fn bench(words: &[&str]) -> Result<(), String> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h" | "help")) {
        // Help needs no optimised build.
        return step::run("cargo run --quiet -p khz-bench --", words, &[]);
    }
    if words.first() == Some(&"text") {
        needs::install_for_text()?;
    }
    if words.first() == Some(&"hub") && (words.len() == 1 || words.contains(&"scrape")) {
        needs::install_for_hub()?;
    }
    // One command, so that both share crates and nothing is compiled twice; cargo shows the progress.
    eprintln!("xtask: khz and the benchmark are built now: five minutes the first time, seconds afterwards");
    step::run("cargo build --release -p khz -p khz-bench", &[], &[])?;
    let built = step::target().join("release");
    let (bench, khz) = (built.join("khz-bench"), built.join("khz"));
    let text =
        |path: &Path| path.to_str().map(str::to_owned).ok_or("the target directory's name is not UTF-8");
    // A blank in the path would split it, so the program is a separate argument.
    step::run_program(&text(&bench)?, words, &[("KHZ_BENCH_PROGRAM", &text(&khz)?)])
}
