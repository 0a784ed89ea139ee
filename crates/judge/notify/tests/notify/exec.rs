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
    // A program that another test starts at this moment holds the lock of the notifier before until it runs.
    let begin = || Notifier::new(settings, folder.map(|folder| &*folder.0)).ok();
    let notifier = until("the notifier before has ended", begin);
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
fn a_program_that_hangs_is_killed_with_all_that_it_has_started_and_run_once_more() {
    let folder = Folder::new();
    let pid = folder.0.join("pid");
    let script = format!("trap '' TERM; sleep 1000 & echo $! > {}; wait; wait", pid.display());
    let notifier = told(&program(&script, 1), None);
    let problem = standing(&notifier).problem.unwrap();
    let expected = "it was killed after 1 s, for the second time; it is not run again for this message";
    assert_eq!((&*problem, count(&notifier, |counts| &counts.failed)), (expected, 1));
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
fn a_program_that_is_not_there_for_a_while_gets_the_message_when_it_is() {
    let folder = Folder::new();
    let mut settings = program("", 30);
    let path = folder.0.join("page");
    settings.execs[0].command = vec![path.display().to_string()];
    let notifier = told(&settings, None);
    let problem = until("it is missing", || notifier.ways().remove(0).standing.problem);
    assert!(problem.starts_with(&format!("cannot run {}: No such file", path.display())), "{problem}");
    let made = folder.file("new", "#!/bin/sh\necho paged\n", 0o700);
    std::fs::rename(made, path).unwrap();
    assert_eq!(standing(&notifier).said.unwrap(), "exit code 0: paged");
    assert_eq!(count(&notifier, |counts| &counts.refused), 0);
}

#[test]
fn the_end_of_an_alert_whose_program_was_killed_is_told() {
    let folder = Folder::new();
    let seen = folder.0.join("seen");
    // It tells somebody, and then hangs; the next time it is well.
    let script = format!(
        "if [ -e {0} ]; then echo $KHZ_ALERT_STATUS; else echo > {0}.new; mv {0}.new {0}; exec sleep 1000; fi",
        seen.display()
    );
    let notifier = Notifier::new(&program(&script, 3), None).unwrap();
    let down = alert("Down", "n1");
    notifier.tell(std::slice::from_ref(&down));
    until("it runs", || seen.exists().then_some(()));
    notifier.tell(&[resolved(&down)]);
    let said = || notifier.ways().remove(0).standing.said;
    until("its end is told", || said().filter(|said| said == "exit code 0: resolved"));
}

#[test]
fn what_a_program_prints_of_its_secret_arguments_is_not_shown() {
    let mut settings = program("echo \"$@\" >&2; exit 3", 30);
    settings.execs[0].command.extend(["--password=SECRETPASS".into(), "--token".into(), "T0KENTOKEN".into()]);
    let standing = standing(&told(&settings, None));
    assert_eq!(standing.problem.unwrap(), "exit code 3: a b --password=(a secret) --token (a secret)");
    assert!(!standing.output.unwrap().contains("SECRETPASS"));
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

/// A process that does something.
fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn the_end_of_khz_waits_until_a_program_has_ended_with_all_that_it_has_started() {
    // One ends when it is told to, the other when it is killed.
    for begin in ["", "trap '' TERM; "] {
        let folder = Folder::new();
        let pids = folder.0.join("pids");
        let script = format!(
            "{begin}sleep 1000 & echo $$ $! > {0}.new; mv {0}.new {0}; while true; do wait; sleep 1; done",
            pids.display()
        );
        let notifier = told(&program(&script, 500), None);
        let text = until("it runs", || std::fs::read_to_string(&pids).ok());
        let pids: Vec<u32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        assert!(pids.len() == 2 && pids.iter().all(|pid| is_running(*pid)));
        drop(notifier);
        // Nothing of khz is there any more to end it.
        assert!(!is_running(pids[0]), "the program outlives khz: {begin:?}");
        until("its child has ended", || (!is_running(pids[1])).then_some(()));
    }
}

#[test]
fn what_was_not_told_when_khz_ended_is_told_after_a_restart() {
    let folder = Folder::new();
    let mark = folder.0.join("mark");
    let script =
        format!("if [ -e {0} ]; then echo told; else touch {0}; exec sleep 1000; fi", mark.display());
    let settings = program(&script, 500);
    let notifier = told(&settings, Some(&folder));
    until("it runs", || mark.exists().then_some(()));
    drop(notifier);
    let notifier = told(&settings, Some(&folder));
    assert_eq!(standing(&notifier).said.unwrap(), "exit code 0: told");
}
