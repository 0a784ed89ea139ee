//! A client of the caching daemon's text protocol: one connection, one command at a time; knows no files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result, os_text, refused};

/// The daemon's port where none is given.
pub const PORT: u16 = 42217;
/// Bytes one line of an answer may have.
const LINE_MAX: u64 = 1 << 16;
/// Lines one answer may have: a listing of every file of the largest known site.
const LINES_MAX: i64 = 10_000_000;
/// How long a daemon may take to answer; a FLUSH waits for the disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// An answer: its number (negative for an error), its text, its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Negative for an error, else the number of lines.
    pub code: i64,
    /// What stands behind the number.
    pub text: String,
    /// The lines that followed.
    pub lines: Vec<String>,
}

trait Stream: Read + Write {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A connection.
pub struct Client {
    address: String,
    stream: BufReader<Box<dyn Stream>>,
    local: bool,
}

impl Client {
    /// Connects to `address`: `unix:PATH`, `/PATH`, `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
    ///
    /// # Errors
    /// rrdtool's message: `Unable to connect to rrdcached: ...`.
    pub fn connect(address: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::Refused(format!("Unable to connect to rrdcached: {}", os_text(&error)))
        };
        let path = address.strip_prefix("unix:").or(Some(address).filter(|text| text.starts_with('/')));
        let stream: Box<dyn Stream> = match path {
            Some(path) => {
                let stream = UnixStream::connect(path).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                Box::new(stream)
            }
            None => {
                let stream = TcpStream::connect(host_and_port(address)?).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                Box::new(stream)
            }
        };
        Ok(Self { address: address.into(), stream: BufReader::new(stream), local: path.is_some() })
    }

    /// Sends a command of `words`, escaped, and reads its answer.
    ///
    /// # Errors
    /// The connection failed, or the answer is none.
    pub fn ask(&mut self, words: &[&str]) -> Result<Answer> {
        let mut line = words.iter().map(|word| escaped(word)).collect::<Vec<_>>().join(" ");
        if line.contains('\n') {
            return refused("a line end inside a daemon's command");
        }
        line.push('\n');
        let broken = |error: std::io::Error| {
            Error::Refused(format!("rrdcached@{}: {}", self.address, os_text(&error)))
        };
        self.stream.get_mut().write_all(line.as_bytes()).map_err(broken)?;
        let status = self.line()?;
        let (number, text) = status.split_once(' ').unwrap_or((&status, ""));
        let Ok(code) = number.parse::<i64>() else {
            return refused(format!("rrdcached@{}: answered '{status}'", self.address));
        };
        if code > LINES_MAX {
            return refused(format!("rrdcached@{}: announces {code} lines", self.address));
        }
        let lines = (0..code).map(|_| self.line()).collect::<Result<_>>()?;
        Ok(Answer { code, text: text.into(), lines })
    }

    /// Like [`Client::ask`], but a negative answer is an error.
    ///
    /// # Errors
    /// The daemon's message behind `rrdcached@ADDRESS: `.
    pub fn order(&mut self, words: &[&str]) -> Result<Answer> {
        let answer = self.ask(words)?;
        match answer.code < 0 {
            true => refused(format!("rrdcached@{}: {}", self.address, answer.text)),
            false => Ok(answer),
        }
    }

    /// The name the daemon knows a file by: on this machine its absolute path.
    pub fn name(&self, file: &str) -> String {
        if !self.local {
            return file.into();
        }
        let path = Path::new(file);
        let whole = path.canonicalize().or_else(|_| std::path::absolute(path));
        whole.map_or_else(|_| file.into(), |path| path.to_string_lossy().into_owned())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut line);
        match read {
            Ok(_) if line.ends_with(b"\n") => {
                Ok(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_string())
            }
            Ok(_) => refused(format!("rrdcached@{}: hung up in the middle of an answer", self.address)),
            Err(error) => refused(format!("rrdcached@{}: {}", self.address, os_text(&error))),
        }
    }
}

pub(crate) fn host_and_port(address: &str) -> Result<(String, u16)> {
    let wrong = || Error::Refused(format!("'{address}' is no daemon address"));
    if let Some(rest) = address.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
        let port = port.strip_prefix(':').map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
        return Ok((host.into(), port));
    }
    match address.rsplit_once(':') {
        // Several colons and no brackets: an IPv6 address alone.
        Some((host, _)) if host.contains(':') => Ok((address.into(), PORT)),
        Some((host, port)) => Ok((host.into(), port.parse().map_err(|_| wrong())?)),
        None => Ok((address.into(), PORT)),
    }
}

/// A word with blanks and backslashes escaped.
fn escaped(word: &str) -> String {
    word.replace('\\', "\\\\").replace(' ', "\\ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        let parsed = |text| host_and_port(text).ok();
        assert_eq!(parsed("db"), Some(("db".into(), 42217)));
        assert_eq!(parsed("db:7"), Some(("db".into(), 7)));
        assert_eq!(parsed("[::1]:7"), Some(("::1".into(), 7)));
        assert_eq!(parsed("::1"), Some(("::1".into(), 42217)));
        assert_eq!(parsed("db:x"), None);
    }
}
