//! `khz publish`: sends numbers of a job to the agent of this machine. It checks each line first, and its names against
//! those of the lines before: the agent can only count wrong ones.

use std::io::BufRead;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use khz_gather::publication::{Publication, PublicationError, datagrams, with_defaults};
use khz_gather::{JobNameError, JobNames, LINE_BYTES_A_SECOND, LINES_A_SECOND};
use khz_model::{Nanos, Rate};

use super::job_lines::{JobLines, Together};
use crate::config::{NodeFlags, Plan, ReaderFlags, places};
use crate::role::job_socket::PUBLISH_SOCKET;
use crate::show::outcome::{Done, Failure, Outcome};
use crate::show::table::remark;

/// The longest wait for a full socket. The agent empties it ten times a second.
const FULL_MAX: Duration = Duration::from_secs(2);
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// The longest wait for an agent that has gone or stands still: an update of its machine takes less, and a job should learn that
/// it tells nobody anything.
const AWAY_MAX: Duration = Duration::from_secs(5 * 60);
const AWAY_PAUSE: Duration = Duration::from_millis(200);
/// Lines of a job that are sent in a second, and their bytes: half of what the agent takes, since it drops what is more, and others
/// publish, too.
const SENT_A_SECOND: u64 = LINES_A_SECOND / 2;
const BYTES_SENT_A_SECOND: usize = LINE_BYTES_A_SECOND / 2;

/// Examples for `khz publish --help`.
pub const EXAMPLES: &str = "\
Examples:
  khz publish queue=17              job.queue is 17 for the next 30 s
  khz publish 'queue[worker3]=17' --help-text 'Tasks that wait'
                                    with an instance, and a help text
  khz publish 'queue[worker3,rank=1,gpu=0]=17' drift=-0.25
                                    with labels; below zero
  khz publish loss=2.5e-7 --type float
                                    a number that is computed, not counted
  khz publish steps=120000 --kind counter --every 1s
                                    again and again, until Ctrl-C
  my-job | khz publish -            a line for each number: latency=0.0125
                                    unit=seconds
  khz watch 'job.*'                 shows the published numbers";

/// `khz publish`.
#[derive(Clone, Debug, Args)]
pub struct PublishFlags {
    /// What to publish, as queue=17 or 'queue[worker3,rank=1]=-17'; - reads lines from stdin.
    #[arg(value_name = "NAME=VALUE", required = true)]
    pub values: Vec<String>,
    /// What it is measured in.
    #[arg(long, value_enum)]
    pub unit: Option<UnitWord>,
    /// A counter only grows; a gauge goes up and down.
    #[arg(long, value_enum)]
    pub kind: Option<KindWord>,
    /// float: a double, for exponents, NaN and infinity; else a gauge is signed, and a counter is not.
    #[arg(long = "type", value_enum)]
    pub value_type: Option<TypeWord>,
    /// Decimal places that are kept; else those of the first value.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=9))]
    pub places: Option<u8>,
    /// When it was measured, in seconds since 1970; at most 10 minutes ago.
    #[arg(long, value_name = "SECONDS", conflicts_with = "every")]
    pub time: Option<String>,
    /// One sentence on what it means.
    #[arg(long, value_name = "TEXT")]
    pub help_text: Option<String>,
    /// Send it again and again, as 1s or 10Hz, until Ctrl-C: a number that is not sent again within 30 s becomes absent.
    #[arg(long, value_name = "PERIOD", visible_alias = "rate")]
    pub every: Option<String>,
    /// The settings.
    #[command(flatten)]
    pub settings: ReaderFlags,
}

/// Units on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum UnitWord {
    Count,
    Bytes,
    Seconds,
    Percent,
    Pages,
    Packets,
    Hertz,
}

/// Kinds on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum KindWord {
    Gauge,
    Counter,
}

/// Types on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum TypeWord {
    Signed,
    Unsigned,
    Float,
}

