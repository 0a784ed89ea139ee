//! Runs every example in `--help`, in the README and in the pages for newcomers, unchanged, on a machine of their own
//! (`lab.sh`): a hub, nodes with the names of `khz simulate`, and this machine as a node. Examples that cannot run are in one
//! list, each with the reason; the list may not name an example that does not exist. Needs root.

mod exceptions;
mod extract;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use exceptions::{NOT_RUN, ON_A_BUSY_MACHINE, WITH_CODE};
use extract::{Example, of_help, of_page};

/// Exit codes of `timeout` for a program that was still running, or that was ended by a signal.
const STILL_AT_WORK: [i32; 3] = [124, 130, 137];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Pages whose examples need no preparation but the lab's.
const PAGES: [&str; 3] = ["README.md", "docs/cluster.md", "docs/names.md"];

/// All of them: the README's first, as a newcomer reads.
fn all() -> Vec<Example> {
    let text = |page: &str| std::fs::read_to_string(repository().join(page)).unwrap();
    let mut examples: Vec<Example> = PAGES.iter().flat_map(|page| of_page(page, &text(page))).collect();
    examples.extend(of_help(Path::new(env!("CARGO_BIN_EXE_khz"))));
    examples
}

#[test]
fn the_lists_of_exceptions_name_examples_that_exist() {
    let all = all();
    assert!(all.len() > 90, "only {} examples were found", all.len());
    for (example, reason) in NOT_RUN {
        assert!(all.iter().any(|one| one.line == *example), "there is no example '{example}'");
        assert!(reason.len() > 10, "{example}: why not?");
    }
    for example in
        WITH_CODE.iter().map(|(line, _)| line).chain(ON_A_BUSY_MACHINE.iter().map(|(line, _)| line))
    {
        assert!(all.iter().any(|one| one.line == *example), "there is no example '{example}'");
        assert!(NOT_RUN.iter().all(|(other, _)| other != example), "{example} is in both lists");
    }
}

#[test]
fn every_example_works_unchanged() {
    if !rustix::process::geteuid().is_root() {
        return khz_skip::skip("the examples' machine needs root");
    }
    let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("examples-{}", std::process::id()));
    let run: Vec<Example> =
        all().into_iter().filter(|one| NOT_RUN.iter().all(|(line, _)| *line != one.line)).collect();
    for folder in ["examples", "results"] {
        std::fs::create_dir_all(place.join(folder)).unwrap();
    }
    for (number, example) in run.iter().enumerate() {
        std::fs::write(place.join(format!("examples/{number:03}")), &example.line).unwrap();
    }
    let script = repository().join("crates/khz/tests/examples/lab.sh");
    let mut lab = Command::new("unshare");
    lab.args(["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"])
        .arg(script);
    lab.args([place.as_path(), Path::new(env!("CARGO_BIN_EXE_khz")), &repository()]);
    let done = lab.stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    let wrong: Vec<String> =
        run.iter().enumerate().filter_map(|(number, one)| judged(&place, number, one)).collect();
    assert!(wrong.is_empty(), "{} of {} examples:\n{}\n{message}", wrong.len(), run.len(), wrong.join("\n"));
    let _ = std::fs::remove_dir_all(place);
}

/// What is wrong with an example that was run.
fn judged(place: &Path, number: usize, example: &Example) -> Option<String> {
    let read = |what: &str| std::fs::read_to_string(place.join(format!("results/{number:03}.{what}"))).ok();
    let Some(code) = read("code") else { return Some(format!("{example}: it was not run")) };
    let code: i32 = code.trim().parse().unwrap();
    let expected = WITH_CODE.iter().find(|(line, _)| *line == example.line).map_or(0, |(_, code)| *code);
    let message = read("err").unwrap_or_default();
    let mut partly = ON_A_BUSY_MACHINE.iter().filter(|(line, _)| *line == example.line);
    let is_busy = code == 3 && partly.any(|(_, words)| message.contains(words));
    let is_right = code == expected || is_busy || STILL_AT_WORK.contains(&code);
    (!is_right)
        .then(|| format!("{example}\n    exit code {code}: {}", message.lines().last().unwrap_or_default()))
}
