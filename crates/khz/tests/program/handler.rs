//! `khz handler`, as an author of programs uses it.

use std::path::{Path, PathBuf};

use crate::process::run;

/// A folder with a module and a recording; removed at the end.
struct Desk(PathBuf);

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Desk {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("khz-handler-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Desk(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A module in its text form.
    fn module(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), wat::parse_str(text).unwrap()).unwrap();
        self.path(name)
    }
}

fn sampler() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join("examples/handlers/sampler.wat")).unwrap()
}

#[test]
fn a_program_is_tried_on_a_recording() {
    let desk = Desk::new("tried");
    let (module, recording) = (desk.module("sampler.wasm", &sampler()), desk.path("run.khzt"));
    let made = run(&[
        "record",
        "--direct",
        "uptime.up",
        "--rate",
        "10Hz",
        "--for",
        "2s",
        "-o",
        &recording,
        "--node",
        "n1",
    ]);
    assert!(made.status.success(), "{made:?}");
    let tried = run(&["handler", "test", &module, "--on", &recording, "-m", "uptime.up", "--json"]);
    let text = String::from_utf8(tried.stdout).unwrap();
    let said = String::from_utf8(tried.stderr).unwrap();
    assert!(tried.status.success(), "{text}\n{said}");
    let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The first row comes out, since nothing was sent before it.
    assert!(
        !rows.is_empty() && rows[0]["node"] == "n1" && rows[0]["values"]["value"].as_f64() > Some(0.0),
        "{text}"
    );
    assert!(said.contains("1 series") && said.contains("rows in") && said.contains("of 2000000"), "{said}");
}

#[test]
fn a_program_that_fails_is_told_with_its_row_and_the_next_one_goes_on() {
    let desk = Desk::new("fails");
    // The fourth row of each program fails.
    let counts = sampler().replace(
        "(local $value f64)",
        "(local $value f64) (global.set $rows (i32.add (global.get $rows) (i32.const 1)))
         (if (i32.ge_u (global.get $rows) (i32.const 5)) (then (unreachable)))",
    );
    let (module, recording) = (desk.module("fails.wasm", &counts), desk.path("run.khzt"));
    let made = run(&[
        "record",
        "--direct",
        "uptime.up",
        "--rate",
        "10Hz",
        "--for",
        "1s",
        "-o",
        &recording,
        "--node",
        "n1",
    ]);
    assert!(made.status.success(), "{made:?}");
    let tried = run(&["handler", "test", &module, "--on", &recording, "-m", "uptime.up"]);
    let said = String::from_utf8(tried.stderr).unwrap();
    assert_eq!(tried.status.code(), Some(1), "{said}");
    assert!(
        said.contains("after the first row: the program failed: ") && said.contains("it failed "),
        "{said}"
    );
}

#[test]
fn what_is_no_program_is_said() {
    let desk = Desk::new("none");
    let text = |words: &[&str]| {
        let done = run(words);
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    std::fs::write(desk.path("empty.wasm"), b"").unwrap();
    let (code, _, said) = text(&["handler", "check", &desk.path("empty.wasm")]);
    assert!(code == Some(1) && said.contains("no WebAssembly module"), "{said}");
    let (code, _, said) = text(&["handler", "check", &desk.path("missing.wasm")]);
    assert!(code == Some(1) && said.contains("missing.wasm: No such file"), "{said}");
    let (code, shown, said) = text(&["handler", "check", &desk.module("good.wasm", &sampler())]);
    assert!(code == Some(0) && shown.starts_with("hash    ") && shown.lines().count() == 3, "{shown}{said}");
    let (code, shown, _) = text(&["handler", "header"]);
    assert!(code == Some(0) && shown.contains("struct khz_room"));
}
