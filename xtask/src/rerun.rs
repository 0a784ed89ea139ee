//! Runs `cargo test` to its end, and the few tests that failed once more, alone. A test that passes then depends on how
//! busy the machine is: the run goes on, and its report names the test. Refuses to run again what fails in numbers.

use std::sync::{Mutex, PoisonError};

use crate::step;

/// More failed tests than these are no accident of a busy machine.
const FEW: usize = 5;

/// The tests of this run that failed at first and passed alone.
static UNSTEADY: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The failed tests of one test program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Failed {
    /// What cargo calls the program: `-p khz-link --test wire`.
    target: String,
    tests: Vec<String>,
}

/// Runs `cargo test` with `words` and `env`, without an end at the first program that fails.
pub fn tests(words: &[&str], env: &[(&str, &str)]) -> Result<(), String> {
    let all: Vec<&str> = ["test", "--no-fail-fast"].iter().chain(words).copied().collect();
    let (status, lines) = step::watched("cargo", &all, env)?;
    if status.success() {
        return Ok(());
    }
    let found = failed(&lines);
    let wrong = format!("`cargo {}` failed ({status})", all.join(" "));
    if found.is_empty() || found.iter().any(|program| program.tests.is_empty()) {
        return Err(wrong);
    }
    let count: usize = found.iter().map(|program| program.tests.len()).sum();
    if count > FEW {
        return Err(format!("{wrong}: {count} tests"));
    }
    found.iter().try_for_each(|program| alone(program, env))
}

/// Runs the failed tests of a program again, one after the other. Cargo would build everything below the program again for its
/// package alone, with fewer features; so it runs the programs of this name of all packages, in which the others have no such test.
fn alone(program: &Failed, env: &[(&str, &str)]) -> Result<(), String> {
    let target: Vec<&str> = program.target.split_whitespace().collect();
    let target = if target.first() == Some(&"-p") { &target[2..] } else { &target[..] };
    let mut words = [&["test", "--quiet", "--workspace"], target].concat();
    words.extend(["--", "--exact", "--test-threads=1"]);
    words.extend(program.tests.iter().map(String::as_str));
    let (status, lines) = step::watched("cargo", &words, env)?;
    // A name that selects nothing would pass, too.
    if !status.success() || passed(&lines) < program.tests.len() {
        return Err(format!("{} of `{}`: failed twice", program.tests.join(", "), program.target));
    }
    let named = program.tests.iter().map(|test| format!("{test} ({})", program.target));
    UNSTEADY.lock().unwrap_or_else(PoisonError::into_inner).extend(named);
    Ok(())
}

/// The report about such tests at the end of a run.
pub fn told() -> String {
    let unsteady = UNSTEADY.lock().unwrap_or_else(PoisonError::into_inner);
    if unsteady.is_empty() {
        return String::new();
    }
    let lines: String = unsteady.iter().map(|test| format!("  {test}\n")).collect();
    format!("These tests failed at first and passed alone; each has a race, which has to be mended:\n{lines}")
}

/// The failed tests in the lines of `cargo test`: each program lists its own last, then cargo names the program.
fn failed(lines: &[String]) -> Vec<Failed> {
    let (mut found, mut tests, mut is_list) = (Vec::new(), Vec::new(), false);
    for line in lines {
        if line == "failures:" {
            (is_list, tests) = (true, Vec::new());
        } else if let Some(target) = line.split("to rerun pass `").nth(1) {
            let target = target.trim_end_matches('`').to_owned();
            found.push(Failed { target, tests: std::mem::take(&mut tests) });
        } else if line.starts_with("test result: ok") {
            tests.clear();
        } else if let Some(name) = line.strip_prefix("    ").filter(|name| is_list && !name.starts_with(' '))
        {
            tests.push(name.to_owned());
        } else if !line.is_empty() {
            is_list = false;
        }
    }
    found
}

/// Tests that passed, by the results in these lines.
fn passed(lines: &[String]) -> usize {
    let counts = lines.iter().filter_map(|line| line.strip_prefix("test result: ok. ")?.split(' ').next());
    counts.filter_map(|count| count.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_failed_tests_of_each_program_are_found_in_cargos_output() {
        let text = "
running 4 tests
... 3/4
a::one --- FAILED

failures:

---- a::one stdout ----
    no name
failures:
    not this one either

failures:
    a::one
    b::two

test result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 5.38s

error: test failed, to rerun pass `-p khz-rrdcached --test through_rrdcached`

running 1 test
.
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.73s

error: test failed, to rerun pass `-p khz --lib`
";
        let found = failed(&lines(text));
        let program = |target: &str, tests: &[&str]| Failed {
            target: target.into(),
            tests: tests.iter().map(|test| test.to_string()).collect(),
        };
        let first = program("-p khz-rrdcached --test through_rrdcached", &["a::one", "b::two"]);
        assert_eq!(found, [first, program("-p khz --lib", &[])]);
        assert_eq!(passed(&lines(text)), 1);
    }
}
