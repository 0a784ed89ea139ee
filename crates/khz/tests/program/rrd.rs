//! `.rrd` files through the whole program, and the program under the name `rrdtool`.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{code, err, out, run};

/// A folder that is removed after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("khz-program-rrd-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SHAPE: [&str; 6] =
    ["--start", "1000000000", "--step", "5", "DS:load:GAUGE:10:0:U", "RRA:AVERAGE:0.5:1:72"];

#[test]
fn a_database_is_made_filled_and_read() {
    let folder = Folder::new("made");
    let file = folder.file("load.rrd");
    assert_eq!(code(&run(&[&["rrd", "create", &file][..], &SHAPE].concat())), 0);
    assert_eq!(code(&run(&["rrd", "update", &file, "1000000005:0.5", "1000000010:0.5"])), 0);
    assert_eq!(out(&run(&["rrd", "last", &file])), "1000000010\n");
    assert!(out(&run(&["cache", "show", &file])).contains("load.rrd"));
    let failed = run(&["rrd", "update", &file, "7:1"]);
    assert_eq!((code(&failed), out(&failed)), (1, String::new()));
    assert!(
        err(&failed).starts_with("ERROR: ") && err(&failed).contains("illegal attempt to update"),
        "{}",
        err(&failed)
    );
}

#[test]
fn under_the_name_rrdtool_it_is_rrdtool() {
    let folder = Folder::new("name");
    let (rrdtool, file) = (folder.file("rrdtool"), folder.file("load.rrd"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_khz"), &rrdtool).unwrap();
    let status = Command::new(&rrdtool).arg("create").arg(&file).args(SHAPE).status().unwrap();
    assert!(status.success());
    let first = Command::new(&rrdtool).args(["first", &file]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&first.stdout), "999999645\n");
}
