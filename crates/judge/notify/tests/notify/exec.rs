//! Programs that hang, flood their output, do not exist, or ask to be run again.

use khz_notify::{ExecSettings, Notifier, Settings};

use super::*;

fn program(script: &str, timeout: u64) -> Settings {
    let command = ["/bin/sh", "-c", script, "it's", "a b"].map(str::to_owned).to_vec();
    let timeout = Duration::from_secs(timeout);
    let execs = vec![ExecSettings { name: "page".into(), command, timeout, pace: at_once() }];
    Settings { execs, ..Settings::default() }
}

fn told(settings: &Settings, folder: Option<&Folder>) -> Notifier {
    let notifier = Notifier::new(settings, folder.map(|folder| &*folder.0)).unwrap();
    notifier.tell(&[alert("Down", "n1")]);
    notifier
}

fn standing(notifier: &Notifier) -> khz_notify::Standing {
    until("the program has ended", || {
        let way = notifier.ways().remove(0);
        (count(notifier, |counts| &counts.requests) + count(notifier, |counts| &counts.refused) > 0)
            .then_some(way.standing)
    })
}

#[test]
fn a_program_gets_the_alert_on_stdin_and_in_its_environment_and_no_shell_reads_it() {
    let script = "cat; echo; env | grep ^KHZ_ | sort; echo \"$1 $0\"";
    let notifier = told(&program(script, 30), None);
    let output = standing(&notifier).output.unwrap();
    let (body, rest) = output.split_once('\n').unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["alerts"][0]["labels"]["node"], "n1");
    for line in [
        "KHZ_ALERT_NAME=Down",
        "KHZ_ALERT_STATUS=firing",
        "KHZ_ALERT_LABEL_node=n1",
        "KHZ_ALERT_FIRING=1",
        "a b it's",
    ] {
        assert!(rest.lines().any(|found| found == line), "{line} in {rest}");
    }
}

#[test]
fn a_program_that_hangs_is_killed_with_all_that_it_has_started() {
    let folder = Folder::new();
    let pid = folder.0.join("pid");
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait; wait", pid.display());
    let notifier = told(&program(&script, 1), None);
    let problem = standing(&notifier).problem.unwrap();
    assert!(problem.starts_with("it was killed after 1 s"), "{problem}");
    let sleeper: u32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    until("its child has ended", || {
        let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn a_program_that_floods_its_output_and_reads_nothing_ends_and_its_last_words_are_kept() {
    let script = "i=0; while [ $i -lt 20000 ]; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done; echo last words; exit 3";
    let standing = standing(&told(&program(script, 60), None));
    let output = standing.output.unwrap();
    assert!(output.len() < 17_000 && output.ends_with("last words\n"), "{}", output.len());
    assert_eq!(standing.problem.unwrap(), "exit code 3: last words");
}

#[test]
fn a_program_that_does_not_exist_is_told() {
    let mut settings = program("", 1);
    settings.execs[0].command = vec!["/nowhere/page".into()];
    let problem = standing(&told(&settings, None)).problem.unwrap();
    assert!(problem.starts_with("cannot run /nowhere/page: No such file"), "{problem}");
}

#[test]
fn a_program_that_says_later_is_run_again() {
    let folder = Folder::new();
    let mark = folder.0.join("mark");
    let script = format!("if [ -e {0} ]; then echo done; else touch {0}; exit 75; fi", mark.display());
    let notifier = told(&program(&script, 30), None);
    assert_eq!(standing(&notifier).said.unwrap(), "exit code 0: done");
    assert_eq!(count(&notifier, |counts| &counts.failed), 1);
}

#[test]
fn the_end_of_khz_ends_a_program() {
    let folder = Folder::new();
    let pid = folder.0.join("pid");
    let notifier = told(
        &program(&format!("echo $$ > {}.new; mv {0}.new {0}; exec sleep 1000", pid.display()), 500),
        None,
    );
    let pid: u32 = until("it runs", || std::fs::read_to_string(&pid).ok()?.trim().parse().ok());
    drop(notifier);
    until("it has ended", || (!std::path::Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
}
