//! The khz under test: found, started on a free port of loopback, and ended with the test. With `KHZ_URL` the tests use a
//! khz that runs already. This module does not build one.

use std::path::PathBuf;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::{PATIENCE, target_dir};

/// A server that answers at [`Server::url`].
pub struct Server {
    url: String,
    own: Option<Child>,
}

impl Server {
    /// Starts khz on a free port, or takes the one that `KHZ_URL` names.
    pub async fn start() -> Self {
        match std::env::var("KHZ_URL") {
            Ok(url) => Server { url, own: None },
            Err(_) => Server::start_on("127.0.0.1:0").await,
        }
    }

    /// Starts khz on `address`.
    pub async fn start_on(address: &str) -> Self {
        Server::start_with(address, &[]).await
    }

    /// Starts khz on `address` with further arguments.
    pub async fn start_with(address: &str, words: &[&str]) -> Self {
        let binary = binary();
        let mut child = Command::new(&binary)
            .args(["--listen", address])
            .args(words)
            // Another khz may run on this machine.
            .env("KHZ_RING_DIR", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", binary.display()));
        let stdout = child.stdout.take().expect("BUG: stdout was asked to be piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut said = String::new();
        let printed = async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(url) = url_in(&line) {
                    return Some(url);
                }
                said.push_str(&line);
                said.push('\n');
            }
            None
        };
        let url = tokio::time::timeout(PATIENCE, printed).await.ok().flatten();
        let url = url.unwrap_or_else(|| {
            panic!(
                "{} --listen {address} printed no http://127.0.0.1:PORT/; its output:\n{said}",
                binary.display()
            )
        });
        // Reads on, since its status lines would fill the pipe, or fail at a closed one.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Server { url, own: Some(child) }
    }

    /// Its address: `http://127.0.0.1:7070/`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its host and port.
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches('/')
    }

    /// True if the tests have started it, and may end it.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Ends it at once, as a crash would.
    pub async fn kill(&mut self) {
        if let Some(child) = &mut self.own {
            child.kill().await.expect("khz can be killed");
        }
    }
}

/// The program under test: `KHZ_BIN`, or the khz that cargo built into the same folder as this test.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("KHZ_BIN") {
        return crate::root().join(path);
    }
    let this = std::env::current_exe().expect("the path of the running test is known");
    // Tests are in target/PROFILE/deps, programs in target/PROFILE.
    let found = this.ancestors().skip(1).take(2).map(|dir| dir.join("khz")).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no khz in {}: build it first (cargo build -p khz), or name one with KHZ_BIN, or a running one with KHZ_URL",
            target_dir().display()
        )
    })
}

fn url_in(line: &str) -> Option<String> {
    let from = line.find("http://127.0.0.1:")?;
    let url = line[from..].split_whitespace().next()?;
    Some(format!("{}/", url.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::url_in;

    #[test]
    fn the_address_is_found_in_the_line() {
        assert_eq!(
            url_in("khz shows n1 at http://127.0.0.1:4711/ (Ctrl-C ends it)").as_deref(),
            Some("http://127.0.0.1:4711/")
        );
        assert_eq!(url_in("http://127.0.0.1:80").as_deref(), Some("http://127.0.0.1:80/"));
        assert_eq!(url_in("listening"), None);
    }
}
