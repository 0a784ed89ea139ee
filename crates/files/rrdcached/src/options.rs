//! The daemon's command line: rrdcached's options with the same meaning, and a few of its own with long names.

use std::time::Duration;

use crate::cache::Limits;
use crate::connection::listen::Address;
use crate::connection::{Permissions, Rules};
use crate::messages::Level;
use crate::process;
use crate::settings::Settings;
use khz_rrd::error::{Error, Result, refused};
use khz_rrd::spec;
use khz_rrd::text;

/// Letters that take a value, and those that take none.
const VALUED: &str = "abfGjlmoPpstUVwz";
const PLAIN: &str = "BFgLOR";
/// Options beyond rrdcached's; each takes a value.
const LONG: [&str; 6] = ["commit-window", "memory-max", "log-max", "spread", "open-files", "connections"];

/// Threads that write, at most; each has 256 files in hand.
const WRITERS_MAX: u32 = 64;

/// The text of `--help`.
pub const USAGE: &str = "\
Usage: rrdcached [options]

  -l ADDRESS     listen on unix:PATH, /PATH, HOST[:PORT] or [HOST]:PORT
                 (default unix:/tmp/rrdcached.sock)
  -L             listen on the default port of every interface
  -P COMMANDS    allow only these commands on the sockets that follow
  -s GROUP       group of the unix sockets that follow
  -m MODE        file mode (octal) of the unix sockets that follow
  -w SECONDS     write an update after this time (default 300)
  -z SECONDS     spread the writes over this time: each file has its own moment
                 (default 0)
  -f SECONDS     search this often for files whose updates stopped
                 (default 3600)
  -j DIR         log updates in DIR before they are acknowledged
  -F             write everything before ending, even with -j
  -b DIR         base directory of relative names (default /tmp)
  -B             refuse names outside the base directory, also through symbolic
                 links
  -R             let CREATE make directories (with -B)
  -O             never let CREATE replace a file
  -t THREADS     threads that write (default 4)
  -p FILE        pid file
  -g             stay in the foreground
  -U USER        run as this user
  -G GROUP       run as this group
  -o FILE        log messages to FILE, not to the system's log
  -V LEVEL       least severe messages to log: LOG_EMERG to LOG_DEBUG
                 (default LOG_ERR)
  -a SIZE        accepted for compatibility with rrdcached; has no effect

  --commit-window MS   sync acknowledged updates to disk within this time
                       (default 10; 0: before the answer)
  --memory-max BYTES   refuse updates beyond this memory (default 1G)
  --log-max BYTES      refuse updates beyond this log (default 8G)
  --spread SECONDS     spread files that finish a coarse row over this time
                       (default 1200)
  --open-files N       files kept open (default: half of what the system
                       allows, at most 100000)
  --connections N      clients served at once (default 10000); each takes a
                       thread and an open file
";

fn number(option: &str, text: &str) -> Result<u64> {
    text.parse().map_err(|_| Error::Refused(format!("{option}: '{text}' is not a number")))
}

fn size(option: &str, text: &str) -> Result<u64> {
    let (digits, unit) = match text.trim_end_matches("iB").strip_suffix(['K', 'M', 'G', 'T']) {
        Some(digits) => (digits, text.trim_end_matches("iB").chars().next_back()),
        None => (text, None),
    };
    let shift = unit.and_then(|unit| "KMGT".find(unit)).map_or(0, |index| 10 * (index + 1));
    let size = digits.parse::<u64>().ok().and_then(|size| size.checked_mul(1 << shift));
    size.ok_or_else(|| Error::Refused(format!("{option}: '{text}' is not a size")))
}

fn seconds(option: &str, text: &str, least: u64) -> Result<u32> {
    let value = match text {
        "0" if least == 0 => Ok(0),
        text => {
            spec::duration(text, 1).map_err(|why| Error::Refused(format!("Invalid value of {option}: {why}")))
        }
    }?;
    match u32::try_from(value) {
        Ok(value) if u64::from(value) >= least => Ok(value),
        _ => refused(format!("Invalid value of {option}: {text}")),
    }
}

