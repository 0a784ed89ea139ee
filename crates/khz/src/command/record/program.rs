//! The recorded program: whether it exists, its start, its signals, and its end. `group.rs` counts its resource use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};

use super::group::Group;
use crate::role::signals::{exit_code, is_in_front};
use crate::show::outcome::Failure;

/// There is no such program; `env`, `nice` and shells end so, too.
const NOT_FOUND: u8 = 127;
/// There is one, and it cannot be run.
const NOT_RUN: u8 = 126;

/// Refuses a missing or unusable program before anything begins. Otherwise there would be an empty recording, perhaps in place of
/// an older one.
pub fn check(command: &[String]) -> Result<(), Failure> {
    let Some(program) = command.first() else { return Ok(()) };
    let folders = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect());
    found(program, folders).map_err(|error| not_started(program, &error))
}

/// Looks for a program as execvp(3) does: in the folders, unless it is a path. Without folders the system's own list counts, which
/// only the system knows.
fn found(program: &str, folders: Option<Vec<PathBuf>>) -> io::Result<()> {
    if program.contains('/') {
        return can_be_run(Path::new(program));
    }
    let Some(folders) = folders else { return Ok(()) };
    let mut refused: io::Error = io::ErrorKind::NotFound.into();
    for folder in folders {
        match can_be_run(&folder.join(program)) {
            Ok(()) => return Ok(()),
            Err(error) if is_missing(&error) => {}
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn can_be_run(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(access(path, Access::EXEC_OK)?)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Starts it, in its control group if it has one. `None`: there is no program.
pub fn start(command: &[String], group: Option<&Group>) -> Result<Option<Child>, Failure> {
    let Some((program, words)) = command.split_first() else { return Ok(None) };
    let spawn = || Command::new(program).args(words).spawn();
    let child = match group {
        Some(group) => group.start(spawn),
        None => spawn(),
    };
    child.map(Some).map_err(|error| not_started(program, &error))
}

fn not_started(program: &str, error: &io::Error) -> Failure {
    let code = if is_missing(error) { NOT_FOUND } else { NOT_RUN };
    Failure::NotStarted { code, problem: format!("cannot start {program}: {error}; nothing was recorded") }
}

/// Passes signals to the program. It exists before the program starts.
#[derive(Clone, Default)]
pub struct Passed(Arc<Mutex<Way>>);

#[derive(Default)]
struct Way {
    program: Option<Pid>,
    /// Signals that came before the program was started, at most as many as `khz record` counts.
    waiting: Vec<Signal>,
}

impl Passed {
    /// Signals go to this program from now on.
    pub fn to(&self, child: &Child) {
        let mut way = self.lock();
        way.program = Some(Pid::from_child(child));
        std::mem::take(&mut way.waiting).into_iter().for_each(|signal| way.pass(signal));
    }

    /// The program has ended, and another process may get its number.
    fn to_nobody(&self) {
        *self.lock() = Way::default();
    }

    /// Passes a signal on. The terminal itself has already sent Ctrl-C to the program.
    pub fn pass(&self, signal: Signal) {
        let mut way = self.lock();
        match way.program {
            None => way.waiting.push(signal),
            Some(_) if signal == Signal::INT && is_in_front() => {}
            Some(_) => way.pass(signal),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    fn pass(&self, signal: Signal) {
        // It may have ended just now.
        let _ = self.program.map(|program| kill_process(program, signal));
    }
}

/// Waits for the program, which may outlive its recording, and returns its exit code.
pub fn end_of(child: &mut Option<Child>, is_recorded: bool, passed: &Passed) -> Option<u8> {
    let child = child.as_mut()?;
    if matches!(child.try_wait(), Ok(None)) {
        let why = if is_recorded { "the time of the recording is over" } else { "the recording has failed" };
        crate::show::table::remark!("{why}; the program goes on");
    }
    let status = child.wait().ok();
    passed.to_nobody();
    let status = status?;
    Some(exit_code(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_found_where_execvp_finds_it() {
        let place = std::env::temp_dir().join(format!("khz-program-{}", std::process::id()));
        let (first, second) = (place.join("first"), place.join("second"));
        fs::create_dir_all(first.join("folder")).unwrap();
        fs::create_dir_all(&second).unwrap();
        let write = |path: PathBuf, mode: u32| {
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write(first.join("text"), 0o644);
        write(first.join("both"), 0o644);
        write(second.join("both"), 0o755);
        let path = || Some(vec![place.join("gone"), first.clone(), second.clone()]);
        let code = |program: &str| match found(program, path()) {
            Ok(()) => 0,
            Err(error) => match not_started(program, &error) {
                Failure::NotStarted { code, .. } => code,
                other => panic!("{other:?}"),
            },
        };
        let whole = |name: &str| first.join(name).to_str().unwrap().to_owned();
        let found =
            ["both", "text", "folder", "none", &whole("text"), &whole("none"), &whole("text/none")].map(code);
        assert_eq!(found, [0, NOT_RUN, NOT_RUN, NOT_FOUND, NOT_RUN, NOT_FOUND, NOT_FOUND]);
        assert!(super::found("none", None).is_ok(), "the system has a list of its own");
        fs::remove_dir_all(place).unwrap();
    }
}
