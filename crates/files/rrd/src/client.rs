//! A client of the caching daemon's text protocol: one connection, one command at a time; knows no files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::error::{Error, Result, os_text, refused};
use crate::fetch::Fetched;
use crate::number::UNKNOWN;
use crate::text;

/// The daemon's default port.
pub const PORT: u16 = 42217;
/// Bytes of one line of an answer.
const LINE_MAX: u64 = 1 << 16;
/// Lines of one answer: the list of every file of the largest known site.
const LINES_MAX: i64 = 10_000_000;
/// Time for an answer of the daemon; a FLUSH waits for the disk.
const PATIENCE: Duration = Duration::from_secs(600);

/// An answer: its number (negative for an error), its text, its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Negative for an error, else the number of lines.
    pub code: i64,
    /// The text after the number.
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
                let stream = UnixStream::connect(text::path(path)).map_err(failed)?;
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
    /// The connection failed, or the answer is not one of the protocol.
    pub fn ask(&mut self, words: &[&str]) -> Result<Answer> {
        let mut line = words.iter().map(|word| escaped(word)).collect::<Vec<_>>().join(" ");
        if line.contains('\n') {
            return refused("a line end inside a daemon's command");
        }
        line.push('\n');
        let broken = |error: std::io::Error| {
            Error::Refused(format!("rrdcached@{}: {}", self.address, os_text(&error)))
        };
        self.stream.get_mut().write_all(&text::bytes(&line)).map_err(broken)?;
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
    /// The daemon's message, after `rrdcached@ADDRESS: `.
    pub fn order(&mut self, words: &[&str]) -> Result<Answer> {
        let answer = self.ask(words)?;
        match answer.code < 0 {
            true => refused(format!("rrdcached@{}: {}", self.address, answer.text)),
            false => Ok(answer),
        }
    }

    /// Rows of a file with what waits for it, as FETCH gives them, and the names of its sources. Debian's daemon writes
    /// the file first; ours does not.
    ///
    /// # Errors
    /// The daemon's message, or an answer that cannot be read.
    pub fn fetch(
        &mut self,
        file: &str,
        function: &str,
        start: i64,
        end: i64,
    ) -> Result<(Fetched, Vec<String>)> {
        let (start, end) = (start.to_string(), end.to_string());
        let answer = self.order(&["FETCH", file, function, &start, &end])?;
        match fetched(&answer.lines) {
            Some(rows) => Ok(rows),
            None => refused(format!("rrdcached@{}: answered FETCH with something else", self.address)),
        }
    }

    /// The end of a file's newest primary point, with what waits for it.
    ///
    /// # Errors
    /// The daemon's message, or an answer that cannot be read.
    pub fn last(&mut self, file: &str) -> Result<i64> {
        let name = self.name(file);
        self.time(&["LAST", &name])
    }

    /// The end of the oldest row of archive `rra`.
    ///
    /// # Errors
    /// The daemon's message, or an answer that cannot be read.
    pub fn first(&mut self, file: &str, rra: i64) -> Result<i64> {
        let name = self.name(file);
        self.time(&["FIRST", &name, &rra.to_string()])
    }

    fn time(&mut self, words: &[&str]) -> Result<i64> {
        let text = self.order(words)?.text;
        let wrong = || Error::Refused(format!("rrdcached@{}: answered {} '{text}'", self.address, words[0]));
        text.trim().parse().map_err(|_| wrong())
    }

    /// The daemon's name for a file: on this machine its absolute path.
    pub fn name(&self, file: &str) -> String {
        if self.local { whole(file) } else { file.into() }
    }

    /// Whether the daemon is on this machine, so that files have the same names there.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// The sources of a file, and whether each takes readings.
    ///
    /// # Errors
    /// The daemon's message.
    pub fn sources(&mut self, file: &str) -> Result<Vec<(String, bool)>> {
        let name = self.name(file);
        let lines = self.order(&["INFO", &name])?.lines;
        // "ds[NAME].type 2 KIND"
        let source = |line: &String| {
            let (name, kind) = line.strip_prefix("ds[")?.split_once("].type 2 ")?;
            Some((name.to_string(), kind != "COMPUTE"))
        };
        Ok(lines.iter().filter_map(source).collect())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let read = (&mut self.stream).take(LINE_MAX).read_until(b'\n', &mut line);
        match read {
            Ok(_) if line.ends_with(b"\n") => Ok(text::of(&line).trim_end_matches(['\n', '\r']).to_string()),
            Ok(_) => refused(format!("rrdcached@{}: hung up in the middle of an answer", self.address)),
            Err(error) => refused(format!("rrdcached@{}: {}", self.address, os_text(&error))),
        }
    }
}

/// A line of INFO (`key type value`) as `info` prints it.
pub fn fact(line: &str) -> String {
    let mut parts = line.splitn(3, ' ');
    let (key, kind, value) = (parts.next().unwrap_or(""), parts.next(), parts.next().unwrap_or(""));
    match kind {
        // A text.
        Some("2") => format!("{key} = \"{value}\"\n"),
        _ => format!("{key} = {value}\n"),
    }
}

/// A file's absolute name; without symbolic links if the file exists.
pub fn whole(file: &str) -> String {
    let path = text::path(file);
    let whole = path.canonicalize().or_else(|_| std::path::absolute(&path));
    whole.map_or_else(|_| file.into(), text::name)
}

/// Parses the lines of a FETCH.
fn fetched(lines: &[String]) -> Option<(Fetched, Vec<String>)> {
    let value = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    let names: Vec<String> = value("DSName")?.split(' ').map(str::to_string).collect();
    let step = value("Step")?.parse().ok().filter(|step| *step > 0)?;
    let (start, end) = (value("Start")?.parse().ok()?, value("End")?.parse().ok()?);
    let mut fetched = Fetched { start, end, step, values: vec![] };
    for line in
        lines.iter().filter(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()))
    {
        let (_, values) = line.split_once(':')?;
        let before = fetched.values.len();
        for value in values.split_whitespace() {
            // C prints "-nan", which Rust does not parse.
            fetched.values.push(if value.ends_with("nan") { UNKNOWN } else { value.parse().ok()? });
        }
        if fetched.values.len() - before != names.len() {
            return None;
        }
    }
    Some((fetched, names))
}

/// Host and port of an internet address: `HOST`, `HOST:PORT`, `[IPV6]:PORT` or `IPV6`.
///
/// # Errors
/// The address has none of these forms.
pub fn host_and_port(address: &str) -> Result<(String, u16)> {
    let wrong = || Error::Refused(format!("'{address}' is not a daemon address"));
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
    fn a_fetch_is_read_or_refused() {
        let text = "FlushVersion: 1\nStart: 900\nEnd: 1500\nStep: 300\nDSCount: 2\nDSName: x y\n\
                    \x20     1200: 1.5e+00 -nan\n      1500: nan -2.0e-01";
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let (rows, names) = fetched(&lines).unwrap();
        assert_eq!((names, rows.start, rows.end, rows.step), (vec!["x".into(), "y".into()], 900, 1500, 300));
        assert!(rows.values[1].is_nan() && rows.values[2].is_nan());
        assert_eq!((rows.values[0], rows.values[3]), (1.5, -0.2));
        for damaged in
            [text.replace("Step: 300", "Step: 0"), text.replace(" -nan", ""), text.replace("DSName", "x")]
        {
            let lines: Vec<String> = damaged.lines().map(str::to_string).collect();
            assert_eq!(fetched(&lines).map(|_| ()), None, "{damaged}");
        }
    }

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