/// The settings so far, and the options that apply to the sockets that follow.
struct Parsed {
    settings: Settings,
    rules: Rules,
    mode: Option<u32>,
    group: Option<u32>,
}

/// Parses a command line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(arguments: &[String]) -> Result<Settings> {
    let rules = Rules { permissions: Permissions::ALL, no_overwrite: false, make_directories: false };
    let mut parsed = Parsed { settings: Settings::default(), rules, mode: None, group: None };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            parsed.long_word(long, &mut words)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            parsed.letters(letters, &mut words)?;
        } else {
            return refused(format!("'{word}' is not an option\n\n{USAGE}"));
        }
    }
    Ok(parsed.finish())
}

/// The value of the option `name`, in the word after it.
fn next_value<'a>(name: &str, words: &mut impl Iterator<Item = &'a String>) -> Result<&'a str> {
    match words.next() {
        Some(value) => Ok(value),
        None => refused(format!("option requires an argument -- '{name}'")),
    }
}

impl Parsed {
    /// A word `--NAME=VALUE` or `--NAME`, without its dashes.
    fn long_word<'a>(&mut self, word: &str, words: &mut impl Iterator<Item = &'a String>) -> Result<()> {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if !LONG.contains(&name) {
            return refused(format!("invalid option -- '{word}'\n\n{USAGE}"));
        }
        match value {
            Some(value) => self.long(name, value),
            None => self.long(name, next_value(name, words)?),
        }
    }

    /// Reads a word of letters without its dash. The value of the last letter may follow it.
    fn letters<'a>(&mut self, word: &str, words: &mut impl Iterator<Item = &'a String>) -> Result<()> {
        let mut letters = word.chars();
        while let Some(letter) = letters.next() {
            if PLAIN.contains(letter) {
                self.plain(letter);
            } else if VALUED.contains(letter) {
                return match letters.as_str() {
                    "" => self.valued(letter, next_value(&letter.to_string(), words)?),
                    value => self.valued(letter, value),
                };
            } else {
                return refused(format!("invalid option -- '{letter}'\n\n{USAGE}"));
            }
        }
        Ok(())
    }

    fn plain(&mut self, letter: char) {
        match letter {
            'B' => self.settings.confine = true,
            'F' => self.settings.always_write = true,
            'g' => self.settings.foreground = true,
            'L' => self.socket(""),
            'O' => self.rules.no_overwrite = true,
            _ => self.rules.make_directories = true,
        }
    }

    fn valued(&mut self, letter: char, value: &str) -> Result<()> {
        let settings = &mut self.settings;
        match letter {
            'l' => self.socket(value),
            'P' => {
                self.rules.permissions = Permissions::parse(value)
                    .map_err(|name| Error::Refused(format!("-P: there is no command \"{name}\"")))?;
            }
            's' => self.group = Some(process::group(value)?),
            'm' => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                self.mode =
                    Some(mode.ok_or_else(|| Error::Refused(format!("Invalid file mode \"{value}\".")))?);
            }
            'w' => settings.limits.timeout = seconds("-w", value, 0)?,
            'z' => settings.limits.delay = seconds("-z", value, 0)?,
            'f' => settings.limits.sweep = seconds("-f", value, 1)?,
            'j' => settings.log = Some(text::path(value).into_owned()),
            'b' => settings.base = text::path(value).into_owned(),
            't' => {
                let threads = number("-t", value)?;
                settings.writers = u32::try_from(threads).unwrap_or(0);
                if !(1..=WRITERS_MAX).contains(&settings.writers) {
                    return refused(format!("Invalid thread count: -t {value}; 1 to {WRITERS_MAX}"));
                }
            }
            'p' => settings.pid_file = Some(text::path(value).into_owned()),
            'o' => settings.messages = Some(text::path(value).into_owned()),
            'U' => settings.user = Some(process::user(value)?),
            'G' => settings.group = Some(process::group(value)?),
            'V' => {
                let level = Level::from_name(value);
                settings.level =
                    level.ok_or_else(|| Error::Refused(format!("-V: \"{value}\" is not a level")))?;
            }
            // -a: there is no memory allocated per value.
            _ if number("-a", value)? == 0 => return refused(format!("Invalid allocation size: {value}")),
            _ => {}
        }
        Ok(())
    }

    fn long(&mut self, name: &str, value: &str) -> Result<()> {
        let settings = &mut self.settings;
        let limits: &mut Limits = &mut settings.limits;
        match name {
            "commit-window" => settings.window = Duration::from_millis(number(name, value)?),
            "memory-max" => limits.memory_max = size(name, value)?,
            "log-max" => settings.log_max = size(name, value)?,
            "connections" => settings.connections = number(name, value)? as usize,
            "spread" => limits.spread = seconds(name, value, 0)?,
            _ => limits.open_max = number(name, value)? as usize,
        }
        Ok(())
    }

    fn socket(&mut self, address: &str) {
        let (rules, mode, group) = (self.rules, self.mode, self.group);
        self.settings.listen.push(Address { address: address.into(), rules, mode, group });
    }

    fn finish(mut self) -> Settings {
        if self.settings.listen.is_empty() {
            self.socket("unix:/tmp/rrdcached.sock");
        }
        // These two apply to all sockets, wherever they stand.
        for socket in &mut self.settings.listen {
            socket.rules.no_overwrite = self.rules.no_overwrite;
            socket.rules.make_directories = self.rules.make_directories;
        }
        let settings = &mut self.settings;
        let warnings = &mut settings.warnings;
        if settings.limits.delay > settings.limits.timeout {
            warnings.push("write delay (-z) should not be larger than write interval (-w)".into());
        }
        if self.rules.make_directories && !settings.confine {
            warnings.push("-R does not make sense without -B".into());
        }
        self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Settings> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_a_socket_hold_for_those_that_follow() {
        let settings = parsed("-P FLUSH -m 600 -l unix:/a -P UPDATE,BATCH -m 0666 -l :7 -O").unwrap();
        let [a, b] = settings.listen.as_slice() else { panic!("{:?}", settings.listen) };
        assert_eq!((a.mode, b.mode), (Some(0o600), Some(0o666)));
        assert_eq!(a.rules.permissions, Permissions::parse("FLUSH").unwrap());
        assert_eq!(b.rules.permissions, Permissions::parse("BATCH,UPDATE").unwrap());
        assert!(a.rules.no_overwrite && b.rules.no_overwrite);
    }

    #[test]
    fn values_may_be_glued_and_have_units() {
        let settings = parsed("-gw5m -z 1m -f1h -t2 --spread=20m --memory-max 64M --log-max 1GiB").unwrap();
        let limits = settings.limits;
        assert_eq!((limits.timeout, limits.delay, limits.sweep, limits.spread), (300, 60, 3600, 1200));
        assert_eq!((limits.memory_max, settings.log_max, settings.writers), (64 << 20, 1 << 30, 2));
        assert!(settings.foreground && settings.warnings.is_empty());
        assert_eq!(settings.listen[0].address, "unix:/tmp/rrdcached.sock");
    }

    #[test]
    fn what_rrdcached_refuses_is_refused() {
        for wrong in [
            "-w 5x",
            "-t 0",
            "-Q",
            "-P NOPE",
            "-m 9",
            "-s no-such-group",
            "-U no-such-user",
            "-f -5",
            "-a 0",
            "-l",
            "x",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parsed("-w 60 -z 90 -R").unwrap().warnings.len(), 2);
    }
}
