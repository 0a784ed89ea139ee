//! A test that must mount something runs again as a process with a mount namespace of its own, which ends with it. It does not know what
//! is mounted, nor why.

use std::path::PathBuf;
use std::process::Command;

/// The variable with the folder of the process in the namespace.
const FOLDER: &str = "KHZ_TEST_IN_NAMESPACE";

/// Runs the calling test, whose whole name is `test`, again as a process with a mount namespace of its own, in which the shell's `script`
/// has mounted something on its first argument, a folder that `folder` makes. Returns the folder if this is that process; `None`: the caller returns, because
/// the test has run. It is skipped where namespaces are not allowed.
///
/// # Panics
///
/// If the test fails in the namespace, with what it said.
#[track_caller]
pub fn in_mount_namespace(test: &str, folder: impl FnOnce() -> PathBuf, script: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = folder();
    let start = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", script, "sh"]).arg(&folder);
        command
    };
    match start(script).output() {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr).into_owned();
            crate::skip(format!("mounts in a namespace: {why}"));
            return None;
        }
        Err(why) => {
            crate::skip(format!("unshare: {why}"));
            return None;
        }
    }
    let mut command = start(&format!("{script} && shift && exec \"$@\""));
    let own = std::env::current_exe().expect("the path of the test's program");
    command.arg(own).args(["--exact", test, "--nocapture"]).env(FOLDER, &folder);
    let output = command.output().expect("unshare was there a moment before");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    None
}