/// Publishes what the flags say.
pub fn run(flags: PublishFlags, outer: NodeFlags) -> Outcome {
    let (_, plan) = super::plan(flags.settings.clone().over(outer))?;
    let flags = &flags;
    let every = flags.every.as_deref().map(period).transpose()?;
    let socket = Socket::find(&plan)?;
    if flags.values.iter().any(|value| value == "-") {
        return lines(flags, &socket);
    }
    let lines: Vec<String> = flags.values.iter().map(|value| line(value, flags)).collect();
    let datagrams = datagrams(lines.iter().map(String::as_str));
    let mut names = JobNames::default();
    loop {
        // Again each time: what was measured long ago is refused.
        lines.iter().try_for_each(|line| check(line, &mut names).map_err(Failure::usage))?;
        let send = |datagram: &String| match every {
            Some(_) => socket.send_to_next(datagram, |_| {}),
            None => socket.send(datagram),
        };
        datagrams.iter().try_for_each(send)?;
        match every {
            Some(every) => std::thread::sleep(every),
            None => return Ok(Done::Wholly),
        }
    }
}

/// Sends each line of stdin as it comes, and those that came meanwhile together. Wrong lines are named on stderr and left out. A thread reads, so that the job goes on
/// while no khz takes its numbers.
fn lines(flags: &PublishFlags, socket: &Socket) -> Outcome {
    let waiting = Arc::new(JobLines::default());
    let (job, own) = (waiting.clone(), flags.clone());
    let reading = std::thread::Builder::new().name("stdin".into()).spawn(move || {
        let read = read_lines(&own, &job);
        job.end();
        read
    })?;
    while let Some(together) = waiting.take() {
        let begun = Instant::now();
        socket.send_to_next(&together.text, |is_stuck| waiting.stuck(is_stuck))?;
        std::thread::sleep(time_of(&together).saturating_sub(begun.elapsed()));
    }
    let bad = reading.join().map_err(|_| Failure::work("the thread that reads the lines has ended"))??;
    match (bad, waiting.left_out()) {
        (0, 0) => Ok(Done::Wholly),
        (0, lines) => {
            Ok(Done::Lacking { sentence: format!("{lines} lines were left out, while no khz took them") })
        }
        _ => Err(Failure::work(format!("{bad} of the lines could not be read; the others were published"))),
    }
}

/// How long nothing else is sent beside these lines.
fn time_of(together: &Together) -> Duration {
    let of_lines = together.lines as f64 / SENT_A_SECOND as f64;
    let of_bytes = together.text.len() as f64 / BYTES_SENT_A_SECOND as f64;
    Duration::from_secs_f64(of_lines.max(of_bytes))
}

/// Puts the good lines of stdin to those that wait; returns the number of the others.
fn read_lines(flags: &PublishFlags, waiting: &JobLines) -> std::io::Result<u64> {
    let mut bad = 0;
    let mut names = JobNames::default();
    for text in std::io::stdin().lock().lines() {
        let text = text?;
        if text.trim().is_empty() {
            continue;
        }
        let line = line(text.trim(), flags);
        match check(&line, &mut names) {
            Ok(()) => waiting.put(line),
            Err(problem) => {
                remark!("{problem}");
                bad += 1;
            }
        }
    }
    Ok(bad)
}

/// A line with the options of the flags. What the line says itself wins.
fn line(value: &str, flags: &PublishFlags) -> String {
    let word = |word: &dyn std::fmt::Display, name: &str| format!("{name}={word}");
    let options = [
        flags.unit.and_then(|unit| unit.to_possible_value()).map(|unit| word(&unit.get_name(), "unit")),
        flags.kind.and_then(|kind| kind.to_possible_value()).map(|kind| word(&kind.get_name(), "kind")),
        flags.value_type.and_then(|kind| kind.to_possible_value()).map(|kind| word(&kind.get_name(), "type")),
        flags.places.map(|places| word(&places, "places")),
        flags.time.as_ref().map(|time| word(time, "time")),
    ];
    let options: Vec<String> = options.into_iter().flatten().collect();
    with_defaults(value, &options.join(" "), flags.help_text.as_deref())
}

