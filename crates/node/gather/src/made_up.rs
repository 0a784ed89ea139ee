//! For tests: a folder of made-up files, and programs that end with the test.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A folder of its own, removed at the end.
pub(crate) struct MadeUp(PathBuf);

impl MadeUp {
    /// An empty one. Tests that run at the same time need different names.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("khz-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        MadeUp(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Deref for MadeUp {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for MadeUp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that is killed at the end.
pub(crate) struct Program(pub Child);

impl Program {
    /// Runs this script.
    pub fn script(script: &str) -> Self {
        Program(Command::new("sh").args(["-c", script]).spawn().unwrap())
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
