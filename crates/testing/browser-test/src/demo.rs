//! A `khz demo` for the tests of its card and for the moving picture of the README. It ends with the test, and its directory with it.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::server::binary;
use crate::{PATIENCE, target_dir};

/// A demo that runs at a free port.
pub struct Demo {
    _child: Child,
    url: String,
    place: PathBuf,
}

impl Demo {
    /// Starts one, and waits until its page is there.
    pub async fn start(words: &[&str]) -> Self {
        let place = target_dir().join(format!("demo-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let mut child = Command::new(binary())
            .args(["demo", "--listen", "127.0.0.1:0"])
            .args(words)
            .env("TMPDIR", &place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("a demo starts");
        let stdout = child.stdout.take().expect("BUG: stdout was asked to be piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
        let line = line.ok().and_then(Result::ok).flatten().unwrap_or_default();
        let (_, url) = line.rsplit_once(" at ").unwrap_or_else(|| panic!("no address in '{line}'"));
        // Its lines would fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Demo { _child: child, url: url.to_owned(), place }
    }

    /// The address that it prints: `http://127.0.0.1:7070/?tour`.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It is about to be killed, and may still write.
        let _ = std::fs::remove_dir_all(&self.place);
    }
}