/// Why a line is not sent.
#[derive(Debug, thiserror::Error)]
enum LineError {
    #[error(transparent)]
    Line(#[from] PublicationError),
    #[error(transparent)]
    Name(#[from] JobNameError),
}

fn check(line: &str, names: &mut JobNames) -> Result<(), LineError> {
    // A clock before 1970 is a clock that is not set.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
    let publication = Publication::read(line)?;
    publication.check(now)?;
    match names.metric(&publication.describe()?) {
        // The agent may forget old names, and so make room for more than these.
        Ok(_) | Err(JobNameError::TooMany) => Ok(()),
        Err(refused) => Err(refused.into()),
    }
}

/// A period, or a rate.
fn period(text: &str) -> Result<Duration, Failure> {
    let period = text.parse::<Nanos>().or_else(|_| text.parse::<Rate>().map(Rate::period));
    period.map(Duration::from).map_err(Failure::usage)
}

/// Whether an error says that nobody reads at the other end any more.
fn has_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotConnected, NotFound};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | NotConnected | NotFound)
}

/// The agent's socket.
struct Socket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Socket {
    fn find(plan: &Plan) -> Result<Self, Failure> {
        let failed = |error| Failure::work(format!("cannot make a socket: {error}"));
        let socket = UnixDatagram::unbound().map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let folders = places::run_dirs(plan);
        let paths = folders.iter().map(|folder| folder.join(PUBLISH_SOCKET));
        match paths.into_iter().find(|path| socket.connect(path).is_ok()) {
            Some(path) => Ok(Socket { socket, path }),
            None => {
                let folders: Vec<String> =
                    folders.iter().map(|folder| folder.display().to_string()).collect();
                let places = folders.join(" or ");
                Err(Failure::work(format!(
                    "no khz takes numbers on this machine ({PUBLISH_SOCKET} in {places}); start `khz` or `khz agent`"
                )))
            }
        }
    }

    fn send(&self, text: &str) -> Result<(), Failure> {
        self.try_send(text).map_err(|error| self.failed(&error))
    }

    /// The same for a job that goes on: if the agent has gone, or takes nothing, waits until one takes it. `stuck` hears when
    /// that begins, and when it is over.
    fn send_to_next(&self, text: &str, stuck: impl Fn(bool)) -> Result<(), Failure> {
        let began = Instant::now();
        let mut is_told = false;
        loop {
            let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            match if is_told { self.try_once(text) } else { self.try_send(text) } {
                Err(error) if (has_gone(&error) || is_full(&error)) && began.elapsed() < AWAY_MAX => {
                    if !std::mem::replace(&mut is_told, true) {
                        stuck(true);
                        match is_full(&error) {
                            true => remark!(
                                "{}: its khz stands still; khz waits until it goes on",
                                self.path.display()
                            ),
                            false => remark!("{}; khz waits until it is back", self.failed(&error)),
                        }
                    }
                    std::thread::sleep(AWAY_PAUSE);
                    if !is_full(&error) {
                        // Where nobody listens yet, the next attempt to send says so.
                        let _ = self.socket.connect(&self.path);
                    }
                }
                sent => {
                    if is_told {
                        stuck(false);
                        if sent.is_ok() {
                            remark!("numbers are taken again");
                        }
                    }
                    return sent.map_err(|error| self.failed(&error));
                }
            }
        }
    }

    fn try_once(&self, text: &str) -> std::io::Result<()> {
        self.socket.send(text.as_bytes()).map(drop)
    }

    fn try_send(&self, text: &str) -> std::io::Result<()> {
        let began = Instant::now();
        loop {
            match self.try_once(text) {
                Ok(()) => return Ok(()),
                Err(error)
                    if error.kind() == std::io::ErrorKind::WouldBlock && began.elapsed() < FULL_MAX =>
                {
                    std::thread::sleep(FULL_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn failed(&self, error: &std::io::Error) -> Failure {
        let path: &Path = &self.path;
        Failure::work(match error.kind() {
            std::io::ErrorKind::WouldBlock => format!("{}: it is full; try again later", path.display()),
            _ => format!("cannot publish at {}: {error}", path.display()),
        })
    }
}
