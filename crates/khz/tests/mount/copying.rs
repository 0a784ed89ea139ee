//! Programs that copy or walk a whole tree, of a real node and of a simulated one: they can read everything that they find,
//! at the length that stat gave, while values change. Needs rsync and tar.

use std::process::{Child, Command, Stdio};

use crate::lab::{Lab, until};

/// A played node that reports to the lab's hub; it ends with this.
struct Played(Child);

impl Played {
    fn start(lab: &Lab) -> Self {
        let port = lab.port();
        let words = ["simulate", "--hub", &port, "--nodes", "1", "--rate", "10Hz", "--workload", "idle"];
        let mut command = lab.khz(&words);
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        Played(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn walking_and_copying_the_whole_tree_ends_well_while_values_change() {
    // Programs end while the tree is copied, and their files then are shorter than `stat` has said (docs/roadmap.md).
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("copying-{}.toml", std::process::id()));
    std::fs::write(&config, "[sources.processes]\nenabled = false\n").unwrap();
    let lab = Lab::with_agent("copying", &["--config", config.to_str().unwrap()]);
    let _played = Played::start(&lab);
    let played = lab.cluster().join("node1/metrics/mem/free");
    until("the played node is there", || std::fs::read(&played).is_ok());
    until("the real one is there", || std::fs::read(lab.cluster().join("n1/proc/meminfo")).is_ok());
    for line in [
        "rsync -a cluster/ copy/ && test -s copy/n1/proc/meminfo && test -s copy/node1/status",
        "tar cf copy.tar cluster && tar tf copy.tar | grep -q 'n1/metrics/mem/free$'",
        "rm -rf copy && cp -r cluster copy && test -s copy/n1/metrics/mem/free",
        "rm -rf copy && cp -a cluster copy",
        "find cluster -type f -print0 | xargs -0 cat > all",
        "grep -r 'no such text anywhere in it' cluster > found; test $? = 1",
        "du -a cluster > sizes",
    ] {
        let done = Command::new("sh").args(["-c", line]).current_dir(&lab.folder).output().unwrap();
        let message = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {:?}\n{message}", done.status);
    }
    // What was copied is what was there: no value is cut or padded.
    let value = std::fs::read_to_string(lab.folder.join("copy/n1/metrics/mem/total")).unwrap();
    assert!(value.ends_with('\n') && value.trim_end().parse::<u64>().is_ok(), "{value:?}");
    let _ = std::fs::remove_file(config);
}

#[test]
fn what_has_no_value_is_not_listed_and_says_why_when_it_is_named() {
    let lab = Lab::new("absent");
    let memory = lab.cluster().join("n1/metrics/mem");
    until("the first value is there", || std::fs::read(memory.join("free")).is_ok());
    let listed: Vec<String> = std::fs::read_dir(&memory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(listed.contains(&"free".to_owned()));
    // No 64-bit kernel prints it.
    assert!(!listed.contains(&"high_total".to_owned()), "{listed:?}");
    let error = std::fs::read(memory.join("high_total")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENODATA));
}
