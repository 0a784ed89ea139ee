//! Catches sentences that this process writes on stderr while it fills the screen, since they would spoil the picture. They become
//! notices on the screen.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::os::fd::OwnedFd;

use crate::show::outcome::Failure;

/// The most bytes of a sentence. A longer one continues in the next one.
const LINE_BYTES_MAX: u64 = 4_096;

/// The previous stderr. Dropping it restores stderr.
pub struct Caught {
    before: OwnedFd,
}

impl Caught {
    /// Gives each line to `said`, if stderr is the terminal. `None`: it is a file, which is left alone.
    ///
    /// # Errors
    /// The system has no pipe or no thread for it.
    pub fn new(said: impl Fn(String) + Send + 'static) -> Result<Option<Self>, Failure> {
        if !std::io::stderr().is_terminal() {
            return Ok(None);
        }
        let failed = |error: rustix::io::Errno| Failure::work(format!("cannot catch stderr: {error}"));
        let before = rustix::io::dup(std::io::stderr()).map_err(failed)?;
        let (read, write) = rustix::pipe::pipe().map_err(failed)?;
        rustix::stdio::dup2_stderr(&write).map_err(failed)?;
        let caught = Caught { before };
        super::feed::start("stderr", move || {
            let mut lines = BufReader::new(std::fs::File::from(read));
            let mut line = Vec::new();
            while lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim();
                said(text.strip_prefix("khz: ").unwrap_or(text).to_owned());
                line.clear();
            }
        })?;
        Ok(Some(caught))
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let _ = rustix::stdio::dup2_stderr(&self.before);
    }
}
