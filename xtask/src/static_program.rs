//! The static program: khz for musl, one file for every Linux of this architecture. It is tested in a
//! directory that holds nothing else.

use std::path::Path;
use std::process::Command;

use crate::{needs, step};

const TARGET: &str = "x86_64-unknown-linux-musl";

/// Builds the program, and starts it in an empty directory.
pub fn build() -> Result<(), String> {
    needs::install_for_static()?;
    step::run("rustup target add", &[TARGET], &[])?;
    step::run("cargo build --release -p khz --target", &[TARGET], &[])?;
    let program = step::target().join(TARGET).join("release/khz");
    start_alone(&program)?;
    println!("{}", program.display());
    Ok(())
}

/// Starts it in a root directory that holds nothing else: if it needs a file of the machine, it fails.
fn start_alone(program: &Path) -> Result<(), String> {
    let folder = program.with_file_name("empty-root");
    let failed = |what: &str, error: std::io::Error| format!("{what} {}: {error}", folder.display());
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| failed("cannot make", error))?;
    std::fs::copy(program, folder.join("khz")).map_err(|error| failed("cannot copy into", error))?;
    // Without privileges a user namespace makes us root in it.
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "chroot"]).arg(&folder).args(["/khz", "catalog"]);
    let ran = command.output().map_err(|error| format!("cannot run unshare: {error}"))?;
    let _ = std::fs::remove_dir_all(&folder);
    match ran.status.success() && !ran.stdout.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("in an empty directory it does not run: {}", String::from_utf8_lossy(&ran.stderr)))
        }
    }
}
