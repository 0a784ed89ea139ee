//! Messages for the administrator: to standard error, a file, or the system's log; never to a client.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use khz_rrd::error::{Error, Result, refused};
use khz_rrd::text;

/// Names of levels, the most severe first; a level's number is its index.
const LEVELS: [&str; 8] =
    ["LOG_EMERG", "LOG_ALERT", "LOG_CRIT", "LOG_ERR", "LOG_WARNING", "LOG_NOTICE", "LOG_INFO", "LOG_DEBUG"];
/// `LOG_DAEMON`.
const FACILITY: u8 = 3 << 3;
/// Messages in a second: a hundred thousand files may fail at once.
const MESSAGES_MAX: u32 = 50;

/// The severity of a message; 0 is the most severe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// The default of `-V`.
    pub const ERROR: Self = Self(3);
    const WARNING: Self = Self(4);
    const INFO: Self = Self(6);

    /// The level called `LOG_ERR` and so on.
    pub fn from_name(name: &str) -> Option<Self> {
        LEVELS.iter().position(|level| *level == name).map(|level| Self(level as u8))
    }
}

/// Where messages go.
pub enum Sink {
    /// To standard error.
    Terminal,
    /// To a file.
    File(File),
    /// To the system's log.
    System(UnixDatagram),
    /// Nowhere.
    Nothing,
}

struct Rate {
    second: Instant,
    written: u32,
    left_out: u32,
}

/// Writes messages.
pub struct Messages {
    sink: Sink,
    level: Level,
    rate: Mutex<Rate>,
}

impl Messages {
    /// Messages of `level`, and more severe ones, to `sink`.
    pub fn new(sink: Sink, level: Level) -> Self {
        Self { sink, level, rate: Mutex::new(Rate { second: Instant::now(), written: 0, left_out: 0 }) }
    }

    /// Messages to nobody.
    pub fn none() -> Self {
        Self::new(Sink::Nothing, Level(0))
    }

    /// Something failed.
    pub fn error(&self, text: &str) {
        self.tell(Level::ERROR, text);
    }

    /// Something may fail soon.
    pub fn warning(&self, text: &str) {
        self.tell(Level::WARNING, text);
    }

    /// Something happened as it should.
    pub fn info(&self, text: &str) {
        self.tell(Level::INFO, text);
    }

    fn tell(&self, level: Level, text: &str) {
        if level > self.level {
            return;
        }
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.second.elapsed() >= Duration::from_secs(1) {
            let left_out = rate.left_out;
            *rate = Rate { second: Instant::now(), written: 0, left_out: 0 };
            if left_out > 0 {
                self.write(level, &format!("{left_out} messages left out"));
            }
        }
        if rate.written == MESSAGES_MAX {
            rate.left_out += 1;
            return;
        }
        rate.written += 1;
        self.write(level, text);
    }

    fn write(&self, level: Level, text: &str) {
        // A failure cannot be reported anywhere.
        let _ = match &self.sink {
            Sink::Terminal => std::io::stderr().write_all(&text::bytes(&format!("rrdcached: {text}\n"))),
            Sink::File(file) => {
                let mut file = file;
                let now = khz_rrd::file::clock().seconds;
                file.write_all(&text::bytes(&format!("[{now}] {text}\n")))
            }
            Sink::System(socket) => {
                let (pid, priority) = (std::process::id(), FACILITY | level.0);
                socket.send(&text::bytes(&format!("<{priority}>rrdcached[{pid}]: {text}"))).map(|_| ())
            }
            Sink::Nothing => Ok(()),
        };
    }
}

/// Opens a file for messages.
///
/// # Errors
/// What the system says.
pub fn to_file(path: &Path) -> Result<Sink> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map(Sink::File).map_err(|error| Error::io("opening", path, error))
}

/// Opens the system's log.
///
/// # Errors
/// There is no system log.
pub fn to_system() -> Result<Sink> {
    let connected = UnixDatagram::unbound().and_then(|socket| socket.connect("/dev/log").map(|()| socket));
    connected.map(Sink::System).or_else(|_| refused("no system log at /dev/log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(name: &str, level: &str) -> (std::path::PathBuf, Messages) {
        let path = std::env::temp_dir().join(format!("khz-rrd-messages-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let messages = Messages::new(to_file(&path).unwrap(), Level::from_name(level).unwrap());
        (path, messages)
    }

    /// What was written, each line without its time.
    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split_once("] ").unwrap().1.to_string()).collect()
    }

    #[test]
    fn messages_of_the_level_and_more_severe_ones_are_written() {
        for (level, wanted) in [
            ("LOG_CRIT", vec![]),
            ("LOG_ERR", vec!["e"]),
            ("LOG_WARNING", vec!["e", "w"]),
            ("LOG_DEBUG", vec!["e", "w", "i"]),
        ] {
            let (path, messages) = to("levels", level);
            messages.error("e");
            messages.warning("w");
            messages.info("i");
            assert_eq!(lines(&path), wanted, "{level}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_second_has_fifty_messages_and_the_next_says_how_many_were_left_out() {
        let (path, messages) = to("rate", "LOG_ERR");
        let begin = |second| messages.rate.lock().unwrap().second = second;
        // A second that does not pass, however slow the machine is.
        begin(Instant::now() + Duration::from_secs(3600));
        (0..60).for_each(|number| messages.error(&number.to_string()));
        assert_eq!(lines(&path).len(), 50);
        begin(Instant::now() - Duration::from_secs(1));
        messages.error("later");
        assert_eq!(lines(&path)[49..], ["49", "10 messages left out", "later"]);
        begin(Instant::now() - Duration::from_secs(1));
        messages.error("last");
        assert_eq!(lines(&path).len(), 53);
        std::fs::remove_file(&path).unwrap();
    }
}
